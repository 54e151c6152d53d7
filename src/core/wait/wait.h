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
 * however many locks are released at once, one loop serves all waiters, without recursion (CRS-01);
 * and however many waiters there are, a request does a bounded part of that work and ticks do the
 * rest (SEC-05).
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

/* A part of a waiter's range that its owner held before the grant. */
struct hf_held {
    uint64_t first, last;
    bool exclusive;
    bool durable;
    /* The part is still to be reclaimed: a grant that the client does not take reclaims nothing. */
    bool unclaimed;
    /* The client's life to which the part belongs again if the grant is refused. */
    uint32_t life;
};

struct hf_waiter {
    /* The waiter's id is also its place in the queue: smaller ids come first. */
    uint64_t id;
    uint64_t seq;           /* the batch that the BLOCKED answer waits for; 0: none */
    struct hf_list in_file; /* links the waiter into its file's queue while it waits */
    struct hf_list in_owner;
    struct hf_list in_client;
    struct hf_list in_all;
    struct hf_owner *owner;
    struct hf_file *file;
    uint64_t first, last;
    uint64_t offset, length; /* the range as the request had it, because GRANTED repeats it */
    int64_t since_ms;
    uint32_t life; /* the client's latest life that asked for the lock */
    /* The address of ours that the request was sent to; GRANTED leaves from it. */
    struct hf_addr local;
    struct hf_outcall outcall; /* the GRANTED callback */
    /* The wait in the kernel for a holder outside NLM (claims.h); NULL: there is none. */
    struct hf_claim_wait *outside;
    uint8_t *fh; /* the request's file handle, if it differs from the file's; or NULL */
    /* The parts of the range that the owner held before the grant, in order. */
    struct hf_held *had;
    uint32_t n_had;
    enum hf_transport transport;
    uint8_t version;
    bool msg;
    bool exclusive;
    bool monitored;
    bool loaded; /* the request has waited since before our start */
    /* The waiter does not queue behind others, because that would close a cycle (deadlock.c). */
    bool passes;
    bool granting; /* the waiter has its lock, and its GRANTED callback is not settled */
    bool gone;     /* the waiter has left, but an undo entry or its record needs it */
    /* A request of the owner ended the callback; if that is undone, the waiter may have to wait
     * again. */
    bool called_off;
    /* How many undo entries refer to the waiter: of its wait, its grant, its refusal. */
    uint8_t undos;
    /* The waiter's record, written behind; a waiter that has left stays until its record is
     * deleted. */
    struct hf_behind behind;
};

struct hf_wait {
    struct hf_slab slab;
    uint64_t suspect_round; /* the number of the latest search for a cycle */
    bool unfinished;        /* not all waiters were served: the next tick goes on */
    /* How many unclaimed locks the owners of granted waiters held before the grant: if the clients
     * refuse, these are to be reclaimed again. */
    uint32_t n_unclaimed;
    /* How many of the locks that owners held before a grant belong to another life than the waiter,
     * whose record tells only one life. */
    uint32_t n_ambiguous;
    bool put_back;         /* a refused grant put back unclaimed locks since recovery last looked */
    struct hf_list all;    /* all waiters, the one that has waited longest first */
    uint32_t *n_by_export; /* counts waiting requests by the export rule of their file */
};

/* True if the lock is to be recorded (if locks are durable) and its client to be told of our
 * restart. */
bool hf_wants_record(const struct hf_core *core, const struct hf_lock_args *args);

int hf_wait_init(struct hf_core *core);
void hf_wait_free(struct hf_core *core);

/* Returns since when the oldest waiter waits, by the wall clock; INT64_MAX: nobody waits. */
int64_t hf_waiters_oldest_ms(const struct hf_core *core);

/*
 * Returns the first waiter, with an id below `ticket`, that a blocking request must queue behind,
 * or the one that follows `after`; NULL: there is none, or none was found within the budget. Order
 * among waiters is a courtesy, so a request that would take too long to check need not queue.
 */
