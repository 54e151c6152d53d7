/*
 * Waiters: blocked LOCKs, one queue for each file, first come, first served (NLM-03); the GRANTED
 * callbacks and probes they cause; and deadlock detection (NLM-06).
 *
 * A waiter stands in its file's queue until it is granted the lock. Then it leaves the queue and
 * carries its GRANTED callback until the client has answered. If the client does not want the lock,
 * or does not answer, the waiter's lock goes to the next waiter.
 *
 * Clients match a callback by file, owner and range, but not by the mode. So there is one waiter
 * for each owner, file and range, in the strongest mode that was asked for: whichever request a
 * callback ends, what the client then believes to hold is held. (Two threads may wait in different
 * modes, and a late copy of an old request looks like a new one, so the mode of the newest request
 * alone would not do.)
 *
 * Waiters are served at the end of each request: the lock table lists the files on which a range
 * became free (hf_file_wake()), and hf_waiters_serve() looks at the waiters of those files. So
 * however many locks are released at once, there is one loop and no recursion (CRS-01); and however
 * many waiters there are, a request does a bounded part of it and ticks do the rest (SEC-05).
 */
#ifndef HF_CORE_WAIT_WAIT_H
#define HF_CORE_WAIT_WAIT_H

#include "base/slab.h"
#include "core/durable/durable.h"
#include "core/ending.h"
#include "core/outcall/outcall.h"
#include "core/request.h"

struct hf_claim_wait;
struct hf_file;
struct hf_owner;
struct hf_txn;
struct hf_want;

/* A part of a waiter's range that its owner held already. */
struct hf_held {
    uint64_t first, last;
    bool exclusive;
    bool durable;
    /* The part is to be reclaimed: a grant that the client does not take reclaims nothing. */
    bool unclaimed;
    /* The life of the client to which the lock belongs again when the grant is refused. */
    uint32_t life;
};

struct hf_waiter {
    uint64_t id;            /* is also the place in the queue */
    uint64_t seq;           /* the batch that its BLOCKED answer waits for; 0: none */
    struct hf_list in_file; /* links the waiter into its file's queue while it waits */
    struct hf_list in_owner;
    struct hf_list in_client;
    struct hf_list in_all;
    struct hf_owner *owner;
    struct hf_file *file;
    uint64_t first, last;
    uint64_t offset, length; /* the range as in the request, because GRANTED repeats it */
    int64_t since_ms;
    uint32_t life; /* the latest life of its client that asked for the lock */
    /* The address at which the request came in, and from which GRANTED goes out. */
    struct hf_addr local;
    struct hf_outcall outcall; /* the GRANTED callback */
    /* The wait for a holder outside (claims.h); NULL: there is none. */
    struct hf_claim_wait *outside;
    uint8_t *fh; /* the handle it was asked by, if that is not the file's own; or NULL */
    /* The parts of the range that its owner held when it was granted, in order. */
    struct hf_held *had;
    uint32_t n_had;
    enum hf_transport transport;
    uint8_t version;
    bool msg;
    bool exclusive;
    bool monitored;
    bool loaded; /* the request waited before our start */
    /* The waiter does not queue behind others, because that closed a cycle (deadlock.c). */
    bool passes;
    bool granting; /* the waiter holds the lock; the callback is to be made or in flight */
    bool gone;     /* the waiter has left, but an undo entry still refers to it */
    /* The waiter left because of a request of its owner, which the undo entry takes back. */
    bool called_off;
    uint8_t undos; /* how many undo entries refer to it: one of its coming, one of its grant */
    /* The waiter's record; a waiter that is gone stays until that is deleted. */
    struct hf_behind behind;
};

struct hf_wait {
    struct hf_slab slab;
    uint64_t suspect_round; /* the number of the last search for a deadlock that visited it */
    bool unfinished;        /* the next tick goes on with serving waiters */
    /* How many unclaimed locks the waiters being granted had: if they are refused, these are to be
     * reclaimed. */
    uint32_t n_unclaimed;
    /* How many locks of another life than their waiter's these had: the record of a waiter tells
     * one life for all. */
    uint32_t n_ambiguous;
    bool put_back;         /* some of these came back since recovery last looked */
    struct hf_list all;    /* has all waiters, the oldest first */
    uint32_t *n_by_export; /* counts those that wait, by the rule of their files' export */
};

/* True if the lock will be recorded if locks are, and its client told of our restart. */
bool hf_wants_record(const struct hf_core *core, const struct hf_lock_args *args);

