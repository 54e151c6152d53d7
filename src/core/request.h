/*
 * The requests of the core and their answers: one function for each procedure of NLM and NSM, all
 * in the form of NLM version 4. No function keeps a view of the caller's bytes beyond the call.
 *
 * Each answer carries seq, the number of the batch that must be durable before the answer may
 * leave: 0, or a number that is durable already (hf_core_durable()), means now. When that batch
 * fails the answer is void, and the caller sends a refusal instead (LOCK and other NLM requests:
 * DENIED_NOLOCKS; SM_MON: STAT_FAIL; SM_NOTIFY: no answer, so that the peer repeats it). So nothing
 * is promised before it is durable (SPEC section 4).
 *
 * BLOCKED waits for no batch, because waiters are not durable and a failed commit does not remove
 * them. There are two exceptions. At the beginning of an epoch no answer leaves before the server's
 * record is durable, so a waiter that comes before that is removed if its batch fails, as is any
 * lock (a SHARE is refused meanwhile: DENIED_GRACE_PERIOD). With config.continues a waiter is
 * recorded, and removed if its batch fails.
 */
#ifndef HF_CORE_REQUEST_H
#define HF_CORE_REQUEST_H

#include "base/ticket.h"
#include "core/config.h"
#include "core/record.h"

struct hf_core;

/* NLM answers by their numbers on the wire (RFC 1813, appendix II). */
enum hf_stat {
    HF_STAT_GRANTED = 0,
    HF_STAT_DENIED = 1,
    HF_STAT_DENIED_NOLOCKS = 2,
    HF_STAT_BLOCKED = 3,
    HF_STAT_DENIED_GRACE_PERIOD = 4,
    HF_STAT_DEADLCK = 5,
    HF_STAT_ROFS = 6,
    HF_STAT_STALE_FH = 7,
    HF_STAT_FBIG = 8,
    HF_STAT_FAILED = 9,
};

/* The peer that sends a request. Name and address together identify a client; ports do not. */
struct hf_peer {
    struct hf_bytes name; /* the caller_name; unused for NSM requests */
    struct hf_addr addr;
    /* The address of ours that the request was sent to; callbacks leave from it. */
    struct hf_addr local;
    enum hf_transport transport;
    /* The account that pays for what the peer uses (base/trust.h); family NONE: the account of
     * `addr`. */
    struct hf_addr account;
};

/*
 * A byte range of a file as an owner names it; length 0 means to the end. Offset and length are
 * kept as given, because some clients compare those in GRANTED byte by byte.
 */
struct hf_lock_args {
    struct hf_bytes fh;
    struct hf_bytes oh;
    int32_t svid;
    uint64_t offset;
    uint64_t length;
    bool exclusive;

    /* The following fields are for LOCK only. */
    bool block;
    bool reclaim;
    /* NM_LOCK: the lock is not durable, and its client is not registered; with config.continues it
     * is treated as a LOCK. */
    bool unmonitored;
    int32_t state;   /* the client's NSM state; 0: unknown */
    uint8_t version; /* NLM version 1, 3 or 4; a GRANTED callback uses the request's version */
    bool msg;        /* the request is a LOCK_MSG: GRANTED_MSG will tell of the grant */

    /*
     * When the request arrived (hf_core_asked()), if it is made again after waiting for a claim; 0:
     * it arrives now.
     */
    uint64_t asked;
};

/* A lock that conflicts with a TEST. `oh` is valid until the next call into the core. */
struct hf_holder {
    bool exclusive;
    int32_t svid;
    struct hf_bytes oh;
    uint64_t offset;
    uint64_t length; /* length 0: the lock goes to the end of the file */
};

struct hf_answer {
    enum hf_stat stat;
    /* The caller sends no answer: the client is dead, or repeats its request. */
    bool silent;
    struct hf_ticket ticket; /* what the answer waits for; only FREE_ALL waits for a decision */
    struct hf_holder holder; /* the conflicting lock, if TEST is answered DENIED */
    /* If not 0, nothing is decided yet: the caller makes the request again after this decision
     * (claim.h). */
    uint64_t claim;
};

