/*
 * Fetches the memory that loading a lock will touch. In tables of millions, nothing that belongs to
 * one lock is in the processor's cache, and each pointer on the way to a lock must have arrived
 * before the next one can be followed. So the fetching is done in steps, with those of other locks
 * in between.
 */
#include "core/clients/clients.h"
#include "core/internal.h"
#include "core/table/private.h"

static void fetch_buckets(const struct hf_core *core, const struct hf_record_lock *record,
                          struct hf_lock_fetch *fetch)
{
    fetch->owner = hf_owner_hash(core, record->client_id, record->svid, record->oh);
    fetch->file = hf_file_hash(core, record->fh);
    hf_client_fetch_bucket(core, record->client_id);
    hf_refmap_fetch_bucket(&core->table->owners, fetch->owner);
    hf_refmap_fetch_bucket(&core->table->files, fetch->file);
}

static void fetch_nodes(const struct hf_core *core, const struct hf_record_lock *record,
                        const struct hf_lock_fetch *fetch)
{
    hf_client_fetch_node(core, record->client_id);
    hf_refmap_fetch_node(&core->table->owners, fetch->owner);
    hf_refmap_fetch_node(&core->table->files, fetch->file);
}

static const struct hf_owner *peek_owner(const struct hf_core *core,
                                         const struct hf_lock_fetch *fetch)
{
    const struct hf_refmap_node *node = hf_refmap_peek(&core->table->owners, fetch->owner);

    return node ? hf_container_of(node, struct hf_owner, node) : NULL;
}

static const struct hf_lock *newest_of(const struct hf_owner *owner)
{
    return owner ? hf_at(owner->recent) : NULL;
}

/* Fetches the new lock's neighbours in the ring of its owner: the newest and the oldest lock. */
static void fetch_newest(const struct hf_core *core, const struct hf_lock_fetch *fetch)
{
    const struct hf_owner *owner = peek_owner(core, fetch);
    const struct hf_lock *newest = newest_of(owner);

    if (owner)
        __builtin_prefetch(&owner->client->n_locks, 1);
    if (newest)
        __builtin_prefetch(&newest->own_left, 1);
}

static void fetch_oldest(const struct hf_core *core, const struct hf_lock_fetch *fetch)
{
    const struct hf_lock *newest = newest_of(peek_owner(core, fetch));
    const struct hf_lock *oldest = newest ? hf_at(newest->own_left) : NULL;

    if (oldest)
        __builtin_prefetch(&oldest->own_left, 1);
}

void hf_lock_fetch(const struct hf_core *core, const struct hf_record_lock *record,
                   struct hf_lock_fetch *fetch, unsigned step)
{
    switch (step) {
    case 0:
        fetch_buckets(core, record, fetch);
        break;
    case 1:
        fetch_nodes(core, record, fetch);
        break;
    case 2:
        fetch_newest(core, fetch);
        break;
    default:
        fetch_oldest(core, fetch);
        break;
    }
}
