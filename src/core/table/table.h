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
 * There may be millions of locks, each with an owner and a file of its own, so these three
 * structures are kept small: 80, 56 and 44 bytes, plus the owner handle or file handle. Trees,
 * lists and hash tables link them by references into the arena, which are half the size of a
 * pointer (base/arena.h).
 */
struct hf_lock {
    /* The id; its upper bits are the epoch in which the lock was granted. Must come first: the slab
     * requires an id there. */
    uint64_t id;
    /* The lock's node in file->exclusive or file->shared; its tag is the owner. */
    struct hf_itree_node node;
    hf_ref file;   /* the file that is locked; read this through hf_lock_file() */
    uint32_t life; /* the life of the client that the lock belongs to (clients.h) */
    /* The lock's children in owner->locks, or its neighbours in owner->recent. */
    hf_ref own_left, own_right;
    /* When the lock was granted, by the wall clock; 43 bits last until the year 2109. */
    int64_t acquired_at_ms : 43;
    bool recent : 1; /* the lock is in the ring owner->recent */
    bool held : 1;   /* the lock is held; otherwise it was removed, and only the undo log has it */
    bool exclusive : 1;
    bool durable : 1;   /* the lock has a record in the store, or will have */
    bool unclaimed : 1; /* the lock was held before our restart, and is not reclaimed yet */
    /* The lock's ending was told (ending.h), but an undo may bring the lock back. */
    bool told : 1;
    bool ambiguous : 1; /* after a restart, the lock's id would place it in another life */
};

/*
 * There may be millions of owners and files, and few of them have waiters or shares. So what
 * belongs to waiting is kept in structures of its own. All owners that wait for nothing share one
 * empty hf_waiting (table->no_waiting), and all files without waiters and shares one empty
 * hf_file_queue (table->no_queue), so a reader need not test for NULL. Call
 * hf_owner_ensure_waiting() or hf_file_ensure_queue() before adding to either.
 */
struct hf_waiting {
    struct hf_owner *owner;
    struct hf_list waiters; /* the owner's waiters, including those whose callback is in flight */
    uint32_t n_waiters;     /* how many waiters the owner has */
    struct hf_list review;  /* links the owner into table->review */

    /* The following fields serve one search for a cycle (wait/deadlock.c). */
    struct hf_owner *suspect_next;
    uint64_t suspect_round;
    struct hf_waiter *suspect_via;
    bool suspect_queued;
};

enum { HF_SHARE_MODES = 4 }; /* four DOS open modes: none, read, write, both */

struct hf_file_queue {
    struct hf_file *file;
    struct hf_list waiters; /* the waiters, ordered by id: first come, first served */
    struct hf_list shares;

    /*
     * Serving (wait/serve.c). The queue is in table->woken while a range is free that a waiter may
     * want. A pass over the waiters can take several ticks. A range that becomes free meanwhile
     * waits for the next pass, so that even a file that is woken all the time is served to the end
     * of its queue.
     */
    struct hf_list woken;
    uint64_t woken_first, woken_last; /* the range for the next pass, if has_range is set */
    uint64_t pass_first, pass_last;   /* the range for the pass in progress */
    /* The next waiter of the pass in progress; NULL: no pass is in progress. */
    struct hf_list *resume;
    bool has_range;

    uint32_t n_waiters; /* how many waiters are in the file's queue */
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
    /* References by locks, by removed locks that an undo may bring back, by waiters, and by
     * requests at work. */
    uint32_t refs;
    uint32_t n_locks;
    int32_t svid;
    uint16_t oh_len;
    uint8_t n_recent;
    uint8_t oh[];
};

struct hf_file {
    struct hf_refmap_node node;        /* the file's node in table->files */
    struct hf_itree exclusive, shared; /* the locks on the file, by their mode */
    struct hf_file_queue *queue;
    uint64_t seq;  /* the last batch that changed the file's locks */
    uint32_t refs; /* counts references like those to an owner, and shares */
    uint32_t n_locks;
    /* The index of the export rule that fits the file; n_export_rules: none does ("default"). */
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
    uint8_t *oh; /* the owner handle, in memory of the share's own */
    uint32_t oh_len;
    uint32_t life; /* the life that the share belongs to; a client's shares are in order of life */
    uint8_t mode, access;
    /* The share's record, which is written behind and may outlive the share. */
    struct hf_behind behind;
};

/*
 * Lets a module further down (claims) know what happens to a lock: left(), it was removed, which an
 * undo can take back; back(), that undo happened; gone(), the removal is final; discarded(), an
 * undo or the end of the core deleted the lock. Between left() and back() or gone() the lock's node
 * belongs to the watcher.
 */
