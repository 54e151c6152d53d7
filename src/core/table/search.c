/* Searches: locks of other owners that conflict, and whether an owner holds all of a range. */
#include "core/internal.h"
#include "core/table/table.h"

static struct hf_lock *lock_of(struct hf_itree_node *node)
{
    return node ? hf_container_of(node, struct hf_lock, node) : NULL;
}

/* Returns a lock of another owner that overlaps the wanted range, from one of the file's trees. */
static struct hf_itree_node *find(const struct hf_core *core, const struct hf_itree *tree,
                                  const struct hf_want *want)
{
    core->table->work++;
    return hf_itree_overlap_other(tree, want->first, want->last, want->owner);
}

struct hf_lock *hf_table_conflict(const struct hf_core *core, const struct hf_file *file,
                                  const struct hf_want *want)
{
    struct hf_itree_node *node = find(core, &file->exclusive, want);

    if (!node && want->exclusive)
        node = find(core, &file->shared, want);
    return lock_of(node);
}

struct hf_lock *hf_table_conflict_next(const struct hf_core *core, const struct hf_lock *lock,
                                       const struct hf_want *want)
{
    struct hf_itree_node *node =
        hf_itree_overlap_other_next(&lock->node, want->first, want->last, want->owner);

    core->table->work++;
    if (!node && want->exclusive && lock->exclusive)
        node = find(core, &hf_lock_file(lock)->shared, want);
    return lock_of(node);
}

bool hf_table_covers(const struct hf_core *core, const struct hf_file *file,
                     const struct hf_want *want, bool exact_mode)
{
    uint64_t next = want->first; /* the owner holds everything before this byte */
    struct hf_lock *lock = NULL;

    while ((lock = hf_table_own(core, file, want->owner, want->first, want->last, lock)) != NULL) {
        if (hf_lock_is_releasing(lock) || lock->node.first > next ||
            (want->exclusive && !lock->exclusive) ||
            (exact_mode && want->exclusive != lock->exclusive))
            return false;
        if (lock->node.last >= want->last)
            return true;
        next = lock->node.last + 1;
    }
    return false;
}
