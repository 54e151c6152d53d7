/*
 * The lock table: owners, files, byte-range locks and shares.
 *
 *     client --< owner --< lock >-- file
 *        |         |----< waiter >---|        (waiting: in the file's queue; wait/wait.h)
 *        |--------------< share >----|
 *
 * An owner is a client + svid + owner handle. A lock is a range of a file that an owner holds.
 * Locks of one owner on one file never overlap; two that touch and are alike are merged into one.
 *
 * Every walk is indexed. A file has one interval tree for its exclusive locks and one for its
 * shared locks: exclusive ranges never overlap, a shared request searches only the former, and a
 * search skips the locks of its own owner (base/itree.h). An owner has a tree of its locks, ordered
 * by file and first byte, except for its few newest ones (own.c). So a conflict, and an owner's own
 * lock in a range, are found in O(log n), whatever else is locked. What still has to visit many
 * objects counts them in table->work, so that its caller can be charged, or can stop.
 *
 * Owners, files and clients count their references (refs). A lock refers to its owner and file even
 * after it was removed, until the removal is final, so that whatever an undo needs still exists.
 */
#ifndef HF_CORE_TABLE_TABLE_H
#define HF_CORE_TABLE_TABLE_H

#include "base/itree.h"
#include "base/list.h"
#include "base/map.h"
#include "base/reflist.h"
#include "base/refmap.h"
#include "core/common/flex.h"
#include "core/config.h"
#include "core/durable/durable.h"
#include "core/record.h"

struct hf_client;
struct hf_core;
struct hf_txn;

/*
 * There may be millions of locks, each with an owner and a file of its own, so these three are kept
 * small: 80, 56 and 44 bytes, and the handles of the latter two. What links them to their like (in
 * trees, lists and hash tables) is a link of the arena, half the size of a pointer (base/arena.h).
 */
struct hf_lock {
    uint64_t id; /* the slab's word, too; its upper bits are the epoch it was granted in */
    struct hf_itree_node node;   /* in file->exclusive or file->shared; its tag is the owner */
    hf_ref file;                 /* hf_lock_file() */
    uint32_t life;               /* of its client (clients.h) */
    hf_ref own_left, own_right;  /* in owner->locks, or its neighbours in owner->recent */
    int64_t acquired_at_ms : 43; /* wall clock; 43 bits last until the year 2109 */
    bool recent : 1;             /* in owner->recent */
    bool held : 1;               /* else it was removed, and is only kept for undo */
    bool exclusive : 1;
    bool durable : 1;   /* has a record */
    bool unclaimed : 1; /* held from before the restart, and not reclaimed yet */
    bool told : 1;      /* that it has ended (ending.h); it may come back */
};

/*
 * There may be millions of owners and files, and few of them have waiters or shares. So what
 * belongs to waiting is kept apart from them. All owners that wait for nothing share one empty
 * hf_waiting (table->no_waiting), and all files without waiters and shares one empty hf_file_queue
 * (table->no_queue), so a reader need not test for NULL. Call hf_owner_ensure_waiting() or
 * hf_file_ensure_queue() before adding to either.
 */
struct hf_waiting {
    struct hf_owner *owner;
    struct hf_list waiters; /* waiting and being granted */
    uint32_t n_waiters;     /* in that list */
    struct hf_list review;  /* in table->review */

    /* For one search for a cycle (wait/deadlock.c). */
    struct hf_owner *suspect_next;
    uint64_t suspect_round;
    struct hf_waiter *suspect_via;
    bool suspect_queued;
};

enum { HF_SHARE_MODES = 4 }; /* none, read, write, both */

struct hf_file_queue {
    struct hf_file *file;
    struct hf_list waiters; /* first come, first served: ordered by id */
    struct hf_list shares;

