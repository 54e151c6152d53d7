#include "daemon/engine.h"

#include <string.h>
#include <sys/resource.h>

#include "base/boot_id.h"
#include "base/error.h"
#include "base/log.h"
#include "daemon/outcalls.h"

enum { LINGER_MS = 5 * 60 * 1000 }; /* SPEC section 4: a registration outlives its last lock */

/* ---- once a turn ---- */

static void on_alarm(uv_timer_t *timer)
{
    struct hf_engine *engine = timer->data;

    hf_service_read_wall_clock(&engine->service);
    hf_core_tick(engine->service.core, hf_service_now(&engine->service));
}

/* When the core wants to be woken, and at least once a second to read the wall clock. */
static void set_alarm(struct hf_engine *engine)
{
    enum { WALL_CLOCK_MS = 1000 };
    uint64_t deadline = hf_core_deadline(engine->service.core);
    uint64_t mono_ms = uv_now(engine->loop);
    uint64_t pause = deadline > mono_ms && !engine->more_calls ? deadline - mono_ms : 0;

    uv_timer_start(&engine->alarm, on_alarm, pause < WALL_CLOCK_MS ? pause : WALL_CLOCK_MS, 0);
}

static void end_turn(uv_prepare_t *prepare)
{
    struct hf_engine *engine = prepare->data;

    hf_service_settle(&engine->service);
    hf_commit_pump_submit(&engine->commits);
    engine->more_calls = hf_outcalls_begin(&engine->service, &engine->nlm, &engine->nsm);
    hf_events_handle(&engine->events);
    hf_nlm_end_turn(&engine->nlm);
    set_alarm(engine);
    hf_service_end_turn(&engine->service);
}

/* ---- opening ---- */

/* Each notice may need a file descriptor, and so do the connections of clients. */
static uint32_t notify_in_flight(const struct hf_config *config)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur / 2 >= config->notify_in_flight)
        return config->notify_in_flight;
    hf_log(HF_LOG_WARN, "fewer notices at a time than notify.in_flight",
           HF_UINT("in_flight", files.rlim_cur / 2),
           HF_STR("advice", "raise the limit of open files (LimitNOFILE=)"));
    return (uint32_t)(files.rlim_cur / 2);
}

static struct hf_limits limits_of(const struct hf_config *config)
{
    return (struct hf_limits){config->max_clients,
                              config->max_locks_per_owner,
                              config->max_locks_per_client,
                              config->max_locks_per_file,
                              config->max_locks,
                              config->max_waiters_per_file,
                              config->max_waiters_per_owner,
                              config->max_waiters_per_client,
                              config->max_clients_per_host,
                              config->max_locks_per_host,
                              config->max_registrations_per_host};
}

static struct hf_core_config core_config(struct hf_engine *engine, const struct hf_config *config,
                                         const struct hf_hash_key *hash_key)
{
    struct hf_core_config core = hf_core_config_default();

    core.server_name = hf_bytes_str(config->name);
    core.limits = limits_of(config);
    core.grace_mode = (enum hf_grace_mode)config->grace_mode;
    core.grace_ms = (uint64_t)config->grace_seconds * 1000;
    core.durable_locks = config->durable != HF_DURABLE_NO;
    core.unflushed = config->durable == HF_DURABLE_PROCESS;
    (void)hf_boot_id_read(core.boot_id);
    core.linger_ms = LINGER_MS;
    core.call_timeout_ms = (uint64_t)config->notify_timeout * 1000;
    core.call_attempts = config->notify_attempts;
    core.notify_in_flight = notify_in_flight(config);
    core.on_failure = (enum hf_on_failure)config->notify_on_failure;
    core.verify_notices = config->notify_verify != 0;
    core.retry_for_ms = (uint64_t)config->notify_retry_for * 1000;
    core.hash_key = *hash_key;
    for (unsigned i = 0; i < config->n_export_rules; i++) {
        const struct hf_config_export_rule *share = &config->export_rules[i];
        engine->shares[i] = (struct hf_export_rule){hf_bytes_str(share->name), share->offset,
                                                    hf_bytes(share->bytes, share->len)};
    }
    core.export_rules = engine->shares;
    core.n_export_rules = config->n_export_rules;
    return core;
}

