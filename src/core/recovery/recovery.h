/*
 * Recovery. After a restart of ours there are a new epoch, notices to all registered clients, and a
 * grace period in which they reclaim their locks. After a restart of a client, its old locks are
 * released, and all monitors of that host are told. A release that fails is retried until it is
 * durable.
 */
#ifndef HF_CORE_RECOVERY_RECOVERY_H
#define HF_CORE_RECOVERY_RECOVERY_H

#include "base/list.h"
#include "core/record.h"
#include "core/request.h"
#include "core/view.h"

struct hf_client;
struct hf_file;
struct hf_lock;
struct hf_outcall;
struct hf_want;

struct hf_grace {
    bool active;
    uint64_t end_ms;
    bool unheard;       /* grace ran out while reclaims were left unanswered for lack of a keeper */
    bool prolonged;     /* ... or because a file could not be opened */
    uint64_t reclaimed; /* how many locks were reclaimed, each counted once */
    uint64_t drained_seq; /* when this is durable nothing is left to reclaim; 0: not yet */
};

/* What a start means (start.c, SPEC section 14). */
enum hf_start_number { HF_START_NEW_NUMBER, HF_START_KEEPS_NUMBER };
struct hf_start {
    enum hf_start_number number;
    enum hf_unknown_locks unknown;
    enum hf_recovers recovers;
};

struct hf_recovery {
    struct hf_grace grace;
    uint64_t hold_end_ms; /* the operator holds new locks back until this time; 0: no (GRC-04) */
    struct hf_list releasing; /* clients with locks that are still to be released */
    struct hf_list released;  /* clients whose release only has to become durable */
    uint64_t slice_seq;       /* the batch with the last slice of a release; 0: none */
    bool release_stalled;     /* releases wait for the retry */
    struct hf_list decisions; /* decisions (hf_made_decision) that were not taken out yet */
    uint64_t state_seq;       /* the batch that makes our state number durable */
    struct hf_batch
        /* Deletes records that this run does not use; written together with the server's record. */
        obsolete;
    struct hf_record_server before; /* the server's record of the run before this one */
    struct hf_start start;          /* what this start means */
    uint64_t number_epoch;          /* the epoch in which our state number was taken */
    bool locks_unknown; /* clients may hold locks that are not recorded, until grace ends */
    bool stopped;
    bool merged;   /* loading has lost a lock */
    bool complete; /* the server's record says that the next start may continue */
    struct hf_load_conflict load_conflict; /* the last conflict that loading found */
};

void hf_recovery_init(struct hf_core *core);
/* Frees what is not needed once a start is durable. */
void hf_recovery_free(struct hf_core *core);

/* Returns how many bytes of each client belong to recovery. */
size_t hf_recovery_client_size(void);

/* Ends what is in progress for a client, because the core is being deleted. */
void hf_recovery_abandon(struct hf_core *core, struct hf_client *client);

/* The first is called when a commit made everything up to now durable, the second when one failed
 * and was undone. */
void hf_recovery_committed(struct hf_core *core);
void hf_recovery_commit_failed(struct hf_core *core, struct hf_now now);

/* Retries the releases that the store or the heap refused. */
void hf_recovery_retry(struct hf_core *core);

/* Returns our NSM state number (NSM-06). */
int32_t hf_epoch_state(const struct hf_core *core);

/* Begin a new epoch, for a start and for SM_SIMU_CRASH. HF_ENOMEM: nothing was started. */
int hf_epoch_start(struct hf_core *core, struct hf_now now);
void hf_epoch_simulate_crash(struct hf_core *core, struct hf_now now);

/* Notes in the server's record that clients have something to do, or not any more
 * (config.continues). */
void hf_epoch_review(struct hf_core *core);
enum hf_continuity hf_epoch_continuity(const struct hf_core *core);

/* True if every new lock is refused: grace is active and strict, or the operator holds new locks
 * back. */
bool hf_grace_is_strict(const struct hf_core *core);
struct hf_ticket hf_grace_end(struct hf_core *core, struct hf_now now);
/* Is called when the time of grace is over. */
void hf_grace_ran_out(struct hf_core *core, struct hf_now now);
/* Ends grace if nothing is left to reclaim. */
void hf_grace_review(struct hf_core *core, struct hf_now now);

