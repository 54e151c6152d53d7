/*
 * The locks held on a file, and the POSIX rules for one owner's share of them (NLM-02): a new lock
 * replaces whatever that owner held in the range, in one step; what is left over on either side
 * stays (split); neighbours that are alike become one (merge).
 *
 * Finding the owner's own locks. The file's tree finds those that overlap a range, whoever holds
 * them; that is slow where thousands share a range. The owner's list finds them, whatever the
 * range; that is slow for an owner of thousands. So: the list for owners of few locks, else both in
 * step, until one of them knows.
 *
 * Ids and records. A lock that is merely resized keeps its id, so its record is overwritten rather
 * than deleted and written anew.
 */
#include "core/parts.h"

enum { OWNER_OF_FEW = 16 };

static struct hf_lock *lock_of(struct hf_itree_node *node)
{
    return node ? hf_container_of(node, struct hf_lock, node) : NULL;
}

/* Two different owners may not both have this. */
static bool in_the_way(const struct hf_lock *lock, const struct hf_want *want)
{
    if (lock->owner == want->owner)
        return false;
    if (HF_PLANTED(RANGE_OFF_BY_ONE) && want->first == lock->node.last)
        return false;
    if (HF_PLANTED(SHARED_IS_EXCLUSIVE_BLIND) && !want->exclusive)
        return false;
    return want->exclusive || lock->exclusive;
}

static struct hf_lock *first_in_the_way(struct hf_itree_node *node, const struct hf_want *want)
{
    while (node && !in_the_way(lock_of(node), want))
        node = hf_itree_overlap_next(node, want->first, want->last);
    return lock_of(node);
}

struct hf_lock *hf_held_conflict(const struct hf_file *file, const struct hf_want *want)
{
    if (!want->exclusive && file->n_exclusive == 0)
        return NULL; /* readers among readers */
    return first_in_the_way(hf_itree_overlap(&file->locks, want->first, want->last), want);
}

struct hf_lock *hf_held_conflict_next(const struct hf_lock *lock, const struct hf_want *want)
{
    return first_in_the_way(hf_itree_overlap_next(&lock->node, want->first, want->last), want);
}

/* What is asked for: the first of the owner's locks on the file in the range, behind one of them.
 */
struct own {
    const struct hf_file *file;
    const struct hf_owner *owner;
    uint64_t first, last;
    const struct hf_lock *after; /* NULL: from the beginning */
};

/* The better of this lock and the best so far. */
static struct hf_lock *better(const struct own *own, struct hf_lock *lock, struct hf_lock *best)
{
    if (lock->file != own->file ||
        !hf_range_overlap(lock->node.first, lock->node.last, own->first, own->last) ||
        (own->after && lock->node.first <= own->after->node.first))
        return best;
    return !best || lock->node.first < best->node.first ? lock : best;
}

static struct hf_lock *own_in_list(const struct own *own)
{
    struct hf_lock *best = NULL;

    hf_list_foreach (node, &own->owner->locks)
        best = better(own, hf_list_entry(node, struct hf_lock, in_owner), best);
    return best;
}

/* Costs twice the cheaper of the two: the owner's locks, or those in the range up to its first. */
static struct hf_lock *own_in_either(const struct own *own)
{
    struct hf_itree_node *node =
        own->after ? hf_itree_overlap_next(&own->after->node, own->first, own->last)
                   : hf_itree_overlap(&own->file->locks, own->first, own->last);
    struct hf_lock *best = NULL;

    hf_list_foreach (link, &own->owner->locks) {
        if (!node || lock_of(node)->owner == own->owner)
            return lock_of(node);
        node = hf_itree_overlap_next(node, own->first, own->last);
        best = better(own, hf_list_entry(link, struct hf_lock, in_owner), best);
    }
    return best;
}

struct hf_lock *hf_held_own(const struct hf_file *file, const struct hf_owner *owner,
                            uint64_t first, uint64_t last, const struct hf_lock *after)
{
    const struct own own = {file, owner, first, last, after};

    if (owner->n_locks == 0)
        return NULL;
    return owner->n_locks <= OWNER_OF_FEW ? own_in_list(&own) : own_in_either(&own);
}

