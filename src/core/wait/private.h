/* What the files of core/wait share with each other only. */
#ifndef HF_CORE_WAIT_PRIVATE_H
#define HF_CORE_WAIT_PRIVATE_H

#include "core/durable/durable.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

void hf_waiter_enter_queue(struct hf_core *core, struct hf_waiter *waiter);
void hf_waiter_leave_queue(struct hf_core *core, struct hf_waiter *waiter);
void hf_waiter_del(struct hf_core *core, struct hf_waiter *waiter);

/* Makes GRANTED carry this handle of the file. HF_ENOMEM: it carries the one before. */
int hf_waiter_keep_handle(struct hf_core *core, struct hf_waiter *waiter, struct hf_bytes fh);

/* Counts, or no longer counts, locks that the waiter's owner had: those that are still to be
 * reclaimed, and those of another life than the waiter's. */
void hf_waiter_count_had(struct hf_core *core, const struct hf_waiter *waiter, bool more);

/* Puts a waiter that is gone among its owner's and its client's again. */
void hf_waiter_come_back(struct hf_core *core, struct hf_waiter *waiter);

/* Tells how the wait has ended (ending.h); the waiter stays. */
void hf_waiter_tell(const struct hf_core *core, const struct hf_waiter *waiter, enum hf_end end);

/* Drops the undo entry of a waiter, which is of no use any more: deletes a waiter that is gone. */
void hf_waiter_keep(struct hf_core *core, const struct hf_undo *entry);

struct hf_want hf_waiter_want(const struct hf_core *core, const struct hf_waiter *waiter);

/* Breaks each cycle that leads through a place in a queue: the waiter there passes. It leaves the
 * rest of the list for later when table->work has reached work_end. */
void hf_deadlock_review(struct hf_core *core, uint64_t work_end);

/* Begins the GRANTED callback of a waiter, which holds the lock as soon as batch seq is durable. */
void hf_grant_begin(struct hf_core *core, struct hf_waiter *waiter, uint64_t seq);

/* Begins the callback again after a restart: the client may have been called before. */
void hf_grant_resume(struct hf_core *core, struct hf_waiter *waiter);

/* Says how the records of waiters are written (record.c). */
extern const struct hf_behind_ops hf_waiter_behind;

/* Deletes a waiter that is gone, if neither an undo entry nor its record needs it. */
void hf_waiter_release(struct hf_core *core, struct hf_waiter *waiter);

/* Fills in the GRANTED callback of a waiter. */
void hf_grant_fill(const struct hf_waiter *waiter, struct hf_outcall_attempt *out);

/* Ends the callback for good. If the client did not accept, what the grant gave goes to the next
 * waiter. HF_ENOMEM: the lock could not be taken back yet. */
int hf_waiter_called(struct hf_core *core, struct hf_now now, struct hf_waiter *waiter,
                     bool accepted);

/* Probes the clients of all waiters behind this one, because its callback is not answered. */
void hf_probe_behind(struct hf_core *core, struct hf_now now, const struct hf_waiter *waiter);

/* Removes all waiters of a client, because a callback or probe to it was given up. */
void hf_client_silent(struct hf_core *core, struct hf_now now, struct hf_client *client);

#endif
