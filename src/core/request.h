/*
 * What is asked of the brain, and what it answers: one function per question of NLM and NSM, all in
 * the form of NLM version 4. Nothing here keeps a view it is given beyond the call.
 *
 * Each answer carries seq, the number of the batch that must be durable before the answer may
 * leave: 0, or a number that is durable already (hf_core_durable()), means now. When that batch
 * fails the answer is void, and the caller sends a refusal instead (LOCK and friends:
 * DENIED_NOLOCKS, SM_MON: STAT_FAIL; SM_NOTIFY: no answer, so that the peer asks again). It is
 * "nothing is promised before it is durable" (SPEC section 4) in one number.
 *
 * A BLOCKED never waits: waiters are not durable, and one that was there stays when a commit fails.
 */
#ifndef HF_CORE_REQUEST_H
#define HF_CORE_REQUEST_H

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

/* Who asks. Name and address together are a client's identity; ports do not matter. */
struct hf_peer {
    struct hf_bytes name; /* caller_name; for NSM requests: unused */
    struct hf_addr addr;
    struct hf_addr local; /* our address that it talked to; callbacks leave from here */
    enum hf_transport transport;
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

    /* LOCK only. */
    bool block;
    bool reclaim;
    bool unmonitored; /* NM_LOCK: not durable, client not registered */
    int32_t state;    /* the client's NSM state; 0: unknown */
    uint8_t version;  /* 1, 3 or 4; a GRANTED callback uses the same */
    bool msg;         /* asked by LOCK_MSG, so GRANTED_MSG tells of the grant */
};

/* Who is in the way of a TEST. oh is valid until the next call into the core. */
struct hf_holder {
    bool exclusive;
    int32_t svid;
    struct hf_bytes oh;
    uint64_t offset;
    uint64_t length; /* 0: to the end */
};

struct hf_answer {
    enum hf_stat stat;
    uint64_t seq;
    struct hf_holder holder; /* TEST answered DENIED */
};

struct hf_answer hf_core_test(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                              const struct hf_lock_args *args);

/*
 * First come, first served: a request that conflicts with a waiter ahead of it queues behind that
 * waiter, even if no lock is in its way (not blocking: DENIED). Two exceptions, without which an
 * owner would wait for itself: it does not queue behind a waiter that waits for a lock of its own,
 * and with all of the range held already, in whatever mode, it queues behind nobody.
 */
struct hf_answer hf_core_lock(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                              const struct hf_lock_args *args);
struct hf_answer hf_core_unlock(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                                const struct hf_lock_args *args);

/* Takes back the waiting request of that owner, file, range and exclusive. */
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

/* FREE_ALL of the client with this name *and* the caller's address (NLM-05). The stat is GRANTED
 * unless memory ran out on the way; the RPC result is void. */
struct hf_answer hf_core_free_all(struct hf_core *core, struct hf_now now,
                                  const struct hf_peer *peer);

/*
 * GRANTED_RES for the call with this id (it is the cookie that was sent). Ignored, and counted,
 * unless it comes from the client that was called.
 */
void hf_core_granted_res(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                         uint64_t call_id, bool accepted);

/* A registration by SM_MON: who (my_*, at the address it came from) wants to hear of whom. */
struct hf_mon_args {
    struct hf_bytes mon_name;
    struct hf_bytes my_name;
    uint32_t prog, vers, proc;
    uint8_t priv[HF_PRIV_SIZE]; /* SM_MON only */
};

struct hf_sm_answer {
    bool ok;       /* STAT_SUCC or STAT_FAIL; where the result is sm_stat alone: always true */
    int32_t state; /* of this server */
    uint64_t seq;
};

struct hf_sm_answer hf_core_sm_stat(struct hf_core *core);

/* False: our state number is new, and must not be told, not even in a refusal (NSM-06). */
bool hf_core_state_is_durable(const struct hf_core *core);
struct hf_sm_answer hf_core_sm_mon(struct hf_core *core, struct hf_now now,
                                   const struct hf_peer *peer, const struct hf_mon_args *args);
struct hf_sm_answer hf_core_sm_unmon(struct hf_core *core, struct hf_now now,
                                     const struct hf_peer *peer, const struct hf_mon_args *args);
struct hf_sm_answer hf_core_sm_unmon_all(struct hf_core *core, struct hf_now now,
                                         const struct hf_peer *peer,
                                         const struct hf_mon_args *args);

/* Inbound SM_NOTIFY from this address (NSM-05). Returns the seq its (void) answer waits for. */
uint64_t hf_core_sm_notify(struct hf_core *core, struct hf_now now, const struct hf_addr *from,
                           struct hf_bytes mon_name, int32_t state);

/* NLM procedure 16 from the local status monitor: believed on its word, whatever the address. */
uint64_t hf_core_host_restarted(struct hf_core *core, struct hf_now now, struct hf_bytes mon_name,
                                int32_t state);

/* SM_SIMU_CRASH: what a restart would do, without one (epoch, grace, notices). */
uint64_t hf_core_simu_crash(struct hf_core *core, struct hf_now now);

/*
 * A host that is known by name only was resolved (off the path of any request): from now on
 * notices from this address count as its own, and notices to it go there. HF_ENOENT, HF_ELIMIT.
 */
int hf_core_client_learn(struct hf_core *core, struct hf_now now, uint64_t client_id,
                         const struct hf_addr *addr);

/* The operator's hand (ADM-01). Each returns how many locks, shares and waiters went, or HF_ENOENT
 * or HF_ENOMEM (some may have gone then); *seq is what the answer waits for. */
int64_t hf_core_release_client(struct hf_core *core, struct hf_now now, uint64_t client_id,
                               uint64_t *seq);
int64_t hf_core_release_lock(struct hf_core *core, struct hf_now now, uint64_t lock_id,
                             uint64_t *seq);
int64_t hf_core_release_file(struct hf_core *core, struct hf_now now, struct hf_bytes fh,
                             uint64_t *seq);

/* Ends grace now: what is unreclaimed is released. Returns the seq to wait for. */
uint64_t hf_core_grace_end(struct hf_core *core, struct hf_now now);

/* Sends the notice of our last restart again, to one client or (id 0) to all. HF_ENOENT. */
int hf_core_notify_again(struct hf_core *core, struct hf_now now, uint64_t client_id);

#endif
