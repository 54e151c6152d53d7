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
 * lock in a range, are found in O(log n), whatever else is locked. An operation that still has to
 * visit many objects counts them in table->work, so that its caller can be charged, or can stop.
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
 * small: 80, 56 and 44 bytes, and the handles of the latter two. In trees, lists and hash tables
 * they are linked by links of the arena, half the size of a pointer (base/arena.h).
 */
struct hf_lock {
    /* The id, which is also the first word that the slab uses; its upper bits are the epoch in
     * which the lock was granted. */
    uint64_t id;
    /* The lock's node in file->exclusive or file->shared; its tag is the owner. */
    struct hf_itree_node node;
    hf_ref file;                /* is read through hf_lock_file() */
    uint32_t life;              /* the life of its client (clients.h) */
    hf_ref own_left, own_right; /* links in owner->locks, or to its neighbours in owner->recent */
    /* When the lock was granted, by the wall clock; 43 bits last until the year 2109. */
    int64_t acquired_at_ms : 43;
    bool recent : 1; /* the lock is in owner->recent */
    bool held : 1;   /* the lock is held; otherwise it was removed, and is only kept for undo */
    bool exclusive : 1;
    bool durable : 1;   /* the lock has a record */
    bool unclaimed : 1; /* the lock is held from before the restart, and not reclaimed yet */
    bool told : 1;      /* the lock's ending was told (ending.h); it may come back */
    bool ambiguous : 1; /* the lock's id tells another life than its own (clients.h) */
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
    struct hf_list waiters; /* the owner's waiters, those being granted included */
    uint32_t n_waiters;     /* how many waiters the owner has */
    struct hf_list review;  /* links the owner into table->review */

    /* These fields serve one search for a cycle (wait/deadlock.c). */
    struct hf_owner *suspect_next;
    uint64_t suspect_round;
    struct hf_waiter *suspect_via;
    bool suspect_queued;
};

enum { HF_SHARE_MODES = 4 }; /* there are four modes: none, read, write, both */

struct hf_file_queue {
    struct hf_file *file;
    struct hf_list waiters; /* the waiters, ordered by id: first come, first served */
    struct hf_list shares;

    /*
     * Serving (wait/serve.c). The queue is in table->woken when a range became free that a waiter
     * may want. A pass over the waiters can take several ticks; a range that becomes free meanwhile
     * waits for the next pass, so that a file which is woken all the time is still served to the
     * end of its queue.
     */
    struct hf_list woken;
    uint64_t woken_first, woken_last; /* the range for the next pass, if has_range */
    uint64_t pass_first, pass_last;   /* the range of the pass in progress */
    struct hf_list *resume; /* the next waiter of the pass in progress; NULL: none is in progress */
    bool has_range;

    uint32_t n_waiters; /* how many waiters are in the queue */
    uint32_t n_shares;
    /* How many shares there are with each mode and access. */
    uint32_t n_shares_of[HF_SHARE_MODES][HF_SHARE_MODES];
};

struct hf_owner {
    struct hf_refmap_node node; /* the owner's node in table->owners */
    struct hf_client *client;
    struct hf_reflist in_client; /* links the owner into client->owners */
    hf_ref recent; /* the owner's newest locks, in a ring (own.c); 0: there are none */
    hf_ref locks;  /* the root of the tree of the owner's other locks */
    struct hf_waiting *waiting;
    /* Counts locks, removed locks that an undo may bring back, waiters, and requests at work. */
    uint32_t refs;
    uint32_t n_locks;
    int32_t svid;
    uint16_t oh_len;
    uint8_t n_recent;
    uint8_t oh[];
};

struct hf_file {
    struct hf_refmap_node node;        /* the file's node in table->files */
    struct hf_itree exclusive, shared; /* the locks on the file */
    struct hf_file_queue *queue;
    uint64_t seq;  /* the last batch that changed the file's locks */
    uint32_t refs; /* counts references as an owner's refs does, and shares */
    uint32_t n_locks;
    /* The index of the rule that fits; n_export_rules: none does ("default"). */
    uint16_t export_rule;
    uint16_t fh_len;
    uint8_t fh[];
};

/* A reservation by SHARE: what its owner may do with the file, and what others may not. */
struct hf_share {
    uint64_t id;
    /* The share's node in table->shares, by file, client and owner handle. */
    struct hf_map_node node;
    struct hf_list in_file;
    struct hf_list in_client;
    struct hf_client *client;
    struct hf_file *file;
    uint8_t *oh; /* the owner handle, in memory of the share */
    uint32_t oh_len;
    uint32_t life; /* shares of a client are in the order of their lives */
    uint8_t mode, access;
    /* The share's record; when it is gone, nothing else is left of the share. */
    struct hf_behind behind;
};

