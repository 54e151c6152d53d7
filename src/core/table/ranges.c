/*
 * The POSIX rules for the locks of one owner on one file (NLM-02): a new lock replaces whatever the
 * owner held in the range, in one step; what is left on either side stays (split); neighbours that
 * are alike become one lock (merge).
 *
 * A lock that is only resized keeps its id, so its record is overwritten rather than deleted and
 * written anew.
 */
#include "core/clients/clients.h"
#include "core/common/range.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/table/private.h"

/* Adds what is left of a lock that was taken out, under this id. */
static int add_rest(struct hf_txn *txn, const struct hf_lock *lock, uint64_t id, uint64_t first,
                    uint64_t last)
{
    struct hf_want rest = {hf_lock_owner(lock), first,      last,           lock->exclusive,
                           lock->durable,       lock->life, lock->unclaimed};

    return hf_lock_add(txn, hf_lock_file(lock), &rest, id, lock->acquired_at_ms);
}

/* Cuts [first, last] out of a lock; a lock that is being released goes as a whole. With `donor` the
 * record is kept, because another lock takes it over. */
static int carve(struct hf_txn *txn, struct hf_lock *lock, uint64_t first, uint64_t last,
                 bool donor, enum hf_end end)
{
    bool whole = hf_lock_is_releasing(lock);
    bool left = lock->node.first < first && !whole;
    bool right = lock->node.last > last && !whole;
    uint64_t right_id = left ? hf_core_new_id(txn->core) : lock->id;

    if (hf_lock_take_out(txn, lock, left || right || donor) < 0 ||
        (left && add_rest(txn, lock, lock->id, lock->node.first, first - 1) < 0) ||
        (right && add_rest(txn, lock, right_id, last + 1, lock->node.last) < 0))
        return HF_ENOMEM;
    hf_lock_ends(txn->core, lock, first, last, end);
    return 0;
}

bool hf_table_splits(const struct hf_core *core, const struct hf_file *file,
                     const struct hf_want *want)
{
    const struct hf_lock *lock =
        hf_table_own(core, file, want->owner, want->first, want->last, NULL);

    return lock && !hf_lock_is_releasing(lock) && lock->node.first < want->first &&
           lock->node.last > want->last;
}

int hf_table_clear(struct hf_txn *txn, struct hf_file *file, struct hf_owner *owner, uint64_t first,
                   uint64_t last)
{
    const struct hf_core *core = txn->core;
    struct hf_lock *lock = hf_table_own(core, file, owner, first, last, NULL);
    struct hf_lock *next;

    for (; lock; lock = next) {
        next = hf_table_own(core, file, owner, first, last, lock);
        if (carve(txn, lock, first, last, false, txn->end) < 0)
            return HF_ENOMEM;
    }
    return 0;
}

/* The lock being put together by hf_table_set(). */
struct whole {
    struct hf_want want;
    uint64_t id; /* the id that this lock takes over from one that it replaces; 0: none */
    int64_t acquired_at_ms;
};

/* True if the lock can be merged with what is wanted. Locks of different lives of a client stay
 * apart, because a crash notice releases only those of former lives. */
static bool alike(const struct hf_lock *lock, const struct hf_want *want)
{
    return lock->exclusive == want->exclusive && lock->durable == want->durable &&
           lock->unclaimed == want->unclaimed && lock->life == want->life &&
           !hf_lock_is_releasing(lock);
}

/* Merges into the new lock, cuts, or leaves alone one of the owner's locks that overlaps or touches
 * it. */
static int absorb(struct hf_txn *txn, const struct hf_want *asked, struct whole *whole,
                  struct hf_lock *lock)
{
    bool inside = lock->node.first >= asked->first && lock->node.last <= asked->last;
    bool merges = alike(lock, &whole->want);
    bool donor = whole->id == 0 && lock->durable == whole->want.durable &&
                 !hf_lock_is_releasing(lock) &&
                 (merges || (inside && lock->life == whole->want.life));

    if (!merges && !hf_range_overlap(lock->node.first, lock->node.last, asked->first, asked->last))
        return 0;
    if (donor) {
        whole->id = lock->id;
        if (merges)
            whole->acquired_at_ms = lock->acquired_at_ms;
    }
    if (!merges)
        return carve(txn, lock, asked->first, asked->last, donor, HF_END_CONVERTED);
    if (lock->node.first < whole->want.first)
        whole->want.first = lock->node.first;
    if (lock->node.last > whole->want.last)
        whole->want.last = lock->node.last;
    return hf_lock_take_out(txn, lock, donor);
}

/* True if the owner holds some of the range durably: an NM_LOCK over it must then be durable,
 * too. */
static bool any_durable(const struct hf_core *core, const struct hf_file *file,
                        const struct hf_want *want)
{
    struct hf_lock *lock = NULL;

    while ((lock = hf_table_own(core, file, want->owner, want->first, want->last, lock)) != NULL) {
        if (lock->durable)
            return true;
    }
    return false;
}

