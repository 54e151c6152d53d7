/*
 * The undo log: a few primitive changes, each of which can be taken back (newest first) when a
 * batch fails, or settled (oldest first) when it is durable. An entry owns what only it needs: a
 * removed lock, a waiter that left after it was granted, a reference to a client.
 */
#include "core/parts.h"

int hf_undo_reserve(struct hf_core *core)
{
    struct hf_undo_log *log = &core->undos[core->gathering];
    size_t room;
    void *entries;

    if (log->n < log->room)
        return 0;
    room = log->room ? log->room * 2 : 64;
    entries = hf_realloc(core->alloc, log->entries, room * sizeof(log->entries[0]));
    if (!entries)
        return HF_ENOMEM;
    log->entries = entries;
    log->room = room;
    return 0;
}

void hf_undo_push(struct hf_core *core, struct hf_undo entry)
{
    struct hf_undo_log *log = &core->undos[core->gathering];

    HF_ASSERT(log->n < log->room);
    log->entries[log->n++] = entry;
}

static void forget_saved(struct hf_core *core, struct hf_client_saved *saved)
{
    hf_client_unref(core, saved->client);
    hf_free(core->alloc, saved);
}

static void waiter_settled(struct hf_core *core, struct hf_waiter *waiter)
{
    waiter->undoable = false;
    if (waiter->gone)
        hf_waiter_del(core, waiter);
}

static void waiter_back(struct hf_core *core, struct hf_waiter *waiter)
{
    waiter->undoable = false;
    if (waiter->gone)
        hf_waiter_del(core, waiter);
    else
        hf_waiter_ungrant(core, waiter);
}

static void client_back(struct hf_core *core, struct hf_client_saved *saved)
{
    struct hf_client *client = saved->client;

    if (!hf_core_is_durable(core, client->told.seq))
        hf_errand_end(core, &client->told); /* it would tell of what did not happen yet */
    client->m = saved->m;
    client->registered_at_ms = saved->registered_at_ms;
    client->epoch = saved->epoch;
    forget_saved(core, saved);
}

static void back_one(struct hf_core *core, const struct hf_undo *entry)
{
    switch (entry->kind) {
    case HF_UNDO_LOCK_ADDED:
        hf_lock_unlink(core, entry->lock);
        hf_waiters_wake(core, entry->lock->file, entry->lock->node.first, entry->lock->node.last);
        hf_lock_forget(core, entry->lock);
        break;
    case HF_UNDO_LOCK_REMOVED:
        hf_lock_link(core, entry->lock);
        hf_waiters_wake_owner(core, entry->lock->owner, entry->lock->file);
        break;
    case HF_UNDO_LOCK_CLAIMED:
        hf_lock_set_unclaimed(core, entry->lock, true);
        break;
    case HF_UNDO_RECLAIMED:
        if (entry->reclaimed.epoch == core->epoch) /* SM_SIMU_CRASH began to count anew */
            core->grace.reclaimed -= entry->reclaimed.locks;
        break;
    case HF_UNDO_WAITER_GRANTED:
        waiter_back(core, entry->waiter);
        break;
    case HF_UNDO_CLIENT_REGISTERED:
        hf_client_set_registered(core, entry->client, false);
        hf_client_unref(core, entry->client);
        break;
    case HF_UNDO_CLIENT_UNREGISTERED:
        hf_client_set_registered(core, entry->client, true);
        hf_client_unref(core, entry->client);
        break;
    case HF_UNDO_CLIENT_CHANGED:
        client_back(core, entry->saved);
        break;
    case HF_UNDO_CLIENT_ALIAS: {
        struct hf_client *client = entry->alias->client;
        hf_client_drop_alias(core, entry->alias);
        hf_client_unref(core, client);
        break;
    }
    }
}

static void settle_one(struct hf_core *core, const struct hf_undo *entry)
{
    switch (entry->kind) {
    case HF_UNDO_LOCK_ADDED:
    case HF_UNDO_LOCK_CLAIMED:
    case HF_UNDO_RECLAIMED:
        break;
    case HF_UNDO_LOCK_REMOVED:
        hf_lock_forget(core, entry->lock);
        break;
    case HF_UNDO_WAITER_GRANTED:
        waiter_settled(core, entry->waiter);
        break;
    case HF_UNDO_CLIENT_REGISTERED:
    case HF_UNDO_CLIENT_UNREGISTERED:
        hf_client_unref(core, entry->client);
        break;
    case HF_UNDO_CLIENT_CHANGED:
        forget_saved(core, entry->saved);
        break;
    case HF_UNDO_CLIENT_ALIAS:
        hf_client_unref(core, entry->alias->client);
        break;
    }
}

void hf_undo_back(struct hf_core *core, struct hf_undo_log *log, size_t to)
{
    HF_ASSERT(to <= log->n || HF_PLANTED(FORGET_UNDO));
    while (log->n > to)
        back_one(core, &log->entries[--log->n]);
}

void hf_undo_settle(struct hf_core *core, struct hf_undo_log *log, size_t from)
{
    for (size_t i = from; i < log->n; i++)
        settle_one(core, &log->entries[i]);
    log->n = from;
}
