#include "store/changes.h"

#include "base/assert.h"
#include "base/error.h"

void hf_changes_init(struct hf_changes *changes, const struct hf_alloc *alloc)
{
    *changes = (struct hf_changes){.alloc = alloc};
}

void hf_changes_free(struct hf_changes *changes)
{
    hf_free(changes->alloc, changes->space);
    hf_free(changes->alloc, changes->ops);
    changes->space = NULL;
    changes->ops = NULL;
}

/* ---- the order of records: by kind, then by id ---- */

/* One operation of the batch: the record that it changes, and its position in the batch. */
struct hf_change {
    uint64_t id;
    uint64_t kind : 8;
    uint64_t at : 56; /* the operation's cursor in its batch */
};

enum { ID_BITS = 64, BYTE_BITS = 8, BYTE_VALUES = 1 << BYTE_BITS };

/* Returns one byte of a change's sort key: a byte of the id or, from ID_BITS on, the kind. */
static uint8_t byte_of(const struct hf_change *change, int shift)
{
    return shift < ID_BITS ? (uint8_t)(change->id >> shift) : change->kind;
}

/* Copies the changes in the order of one byte of their keys. Changes with equal bytes keep their
 * order (one pass of the radix sort). */
static void order_by_byte(struct hf_change *to, const struct hf_change *from, size_t count,
                          int shift)
{
    size_t places[BYTE_VALUES] = {0};
    size_t place = 0;

    for (size_t i = 0; i < count; i++)
        places[byte_of(&from[i], shift)]++;
    for (size_t value = 0; value < BYTE_VALUES; value++) {
        size_t n = places[value];
        places[value] = place;
        place += n;
    }
    for (size_t i = 0; i < count; i++)
        to[places[byte_of(&from[i], shift)]++] = from[i];
}

static bool is_behind(const struct hf_change *a, const struct hf_change *b)
{
    return a->kind > b->kind || (a->kind == b->kind && a->id > b->id);
}

/*
 * Sorts changes by insertion, which is fast if few are out of place. After as many moves as there
 * are changes it gives up, returns false and leaves them in some order. Changes of one record keep
 * their order.
 */
static bool order_in_place(struct hf_change *changes, size_t count)
{
    size_t moved = 0;

    for (size_t i = 1; i < count; i++) {
        struct hf_change change = changes[i];
        size_t place = i;

        for (; place > 0 && is_behind(&changes[place - 1], &change); place--)
            changes[place] = changes[place - 1];
        changes[place] = change;
        moved += i - place;
        if (moved > count)
            return false;
    }
    return true;
}

/*
 * Sorts changes by kind and id. Ids are assigned in ascending order, so a batch of new locks is
 * already sorted, apart from the older locks that it releases: an insertion sort suffices.
 * Otherwise a radix sort is used, from the last byte to the first, with a pass for each byte that
 * differs. (Under load qsort() took three quarters of the store thread's time.)
 *
 * Returns where the sorted changes are: in the first or the second half of the space.
 */
static const struct hf_change *order(struct hf_change *space, size_t count)
{
    struct hf_change *from = space;
    struct hf_change *to = space + count;
    struct hf_change differs = {0};

    if (order_in_place(space, count))
        return space;
    for (size_t i = 1; i < count; i++) {
        differs.id |= space[i].id ^ space[0].id;
        differs.kind |= space[i].kind ^ space[0].kind;
    }
    for (int shift = 0; shift <= ID_BITS; shift += BYTE_BITS) {
        struct hf_change *ordered = to;

        if (byte_of(&differs, shift) == 0)
            continue;
        order_by_byte(to, from, count, shift);
        to = from;
        from = ordered;
    }
    return from;
}

static bool same_record(const struct hf_change *a, const struct hf_change *b)
{
    return a->kind == b->kind && a->id == b->id;
}

/* ---- collapsing ---- */

static int make_room(struct hf_changes *changes, size_t count)
{
    struct hf_change *space;
    struct hf_op *ops;
    size_t size = 2 * count;

    if (count <= changes->size)
        return 0;
    space = hf_realloc(changes->alloc, changes->space, 2 * size * sizeof(*space));
    if (!space)
        return HF_ENOMEM;
    changes->space = space;
    ops = hf_realloc(changes->alloc, changes->ops, size * sizeof(*ops));
    if (!ops)
        return HF_ENOMEM;
    changes->ops = ops;
    changes->size = size;
    return 0;
}

/*
 * Lists the operations of a batch in their order and returns how many it listed. An operation on a
 * record that was listed shortly before replaces the earlier operation. Most locks are released
 * soon after they were granted, so this halves the number of operations to be sorted.
 */
static size_t list(struct hf_changes *changes, const struct hf_batch *batch)
{
    enum { RECENT = 1024 };
    /*
     * For the last digits of an id: the latest position in the list, counted from 1, of such an id.
     */
    uint32_t recent[RECENT] = {0};
    size_t count = 0;
    struct hf_op op;

    for (size_t cursor = 0, at = 0; hf_batch_next(batch, &cursor, &op); at = cursor) {
        struct hf_change change = {.id = op.id, .kind = op.kind, .at = at};
        uint32_t *place = &recent[op.id % RECENT];

        if (*place == 0 || !same_record(&changes->space[*place - 1], &change)) {
            HF_ASSERT(count < changes->size);
            *place = (uint32_t)++count;
        }
        changes->space[*place - 1] = change;
    }
    return count;
}

int hf_changes_collapse(struct hf_changes *changes, const struct hf_batch *batch)
{
    const struct hf_change *ordered;
    size_t count;

    if (make_room(changes, batch->n_ops) < 0)
        return HF_ENOMEM;
    count = list(changes, batch);
    ordered = order(changes->space, count);
    changes->count = 0;
    for (size_t i = 0; i < count; i++) {
        size_t cursor = ordered[i].at;

        if (i + 1 == count || !same_record(&ordered[i], &ordered[i + 1]))
            (void)hf_batch_next(batch, &cursor, &changes->ops[changes->count++]);
    }
    return 0;
}

/* ---- reading ---- */

bool hf_changes_find(const struct hf_changes *changes, enum hf_record_kind kind, uint64_t id)
{
    size_t low = 0;
    size_t high = changes->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct hf_op *op = &changes->ops[middle];

        if (op->kind == kind && op->id == id)
            return true;
        if (op->kind < kind || (op->kind == kind && op->id < id))
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

size_t hf_changes_run(const struct hf_changes *changes, size_t *from)
{
    size_t first = *from;

    while (*from < changes->count && changes->ops[*from].kind == changes->ops[first].kind)
        ++*from;
    return *from - first;
}