    /*
     * Serving (wait/serve.c). The queue is in table->woken when a range became free that a waiter
     * may want. A pass over the waiters can take several ticks; a range that becomes free meanwhile
     * waits for the next pass, so that a file which is woken all the time is still served to the
     * end of its queue.
     */
    struct hf_list woken;
    uint64_t woken_first, woken_last; /* for the next pass, if has_range */
    uint64_t pass_first, pass_last;   /* of the pass in progress */
    struct hf_list *resume; /* the next waiter of the pass in progress; NULL: none is in progress */
    bool has_range;

    uint32_t n_waiters; /* in the queue */
    uint32_t n_shares;
    uint32_t n_shares_of[HF_SHARE_MODES][HF_SHARE_MODES]; /* with each mode and access */
};

struct hf_owner {
    struct hf_refmap_node node; /* in table->owners */
    struct hf_client *client;
    struct hf_reflist in_client; /* in client->owners */
    hf_ref recent;               /* its newest locks, in a ring (own.c); 0: none */
    hf_ref locks;                /* the root of the tree of its other locks */
    struct hf_waiting *waiting;
    uint32_t refs; /* locks, removed locks that an undo may bring back, waiters, requests at work */
    uint32_t n_locks;
    int32_t svid;
    uint16_t oh_len;
    uint8_t n_recent;
    uint8_t oh[];
};

struct hf_file {
    struct hf_refmap_node node;        /* in table->files */
    struct hf_itree exclusive, shared; /* locks */
    struct hf_file_queue *queue;
    uint64_t seq;  /* last batch that changed its locks */
    uint32_t refs; /* as for owners; shares as well */
    uint32_t n_locks;
    uint16_t export_rule; /* index of the rule that fits; n_export_rules: none, "default" */
    uint16_t fh_len;
    uint8_t fh[];
};

/* A reservation by SHARE: what its owner may do with the file, and what others may not. */
struct hf_share {
    uint64_t id;
    struct hf_map_node node; /* in table->shares, by file, client and owner handle */
    struct hf_list in_file;
    struct hf_list in_client;
    struct hf_client *client;
    struct hf_file *file;
    uint8_t *oh; /* owned */
    uint32_t oh_len;
    uint32_t life; /* shares of a client are in the order of their lives */
    uint8_t mode, access;
    struct hf_behind behind; /* its record; when it is gone, nothing else is left of the share */
};

/*
 * What a module further down wants to know of locks (claims): the lock was removed, but that can be
 * undone; is held again, or is gone for good; was never there. Until it is gone or back, the lock's
 * node belongs to the watcher.
 */
struct hf_table_watch {
    void (*left)(struct hf_core *core, struct hf_lock *lock);
    void (*back)(struct hf_core *core, struct hf_lock *lock);
    void (*gone)(struct hf_core *core, struct hf_lock *lock);
    void (*discarded)(struct hf_core *core, struct hf_lock *lock);
};

struct hf_table {
    const struct hf_table_watch *watch; /* NULL: there is none */
    struct hf_refmap owners, files;
    struct hf_map shares;
    struct hf_list woken;  /* of hf_file_queue: files with waiters to look at */
    struct hf_list review; /* of hf_waiting: owners whose waits may have closed a cycle */
    struct hf_slab lock_slab, share_slab, waiting_slab, queue_slab;
    struct hf_flex owner_flex, file_flex;
    struct hf_waiting no_waiting;  /* always empty */
    struct hf_file_queue no_queue; /* always empty */
    uint64_t n_locks, n_shares, n_waiters;
    struct hf_limits highest; /* for an UNLOCK (limits.c): since the start, and what was loaded */
    uint64_t work; /* locks, waiters, owners, shares and clients visited so far (hf_core_work()) */
};

int hf_table_init(struct hf_core *core);
void hf_table_free(struct hf_core *core);

/* Owners and files: find returns NULL if there is none; get makes it and returns a reference. */
struct hf_owner *hf_owner_find(struct hf_core *core, struct hf_client *client, int32_t svid,
                               struct hf_bytes oh);
struct hf_owner *hf_owner_get(struct hf_core *core, struct hf_client *client, int32_t svid,
                              struct hf_bytes oh);
