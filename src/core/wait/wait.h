/*
 * Waiters: blocked LOCKs, one queue for each file, first come, first served (NLM-03); the GRANTED
 * callbacks and probes they cause; and deadlock detection (NLM-06).
 *
 * A waiter stands in its file's queue until it is granted the lock. Then it leaves the queue and
 * carries its GRANTED callback until the client has answered. If the client does not want the lock,
 * or does not answer, the waiter's lock goes to the next waiter.
 *
 * Waiters are served at the end of each request: the lock table lists the files on which a range
 * became free (hf_file_wake()), and hf_waiters_serve() looks at the waiters of those files. So
 * however many locks are released at once, there is one loop and no recursion (CRS-01); and however
 * many waiters there are, a request does a bounded part of it and ticks do the rest (SEC-05).
 */
#ifndef HF_CORE_WAIT_WAIT_H
#define HF_CORE_WAIT_WAIT_H

#include "base/slab.h"
#include "core/outcall/outcall.h"
#include "core/request.h"

struct hf_file;
struct hf_owner;
struct hf_txn;
struct hf_want;

struct hf_waiter {
    uint64_t id;            /* also its place in the queue */
    uint64_t seq;           /* the batch that its BLOCKED waits for; 0: none */
    struct hf_list in_file; /* while waiting */
    struct hf_list in_owner;
    struct hf_list in_client;
    struct hf_owner *owner;
    struct hf_file *file;
    uint64_t first, last;
    uint64_t offset, length; /* as in the request; GRANTED repeats them */
    int64_t since_ms;
    int32_t state;             /* the NSM state that the request carried; 0: unknown */
    struct hf_addr local;      /* where the request came in, and from where GRANTED goes out */
    struct hf_outcall outcall; /* the GRANTED callback */
    enum hf_transport transport;
    uint8_t version;
    bool msg;
    bool exclusive;
    bool monitored;
    bool passes;   /* does not queue behind other waiters: that closed a circle (deadlock.c) */
    bool granting; /* holds the lock; the callback is to be made or under way */
    enum hf_had {  /* what its owner held of the range when it was granted */
                  HF_HAD_NOTHING,
                  HF_HAD_SHARED, /* all of it, shared */
                  HF_HAD_SOME,   /* anything else */
    } had;
    bool gone;     /* left, but an undo entry still refers to it */
    uint8_t undos; /* how many undo entries refer to it: of its coming, and of its grant */
};

struct hf_wait {
    struct hf_slab slab;
    uint64_t suspect_round; /* number of the last search for a deadlock */
    bool unfinished;        /* the next tick goes on with serving waiters */
};

void hf_wait_init(struct hf_core *core);
void hf_wait_free(struct hf_core *core);

/*
 * The first waiter with a smaller id than ticket that a blocking request queues behind, or the next
 * one after it; NULL: none, or none that was found within the budget. Order among waiters is a
 * courtesy, so a request that would take too long to look at need not queue.
 */
struct hf_waiter *hf_waiter_ahead(const struct hf_core *core, const struct hf_file *file,
                                  const struct hf_want *want, uint64_t ticket,
                                  const struct hf_waiter *after);

/* The waiter of an earlier copy of this request; NULL: none. */
struct hf_waiter *hf_waiter_find(const struct hf_core *core, const struct hf_file *file,
                                 const struct hf_want *want);

/* The request is from before a restart of its client that a hint tells of. */
bool hf_waiter_is_former(const struct hf_waiter *waiter);

/* A GRANTED callback for another waiter of its owner, which overlaps it, is under way. */
bool hf_waiter_is_behind_own(const struct hf_core *core, const struct hf_waiter *waiter);
int hf_waiter_add(struct hf_txn *txn, const struct hf_peer *peer, const struct hf_lock_args *args,
                  struct hf_file *file, const struct hf_want *want);
void hf_waiter_remove(struct hf_core *core, struct hf_waiter *waiter);

/* The owner shows that it knows of its grants in this range, or gives them up: their GRANTED
 * callbacks end. */
void hf_waiter_confirm_range(struct hf_core *core, struct hf_owner *owner, struct hf_file *file,
                             uint64_t first, uint64_t last);

/* The owner got a lock on the file: its waiters there may now pass one that waits for that lock. */
void hf_owner_wake(struct hf_core *core, const struct hf_owner *owner, struct hf_file *file);

/*
 * Grants what can be granted on files that were woken. The work of one call is bounded; if that is
 * not enough, wait->unfinished is set, and the next tick goes on.
 */
void hf_waiters_serve(struct hf_core *core, struct hf_now now);

/* The request waits, or would wait, for its own owner, by held locks alone: DEADLCK. */
bool hf_deadlock_of_locks(struct hf_core *core, const struct hf_file *file,
                          const struct hf_want *want);

/* A request that no held lock conflicts with would close a circle by joining the queue. */
bool hf_deadlock_by_queueing(struct hf_core *core, const struct hf_file *file,
                             const struct hf_want *want);

/* The waiter whose GRANTED callback has this id and was attempted at least once; NULL: none. */
struct hf_waiter *hf_grant_find(const struct hf_core *core, uint64_t call_id);

/* Its client has answered the GRANTED callback, with the call's result or by GRANTED_RES. */
void hf_grant_answered(struct hf_core *core, struct hf_now now, struct hf_waiter *waiter,
                       bool accepted);

#endif
