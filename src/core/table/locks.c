/* Locks: how they enter and leave the trees and counts of their owner, client and file; their
 * records; and their changes that can be undone. */
#include "core/clients/clients.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/table/private.h"

static struct hf_lock *new_lock(struct hf_core *core, uint64_t id, struct hf_file *file,
                                const struct hf_want *want, int64_t acquired_at_ms)
{
    struct hf_lock *lock = hf_slab_take(&core->table->lock_slab);

    if (!lock)
        return NULL;
    *lock = (struct hf_lock){
        .id = id,
        .node = {.first = want->first, .last = want->last, .tag = want->owner},
        .file = hf_ref_to(file),
        .acquired_at_ms = acquired_at_ms,
        .exclusive = want->exclusive,
        .durable = want->durable,
        .life = want->life,
        .unclaimed = want->unclaimed,
        .ambiguous = want->durable && !hf_client_id_tells_life(want->owner->client, id, want->life),
    };
    want->owner->refs++;
    file->refs++;
    return lock;
}

static void free_lock(struct hf_core *core, struct hf_lock *lock)
{
    hf_owner_unref(core, hf_lock_owner(lock));
    hf_file_unref(core, hf_lock_file(lock));
    hf_slab_give(&core->table->lock_slab, lock);
}

static void count_unclaimed(struct hf_core *core, const struct hf_lock *lock, bool more)
{
    if (!lock->unclaimed)
        return;
    HF_ASSERT(more ||
              (core->clients->n_unclaimed > 0 && hf_lock_owner(lock)->client->n_unclaimed > 0));
    core->clients->n_unclaimed += more ? 1 : UINT64_MAX;
    hf_lock_owner(lock)->client->n_unclaimed += more ? 1 : UINT32_MAX;
}

static struct hf_itree *tree_of(const struct hf_lock *lock)
{
    return lock->exclusive ? &hf_lock_file(lock)->exclusive : &hf_lock_file(lock)->shared;
}

static void link_lock(struct hf_core *core, struct hf_lock *lock)
{
    struct hf_client *client = hf_lock_owner(lock)->client;

    hf_itree_insert(tree_of(lock), &lock->node);
    hf_own_insert(core, lock);
    lock->held = true;
    core->table->work++;
    hf_lock_file(lock)->n_locks++;
    hf_lock_owner(lock)->n_locks++;
    client->n_locks++;
    client->host->n_held++;
    core->table->n_locks++;
    core->table->n_ambiguous += lock->ambiguous;
    count_unclaimed(core, lock, true);
    hf_owner_review_later(core, hf_lock_owner(lock));
}

static void unlink_lock(struct hf_core *core, struct hf_lock *lock)
{
    struct hf_client *client = hf_lock_owner(lock)->client;

    hf_itree_remove(tree_of(lock), &lock->node);
    hf_own_remove(core, lock);
    lock->held = false;
    core->table->work++;
    hf_lock_file(lock)->n_locks--;
    hf_lock_owner(lock)->n_locks--;
    client->n_locks--;
    client->host->n_held--;
    core->table->n_locks--;
    core->table->n_ambiguous -= lock->ambiguous;
    count_unclaimed(core, lock, false);
    hf_file_wake(core, hf_lock_file(lock), lock->node.first, lock->node.last);
    hf_owner_review_later(core, hf_lock_owner(lock));
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
        .client_id = hf_lock_owner(lock)->client->id,
        .export = hf_file_export_name(core, hf_lock_file(lock)),
        .fh = hf_file_fh(hf_lock_file(lock)),
        .oh = hf_owner_oh(hf_lock_owner(lock)),
        .svid = hf_lock_owner(lock)->svid,
        .first = lock->node.first,
        .last = lock->node.last,
        .exclusive = lock->exclusive,
        .acquired_at_ms = lock->acquired_at_ms,
        .epoch = hf_record_epoch_of(lock->id),
    };
}

int hf_lock_load(struct hf_core *core, struct hf_file *file, struct hf_owner *owner,
                 const struct hf_record_lock *record, bool unclaimed)
{
    struct hf_want want = {owner,        record->first,
                           record->last, record->exclusive,
                           true,         hf_client_life_of_id(owner->client, record->id),
                           unclaimed};
    struct hf_lock *lock = new_lock(core, record->id, file, &want, record->acquired_at_ms);

    if (!lock)
        return HF_ENOMEM;
    link_lock(core, lock);
    hf_limits_held_by(core, owner, file);
    return 0;
}

void hf_lock_discard(struct hf_core *core, struct hf_lock *lock)
{
    unlink_lock(core, lock);
    if (core->table->watch)
        core->table->watch->discarded(core, lock);
    free_lock(core, lock);
}

/* --- endings --- */

