/* The core as an object: made, deleted, and what every entry point ends with. */
#include "core/parts.h"

struct hf_core_config hf_core_config_default(void)
{
    return (struct hf_core_config){
        .server_name = hf_bytes_str("localhost"),
        .limits = {.clients = 10000,
                   .locks_per_client = 100000,
                   .locks_per_file = 100000,
                   .locks = 1000000,
                   .waiters_per_file = 1000},
        .grace_mode = HF_GRACE_STRICT,
        .grace_ms = 90000,
        .durable_locks = true,
        .linger_ms = 300000,
        .call_timeout_ms = 5000,
        .call_attempts = 3,
        .notify_in_flight = 2048,
        .on_failure = HF_ON_FAILURE_RELEASE,
        .retry_for_ms = 900000,
    };
}

static int init_maps(struct hf_core *core)
{
    struct hf_map *maps[] = {&core->clients_by_identity,
                             &core->clients_by_id,
                             &core->aliases,
                             &core->owners,
                             &core->files,
                             &core->errands};

    for (size_t i = 0; i < HF_COUNT_OF(maps); i++) {
        if (hf_map_init(maps[i], core->alloc) < 0)
            return HF_ENOMEM;
    }
    return 0;
}

static void init_pools(struct hf_core *core)
{
    hf_slab_init(&core->client_slab, core->alloc, sizeof(struct hf_client));
    hf_slab_init(&core->alias_slab, core->alloc, sizeof(struct hf_alias));
    hf_slab_init(&core->lock_slab, core->alloc, sizeof(struct hf_lock));
    hf_slab_init(&core->waiter_slab, core->alloc, sizeof(struct hf_waiter));
    hf_slab_init(&core->share_slab, core->alloc, sizeof(struct hf_share));
    hf_slab_init(&core->waiting_slab, core->alloc, sizeof(struct hf_waiting));
    hf_slab_init(&core->crowd_slab, core->alloc, sizeof(struct hf_crowd));
    hf_flex_init(&core->owner_flex, core->alloc, sizeof(struct hf_owner));
    hf_flex_init(&core->file_flex, core->alloc, sizeof(struct hf_file));
}

static void init_lists(struct hf_core *core)
{
    hf_list_init(&core->clients);
    hf_list_init(&core->at_rest.waiters);
    hf_crowd_init(&core->nobody, NULL);
    hf_list_init(&core->woken);
    hf_list_init(&core->doomed);
    hf_list_init(&core->ready_grants);
    hf_list_init(&core->ready_probes);
    hf_list_init(&core->ready_notices);
    for (size_t i = 0; i < HF_COUNT_OF(core->batches); i++)
        hf_batch_init(&core->batches[i], core->alloc);
    core->batches[0].seq = 1;
    core->redo_ms = UINT64_MAX;
    core->next_id = 1; /* until the epoch begins */
}

struct hf_core *hf_core_new(const struct hf_core_config *config, const struct hf_alloc *alloc)
{
    struct hf_core *core = hf_calloc(alloc, 1, sizeof(*core));

    if (!core)
        return NULL;
    HF_ASSERT(config->durable_locks || config->grace_mode == HF_GRACE_STRICT);
    core->alloc = alloc;
    core->config = *config;
    init_pools(core);
    init_lists(core);
    if (init_maps(core) < 0) {
        hf_core_del(core);
        return NULL;
    }
    return core;
}

static void del_client(struct hf_core *core, struct hf_client *client)
{
    client->refs++;
    hf_list_foreach_safe (node, &client->shares)
        hf_share_drop(core, hf_list_entry(node, struct hf_share, in_client));
    hf_list_foreach_safe (node, &client->waiters)
        hf_waiter_remove(core, hf_list_entry(node, struct hf_waiter, in_client));
    hf_list_foreach_safe (node, &client->locks) {
        struct hf_lock *lock = hf_list_entry(node, struct hf_lock, in_client);
        hf_lock_unlink(core, lock);
        hf_lock_forget(core, lock);
    }
    hf_client_del(core, client);
}

/* What is not in a slab is found through the objects that are. */
static void del_objects(struct hf_core *core)
{
    hf_undo_settle(core, &core->undos[core->gathering ^ 1], 0);
    hf_undo_settle(core, &core->undos[core->gathering], 0);
    hf_list_foreach_safe (node, &core->clients)
        del_client(core, hf_list_entry(node, struct hf_client, all));
}

void hf_core_del(struct hf_core *core)
{
    struct hf_map *maps[] = {&core->clients_by_identity,
                             &core->clients_by_id,
                             &core->aliases,
                             &core->owners,
                             &core->files,
                             &core->errands};
    struct hf_slab *slabs[] = {&core->client_slab, &core->alias_slab,   &core->lock_slab,
                               &core->waiter_slab, &core->waiting_slab, &core->share_slab,
                               &core->crowd_slab};

    del_objects(core);
    for (size_t i = 0; i < HF_COUNT_OF(core->undos); i++) {
        hf_free(core->alloc, core->undos[i].entries);
        hf_batch_free(&core->batches[i]);
    }
    for (size_t i = 0; i < HF_COUNT_OF(maps); i++)
        hf_map_free(maps[i]);
    for (size_t i = 0; i < HF_COUNT_OF(slabs); i++)
        hf_slab_free(slabs[i]);
    hf_flex_free(&core->owner_flex);
    hf_flex_free(&core->file_flex);
    hf_free(core->alloc, core->events);
    hf_free(core->alloc, core);
}

uint64_t hf_core_new_id(struct hf_core *core)
{
    return core->next_id++;
}

void hf_core_settle(struct hf_core *core, struct hf_now now)
{
    hf_waiters_serve(core, now);
    hf_grace_review(core, now);
    hf_waiters_serve(core, now); /* the end of grace may have freed something */
}

const struct hf_counters *hf_core_counters(const struct hf_core *core)
{
    return &core->counters;
}