bool hf_held_covers(const struct hf_file *file, const struct hf_want *want, bool exact_mode)
{
    uint64_t next = want->first; /* everything before this byte is held */
    struct hf_lock *lock = NULL;

    while ((lock = hf_held_own(file, want->owner, want->first, want->last, lock)) != NULL) {
        if (lock->node.first > next || (want->exclusive && !lock->exclusive) ||
            (exact_mode && want->exclusive != lock->exclusive))
            return false;
        if (lock->node.last >= want->last)
            return true;
        next = lock->node.last + 1;
    }
    return false;
}

/* --- one lock into and out of the lists and counts --- */

struct hf_lock *hf_lock_new(struct hf_core *core, uint64_t id, struct hf_file *file,
                            const struct hf_want *want, int64_t acquired_at_ms)
{
    struct hf_lock *lock = hf_slab_take(&core->lock_slab);

    if (!lock)
        return NULL;
    *lock = (struct hf_lock){
        .id = id,
        .node = {.first = want->first, .last = want->last},
        .owner = want->owner,
        .file = file,
        .acquired_at_ms = acquired_at_ms,
        .exclusive = want->exclusive,
        .durable = want->durable,
    };
    want->owner->refs++;
    file->refs++;
    return lock;
}

void hf_lock_forget(struct hf_core *core, struct hf_lock *lock)
{
    hf_owner_unref(core, lock->owner);
    hf_file_unref(core, lock->file);
    hf_slab_give(&core->lock_slab, lock);
}

static void count_unclaimed(struct hf_core *core, const struct hf_lock *lock, bool more)
{
    if (!lock->unclaimed)
        return;
    HF_ASSERT(more || (core->n_unclaimed > 0 && lock->owner->client->n_unclaimed > 0));
    core->n_unclaimed += more ? 1 : UINT64_MAX;
    lock->owner->client->n_unclaimed += more ? 1 : UINT32_MAX;
}

void hf_lock_link(struct hf_core *core, struct hf_lock *lock)
{
    struct hf_client *client = lock->owner->client;

    hf_itree_insert(&lock->file->locks, &lock->node);
    hf_list_add_tail(&lock->owner->locks, &lock->in_owner);
    hf_list_add_tail(&client->locks, &lock->in_client);
    lock->file->n_locks++;
    lock->file->n_exclusive += lock->exclusive;
    lock->owner->n_locks++;
    client->n_locks++;
    core->n_locks++;
    count_unclaimed(core, lock, true);
}

void hf_lock_unlink(struct hf_core *core, struct hf_lock *lock)
{
    struct hf_client *client = lock->owner->client;

    hf_itree_remove(&lock->file->locks, &lock->node);
    hf_list_remove(&lock->in_owner);
    hf_list_remove(&lock->in_client);
    lock->file->n_locks--;
    lock->file->n_exclusive -= lock->exclusive;
    lock->owner->n_locks--;
    client->n_locks--;
    core->n_locks--;
    count_unclaimed(core, lock, false);
    hf_waiters_wake(core, lock->file, lock->node.first, lock->node.last);
}

void hf_lock_set_unclaimed(struct hf_core *core, struct hf_lock *lock, bool unclaimed)
{
    count_unclaimed(core, lock, false);
    lock->unclaimed = unclaimed;
    count_unclaimed(core, lock, true);
}

void hf_lock_record(const struct hf_core *core, const struct hf_lock *lock,
                    struct hf_record_lock *out)
{
    *out = (struct hf_record_lock){
        .id = lock->id,
        .client_id = lock->owner->client->id,
        .share = hf_file_share_name(core, lock->file),
        .fh = hf_file_fh(lock->file),
        .oh = hf_owner_oh(lock->owner),
        .svid = lock->owner->svid,
        .first = lock->node.first,
        .last = lock->node.last,
        .exclusive = lock->exclusive,
        .acquired_at_ms = lock->acquired_at_ms,
        .epoch = lock->id >> 40, /* hf_record_first_id() */
    };
}