void hf_owner_unref(struct hf_core *core, struct hf_owner *owner);
int hf_owner_ensure_waiting(struct hf_core *core, struct hf_owner *owner);

/* The owner began to wait, or got or lost a lock: hf_waiters_serve() looks for cycles of waiters.
 */
void hf_owner_review_later(struct hf_core *core, struct hf_owner *owner);
struct hf_bytes hf_owner_oh(const struct hf_owner *owner);

static inline struct hf_owner *hf_lock_owner(const struct hf_lock *lock)
{
    return lock->node.tag;
}

static inline struct hf_file *hf_lock_file(const struct hf_lock *lock)
{
    return hf_at_some(lock->file);
}

static inline bool hf_owner_has_locks(const struct hf_owner *owner)
{
    return owner->recent || owner->locks;
}

struct hf_file *hf_file_find(const struct hf_core *core, struct hf_bytes fh);
struct hf_file *hf_file_get(struct hf_core *core, struct hf_bytes fh);
void hf_file_unref(struct hf_core *core, struct hf_file *file);
int hf_file_ensure_queue(struct hf_core *core, struct hf_file *file);
struct hf_bytes hf_file_fh(const struct hf_file *file);
bool hf_file_is_foreign(const struct hf_core *core, struct hf_bytes fh,
                        struct hf_bytes *export_name);
struct hf_bytes hf_file_export_name(const struct hf_core *core, const struct hf_file *file);

/* Waiters that want part of this range are looked at when the request at work ends. */
void hf_file_wake(struct hf_core *core, struct hf_file *file, uint64_t first, uint64_t last);

/* What a request wants of a file. */
struct hf_want {
    struct hf_owner *owner;
    uint64_t first, last;
    bool exclusive;
    bool durable;
    uint32_t life;  /* that asks; 0: that of the locks in the range, or else the current one */
    bool unclaimed; /* hf_table_set() puts back what is still to be reclaimed */
};

/*
 * A lock of another owner that conflicts, and the next one after it; NULL: none. Exclusive locks
 * come before shared ones, and each kind is in the order of its first byte.
 */
struct hf_lock *hf_table_conflict(const struct hf_core *core, const struct hf_file *file,
                                  const struct hf_want *want);
struct hf_lock *hf_table_conflict_next(const struct hf_core *core, const struct hf_lock *lock,
                                       const struct hf_want *want);

/* The owner's own locks that overlap [first, last], in order; after NULL: the first one. */
struct hf_lock *hf_table_own(const struct hf_core *core, const struct hf_file *file,
                             const struct hf_owner *owner, uint64_t first, uint64_t last,
                             const struct hf_lock *after);

/* All locks of a client, owner by owner; after NULL: the first one. */
struct hf_lock *hf_client_next_lock(const struct hf_core *core, const struct hf_client *client,
                                    const struct hf_lock *after);

/* The locks of an owner, in any order; after NULL: the first one. */
struct hf_lock *hf_owner_next_lock(const struct hf_core *core, const struct hf_owner *owner,
                                   const struct hf_lock *after);

/* The lock's place in the tree of its owner's locks: not below one with a smaller priority. */
uint32_t hf_lock_priority(const struct hf_core *core, const struct hf_lock *lock);

/*
 * The lock is held, but a release of its client is in progress that will take it
 * (recovery/pending_release.c). Nothing may be granted because of it, and nothing that is granted
 * may become part of it. The rule holds for a share as well.
 */
bool hf_lock_is_releasing(const struct hf_lock *lock);
bool hf_share_is_releasing(const struct hf_share *share);

/* The owner holds all of the range in this mode; exclusive also serves shared, unless exact_mode.
 */
bool hf_table_covers(const struct hf_core *core, const struct hf_file *file,
                     const struct hf_want *want, bool exact_mode);