struct hf_answer hf_core_test(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                              const struct hf_lock_args *args);

/*
 * Only held locks deny. A request that does not block is granted whenever no held lock of another
 * owner conflicts with it, so TEST and LOCK agree; waiters do not matter to such a request.
 *
 * Blocking requests are served first come, first served: one that conflicts with a waiter ahead of
 * it queues behind that waiter, even if no held lock is in its way. A request does not queue behind
 * a waiter that waits for a lock of the request's own owner; it queues behind no waiter if its
 * owner holds all of the range already, in whatever mode; and it is granted at once where queueing
 * would close a cycle. DEADLCK is the answer only where each owner of a cycle waits for a lock that
 * the next one holds.
 */
struct hf_answer hf_core_lock(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                              const struct hf_lock_args *args);
struct hf_answer hf_core_unlock(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                                const struct hf_lock_args *args);

/* CANCEL: takes back the owner's request that waits for this range of the file in this mode. */
struct hf_answer hf_core_cancel(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                                const struct hf_lock_args *args);

/* The arguments of SHARE: mode (fsh4_mode: what others are denied) and access (fsh4_access: what is
 * wanted) have bit 0 for read, bit 1 for write. */
struct hf_share_args {
    struct hf_bytes fh;
    struct hf_bytes oh;
    uint32_t mode;
    uint32_t access;
    bool reclaim;
};

/* SHARE and UNSHARE. Shares are not monitored; answers wait for a record of the share only with
 * config.continues. */
struct hf_answer hf_core_share(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                               const struct hf_share_args *args);
struct hf_answer hf_core_unshare(struct hf_core *core, struct hf_now now,
                                 const struct hf_peer *peer, const struct hf_share_args *args);

/*
 * FREE_ALL (NLM-05): releases all locks of clients that have both this name and the caller's
 * address. The stat is GRANTED unless memory ran out or another claim is being verified; then the
 * client must repeat the request. The RPC result is void. `state` and `proven` mean what they mean
 * for hf_core_sm_notify().
 */
struct hf_answer hf_core_free_all(struct hf_core *core, struct hf_now now,
                                  const struct hf_peer *peer, int32_t state, bool proven);

/* Handles GRANTED_RES for the call with this id, which is the cookie we sent. It is ignored and
 * counted unless it comes from the client that was called. */
void hf_core_granted_res(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                         uint64_t call_id, bool accepted);

/* A registration by SM_MON: which program to call when the host mon_name restarts (my_name, prog,
 * vers, proc, at the address that the request came from). */
struct hf_mon_args {
    struct hf_bytes mon_name;
    struct hf_bytes my_name;
    uint32_t prog, vers, proc;
    uint8_t priv[HF_PRIV_SIZE]; /* the private bytes of SM_MON; other requests have none */
};

struct hf_sm_answer {
    /* true: STAT_SUCC; false: STAT_FAIL. Always true for a procedure whose result is only a state
     * number. */
    bool ok;
    int32_t state;           /* the state number of this server */
    struct hf_ticket ticket; /* what the answer waits for; only a notice waits for a decision */
};

/*
 * A decision: a verified crash notice was decided, or the last slice of a large release was made.
 * Answers that waited for the decision with this id now wait for batch seq.
 */
struct hf_decision {
    uint64_t id;
    uint64_t seq;
    bool failed; /* batch seq has failed since the decision was made */
};

/* Takes out the oldest decision; returns false if there is none. The caller asks after everything
 * that may make one: a call that has ended, or a tick. */
bool hf_core_next_decision(struct hf_core *core, struct hf_decision *out);

struct hf_sm_answer hf_core_sm_stat(struct hf_core *core);

