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
 * BLOCKED waits for no batch: waiters are not durable, and a failed commit does not remove them.
 * There are two exceptions. At the beginning of an epoch no answer leaves before the server's
 * record is durable, so a waiter that comes meanwhile is removed if its batch fails, as is any lock
 * (a SHARE is refused meanwhile: DENIED_GRACE_PERIOD). With config.continues a waiter is recorded,
 * and removed if its batch fails.
 */
#ifndef HF_CORE_REQUEST_H
#define HF_CORE_REQUEST_H

#include "base/ticket.h"
#include "core/config.h"
#include "core/record.h"

struct hf_core;

/* The numbers of the wire (RFC 1813, appendix II). */
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
    struct hf_addr local; /* the address of ours that it sent to; callbacks leave from here */
    enum hf_transport transport;
    /* The account that its use is charged to (base/trust.h); family NONE: that of addr. */
    struct hf_addr account;
};

/*
 * A byte range of a file as an owner names it. length 0: to the end. Offset and length are kept
 * as given, because some clients compare what GRANTED echoes byte for byte.
 */
struct hf_lock_args {
    struct hf_bytes fh;
    struct hf_bytes oh;
    int32_t svid;
    uint64_t offset;
    uint64_t length;
    bool exclusive;

    /* These fields are for LOCK only. */
    bool block;
    bool reclaim;
    /* NM_LOCK: the lock is not durable, and the client not registered; but as LOCK if
     * config.continues. */
    bool unmonitored;
    int32_t state;   /* the client's NSM state; 0: unknown */
    uint8_t version; /* 1, 3 or 4; a GRANTED callback uses the same version */
    bool msg;        /* the request was a LOCK_MSG, so GRANTED_MSG tells of the grant */

    /*
     * When the request came (hf_core_asked()), if it is made again after a claim; 0: it comes now.
     */
    uint64_t asked;
};

/* A lock that conflicts with a TEST. oh is valid until the next call into the core. */
struct hf_holder {
    bool exclusive;
    int32_t svid;
    struct hf_bytes oh;
    uint64_t offset;
    uint64_t length; /* 0: the lock goes to the end of the file */
};

struct hf_answer {
    enum hf_stat stat;
    bool silent;             /* send no answer: the client repeats its request, or is dead */
    struct hf_ticket ticket; /* what the answer waits for; a decision only if it is of FREE_ALL */
    struct hf_holder holder; /* the conflicting lock, if TEST is answered DENIED */
    /* If not 0, nothing is decided: make the request again after this decision (claim.h). */
    uint64_t claim;
};

struct hf_answer hf_core_test(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                              const struct hf_lock_args *args);

/*
 * Only held locks deny. A request that does not block is granted whenever no held lock of another
 * owner conflicts with it, so TEST and LOCK agree; waiters do not matter to it.
 *
 * Blocking requests are served first come, first served: one that conflicts with a waiter ahead of
 * it queues behind that waiter, even if no held lock is in its way. It does not queue behind a
 * waiter that waits for a lock of its own; with all of the range held already, in whatever mode, it
 * queues behind no waiter; and it is granted at once where queueing would close a cycle. DEADLCK
 * is the answer only where each owner of a cycle waits for a lock that the next one holds.
 */
struct hf_answer hf_core_lock(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                              const struct hf_lock_args *args);
struct hf_answer hf_core_unlock(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                                const struct hf_lock_args *args);

/* Takes back the request that waits for this range of the file, of this owner and in this mode. */
struct hf_answer hf_core_cancel(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                                const struct hf_lock_args *args);

/* fsh4_mode (what others are denied) and fsh4_access (what is wanted): bit 0 read, bit 1 write. */
struct hf_share_args {
    struct hf_bytes fh;
    struct hf_bytes oh;
    uint32_t mode;
    uint32_t access;
    bool reclaim;
};

/* Shares are neither durable nor monitored: their answers wait for nothing of their own. */
struct hf_answer hf_core_share(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                               const struct hf_share_args *args);
struct hf_answer hf_core_unshare(struct hf_core *core, struct hf_now now,
                                 const struct hf_peer *peer, const struct hf_share_args *args);

/*
 * Releases all locks of the client with this name *and* the caller's address (FREE_ALL, NLM-05).
 * The stat is GRANTED unless memory ran out on the way, or another claim is being verified: then
 * the client must repeat it. The RPC result is void. state and proven mean what they do for
 * hf_core_sm_notify().
 */
struct hf_answer hf_core_free_all(struct hf_core *core, struct hf_now now,
                                  const struct hf_peer *peer, int32_t state, bool proven);