/*
 * Changes, in a transaction on the file; HF_ENOMEM: the caller aborts it. Afterwards the owner
 * holds all of the range in the wanted mode (split, merge, upgrade, downgrade); all of it in that
 * mode or a stronger one; none of it; not this lock.
 */
int hf_table_set(struct hf_txn *txn, struct hf_file *file, const struct hf_want *asked);
int hf_table_add(struct hf_txn *txn, struct hf_file *file, const struct hf_want *asked);
int hf_table_clear(struct hf_txn *txn, struct hf_file *file, struct hf_owner *owner, uint64_t first,
                   uint64_t last);
int hf_table_drop(struct hf_txn *txn, struct hf_lock *lock);

/* The lock was reclaimed by its own life (in a transaction); it is to be reclaimed (without). */
int hf_lock_claim(struct hf_txn *txn, struct hf_lock *lock);
void hf_lock_set_unclaimed(struct hf_core *core, struct hf_lock *lock, bool unclaimed);

/* A lock that was recorded before the restart: without a record or undo. HF_ENOMEM. */
int hf_lock_load(struct hf_core *core, struct hf_file *file, struct hf_owner *owner,
                 const struct hf_record_lock *record, bool unclaimed);

/*
 * Fetches into the processor's cache what a record that is soon to be loaded will touch, and
 * changes nothing: in several steps, with those of other records in between.
 */
enum { HF_LOCK_FETCH_STEPS = 4 };

struct hf_lock_fetch {
    uint64_t owner, file; /* hashes, from step 0 on */
};

void hf_lock_fetch(const struct hf_core *core, const struct hf_record_lock *record,
                   struct hf_lock_fetch *fetch, unsigned step);

/* The lock ends with the core: without a record or undo. */
void hf_lock_discard(struct hf_core *core, struct hf_lock *lock);
void hf_lock_record(const struct hf_core *core, const struct hf_lock *lock,
                    struct hf_record_lock *out);

struct hf_share *hf_share_find(const struct hf_core *core, const struct hf_file *file,
                               const struct hf_client *client, struct hf_bytes oh);

/* A share with this mode and access conflicts with another one than own (NULL: with any). */
bool hf_share_conflicts(const struct hf_file *file, const struct hf_share *own, uint32_t mode,
                        uint32_t access);

/* A new share has mode and access 0. */
struct hf_share *hf_share_add(struct hf_core *core, struct hf_client *client, struct hf_file *file,
                              struct hf_bytes oh);
void hf_share_set(struct hf_core *core, struct hf_share *share, uint32_t mode, uint32_t access);

/* A share that was recorded before the restart, which continues. HF_ENOMEM. */
int hf_share_load(struct hf_core *core, struct hf_client *client, struct hf_file *file,
                  const struct hf_record_lock *record);

/* The client has asked for it once more: the share is of its current life. */
void hf_share_renew(struct hf_core *core, struct hf_share *share);
void hf_share_drop(struct hf_core *core, struct hf_share *share);

/*
 * Limits on all that peers can make grow (SPEC section 4): 0, or HF_ELIMIT, which is counted. By
 * one waiter of the owner in the queue; by one share of the client; by as many locks as a
 * LOCK, a reclaim or an UNLOCK would add. UNLOCK and reclaims may exceed the limits on locks by
 * limits.beyond.
 */
int hf_limit_wait(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);
int hf_limit_one(struct hf_core *core, const struct hf_client *client, const struct hf_file *file);
int hf_limit_lock(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);
int hf_limit_reclaim(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);

/* New limits; a lock was loaded. An UNLOCK is never held up by limits that were lowered. */
void hf_limits_raise(struct hf_core *core, const struct hf_limits *limits);
void hf_limits_loaded(struct hf_core *core, const struct hf_lock *lock);
/* A grant after a wait may exceed the limits: it fills the gaps between its owner's locks. */
void hf_limits_granted(struct hf_core *core, const struct hf_owner *owner,
                       const struct hf_file *file);
int hf_limit_unlock(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);

#endif