/*
 * Tells a module further down (claims) what happens to locks: a lock was removed, but that can be
 * undone; it is held again, or gone for good; it was never there. Until it is gone or back, the
 * lock's node belongs to the watcher.
 */
struct hf_table_watch {
    void (*left)(struct hf_core *core, struct hf_lock *lock);
    void (*back)(struct hf_core *core, struct hf_lock *lock);
    void (*gone)(struct hf_core *core, struct hf_lock *lock);
    void (*discarded)(struct hf_core *core, struct hf_lock *lock);
};

struct hf_table {
    const struct hf_table_watch *watch; /* is told of locks; NULL: there is none */
    struct hf_refmap owners, files;
    struct hf_map shares;
    struct hf_list woken;  /* files with waiters to look at (hf_file_queue) */
    struct hf_list review; /* owners whose waits may have closed a cycle (hf_waiting) */
    struct hf_slab lock_slab, share_slab, waiting_slab, queue_slab;
    struct hf_flex owner_flex, file_flex;
    struct hf_waiting no_waiting;  /* always empty */
    struct hf_file_queue no_queue; /* always empty */
    uint64_t n_locks, n_shares, n_waiters;
    /* How many recorded locks would be of another life after a restart (REC-01j). */
    uint64_t n_ambiguous;
    /*
     * The highest limits since the start, and what was loaded; they hold for an UNLOCK (limits.c).
     */
    struct hf_limits highest;
    /* How many locks, waiters, owners, shares and clients were visited so far (hf_core_work()). */
    uint64_t work;
};

int hf_table_init(struct hf_core *core);
void hf_table_free(struct hf_core *core);

/*
 * For owners and files: find returns NULL if there is none; get makes it and returns a reference.
 */
struct hf_owner *hf_owner_find(struct hf_core *core, struct hf_client *client, int32_t svid,
                               struct hf_bytes oh);
struct hf_owner *hf_owner_get(struct hf_core *core, struct hf_client *client, int32_t svid,
                              struct hf_bytes oh);
void hf_owner_unref(struct hf_core *core, struct hf_owner *owner);
int hf_owner_ensure_waiting(struct hf_core *core, struct hf_owner *owner);

/* Notes that the owner began to wait, or got or lost a lock: hf_waiters_serve() looks for cycles of
 * waiters. */
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

/* Lets waiters that want part of this range be looked at when the request at work ends. */
void hf_file_wake(struct hf_core *core, struct hf_file *file, uint64_t first, uint64_t last);

/* What a request wants of a file. */
struct hf_want {
    struct hf_owner *owner;
    uint64_t first, last;
    bool exclusive;
    bool durable;
    /* The life that asks; 0: that of the locks in the range, or else the current one. */
    uint32_t life;
    bool unclaimed; /* hf_table_set() puts back a lock that is still to be reclaimed */
};

/* Return a lock of another owner that conflicts, and the next one after it; NULL: there is none.
 * Exclusive locks come before shared ones, and each kind is in the order of its first byte. */
struct hf_lock *hf_table_conflict(const struct hf_core *core, const struct hf_file *file,
                                  const struct hf_want *want);
struct hf_lock *hf_table_conflict_next(const struct hf_core *core, const struct hf_lock *lock,
                                       const struct hf_want *want);

/* Returns the owner's own locks that overlap [first, last], in order; `after` is NULL for the first
 * one. */
struct hf_lock *hf_table_own(const struct hf_core *core, const struct hf_file *file,
                             const struct hf_owner *owner, uint64_t first, uint64_t last,
                             const struct hf_lock *after);

/* Returns all locks of a client, owner by owner; `after` is NULL for the first one. */
struct hf_lock *hf_client_next_lock(const struct hf_core *core, const struct hf_client *client,
                                    const struct hf_lock *after);

/* Returns the locks of an owner, in any order; `after` is NULL for the first one. */
struct hf_lock *hf_owner_next_lock(const struct hf_core *core, const struct hf_owner *owner,
                                   const struct hf_lock *after);

/* Returns the lock's priority in the tree of its owner's locks: it is not below a lock with a
 * smaller priority. */
uint32_t hf_lock_priority(const struct hf_core *core, const struct hf_lock *lock);

/*
 * True if the lock is held, but a release of its client is in progress that will take it
 * (recovery/pending_release.c). Nothing may be granted because of it, and nothing that is granted
 * may become part of it. The rule holds for a share as well.
 */
bool hf_lock_is_releasing(const struct hf_lock *lock);
bool hf_share_is_releasing(const struct hf_share *share);

/* True if the owner holds all of the range in this mode; exclusive also serves shared, unless
 * exact_mode. */