struct hf_waiter *hf_waiter_ahead(const struct hf_core *core, const struct hf_file *file,
                                  const struct hf_want *want, uint64_t ticket,
                                  const struct hf_waiter *after);

/* Returns the owner's waiter for exactly this range, in either mode, that has not been granted;
 * NULL: there is none. */
struct hf_waiter *hf_waiter_find(const struct hf_core *core, const struct hf_file *file,
                                 const struct hf_want *want);

/* True if a GRANTED callback is in flight for another waiter of this waiter's owner whose range
 * overlaps. */
bool hf_waiter_is_behind_own(const struct hf_core *core, const struct hf_waiter *waiter);
int hf_waiter_add(struct hf_txn *txn, const struct hf_peer *peer, const struct hf_lock_args *args,
                  struct hf_file *file, const struct hf_want *want);
void hf_waiter_remove(struct hf_core *core, struct hf_waiter *waiter);

/* Loads a waiter that was recorded before a restart that continues: into its place in the queue, or
 * with its GRANTED callback to be made again. Returns 0 or HF_ENOMEM. */
int hf_waiter_load(struct hf_core *core, struct hf_file *file, struct hf_owner *owner,
                   const struct hf_record_lock *record);
/* Called when all waiters are loaded and the epoch has begun. */
void hf_waiters_resume(struct hf_core *core);

/* Removes the waiter, and tells the history how the wait ended (ending.h). */
void hf_waiter_end(struct hf_core *core, struct hf_waiter *waiter, enum hf_end end);

/* Notes that the waiter's request came again: the callback will be as the latest copy wants it, and
 * the lock is recorded if any copy was monitored. */
void hf_waiter_repeated(struct hf_core *core, struct hf_waiter *waiter, const struct hf_peer *peer,
                        const struct hf_lock_args *args, uint32_t life);

/* Makes a shared waiter exclusive, and puts it at the end of the queue. */
void hf_waiter_strengthen(struct hf_core *core, struct hf_waiter *waiter);

/*
 * Ends the GRANTED callbacks to the owner in this range: a request of the owner shows that the
 * owner knows of its grants, or gives them up. waits: that request is a blocking one; with the
 * range of a granted request it repeats that request, and its answer, even a refusal, ends the
 * owner's wait.
 */
void hf_waiter_confirm_range(struct hf_core *core, struct hf_owner *owner, struct hf_file *file,
                             uint64_t first, uint64_t last, bool waits);

/* Has the owner's waiters on this file looked at: the owner got a lock there, so its waiters may
 * now pass a waiter that waits for that lock. */
void hf_owner_wake(struct hf_core *core, const struct hf_owner *owner, struct hf_file *file);

/*
 * Grants what can be granted on woken files. The work of one call is bounded; if something is left,
 * wait->unfinished is set, and the next tick goes on.
 */
void hf_waiters_serve(struct hf_core *core, struct hf_now now);

/* Has all waiters looked at, because the kernel can be asked again. */
void hf_waiters_wake_all(struct hf_core *core);

/* True if the request closes a cycle of held locks, in which its own owner waits for itself:
 * DEADLCK. */
bool hf_deadlock_of_locks(struct hf_core *core, const struct hf_file *file,
                          const struct hf_want *want);

/* True if a request that no held lock conflicts with would close a cycle by queueing. */
bool hf_deadlock_by_queueing(struct hf_core *core, const struct hf_file *file,
                             const struct hf_want *want);

/* Returns the waiter whose GRANTED callback has this id and was attempted at least once; NULL:
 * there is none. */
struct hf_waiter *hf_grant_find(const struct hf_core *core, uint64_t call_id);

/* Makes GRANTED callbacks in flight again, because the client has another address. */
void hf_grants_follow(struct hf_core *core, struct hf_client *client);

/* Handles the client's answer to the GRANTED callback: the result of the call, or GRANTED_RES. */
void hf_grant_answered(struct hf_core *core, struct hf_now now, struct hf_waiter *waiter,
                       bool accepted);

#endif
