/* Makes the core as a whole from the parts of its modules, and deletes it. */
#include "core/core.h"

#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/common/event.h"
#include "core/common/timer.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"
#include "core/recovery/recovery.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

struct hf_core_config hf_core_config_default(void)
{
    return (struct hf_core_config){
        .server_name = hf_bytes_str("localhost"),
        .limits = {.clients = 10000,
                   .locks_per_owner = 10000,
                   .locks_per_client = 100000,
                   .locks_per_file = 100000,
                   .locks = 1000000,
                   .waiters_per_file = 1000,
                   .waiters_per_owner = 256,
                   .waiters_per_client = 4096,
                   .clients_per_host = 1000,
                   .locks_per_host = 250000,
                   .registrations_per_host = 1000,
                   .beyond = HF_LOCKS_BEYOND},
        .budgets = {.search = 1000, .ahead = 2000, .serve = 1000, .release = 1000},
        .grace_mode = HF_GRACE_STRICT,
        .grace_ms = 90000,
        .role = HF_ROLE_LOCKS,
        .durable_locks = true,
        .linger_ms = 300000,
        .call_timeout_ms = 5000,
        .call_attempts = 3,
        .notify_in_flight = 10240,
        .on_failure = HF_ON_FAILURE_RELEASE,
        .verify_notices = true,
        .retry_for_ms = 900000,
        .claim_ranges = 1000,
    };
}

/* The parts of all modules in one allocation; only this file sees them side by side. */
struct whole {
    struct hf_core core;
    struct hf_timers timers;
    struct hf_events events;
    struct hf_durable durable;
    struct hf_outcalls outcalls;
    struct hf_clients clients;
    struct hf_table table;
    struct hf_claims claims;
    struct hf_wait wait;
    struct hf_recovery recovery;
};

static struct hf_core *put_together(const struct hf_alloc *alloc)
{
    struct whole *whole = hf_calloc(alloc, 1, sizeof(*whole));

    if (!whole)
        return NULL;
    whole->core.timers = &whole->timers;
    whole->core.events = &whole->events;
    whole->core.durable = &whole->durable;
    whole->core.outcalls = &whole->outcalls;
    whole->core.clients = &whole->clients;
    whole->core.table = &whole->table;
    whole->core.claims = &whole->claims;
    whole->core.wait = &whole->wait;
    whole->core.recovery = &whole->recovery;
    whole->core.alloc = alloc;
    return &whole->core;
}

/* Initialises every part even after one ran out of memory, so that all parts can be freed. */
static int init_parts(struct hf_core *core)
{
    int failed = 0;

    hf_timers_init(core);
    hf_durable_init(core);
    failed |= hf_clients_init(core, hf_recovery_client_size());
    failed |= hf_table_init(core);
    failed |= hf_claims_init(core);
    failed |= hf_outcalls_init(core);
    failed |= hf_wait_init(core);
    hf_recovery_init(core);
    return failed;
}

struct hf_core *hf_core_new(const struct hf_core_config *config, const struct hf_alloc *alloc)
{
    struct hf_core *core = put_together(alloc);

    if (!core)
        return NULL;
    HF_ASSERT(config->durable_locks || config->grace_mode == HF_GRACE_STRICT);
    core->config = *config;
    core->next_id = 1; /* ids begin here; an epoch begins with greater ones */
    if (init_parts(core) < 0) {
        hf_core_del(core);
        return NULL;
    }
    return core;
}

static void del_client(struct hf_core *core, struct hf_client *client)
{
    struct hf_lock *lock;

    client->refs++;
    hf_list_foreach_safe (node, &client->shares)
        hf_share_drop(core, hf_list_entry(node, struct hf_share, in_client));
    hf_list_foreach_safe (node, &client->waiters)
        hf_waiter_remove(core, hf_list_entry(node, struct hf_waiter, in_client));
    while ((lock = hf_client_next_lock(core, client, NULL)) != NULL)
        hf_lock_discard(core, lock);
    hf_recovery_abandon(core, client);
    hf_client_del(core, client);
}

const struct hf_hash_key *hf_core_hash_key(const struct hf_core *core)
{
    return &core->config.hash_key;
}

void hf_core_del(struct hf_core *core)
{
    core->heard = NULL;
    core->config.continues = false; /* while the core is deleted, no record is written behind */
    hf_durable_close(core);
    hf_list_foreach_safe (node, &core->clients->all)
        del_client(core, hf_list_entry(node, struct hf_client, all));
    hf_behind_free(core);
    hf_wait_free(core);
    hf_outcalls_free(core);
    hf_claims_free(core);
    hf_table_free(core);
    hf_clients_free(core);
    hf_recovery_free(core);
    hf_durable_free(core);
    hf_events_free(core);
    hf_free(core->alloc, hf_container_of(core, struct whole, core));
}

void hf_core_tell_endings(struct hf_core *core, hf_ending_heard heard, hf_ending_told told,
                          void *ctx)
{
    core->heard = heard;
    core->told = told;
    core->told_ctx = ctx;
}

uint64_t hf_core_work(const struct hf_core *core)
{
    return core->table->work;
}

const struct hf_counters *hf_core_counters(const struct hf_core *core)
{
    return &core->counters;
}

bool hf_core_is_foreign(const struct hf_core *core, struct hf_bytes fh,
                        struct hf_bytes *export_name)
{
    return hf_file_is_foreign(core, fh, export_name);
}