/* Returns false while our state number is new and not durable: not even a refusal may carry it then
 * (NSM-06). */
bool hf_core_state_is_durable(const struct hf_core *core);
struct hf_sm_answer hf_core_sm_mon(struct hf_core *core, struct hf_now now,
                                   const struct hf_peer *peer, const struct hf_mon_args *args);
struct hf_sm_answer hf_core_sm_unmon(struct hf_core *core, struct hf_now now,
                                     const struct hf_peer *peer, const struct hf_mon_args *args);
struct hf_sm_answer hf_core_sm_unmon_all(struct hf_core *core, struct hf_now now,
                                         const struct hf_peer *peer,
                                         const struct hf_mon_args *args);

/*
 * Handles an SM_NOTIFY from this address (NSM-05). Unless it is proven to come from there, the
 * client's status monitor is asked first (SEC-04), and the answer waits for a decision. `ok` is
 * false if another claim about the client is being verified: the caller sends no answer, so that
 * the peer repeats its notice.
 */
struct hf_sm_answer hf_core_sm_notify(struct hf_core *core, struct hf_now now,
                                      const struct hf_addr *from, struct hf_bytes mon_name,
                                      int32_t state, bool proven);

/* Handles NLM procedure 16 from the local status monitor, which names a host at any address. The
 * notice is verified like an SM_NOTIFY, because that monitor may have believed a forged one. */
struct hf_sm_answer hf_core_host_restarted(struct hf_core *core, struct hf_now now,
                                           struct hf_bytes mon_name, int32_t state);

/* True if `name` means this server when a host uses it that sent its request to our address
 * `local`. */
bool hf_core_is_our_name(const struct hf_core *core, struct hf_bytes name,
                         const struct hf_addr *local);

/* SM_SIMU_CRASH: does what a restart would do (epoch, grace, notices); returns the seq to wait
 * for. */
uint64_t hf_core_simu_crash(struct hf_core *core, struct hf_now now);

/*
 * Tells the core an address of a host that was known by name only and has been resolved, outside of
 * any request: from now on notices from this address count as the host's, and notices to it go
 * there. Returns 0, HF_ENOENT, HF_ELIMIT or HF_ENOMEM.
 */
int hf_core_client_learn(struct hf_core *core, struct hf_now now, uint64_t client_id,
                         const struct hf_addr *addr);

/*
 * Releases by an operator (ADM-01). Each returns how many locks, shares and waiters it releases, or
 * HF_ENOENT, or HF_ENOMEM (then some may have been released). *wait becomes what the answer waits
 * for.
 */
int64_t hf_core_release_client(struct hf_core *core, struct hf_now now, uint64_t client_id,
                               struct hf_ticket *wait);
/* Releases all that a dead NLM client has (it was fenced, or given up with its node). The core
 * counts and logs that as a crash, and retries it until it is durable. */
int64_t hf_core_client_dead(struct hf_core *core, struct hf_now now, uint64_t client_id,
                            struct hf_ticket *wait);
int64_t hf_core_release_lock(struct hf_core *core, struct hf_now now, uint64_t lock_id,
                             struct hf_ticket *wait);
int64_t hf_core_release_file(struct hf_core *core, struct hf_now now, struct hf_bytes fh,
                             struct hf_ticket *wait);

/* Ends grace now: locks that were not reclaimed are released. */
struct hf_ticket hf_core_grace_end(struct hf_core *core, struct hf_now now);

/* Holds new locks and waiters back for this long, because clients of another server of these files
 * reclaim (GRC-04); 0 ends the hold. The hold is not recorded. */
void hf_core_grace_hold(struct hf_core *core, struct hf_now now, uint64_t ms);

/* Sends the notice of our last restart again, to one client or (id 0) to all. Returns 0 or
 * HF_ENOENT. */
int hf_core_notify_again(struct hf_core *core, struct hf_now now, uint64_t client_id);

#endif