struct hf_answer hf_reclaim(struct hf_core *core, struct hf_now now, struct hf_file *file,
                            const struct hf_want *want);

/* Releases one lock, whole, and ends its GRANTED callback. Returns 1, or HF_ENOMEM. */
int hf_lock_release(struct hf_core *core, struct hf_now now, struct hf_lock *lock, enum hf_end end,
                    uint64_t *seq);

/* Is called when a round of the file has ended: locks that the kernel ought to hold, and refused,
 * are lost. */
struct hf_claim_file;
void hf_locks_lost_outside(struct hf_core *core, struct hf_now now, const struct hf_claim_file *cf);

/*
 * Releases all that the client has. Returns how many locks, shares and waiters; HF_ENOMEM: not all.
 */
int64_t hf_client_release_all(struct hf_core *core, struct hf_now now, struct hf_client *client,
                              struct hf_ticket *wait);

/* Releases what the client got in lives before this one (clients.h). Returns what
 * hf_client_release_all() does. */
int64_t hf_client_release_before(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                 uint32_t life, struct hf_ticket *wait);

/* The operator knows that the client is dead; counts as release_all does. */
int64_t hf_client_declared_dead(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                struct hf_ticket *wait);

/* True if the client still has something that it is to lose. */
bool hf_pending_release_is_in_progress(const struct hf_client *client);

/* A release of much is made in slices (pending_release.c). True: the next one is to be made now;
 * the second function makes it then. */
bool hf_pending_release_is_due(const struct hf_core *core);
void hf_pending_release_go_on_if_due(struct hf_core *core, struct hf_now now);

/* True if the client is losing what it had because it restarted with this state. */
bool hf_pending_release_is_for(const struct hf_client *client, int32_t state);

/* What the answer to a crash notice waits for. */
struct hf_notice_answer {
    /* Nothing is decided, and no memory of the notice is kept: the peer must repeat it. */
    bool busy;
    struct hf_ticket wait;
};

/* Handle the restart of another host, from its SM_NOTIFY or from the local status monitor (NSM-05).
 * A proven notice cannot be forged, and is not verified. */
struct hf_notice_answer hf_peer_notified(struct hf_core *core, struct hf_now now,
                                         const struct hf_addr *from, struct hf_bytes mon_name,
                                         int32_t state, bool proven);
struct hf_notice_answer hf_peer_restarted(struct hf_core *core, struct hf_now now,
                                          struct hf_bytes mon_name, int32_t state);

/*
 * Begins to verify that the client has restarted and has this state now (SEC-04), or joins the
 * verification that is in flight. PENDING: what the notice asks for is done, or not, when the
 * decision is made. BUSY: another claim is being verified, or the question to *asked, a client on
 * the same host, decides about this client as well. BELIEVED: the caller acts at once. *asked: one
 * notice may be about several clients; this is the one whose host it made us ask last; NULL: none
 * yet. from: the address that the notice came from; NULL: unknown.
 */
enum hf_verify_result { HF_VERIFY_BELIEVED, HF_VERIFY_PENDING, HF_VERIFY_BUSY };
enum hf_verify_result hf_verify(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                int32_t state, bool free_all, const struct hf_addr *from,
                                struct hf_client **asked, uint64_t *decision);

/*
 * Looks for the client of a peer that no client fits, under the addresses at which the operator
 * vouches for its name (TRK-02). *pending: it may have moved, and its old address is being asked,
 * so the request is put off. NULL otherwise: the peer is a stranger.
 */
struct hf_client *hf_client_arrives(struct hf_core *core, struct hf_now now,
                                    const struct hf_peer *peer, bool *pending);

bool hf_verify_is_in_progress(const struct hf_client *client);

/* Tells that the client's status monitor has named its state; this is ignored unless the outcall is
 * a verification. */
void hf_verify_answered(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                        int32_t state);

/* Begin notices of our restart, to one client or to all. */
void hf_notice_begin(struct hf_core *core, struct hf_client *client);
void hf_notice_begin_all(struct hf_core *core, bool by_operator);

#endif