/* Takes GRANTED_RES for the call with this id, which is the cookie that was sent. It is ignored,
 * and counted, unless it comes from the client that was called. */
void hf_core_granted_res(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                         uint64_t call_id, bool accepted);

/* A registration by SM_MON: the program to call (my_name, prog, vers, proc, at the address the
 * request came from) when the host mon_name restarts. */
struct hf_mon_args {
    struct hf_bytes mon_name;
    struct hf_bytes my_name;
    uint32_t prog, vers, proc;
    uint8_t priv[HF_PRIV_SIZE]; /* private bytes, for SM_MON only */
};

struct hf_sm_answer {
    /* true: STAT_SUCC; false: STAT_FAIL. Always true where the result is sm_stat alone. */
    bool ok;
    int32_t state;           /* the state number of this server */
    struct hf_ticket ticket; /* what the answer waits for; a decision only if it is of a notice */
};

/*
 * A crash notice that was verified has been decided, or the last slice of a large release has been
 * made: answers that waited for the decision with this id wait for batch seq now.
 */
struct hf_decision {
    uint64_t id;
    uint64_t seq;
    bool failed; /* the batch has failed since */
};

/* Takes out the oldest decision; false: there is none. The caller asks after anything that may have
 * made one: a finished call or a tick. */
bool hf_core_next_decision(struct hf_core *core, struct hf_decision *out);

struct hf_sm_answer hf_core_sm_stat(struct hf_core *core);

/* Returns false if our state number is new and not durable: even a refusal must not carry it
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
 * client's status monitor is asked first (SEC-04), and the answer waits for a decision. If the
 * answer is not ok, another claim about the client is being verified: send no answer, so that the
 * peer repeats its notice.
 */
struct hf_sm_answer hf_core_sm_notify(struct hf_core *core, struct hf_now now,
                                      const struct hf_addr *from, struct hf_bytes mon_name,
                                      int32_t state, bool proven);

/* Handles NLM procedure 16 from the local status monitor, whatever address the host has. It is
 * verified as an SM_NOTIFY is, because that monitor may have believed a forged notice. */
struct hf_sm_answer hf_core_host_restarted(struct hf_core *core, struct hf_now now,
                                           struct hf_bytes mon_name, int32_t state);

/* True if a host that sent its request to our address local means this server by the name. */
bool hf_core_is_our_name(const struct hf_core *core, struct hf_bytes name,
                         const struct hf_addr *local);

/* SM_SIMU_CRASH: does what a restart would do (epoch, grace, notices). */
uint64_t hf_core_simu_crash(struct hf_core *core, struct hf_now now);

/*
 * Tells that a host known by name only was resolved (off the path of any request): from now on
 * notices from this address count as its own, and notices to it go there. Returns HF_ENOENT,
 * HF_ELIMIT.
 */
int hf_core_client_learn(struct hf_core *core, struct hf_now now, uint64_t client_id,
                         const struct hf_addr *addr);

/*
 * These are releases by the operator (ADM-01). Each returns how many locks, shares and waiters it
 * releases, or HF_ENOENT, or HF_ENOMEM (then some may have been released). *wait becomes what the
 * answer waits for.
 */
int64_t hf_core_release_client(struct hf_core *core, struct hf_now now, uint64_t client_id,
                               struct hf_ticket *wait);
/* Releases everything of an NLM client that is dead (fenced, or given up with its node): counted
 * and logged as a crash, and retried until it is durable. */
int64_t hf_core_client_dead(struct hf_core *core, struct hf_now now, uint64_t client_id,
                            struct hf_ticket *wait);
int64_t hf_core_release_lock(struct hf_core *core, struct hf_now now, uint64_t lock_id,
                             struct hf_ticket *wait);
int64_t hf_core_release_file(struct hf_core *core, struct hf_now now, struct hf_bytes fh,
                             struct hf_ticket *wait);

/* Ends grace now: locks that were not reclaimed are released. */
struct hf_ticket hf_core_grace_end(struct hf_core *core, struct hf_now now);

/* Holds new locks and waiters back for this long, because a neighbour's clients reclaim (GRC-04); 0
 * ends the hold. It is not recorded. */
void hf_core_grace_hold(struct hf_core *core, struct hf_now now, uint64_t ms);

/* Sends the notice of our last restart again, to one client or (id 0) to all. Returns HF_ENOENT. */
int hf_core_notify_again(struct hf_core *core, struct hf_now now, uint64_t client_id);

#endif
