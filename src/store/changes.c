#include "store/changes.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"

void hf_changes_init(struct hf_changes *changes, const struct hf_alloc *alloc)
{
    *changes = (struct hf_changes){.alloc = alloc};
}

void hf_changes_free(struct hf_changes *changes)
{
    hf_free(changes->alloc, changes->ops);
    changes->ops = NULL;
}

static bool same_record(const struct hf_op *a, const struct hf_op *b)
{
    return a->kind == b->kind && a->id == b->id;
}

/*
 * The value of every operation, even an empty one, points into the batch, so comparing the pointers
 * tells which operation came first.
 */
static int compare(const void *x, const void *y)
{
    const struct hf_op *a = x;
    const struct hf_op *b = y;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return (a->value.data > b->value.data) - (a->value.data < b->value.data);
}

static int make_room(struct hf_changes *changes, size_t count)
{
    struct hf_op *ops;

    if (count <= changes->size)
        return 0;
    ops = hf_realloc(changes->alloc, changes->ops, count * 2 * sizeof(*ops));
    if (!ops)
        return HF_ENOMEM;
    changes->ops = ops;
    changes->size = count * 2;
    return 0;
}

int hf_changes_collapse(struct hf_changes *changes, const struct hf_batch *batch)
{
    struct hf_op op;
    size_t count = 0;
    size_t kept = 0;
    bool ascending = true;

    if (make_room(changes, batch->n_ops) < 0)
        return HF_ENOMEM;
    for (size_t cursor = 0; hf_batch_next(batch, &cursor, &op);) {
        HF_ASSERT(count < changes->size);
        if (count > 0 && compare(&changes->ops[count - 1], &op) > 0)
            ascending = false;
        changes->ops[count++] = op;
    }
    if (!ascending)
        qsort(changes->ops, count, sizeof(op), compare);
    for (size_t i = 0; i < count; i++) {
        if (i + 1 == count || !same_record(&changes->ops[i], &changes->ops[i + 1]))
            changes->ops[kept++] = changes->ops[i];
    }
    changes->count = kept;
    return 0;
}

bool hf_changes_find(const struct hf_changes *changes, enum hf_record_kind kind, uint64_t id)
{
    const struct hf_op wanted = {.kind = kind, .id = id};
    size_t low = 0;
    size_t high = changes->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (same_record(&changes->ops[middle], &wanted))
            return true;
        if (compare(&changes->ops[middle], &wanted) < 0)
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
