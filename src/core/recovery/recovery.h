/*
 * Recovery. After a restart of ours it begins a new epoch, notifies all registered clients, and
 * gives them a grace period to reclaim their locks. After a restart of a client it releases the
 * client's old locks, and tells all monitors of that host. A release that fails is retried until it
 * is durable.
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
    bool unheard;       /* grace was prolonged because reclaims went unanswered without a keeper */
    bool prolonged;     /* grace was prolonged while a keeper was connected, which happens once */
    uint64_t reclaimed; /* how many locks were reclaimed in this grace period */
    /* Once this batch is durable, nothing is left to reclaim; 0: not so yet. */
    uint64_t drained_seq;
};

/* What a start means for clients (start.c, SPEC section 14). */
enum hf_start_number { HF_START_NEW_NUMBER, HF_START_KEEPS_NUMBER };
struct hf_start {
    enum hf_start_number number;
    enum hf_unknown_locks unknown;
    enum hf_recovers recovers;
};

struct hf_recovery {
    struct hf_grace grace;
    uint64_t hold_end_ms; /* an operator refuses new locks until this time (GRC-04); 0: no hold */
    struct hf_list releasing; /* clients that still have locks to be released */
    struct hf_list released;  /* clients whose release must only become durable */
    /* The batch with the last slice; the next slice waits for another; 0: none. */
    uint64_t slice_seq;
    bool release_stalled;     /* releases wait for the next retry, because one of them failed */
    struct hf_list decisions; /* decisions (hf_made_decision) that were not taken out yet */
    uint64_t state_seq;       /* the batch that makes our NSM state number durable */
    /* Deletes records that this run does not use; goes into the batch of the server's record. */
    struct hf_batch obsolete;
    struct hf_record_server before; /* the server's record of the previous run */
    struct hf_start start;          /* what the present start means for clients */
    uint64_t number_epoch;          /* the epoch in which we took our NSM state number */
    bool locks_unknown; /* until grace ends, clients may hold locks that no record shows */
    bool stopped;
    bool merged;   /* loading dropped a lock, because two files became one */
    bool complete; /* the server's record permits the next start to continue */
    /* The last conflict between records that loading found. */
    struct hf_load_conflict load_conflict;
};

void hf_recovery_init(struct hf_core *core);
/* Frees what only the batch of a start needs. */
void hf_recovery_free(struct hf_core *core);

/* Returns how many bytes behind each client belong to recovery. */
size_t hf_recovery_client_size(void);

/* Ends what recovery is doing for a client, because the core is being deleted. */
void hf_recovery_abandon(struct hf_core *core, struct hf_client *client);

/* hf_recovery_committed() is called when a commit made a batch durable, hf_recovery_commit_failed()
 * when a commit failed and was undone. */
void hf_recovery_committed(struct hf_core *core);
void hf_recovery_commit_failed(struct hf_core *core, struct hf_now now);

/* Retries the releases that the store or the heap refused. */
void hf_recovery_retry(struct hf_core *core);

/* Returns our NSM state number (NSM-06). */
int32_t hf_epoch_state(const struct hf_core *core);

/* Begin a new epoch: a start, or SM_SIMU_CRASH. On HF_ENOMEM nothing was started. */
int hf_epoch_start(struct hf_core *core, struct hf_now now);
void hf_epoch_simulate_crash(struct hf_core *core, struct hf_now now);

/* Notes in the server's record whether clients have something to do, which keeps the next start
 * from continuing (config.continues). */
void hf_epoch_review(struct hf_core *core);
enum hf_continuity hf_epoch_continuity(const struct hf_core *core);

/* True while every new lock is refused: grace is active and strict, or an operator holds new locks
 * back. */
bool hf_grace_is_strict(const struct hf_core *core);
struct hf_ticket hf_grace_end(struct hf_core *core, struct hf_now now);
/* Called when the time of the grace period is over. */
void hf_grace_ran_out(struct hf_core *core, struct hf_now now);
/* Ends grace if nothing is left to reclaim. */
void hf_grace_review(struct hf_core *core, struct hf_now now);

struct hf_answer hf_reclaim(struct hf_core *core, struct hf_now now, struct hf_file *file,
                            const struct hf_want *want);