int hf_wait_init(struct hf_core *core);
void hf_wait_free(struct hf_core *core);

/* Since when the oldest waiter waits, wall clock; INT64_MAX: none does. */
int64_t hf_waiters_oldest_ms(const struct hf_core *core);

/*
 * Returns the first waiter with a smaller id than ticket that a blocking request queues behind, or
 * the next one after it; NULL: there is none, or none was found within the budget. Order among
 * waiters is a courtesy, so a request that would take too long to look at need not queue.
 */
struct hf_waiter *hf_waiter_ahead(const struct hf_core *core, const struct hf_file *file,
                                  const struct hf_want *want, uint64_t ticket,
                                  const struct hf_waiter *after);

/* Returns the owner's waiter for just this range, in whichever mode, that has not been granted;
 * NULL: there is none. */
struct hf_waiter *hf_waiter_find(const struct hf_core *core, const struct hf_file *file,
                                 const struct hf_want *want);

/* True if a GRANTED callback is in flight for another waiter of its owner, which overlaps it. */
bool hf_waiter_is_behind_own(const struct hf_core *core, const struct hf_waiter *waiter);
int hf_waiter_add(struct hf_txn *txn, const struct hf_peer *peer, const struct hf_lock_args *args,
                  struct hf_file *file, const struct hf_want *want);
void hf_waiter_remove(struct hf_core *core, struct hf_waiter *waiter);

/* Loads a waiter that was recorded before the restart, which continues: in its place of the queue,
 * or with its GRANTED callback to be made again. Returns HF_ENOMEM without memory. */
int hf_waiter_load(struct hf_core *core, struct hf_file *file, struct hf_owner *owner,
                   const struct hf_record_lock *record);
/* Is called when all are loaded, and the epoch has begun. */
void hf_waiters_resume(struct hf_core *core);

/* Removes the waiter, and tells how the wait has ended (ending.h). */
void hf_waiter_end(struct hf_core *core, struct hf_waiter *waiter, enum hf_end end);

/* Notes that the waiter's request came once more: it is called back as the latest copy says, and
 * what it is granted is recorded if any copy was monitored. */
void hf_waiter_repeated(struct hf_core *core, struct hf_waiter *waiter, const struct hf_peer *peer,
                        const struct hf_lock_args *args, uint32_t life);

/* Makes the owner wait for the range in exclusive mode from now on, at the end of the queue. */
void hf_waiter_strengthen(struct hf_core *core, struct hf_waiter *waiter);

/*
 * Ends the GRANTED callbacks to the owner in this range: a request of the owner shows that it knows
 * of its grants, or gives them up. waits: that request is a blocking one. If it has the range of a
 * granted request, it repeats that one, and its answer, even a refusal, ends the owner's wait.
 */
void hf_waiter_confirm_range(struct hf_core *core, struct hf_owner *owner, struct hf_file *file,
                             uint64_t first, uint64_t last, bool waits);

/* Lets waiters of the owner on the file be looked at: it got a lock there, so they may now pass one
 * that waits for that lock. */
void hf_owner_wake(struct hf_core *core, const struct hf_owner *owner, struct hf_file *file);

/*
 * Grants what can be granted on files that were woken. The work of one call is bounded; if that is
 * not enough, wait->unfinished is set, and the next tick goes on.
 */
void hf_waiters_serve(struct hf_core *core, struct hf_now now);

/* Lets all waiters be looked at, because the kernel can be asked again. */
void hf_waiters_wake_all(struct hf_core *core);

/* True if the request waits, or would wait, for its own owner, by held locks alone: DEADLCK. */
bool hf_deadlock_of_locks(struct hf_core *core, const struct hf_file *file,
                          const struct hf_want *want);

/* True if a request that no held lock conflicts with would close a cycle by joining the queue. */
bool hf_deadlock_by_queueing(struct hf_core *core, const struct hf_file *file,
                             const struct hf_want *want);

/* Returns the waiter whose GRANTED callback has this id and was attempted at least once; NULL:
 * there is none. */
struct hf_waiter *hf_grant_find(const struct hf_core *core, uint64_t call_id);

/* Makes the callbacks that are on their way again, because the client has another address. */
void hf_grants_follow(struct hf_core *core, struct hf_client *client);

/* Takes the client's answer to the GRANTED callback, from the call's result or from GRANTED_RES. */
void hf_grant_answered(struct hf_core *core, struct hf_now now, struct hf_waiter *waiter,
                       bool accepted);

#endif