/* --- logged changes --- */

static int add(struct hf_txn *txn, const struct hf_want *want, uint64_t id, int64_t acquired_at_ms,
               bool unclaimed, bool recorded)
{
    struct hf_core *core = txn->core;
    struct hf_record_lock record;
    struct hf_lock *lock;

    if (hf_undo_reserve(core) < 0)
        return HF_ENOMEM;
    lock = hf_lock_new(core, id, txn->file, want, acquired_at_ms);
    if (!lock)
        return HF_ENOMEM;
    lock->unclaimed = unclaimed;
    hf_lock_link(core, lock);
    hf_undo_push(core, (struct hf_undo){HF_UNDO_LOCK_ADDED, .lock = lock});
    if (!lock->durable || !recorded)
        return 0;
    hf_lock_record(core, lock, &record);
    return hf_batch_put_lock(hf_core_gathering(core), &record);
}

/*
 * The object stays, in the log, until its removal is settled. What can fail comes first: a lock
 * that could not be taken out keeps its place in the lists, so loops over them come to an end.
 */
static int take_out(struct hf_txn *txn, struct hf_lock *lock, bool keep_record)
{
    struct hf_core *core = txn->core;

    if (hf_undo_reserve(core) < 0)
        return HF_ENOMEM;
    if (lock->durable && !keep_record &&
        hf_batch_delete(hf_core_gathering(core), HF_RECORD_LOCK, lock->id) < 0)
        return HF_ENOMEM;
    hf_lock_unlink(core, lock);
    hf_undo_push(core, (struct hf_undo){HF_UNDO_LOCK_REMOVED, .lock = lock});
    return 0;
}

int hf_held_drop(struct hf_txn *txn, struct hf_lock *lock)
{
    return take_out(txn, lock, false);
}

/* What was left of a lock that is already out, under the given id. */
static int add_rest(struct hf_txn *txn, const struct hf_lock *lock, uint64_t id, uint64_t first,
                    uint64_t last)
{
    struct hf_want rest = {lock->owner, first, last, lock->exclusive, lock->durable};

    return add(txn, &rest, id, lock->acquired_at_ms, lock->unclaimed, true);
}

/* Cuts [first, last] out of a lock. With donor the record is left for another lock to take over. */
static int carve(struct hf_txn *txn, struct hf_lock *lock, uint64_t first, uint64_t last,
                 bool donor)
{
    bool left = lock->node.first < first && !HF_PLANTED(UNLOCK_WHOLE);
    bool right = lock->node.last > last && !HF_PLANTED(UNLOCK_WHOLE);
    uint64_t right_id = left ? hf_core_new_id(txn->core) : lock->id;

    if (take_out(txn, lock, left || right || donor) < 0 ||
        (left && add_rest(txn, lock, lock->id, lock->node.first, first - 1) < 0) ||
        (right && add_rest(txn, lock, right_id, last + 1, lock->node.last) < 0))
        return HF_ENOMEM;
    return 0;
}

bool hf_held_splits(const struct hf_file *file, const struct hf_want *want)
{
    const struct hf_lock *lock = hf_held_own(file, want->owner, want->first, want->last, NULL);

    return lock && lock->node.first < want->first && lock->node.last > want->last;
}

int hf_held_clear(struct hf_txn *txn, struct hf_owner *owner, uint64_t first, uint64_t last)
{
    struct hf_lock *lock = hf_held_own(txn->file, owner, first, last, NULL);
    struct hf_lock *next;

    for (; lock; lock = next) {
        next = hf_held_own(txn->file, owner, first, last, lock);
        if (carve(txn, lock, first, last, false) < 0)
            return HF_ENOMEM;
    }
    return 0;
}

/* The lock being put together by hf_held_set(). */
struct whole {
    struct hf_want want;
    uint64_t id; /* taken over from a lock it replaces; 0: from none */
    int64_t acquired_at_ms;
    bool upgraded;
};

