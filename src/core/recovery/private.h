/* What the files of core/recovery share with each other only. */
#ifndef HF_CORE_RECOVERY_PRIVATE_H
#define HF_CORE_RECOVERY_PRIVATE_H

#include "core/clients/clients.h"
#include "core/recovery/recovery.h"

void hf_grace_begin(struct hf_core *core, struct hf_now now);
void hf_grace_retry(struct hf_core *core, struct hf_now now);

/* Tells an SM_MON client, when batch seq is durable, that the host it monitors has restarted. */
void hf_status_call_begin(struct hf_core *core, struct hf_client *client, uint64_t seq);

/* The client has restarted and has this state now: what it had before before_id is released, and
 * its record says so. */
void hf_client_crashed(struct hf_core *core, struct hf_now now, struct hf_client *client,
                       int32_t state, uint64_t before_id, uint64_t *seq);

/* The client cannot be told of our restart: what it has not reclaimed is released (NOT-03). */
void hf_client_unreachable(struct hf_core *core, struct hf_now now, struct hf_client *client);

/* Counts and reports that the locks which the client has not reclaimed are about to be released. */
void hf_client_lost(struct hf_core *core, const struct hf_client *client, enum hf_loss reason);

/*
 * Releases the client's locks with ids smaller than release.before_id (0: all that it has now), and
 * retries that until it is durable. Returns how many locks were released now.
 */
int64_t hf_pending_release_add(struct hf_core *core, struct hf_now now, struct hf_client *client,
                               struct hf_pending_release release);
void hf_pending_release_retry_all(struct hf_core *core, struct hf_now now);

/* Ends those that are durable now; a commit failed, so none of the others is. */
void hf_pending_release_committed(struct hf_core *core);
void hf_pending_release_commit_failed(struct hf_core *core);

/* Releases locks as a pending release describes them; *left: memory ran out on some. */
int64_t hf_pending_release_locks(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                 const struct hf_pending_release *release, uint64_t *seq,
                                 bool *left);

#endif