static void tell(const struct hf_core *core, const struct hf_lock *lock, uint64_t first,
                 uint64_t last, enum hf_end end)
{
    const struct hf_owner *owner = hf_lock_owner(lock);
    struct hf_ending ending = {
        .end = end,
        .exclusive = lock->exclusive,
        .id = lock->id,
        .first = first > lock->node.first ? first : lock->node.first,
        .last = last < lock->node.last ? last : lock->node.last,
        .since_ms = lock->acquired_at_ms,
        .client = owner->client->name,
        .addr = owner->client->addr,
        .fh = hf_file_fh(hf_lock_file(lock)),
        .oh = hf_owner_oh(owner),
        .svid = owner->svid,
    };

    core->told(core->told_ctx, &ending);
}

void hf_lock_ends(const struct hf_core *core, struct hf_lock *lock, uint64_t first, uint64_t last,
                  enum hf_end end)
{
    if (!core->heard || !core->heard(core->told_ctx, end, false, lock->acquired_at_ms))
        return;
    tell(core, lock, first, last, end);
    lock->told = end != HF_END_UNDONE;
}

/* --- changes that can be undone --- */

static void revert_add(struct hf_core *core, const struct hf_undo *entry)
{
    hf_lock_discard(core, entry->object);
}

/* Undoes a removal. Once this lock is held again, other waiters of its owner may pass a waiter that
 * waits for it. */
static void revert_remove(struct hf_core *core, const struct hf_undo *entry)
{
    struct hf_lock *lock = entry->object;

    if (core->table->watch)
        core->table->watch->back(core, lock);
    if (lock->told)
        hf_lock_ends(core, lock, 0, UINT64_MAX, HF_END_UNDONE);
    link_lock(core, lock);
    if (!hf_list_empty(&hf_lock_owner(lock)->waiting->waiters))
        hf_file_wake(core, hf_lock_file(lock), 0, UINT64_MAX);
}

static void keep_remove(struct hf_core *core, const struct hf_undo *entry)
{
    if (core->table->watch)
        core->table->watch->gone(core, entry->object);
    free_lock(core, entry->object);
}

static void revert_claim(struct hf_core *core, const struct hf_undo *entry)
{
    hf_lock_set_unclaimed(core, entry->object, true);
}

static const struct hf_undo_ops add_undo = {revert_add, NULL};
static const struct hf_undo_ops remove_undo = {revert_remove, keep_remove};
static const struct hf_undo_ops claim_undo = {revert_claim, NULL};

void hf_table_unclaim_removed(struct hf_core *core)
{
    for (unsigned i = 0; i < HF_COUNT_OF(core->durable->undos); i++) {
        const struct hf_undo_log *log = &core->durable->undos[i];

        for (size_t n = 0; n < log->n; n++) {
            struct hf_lock *lock = log->entries[n].object;

            if (log->entries[n].ops == &remove_undo && lock->durable)
                lock->unclaimed = true; /* link_lock() counts the lock if an undo brings it back */
        }
    }
}

int hf_lock_claim(struct hf_txn *txn, struct hf_lock *lock)
{
    if (hf_undo_reserve(txn->core) < 0)
        return HF_ENOMEM;
    hf_lock_set_unclaimed(txn->core, lock, false);
    hf_undo_push(txn->core, (struct hf_undo){&claim_undo, .object = lock});
    return 0;
}

int hf_lock_add(struct hf_txn *txn, struct hf_file *file, const struct hf_want *want, uint64_t id,
                int64_t acquired_at_ms)
{
    struct hf_core *core = txn->core;
    struct hf_record_lock record;
    struct hf_lock *lock;

    if (hf_undo_reserve(core) < 0)
        return HF_ENOMEM;
    lock = new_lock(core, id, file, want, acquired_at_ms);
    if (!lock)
        return HF_ENOMEM;
    link_lock(core, lock);
    hf_undo_push(core, (struct hf_undo){&add_undo, .object = lock});
    if (!lock->durable)
        return 0;
    if (lock->life > want->owner->client->recorded_life &&
        hf_client_register(txn, want->owner->client) < 0)
        return HF_ENOMEM;
    hf_lock_record(core, lock, &record);
    return hf_batch_put_lock(hf_durable_gathering(core), &record);
}

/*
 * Removes the lock; the undo log owns it until the removal is final. Steps that can fail come
 * first: a lock that could not be removed keeps its place in the trees, so that loops over them
 * end.
 */
int hf_lock_take_out(struct hf_txn *txn, struct hf_lock *lock, bool keep_record)
{
    struct hf_core *core = txn->core;

    if (hf_undo_reserve(core) < 0)
        return HF_ENOMEM;
    if (lock->durable && !keep_record &&
        hf_batch_delete(hf_durable_gathering(core), HF_RECORD_LOCK, lock->id) < 0)
        return HF_ENOMEM;
    unlink_lock(core, lock);
    if (core->table->watch)
        core->table->watch->left(core, lock);
    hf_undo_push(core, (struct hf_undo){&remove_undo, .object = lock});
    return 0;
}

int hf_table_drop(struct hf_txn *txn, struct hf_lock *lock)
{
    if (hf_lock_take_out(txn, lock, false) < 0)
        return HF_ENOMEM;
    hf_lock_ends(txn->core, lock, 0, UINT64_MAX, txn->end);
    return 0;
}