/* Of a life that its client has perhaps left behind: nothing of the new one is built on it. */
static bool is_former(const struct hf_lock *lock)
{
    return lock->id < lock->owner->client->hint_id;
}

static bool alike(const struct hf_lock *lock, const struct hf_want *want)
{
    return lock->exclusive == want->exclusive && lock->durable == want->durable &&
           !lock->unclaimed && !is_former(lock);
}

/* One of the owner's locks touches the whole: merge it, cut it, or, if it only borders, leave it.
 */
static int absorb(struct hf_txn *txn, const struct hf_want *asked, struct whole *whole,
                  struct hf_lock *lock)
{
    bool inside = lock->node.first >= asked->first && lock->node.last <= asked->last;
    bool merges = alike(lock, &whole->want);
    bool donor = whole->id == 0 && lock->durable == whole->want.durable &&
                 (merges || (inside && !is_former(lock)));

    if (!merges && !hf_range_overlap(lock->node.first, lock->node.last, asked->first, asked->last))
        return 0;
    if (donor) {
        whole->id = lock->id;
        whole->upgraded = asked->exclusive && !lock->exclusive;
        if (merges)
            whole->acquired_at_ms = lock->acquired_at_ms;
    }
    if (!merges)
        return carve(txn, lock, asked->first, asked->last, donor);
    if (lock->node.first < whole->want.first)
        whole->want.first = lock->node.first;
    if (lock->node.last > whole->want.last)
        whole->want.last = lock->node.last;
    return take_out(txn, lock, donor);
}

/* An NM_LOCK over what the owner holds durably does not make that less durable. */
static bool any_durable(const struct hf_file *file, const struct hf_want *want)
{
    struct hf_lock *lock = NULL;

    while ((lock = hf_held_own(file, want->owner, want->first, want->last, lock)) != NULL) {
        if (lock->durable)
            return true;
    }
    return false;
}

/* The owner's first lock that overlaps or borders on what is asked, or the next one after it. */
static struct hf_lock *own_around(const struct hf_file *file, const struct hf_want *asked,
                                  const struct hf_lock *after)
{
    uint64_t low = asked->first > 0 ? asked->first - 1 : 0;
    uint64_t high = asked->last < UINT64_MAX ? asked->last + 1 : UINT64_MAX;

    return hf_held_own(file, asked->owner, low, high, after);
}

/* What is asked is part of this lock already. */
static bool is_part_of(const struct hf_want *asked, const struct hf_lock *lock)
{
    return alike(lock, asked) && lock->node.first <= asked->first && lock->node.last >= asked->last;
}

int hf_held_growth(const struct hf_file *file, const struct hf_want *want)
{
    struct hf_want asked = *want;
    struct hf_lock *lock = NULL;
    int growth = 1;

    asked.durable = want->durable || any_durable(file, want);
    while ((lock = own_around(file, &asked, lock)) != NULL) {
        if (is_part_of(&asked, lock))
            return 0;
        if (alike(lock, &asked))
            growth--;
        else if (hf_range_overlap(lock->node.first, lock->node.last, asked.first, asked.last))
            growth += (lock->node.first < asked.first) + (lock->node.last > asked.last) - 1;
    }
    return growth;
}

int hf_held_set(struct hf_txn *txn, const struct hf_want *asked)
{
    struct whole whole = {.want = *asked, .acquired_at_ms = txn->now.wall_ms};
    struct hf_lock *lock = own_around(txn->file, asked, NULL);
    struct hf_lock *next;

    if (lock && !asked->durable)
        whole.want.durable = any_durable(txn->file, asked);
    if (lock && is_part_of(&whole.want, lock))
        return 0; /* it holds just that already */
    for (; lock; lock = next) {
        next = own_around(txn->file, asked, lock);
        if (absorb(txn, asked, &whole, lock) < 0)
            return HF_ENOMEM;
    }
    if (whole.id == 0)
        whole.id = hf_core_new_id(txn->core);
    return add(txn, &whole.want, whole.id, whole.acquired_at_ms, false,
               !(HF_PLANTED(UPGRADE_NOT_RECORDED) && whole.upgraded));
}