struct hf_table_watch {
    void (*left)(struct hf_core *core, struct hf_lock *lock);
    void (*back)(struct hf_core *core, struct hf_lock *lock);
    void (*gone)(struct hf_core *core, struct hf_lock *lock);
    void (*discarded)(struct hf_core *core, struct hf_lock *lock);
};

struct hf_table {
    /* Functions that hear what happens to locks; NULL: nobody listens. */
    const struct hf_table_watch *watch;
    struct hf_refmap owners, files;
    struct hf_map shares;
    struct hf_list woken;  /* files with waiters to be served (hf_file_queue) */
    struct hf_list review; /* owners whose waits may close a cycle (hf_waiting) */
    struct hf_slab lock_slab, share_slab, waiting_slab, queue_slab;
    struct hf_flex owner_flex, file_flex;
    struct hf_waiting no_waiting;  /* always empty */
    struct hf_file_queue no_queue; /* always empty */
    uint64_t n_locks, n_shares, n_waiters;
    /* How many recorded locks would belong to another life after a restart (REC-01j). */
    uint64_t n_ambiguous;
    /*
     * The highest limits since the start, or what was loaded if that is more; an UNLOCK may go up
     * to these (limits.c).
     */
    struct hf_limits highest;
    /* How many locks, waiters, owners, shares and clients were visited so far (hf_core_work()). */
    uint64_t work;
};

int hf_table_init(struct hf_core *core);
void hf_table_free(struct hf_core *core);

/*
 * For owners and files: find returns NULL if there is none; get makes it if necessary, and returns
 * a reference.
 */
struct hf_owner *hf_owner_find(struct hf_core *core, struct hf_client *client, int32_t svid,
                               struct hf_bytes oh);
struct hf_owner *hf_owner_get(struct hf_core *core, struct hf_client *client, int32_t svid,
                              struct hf_bytes oh);
void hf_owner_unref(struct hf_core *core, struct hf_owner *owner);
int hf_owner_ensure_waiting(struct hf_core *core, struct hf_owner *owner);

/* Notes that the owner began to wait, or got or lost a lock, so that hf_waiters_serve() looks for a
 * cycle of waiters. */
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

/* Has waiters for a part of this range looked at when the request at work ends. */
void hf_file_wake(struct hf_core *core, struct hf_file *file, uint64_t first, uint64_t last);

/* What a request wants of a file: a range, in which mode, for whom. */
struct hf_want {
    struct hf_owner *owner;
    uint64_t first, last;
    bool exclusive;
    bool durable;
    /* The client's life that asks; 0: the life of the locks in the range, or else the current
     * one. */
    uint32_t life;
    bool unclaimed; /* the lock is put back as one that is still to be reclaimed */
};

/* Return a lock of another owner that conflicts, and the next one after it; NULL: there is none.
 * Exclusive locks come before shared ones, and each kind comes in the order of first bytes. */
struct hf_lock *hf_table_conflict(const struct hf_core *core, const struct hf_file *file,
                                  const struct hf_want *want);
struct hf_lock *hf_table_conflict_next(const struct hf_core *core, const struct hf_lock *lock,
                                       const struct hf_want *want);

/* Returns the owner's first lock that overlaps [first, last] (`after` NULL), or the one that
 * follows `after`. */
struct hf_lock *hf_table_own(const struct hf_core *core, const struct hf_file *file,
                             const struct hf_owner *owner, uint64_t first, uint64_t last,
                             const struct hf_lock *after);

/* Walks all locks of a client, owner by owner; `after` is NULL for the first one. */
struct hf_lock *hf_client_next_lock(const struct hf_core *core, const struct hf_client *client,
                                    const struct hf_lock *after);

/* Walks the locks of an owner, in no particular order; `after` is NULL for the first one. */
struct hf_lock *hf_owner_next_lock(const struct hf_core *core, const struct hf_owner *owner,
                                   const struct hf_lock *after);

/* Returns the lock's priority in the tree of its owner's locks, where no lock is below one with a
 * smaller priority. */
uint32_t hf_lock_priority(const struct hf_core *core, const struct hf_lock *lock);

/*
 * True if the lock or share is held, but a release of its client in progress will take it
 * (recovery/pending_release.c). Nothing may be granted because of it, and nothing that is granted
 * may become part of it.
 */
bool hf_lock_is_releasing(const struct hf_lock *lock);
bool hf_share_is_releasing(const struct hf_share *share);

/* True if the owner holds all of the range in the wanted mode. An exclusive lock also counts as a
 * shared one, unless exact_mode is set. */
bool hf_table_covers(const struct hf_core *core, const struct hf_file *file,
                     const struct hf_want *want, bool exact_mode);