bool hf_table_covers(const struct hf_core *core, const struct hf_file *file,
                     const struct hf_want *want, bool exact_mode);

/*
 * These change locks in a transaction on the file, which the caller aborts after HF_ENOMEM.
 * Afterwards the owner holds: after set, all of the range in the wanted mode (split, merge,
 * upgrade, downgrade); after add, all of it in that mode or a stronger one; after clear, none of
 * it; after drop, not this lock.
 */
int hf_table_set(struct hf_txn *txn, struct hf_file *file, const struct hf_want *asked);
int hf_table_add(struct hf_txn *txn, struct hf_file *file, const struct hf_want *asked);
int hf_table_clear(struct hf_txn *txn, struct hf_file *file, struct hf_owner *owner, uint64_t first,
                   uint64_t last);
int hf_table_drop(struct hf_txn *txn, struct hf_lock *lock);

/* The first notes, in a transaction, that the lock was reclaimed by its own life; the second,
 * without one, that it is to be reclaimed. */
int hf_lock_claim(struct hf_txn *txn, struct hf_lock *lock);
void hf_lock_set_unclaimed(struct hf_core *core, struct hf_lock *lock, bool unclaimed);

/* Recorded locks whose removal is not durable yet: if they come back, they are to be reclaimed. */
void hf_table_unclaim_removed(struct hf_core *core);

/* Loads a lock that was recorded before the restart, without a record or undo. Returns HF_ENOMEM
 * without memory. */
int hf_lock_load(struct hf_core *core, struct hf_file *file, struct hf_owner *owner,
                 const struct hf_record_lock *record, bool unclaimed);

/* Fetches the memory that a record which is soon to be loaded will touch into the processor's
 * cache, and changes nothing. It takes several steps, with those of other records in between. */
enum { HF_LOCK_FETCH_STEPS = 4 };

struct hf_lock_fetch {
    uint64_t owner, file; /* hashes, which are known from step 0 on */
};

void hf_lock_fetch(const struct hf_core *core, const struct hf_record_lock *record,
                   struct hf_lock_fetch *fetch, unsigned step);

/* Deletes the lock with the core, without a record or undo. */
void hf_lock_discard(struct hf_core *core, struct hf_lock *lock);
void hf_lock_record(const struct hf_core *core, const struct hf_lock *lock,
                    struct hf_record_lock *out);

struct hf_share *hf_share_find(const struct hf_core *core, const struct hf_file *file,
                               const struct hf_client *client, struct hf_bytes oh);

/*
 * True if a share with this mode and access conflicts with another one than own (NULL: with any).
 */
bool hf_share_conflicts(const struct hf_file *file, const struct hf_share *own, uint32_t mode,
                        uint32_t access);

/* Makes a share with mode and access 0. */
struct hf_share *hf_share_add(struct hf_core *core, struct hf_client *client, struct hf_file *file,
                              struct hf_bytes oh);
void hf_share_set(struct hf_core *core, struct hf_share *share, uint32_t mode, uint32_t access);

/* Loads a share that was recorded before the restart, which continues. Returns HF_ENOMEM without
 * memory. */
int hf_share_load(struct hf_core *core, struct hf_client *client, struct hf_file *file,
                  const struct hf_record_lock *record);

/* Makes the share belong to the client's current life, because the client has asked for it once
 * more. */
void hf_share_renew(struct hf_core *core, struct hf_share *share);
void hf_share_drop(struct hf_core *core, struct hf_share *share);

/*
 * Limits on all that peers can make grow (SPEC section 4): 0, or HF_ELIMIT, which is counted. They
 * check one more waiter of the owner in the queue; one more share of the client; as many locks as a
 * LOCK, a reclaim or an UNLOCK would add. UNLOCK and reclaims may exceed the limits on locks by
 * limits.beyond.
 */
int hf_limit_wait(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);
int hf_limit_one(struct hf_core *core, const struct hf_client *client, const struct hf_file *file);
int hf_limit_lock(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);
int hf_limit_reclaim(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);

/* Takes new limits. An UNLOCK is never held up by limits that were lowered. */
void hf_limits_raise(struct hf_core *core, const struct hf_limits *limits);

/*
 * Raise the limits for UNLOCK to what the client, and the owner, has: after it was loaded, and
 * after a grant to a waiter, which may exceed them because it fills the gaps between its owner's
 * locks.
 */
void hf_limits_held(struct hf_core *core, const struct hf_client *client,
                    const struct hf_file *file);
void hf_limits_held_by(struct hf_core *core, const struct hf_owner *owner,
                       const struct hf_file *file);
int hf_limit_unlock(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);

#endif