/*
 * Returns the life that a new lock in the range belongs to: the latest that has a lock there. A
 * delayed request of a former life that overlaps a lock of a later life counts for the later one:
 * losing that lock with a crash notice would be worse than keeping what was requested late.
 */
static uint32_t latest_life(const struct hf_core *core, const struct hf_file *file,
                            const struct hf_want *want)
{
    struct hf_lock *lock = NULL;
    uint32_t life = want->life;
    uint32_t now = want->owner->client->lives.now;

    if (life == now)
        return life;
    while ((lock = hf_table_own(core, file, want->owner, want->first, want->last, lock)) != NULL) {
        if (lock->life > life)
            life = lock->life;
    }
    return life > 0 ? life : now;
}

/* Returns the owner's first lock that overlaps or touches the range (`after` NULL), or the one that
 * follows `after`. */
static struct hf_lock *own_around(const struct hf_core *core, const struct hf_file *file,
                                  const struct hf_want *asked, const struct hf_lock *after)
{
    uint64_t low = asked->first > 0 ? asked->first - 1 : 0;
    uint64_t high = asked->last < UINT64_MAX ? asked->last + 1 : UINT64_MAX;

    return hf_table_own(core, file, asked->owner, low, high, after);
}

/* True if the lock covers the whole range, and has all properties that are asked for. */
static bool is_part_of(const struct hf_want *asked, const struct hf_lock *lock)
{
    return alike(lock, asked) && lock->node.first <= asked->first && lock->node.last >= asked->last;
}

/* Returns the owner's first exclusive lock in the range, which a shared grant must not weaken;
 * NULL: there is none. */
static struct hf_lock *first_exclusive(const struct hf_core *core, const struct hf_file *file,
                                       const struct hf_want *want)
{
    struct hf_lock *lock = NULL;

    while ((lock = hf_table_own(core, file, want->owner, want->first, want->last, lock)) != NULL) {
        if (lock->exclusive && !hf_lock_is_releasing(lock))
            return lock;
    }
    return NULL;
}

/*
 * Adds the range to what the owner holds. A lock that a former life holds exclusively stays
 * exclusive, in case the client did not restart, and becomes a lock of the asking life, so that no
 * crash notice takes it. A lock without a record (NM_LOCK) gets one if the grant is recorded,
 * because the client counts on the grant over a restart. A lock that is still to be reclaimed
 * counts as reclaimed, because the end of grace must not take what was granted.
 */
int hf_table_add(struct hf_txn *txn, struct hf_file *file, const struct hf_want *asked)
{
    struct hf_want rest = *asked;
    const struct hf_lock *lock;

    while (!asked->exclusive && (lock = first_exclusive(txn->core, file, &rest)) != NULL) {
        struct hf_want before = rest, part = rest;
        bool less = lock->life < asked->life || lock->durable < asked->durable || lock->unclaimed;

        part.exclusive = true;
        if (lock->node.first > rest.first)
            part.first = lock->node.first;
        if (lock->node.last < rest.last)
            part.last = lock->node.last;
        before.last = part.first - 1;
        if ((part.first > rest.first && hf_table_set(txn, file, &before) < 0) ||
            (less && hf_table_set(txn, file, &part) < 0))
            return HF_ENOMEM;
        if (part.last == rest.last)
            return 0;
        rest.first = part.last + 1;
    }
    return hf_table_set(txn, file, &rest);
}

int hf_table_growth(const struct hf_core *core, const struct hf_file *file,
                    const struct hf_want *want)
{
    struct hf_want asked = *want;
    struct hf_lock *lock = NULL;
    int growth = 1;

    asked.durable = want->durable || any_durable(core, file, want);
    asked.life = latest_life(core, file, want);
    while ((lock = own_around(core, file, &asked, lock)) != NULL) {
        if (is_part_of(&asked, lock))
            return 0;
        if (alike(lock, &asked))
            growth--;
        else if (hf_range_overlap(lock->node.first, lock->node.last, asked.first, asked.last))
            growth += hf_lock_is_releasing(lock)
                          ? -1
                          : (lock->node.first < asked.first) + (lock->node.last > asked.last) - 1;
    }
    return growth;
}

int hf_table_set(struct hf_txn *txn, struct hf_file *file, const struct hf_want *asked)
{
    const struct hf_core *core = txn->core;
    struct whole whole = {.want = *asked, .acquired_at_ms = txn->now.wall_ms};
    struct hf_lock *lock = own_around(core, file, asked, NULL);
    struct hf_lock *next;

    if (lock && !asked->durable)
        whole.want.durable = any_durable(core, file, asked);
    if (lock || asked->life == 0)
        whole.want.life = latest_life(core, file, asked);
    if (lock && is_part_of(&whole.want, lock))
        return 0; /* the owner holds the whole range in this mode already */
    for (; lock; lock = next) {
        next = own_around(core, file, asked, lock);
        if (absorb(txn, asked, &whole, lock) < 0)
            return HF_ENOMEM;
    }
    if (whole.id == 0)
        whole.id = hf_core_new_id(txn->core);
    return hf_lock_add(txn, file, &whole.want, whole.id, whole.acquired_at_ms);
}