int hf_engine_open(struct hf_engine *engine, uv_loop_t *loop, const struct hf_config *config,
                   const struct hf_hash_key *hash_key)
{
    struct hf_core_config core_settings;
    struct hf_core *core;
    int rv;

    *engine = (struct hf_engine){.loop = loop};
    rv = hf_commit_pump_open(&engine->commits, config);
    if (rv < 0)
        return rv;
    core_settings = core_config(engine, config, hash_key);
    core = hf_core_new(&core_settings, &hf_alloc_heap);
    if (!core) {
        rv = HF_ENOMEM;
        goto err_store;
    }
    hf_service_init(&engine->service, core, loop, &hf_alloc_heap);
    rv = hf_commit_pump_load(&engine->commits, &engine->service);
    if (rv < 0)
        goto err_core;
    rv = hf_rpc_client_new(loop, &hf_alloc_heap, hash_key, &engine->client);
    if (rv < 0)
        goto err_core;
    rv = hf_commit_pump_attach(&engine->commits, loop);
    if (rv < 0)
        goto err_client;
    uv_prepare_init(loop, &engine->prepare);
    engine->prepare.data = engine;
    uv_timer_init(loop, &engine->alarm);
    engine->alarm.data = engine;
    hf_nlm_init(&engine->nlm, &engine->service, engine->client);
    hf_nsm_init(&engine->nsm, &engine->service, engine->client);
    engine->nsm.own_port = (uint16_t)config->port;
    return 0;

err_client:
    hf_rpc_client_close(engine->client, NULL, NULL);
err_core:
    hf_core_del(core);
err_store:
    hf_commit_pump_close(&engine->commits);
    return rv;
}

int hf_engine_start(struct hf_engine *engine)
{
    int rv = hf_commit_pump_start(&engine->commits);

    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot start", HF_STR("reason", "no thread for the store"));
        return rv;
    }
    hf_events_init(&engine->events, &engine->service, &engine->nsm);
    engine->events.lines.loop = engine->loop;
    engine->events.lines.names = engine->names;
    uv_prepare_start(&engine->prepare, end_turn);
    return 0;
}

/* The digest is compared with that of the next start. */
static void log_state(struct hf_engine *engine, const char *text)
{
    struct hf_core *core = engine->service.core;
    struct hf_view_status status;

    hf_core_view_status(core, hf_service_now(&engine->service), &status);
    hf_log(HF_LOG_INFO, text, HF_UINT("clients", status.nlm_clients + status.nsm_clients),
           HF_UINT("locks", status.locks), HF_UINT("digest", hf_core_digest(core)));
}

void hf_engine_reconfigure(struct hf_engine *engine, const struct hf_config *config)
{
    struct hf_limits limits = limits_of(config);

    hf_core_set_limits(engine->service.core, &limits);
    log_state(engine, "durable now");
}

/* ---- closing ---- */

void hf_engine_stop(struct hf_engine *engine)
{
    uv_prepare_stop(&engine->prepare);
    hf_rpc_client_close(engine->client, NULL, NULL);
    hf_nsm_stop(&engine->nsm);
    hf_commit_pump_stop(&engine->commits);
    log_state(engine, "durable at the end");
    uv_close((uv_handle_t *)&engine->prepare, NULL);
    uv_close((uv_handle_t *)&engine->alarm, NULL);
}

void hf_engine_free(struct hf_engine *engine)
{
    hf_nlm_free(&engine->nlm);
    hf_nsm_free(&engine->nsm);
    hf_core_del(engine->service.core);
}