/* Releases one whole lock, and ends the GRANTED callback for it. Returns 1 or HF_ENOMEM. */
int hf_lock_release(struct hf_core *core, struct hf_now now, struct hf_lock *lock, enum hf_end end,
                    uint64_t *seq);

/* Called when a round of the file has ended: releases locks that the kernel ought to hold but
 * refused, because a holder outside NLM has the range. */
struct hf_claim_file;
void hf_locks_lost_outside(struct hf_core *core, struct hf_now now, const struct hf_claim_file *cf);

/*
 * Releases all that the client has. Returns how many locks, shares and waiters that were;
 * HF_ENOMEM: not all were released.
 */
int64_t hf_client_release_all(struct hf_core *core, struct hf_now now, struct hf_client *client,
                              struct hf_ticket *wait);

/* Releases what the client got in lives before this one (clients.h). Returns the same number as
 * hf_client_release_all(). */
int64_t hf_client_release_before(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                 uint32_t life, struct hf_ticket *wait);

/* Releases all of a client that the operator knows to be dead. Returns the same number as
 * hf_client_release_all(). */
int64_t hf_client_declared_dead(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                struct hf_ticket *wait);

/* True if a release still has something of the client to take. */
bool hf_pending_release_is_in_progress(const struct hf_client *client);

/* A large release is made in slices (pending_release.c). hf_pending_release_is_due() is true if the
 * next slice must be made now; hf_pending_release_go_on_if_due() makes it then. */
bool hf_pending_release_is_due(const struct hf_core *core);
void hf_pending_release_go_on_if_due(struct hf_core *core, struct hf_now now);

/* True if the client's things are being released because it restarted with this state. */
bool hf_pending_release_is_for(const struct hf_client *client, int32_t state);

/* What the answer to another host's crash notice waits for. */
struct hf_notice_answer {
    /* Nothing is decided and the notice was not remembered: the peer must repeat it. */
    bool busy;
    struct hf_ticket wait;
};

/* Handle the restart of another host, told by its SM_NOTIFY or by the local status monitor
 * (NSM-05). A notice that is proven cannot be forged, and is not verified. */
struct hf_notice_answer hf_peer_notified(struct hf_core *core, struct hf_now now,
                                         const struct hf_addr *from, struct hf_bytes mon_name,
                                         int32_t state, bool proven);
struct hf_notice_answer hf_peer_restarted(struct hf_core *core, struct hf_now now,
                                          struct hf_bytes mon_name, int32_t state);

/*
 * Begins to verify a client's crash notice (SEC-04), which says that the client now has this state,
 * or joins the verification that is in flight. BELIEVED: the caller acts at once. PENDING:
 * *decision tells when the notice was acted upon or rejected. BUSY: another claim is being
 * verified, or the question to *asked decides about this client as well. *asked: the client, NULL
 * at first, whose host was asked last because of this notice, which may be about several clients of
 * one host. from: the notice's source address; NULL: unknown.
 */
enum hf_verify_result { HF_VERIFY_BELIEVED, HF_VERIFY_PENDING, HF_VERIFY_BUSY };
enum hf_verify_result hf_verify(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                int32_t state, bool free_all, const struct hf_addr *from,
                                struct hf_client **asked, uint64_t *decision);

/*
 * Takes a peer whom no client fits, and looks for its client at the addresses at which the operator
 * vouches for its name (TRK-02). Returns the client that has moved here. NULL with *pending: the
 * client's old address is being asked, so the request is put off. NULL otherwise: the peer is a
 * stranger.
 */
struct hf_client *hf_client_arrives(struct hf_core *core, struct hf_now now,
                                    const struct hf_peer *peer, bool *pending);

bool hf_verify_is_in_progress(const struct hf_client *client);

/* Handles a status monitor's answer to SM_STAT; ignored unless the outcall is a verification or
 * asks a client's old address. */
void hf_verify_answered(struct hf_core *core, struct hf_now now, struct hf_outcall *outcall,
                        int32_t state);

/* Begin notices of our restart, to one client or to all. */
void hf_notice_begin(struct hf_core *core, struct hf_client *client);
void hf_notice_begin_all(struct hf_core *core, bool by_operator);

#endif