/*
 * These change an owner's locks in a transaction on the file, which the caller aborts after
 * HF_ENOMEM. hf_table_set() gives the owner all of the range in the wanted mode (split, merge,
 * upgrade, downgrade); hf_table_add() all of it in that mode or a stronger one. hf_table_clear()
 * takes all of the range from the owner, hf_table_drop() this one lock.
 */
int hf_table_set(struct hf_txn *txn, struct hf_file *file, const struct hf_want *asked);
int hf_table_add(struct hf_txn *txn, struct hf_file *file, const struct hf_want *asked);
int hf_table_clear(struct hf_txn *txn, struct hf_file *file, struct hf_owner *owner, uint64_t first,
                   uint64_t last);
int hf_table_drop(struct hf_txn *txn, struct hf_lock *lock);

/* hf_lock_claim() notes, in a transaction, that the lock was reclaimed by its own life;
 * hf_lock_set_unclaimed() notes, without one, whether the lock is still to be reclaimed. */
int hf_lock_claim(struct hf_txn *txn, struct hf_lock *lock);
void hf_lock_set_unclaimed(struct hf_core *core, struct hf_lock *lock, bool unclaimed);

/* Marks recorded locks whose removal is not durable yet: if an undo brings them back, they are to
 * be reclaimed. */
void hf_table_unclaim_removed(struct hf_core *core);

/* Loads a lock that was recorded before the restart, without a new record or undo. Returns 0 or
 * HF_ENOMEM. */
int hf_lock_load(struct hf_core *core, struct hf_file *file, struct hf_owner *owner,
                 const struct hf_record_lock *record, bool unclaimed);

/* Fetches into the processor's cache the memory that loading this record will touch, and changes
 * nothing. It takes several steps, with those of other records in between. */
enum { HF_LOCK_FETCH_STEPS = 4 };

struct hf_lock_fetch {
    uint64_t owner, file; /* hashes of the owner and the file, known from step 0 on */
};

void hf_lock_fetch(const struct hf_core *core, const struct hf_record_lock *record,
                   struct hf_lock_fetch *fetch, unsigned step);

/* Deletes a lock without a record or undo: when the core is deleted, or to undo that the lock was
 * added. */
void hf_lock_discard(struct hf_core *core, struct hf_lock *lock);
void hf_lock_record(const struct hf_core *core, const struct hf_lock *lock,
                    struct hf_record_lock *out);

struct hf_share *hf_share_find(const struct hf_core *core, const struct hf_file *file,
                               const struct hf_client *client, struct hf_bytes oh);

/*
 * True if a share with this mode and access would conflict with a share of the file other than
 * `own` (NULL: with any).
 */
bool hf_share_conflicts(const struct hf_file *file, const struct hf_share *own, uint32_t mode,
                        uint32_t access);

/* Makes a share whose mode and access are still 0. */
struct hf_share *hf_share_add(struct hf_core *core, struct hf_client *client, struct hf_file *file,
                              struct hf_bytes oh);
void hf_share_set(struct hf_core *core, struct hf_share *share, uint32_t mode, uint32_t access);

/* Loads a share that was recorded before a restart that continues. Returns 0 or HF_ENOMEM. */
int hf_share_load(struct hf_core *core, struct hf_client *client, struct hf_file *file,
                  const struct hf_record_lock *record);

/* Moves the share into the client's current life, because the client has asked for it again. */
void hf_share_renew(struct hf_core *core, struct hf_share *share);
void hf_share_drop(struct hf_core *core, struct hf_share *share);

/*
 * Check the limits on what peers can make grow (SPEC section 4); they return 0, or HF_ELIMIT, which
 * they count. hf_limit_wait(): one more waiter of the owner in the queue; hf_limit_one(): one more
 * share of the client; hf_limit_lock(), hf_limit_reclaim() and hf_limit_unlock(): the locks that
 * such a request would add. UNLOCK and reclaims may exceed the limits on locks by limits.beyond.
 */
int hf_limit_wait(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);
int hf_limit_one(struct hf_core *core, const struct hf_client *client, const struct hf_file *file);
int hf_limit_lock(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);
int hf_limit_reclaim(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);

/* Notes new limits, so that lowered limits never hold up an UNLOCK. */
void hf_limits_raise(struct hf_core *core, const struct hf_limits *limits);

/*
 * Raise the limits for UNLOCK to what the client and the owner have: after loading, and after a
 * grant to a waiter, which may exceed the limits because it fills the gaps between its owner's
 * locks.
 */
void hf_limits_held(struct hf_core *core, const struct hf_client *client,
                    const struct hf_file *file);
void hf_limits_held_by(struct hf_core *core, const struct hf_owner *owner,
                       const struct hf_file *file);
int hf_limit_unlock(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);

#endif
