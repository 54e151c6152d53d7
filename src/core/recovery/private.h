/* What the files of core/recovery share with each other only. */
#ifndef HF_CORE_RECOVERY_PRIVATE_H
#define HF_CORE_RECOVERY_PRIVATE_H

#include "core/clients/clients.h"
#include "core/recovery/recovery.h"

/* A lock record that was decoded: the codes of hf_core_load(). */
int hf_load_lock(struct hf_core *core, const struct hf_record_lock *record);

/* What this start means, when everything is loaded. */
struct hf_start hf_start_decide(const struct hf_core *core);

void hf_grace_begin(struct hf_core *core, struct hf_now now);

/* Tells an SM_MON client, when batch seq is durable, that the host it monitors has restarted. */
void hf_status_call_begin(struct hf_core *core, struct hf_client *client, uint64_t seq);

/* The client has restarted and has this state now: what it got before this life is released, and
 * its record says so. HF_ENOMEM: an SM_MON client, and its notice must be repeated, because it
 * leads to a callback as well as to the record. (The release of an NLM client is retried.) */
int hf_client_crashed(struct hf_core *core, struct hf_now now, struct hf_client *client,
                      int32_t state, uint32_t life, struct hf_ticket *wait);

/* The client cannot be told of our restart: what it has not reclaimed is released (NOT-03). */
void hf_client_unreachable(struct hf_core *core, struct hf_now now, struct hf_client *client);

/* Counts and reports that the locks which the client has not reclaimed are about to be released. */
void hf_client_lost(struct hf_core *core, const struct hf_client *client, enum hf_loss reason);

/* What a client is to lose; where several fields are set, all that any of them describes. */
struct hf_release {
    uint32_t before_life; /* locks and shares of earlier lives; 0: none for that reason */
    bool unclaimed;       /* locks that the client has not reclaimed */
    int32_t state;        /* its new state number, to be recorded; 0: as before */
    bool retry;           /* until it is durable; else the caller is refused if it fails at once */
    bool crashed;         /* counted as found dead */
    bool log;             /* an event, when all is released */
    enum hf_event_kind event;
    int64_t n; /* what the event counts besides */
};

/*
 * Begins the release, or extends the one that is in progress, and makes its first slice. Returns
 * how many locks and shares were released now; HF_ENOMEM: the caller is refused.
 */
int64_t hf_pending_release_add(struct hf_core *core, struct hf_now now, struct hf_client *client,
                               const struct hf_release *release, struct hf_ticket *wait);

/* hf_pending_release_add() in two steps, for many clients: begins the release without a slice; and
 * tells what an answer waits for. */
void hf_pending_release_begin(struct hf_core *core, struct hf_client *client,
                              const struct hf_release *release);
void hf_pending_release_wait(struct hf_core *core, struct hf_client *client,
                             struct hf_ticket *wait);

/* Makes one slice of the releases that are in progress, oldest first. */
void hf_pending_release_go_on(struct hf_core *core, struct hf_now now);

/* The client still has something that it is to lose. */
bool hf_pending_release_is_in_progress(const struct hf_client *client);

/* Ends those that are durable now; a commit failed, so none of the others is; goes on with them. */
void hf_pending_release_committed(struct hf_core *core);
void hf_pending_release_commit_failed(struct hf_core *core);
void hf_pending_release_retry_all(struct hf_core *core);

/* A new epoch begins: locks that are unclaimed may be reclaimed. */
void hf_pending_release_keep_unclaimed(struct hf_core *core);

/* Answers that wait for the decision go on when batch seq is durable. Takes over a reference. */
void hf_decision_made(struct hf_core *core, struct hf_made_decision *made, struct hf_client *client,
                      uint64_t id, uint64_t seq);

/* The release that a believed notice began has ended. */
void hf_verify_released(struct hf_core *core, struct hf_client *client, uint64_t seq);

#endif
