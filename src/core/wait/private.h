/* Declarations that only the files of core/wait share. */
#ifndef HF_CORE_WAIT_PRIVATE_H
#define HF_CORE_WAIT_PRIVATE_H

#include "core/durable/durable.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

void hf_waiter_enter_queue(struct hf_core *core, struct hf_waiter *waiter);
void hf_waiter_leave_queue(struct hf_core *core, struct hf_waiter *waiter);
void hf_waiter_del(struct hf_core *core, struct hf_waiter *waiter);

/* Makes GRANTED name the file by this handle. On HF_ENOMEM it keeps the handle that it has. */
int hf_waiter_keep_handle(struct hf_core *core, struct hf_waiter *waiter, struct hf_bytes fh);

/* Counts, or no longer counts, the locks that the waiter's owner had before the grant: those still
 * to be reclaimed, and those of another life than the waiter's. */
void hf_waiter_count_had(struct hf_core *core, const struct hf_waiter *waiter, bool more);

/* Links a waiter that has left into the lists of its owner and client again. */
void hf_waiter_come_back(struct hf_core *core, struct hf_waiter *waiter);

/* Tells the history how the wait has ended (ending.h); the waiter itself stays. */
void hf_waiter_tell(const struct hf_core *core, const struct hf_waiter *waiter, enum hf_end end);

/* Drops an undo entry that is no longer needed, and deletes its waiter if that has left. */
void hf_waiter_keep(struct hf_core *core, const struct hf_undo *entry);

struct hf_want hf_waiter_want(const struct hf_core *core, const struct hf_waiter *waiter);

/* Breaks each cycle that leads through a place in a queue, by letting the waiter there pass. When
 * table->work reaches work_end, the remaining owners are left for later. */
void hf_deadlock_review(struct hf_core *core, uint64_t work_end);

/* Begins the GRANTED callback of a waiter, whose lock is durable together with batch seq. */
void hf_grant_begin(struct hf_core *core, struct hf_waiter *waiter, uint64_t seq);

/* Begins the GRANTED callback again after a restart: the client may have been called before. */
void hf_grant_resume(struct hf_core *core, struct hf_waiter *waiter);

/* How records of waiters are written behind (record.c). */
extern const struct hf_behind_ops hf_waiter_behind;

/* Deletes a waiter that has left, unless an undo entry or its record still needs it. */
void hf_waiter_release(struct hf_core *core, struct hf_waiter *waiter);

/* Fills in the GRANTED call for a waiter. */
void hf_grant_fill(const struct hf_waiter *waiter, struct hf_outcall_attempt *out);

/* Ends the callback for good. If the client did not accept, what the grant gave goes to the next
 * waiter. HF_ENOMEM: the lock could not be taken back yet. */
int hf_waiter_called(struct hf_core *core, struct hf_now now, struct hf_waiter *waiter,
                     bool accepted);

/* Probes the clients of all waiters behind this one, because this one's callback is not
 * answered. */
void hf_probe_behind(struct hf_core *core, struct hf_now now, const struct hf_waiter *waiter);

/* Removes all waiters of a client, because a callback or probe to it was given up. */
void hf_client_silent(struct hf_core *core, struct hf_now now, struct hf_client *client);

#endif
