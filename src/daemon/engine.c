#include "daemon/engine.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "base/boot_id.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "daemon/outcalls.h"

enum { LINGER_MS = 5 * 60 * 1000 }; /* SPEC section 4: a registration outlives its last lock */

/* ---- once a turn ---- */

static void on_alarm(uv_timer_t *timer)
{
    struct hf_engine *engine = timer->data;

    engine->alarm_ms = UINT64_MAX;
    hf_service_read_wall_clock(&engine->service);
    hf_core_tick(engine->service.core, hf_service_now(&engine->service));
}

/*
 * When the core wants to be woken, and at least once a second to read the wall clock. An alarm that
 * is set for an earlier time stays: it does no harm, and to move it in each turn costs more.
 */
static void set_alarm(struct hf_engine *engine)
{
    enum { WALL_CLOCK_MS = 1000 };
    uint64_t deadline = hf_core_deadline(engine->service.core);
    uint64_t mono_ms = hf_service_now(&engine->service).mono_ms;
    uint64_t wanted = deadline > mono_ms && !engine->more_calls ? deadline - mono_ms : 0;
    uint64_t pause = wanted < WALL_CLOCK_MS ? wanted : WALL_CLOCK_MS;
    uint64_t at_ms = uv_now(engine->loop) + pause;

    if (engine->alarm_ms <= at_ms)
        return;
    engine->alarm_ms = at_ms;
    uv_timer_start(&engine->alarm, on_alarm, pause, 0);
}

/*
 * Calls wait until the new epoch is durable, as the core has it, and, with standbys, while the
 * lease has run out: attempts that cannot be made must not count against a client.
 */
static bool may_call(const struct hf_engine *engine)
{
    return !engine->service.loading && hf_rpc_gate_is_open(engine->gate);
}

static void tell_begun(struct hf_engine *engine)
{
    void (*begun)(void *ctx) = engine->begun;

    if (!hf_core_state_is_durable(engine->service.core))
        return;
    engine->begun = NULL;
    begun(engine->begun_ctx);
}

static void end_turn(uv_prepare_t *prepare)
{
    struct hf_engine *engine = prepare->data;

    if (engine->begun)
        tell_begun(engine);
    hf_service_settle(&engine->service);
    hf_commit_pump_submit(engine->commits);
    engine->more_calls =
        may_call(engine) && hf_outcalls_begin(&engine->service, &engine->nlm, &engine->nsm);
    hf_events_handle(&engine->events);
    hf_losses_file_follow(&engine->losses_file);
    hf_nlm_end_turn(&engine->nlm);
    set_alarm(engine);
    hf_service_end_turn(&engine->service);
}

/* ---- opening ---- */

/*
 * Each notice may need a file descriptor, and so do the connections of clients. Fewer notices at a
 * time cost time only if more clients are dead than that, so it is worth a warning only if few fit.
 */
static uint32_t notify_in_flight(const struct hf_config *config)
{
    enum { FEW = 2048 };
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur / 2 >= config->notify_in_flight)
        return config->notify_in_flight;
    hf_log(files.rlim_cur / 2 < FEW ? HF_LOG_WARN : HF_LOG_INFO,
           "fewer notices at a time than notify.in_flight",
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
                              config->max_registrations_per_host,
                              HF_LOCKS_BEYOND};
}

static void add_rule(struct hf_export_rules *rules, const char *name, unsigned offset,
                     const uint8_t *bytes, size_t len)
{
    rules->list[rules->n_own + rules->n_foreign] =
        (struct hf_export_rule){hf_bytes_str(name), offset, hf_bytes(bytes, len)};
}

/* Our own come first: the first rule that fits wins. */
static void make_rules(const struct hf_config *config, struct hf_export_rules *rules)
{
    unsigned n_foreign = rules->n_foreign;

    rules->n_own = rules->n_foreign = 0;
    for (; rules->n_own < config->n_export_rules; rules->n_own++) {
        const struct hf_config_export_rule *share = &config->export_rules[rules->n_own];
        add_rule(rules, share->name, share->offset, share->bytes, share->len);
    }
    for (; rules->n_foreign < n_foreign; rules->n_foreign++) {
        const struct hf_store_export *other = &rules->foreign[rules->n_foreign];
        add_rule(rules, other->name, other->offset, other->bytes, other->len);
    }
}

static struct hf_core_config core_config(const struct hf_config *config,
                                         const struct hf_hash_key *hash_key)
{
    struct hf_core_config core = hf_core_config_default();

    core.server_name = hf_bytes_str(config->name);
    core.limits = limits_of(config);
    core.grace_mode = hf_config_has_conflict_grace(config) ? HF_GRACE_CONFLICT : HF_GRACE_STRICT;
    core.grace_ms = (uint64_t)config->grace_seconds * 1000;
    core.role = config->programs == HF_PROGRAMS_NSM ? HF_ROLE_MONITOR : HF_ROLE_LOCKS;
    core.durable_locks = config->durable != HF_DURABLE_NO;
    core.unflushed = config->durable == HF_DURABLE_PROCESS;
    core.fenced = config->cluster_mode == HF_CLUSTER_STANDBY;
    (void)hf_boot_id_read(core.boot_id);
    core.linger_ms = LINGER_MS;
    core.call_timeout_ms = (uint64_t)config->notify_timeout * 1000;
    core.call_attempts = config->notify_attempts;
    core.notify_in_flight = notify_in_flight(config);
    core.on_failure = (enum hf_on_failure)config->notify_on_failure;
    core.verify_notices = config->notify_verify != 0;
    core.retry_for_ms = (uint64_t)config->notify_retry_for * 1000;
    core.hash_key = *hash_key;
    return core;
}

static const char *name_of(enum hf_record_kind kind)
{
    return kind == HF_RECORD_CLIENT ? "client" : "lock";
}

int hf_engine_blame_records(const struct hf_core *core, int code, char error[HF_STORE_ERROR_MAX])
{
    struct hf_load_conflict found;

    if (code != HF_EEXIST && code != HF_ENOENT)
        return code;
    found = hf_core_load_conflict(core);
    hf_format(error, HF_STORE_ERROR_MAX,
              "%s %" PRIu64 " and %s %" PRIu64 " do not go together: %s; nothing is changed. See "
              "\"Records that do not go together\" in docs/STORE.md, and holdfastd --verify-store",
              name_of(found.kind), found.id, name_of(found.other_kind), found.other_id,
              code == HF_ENOENT ? "the second is missing" : "both claim the same");
    return HF_EFORMAT;
}

struct hf_core *hf_engine_core_new(const struct hf_config *config,
                                   const struct hf_hash_key *hash_key,
                                   struct hf_export_rules *rules)
{
    struct hf_core_config core = core_config(config, hash_key);

    make_rules(config, rules);
    core.export_rules = rules->list;
    core.n_export_rules = rules->n_own + rules->n_foreign;
    core.n_foreign_rules = rules->n_foreign;
    return hf_core_new(&core, &hf_alloc_heap);
}

/* The core, without records, and all that stands on it. */
static int open_parts(struct hf_engine *engine, const struct hf_config *config,
                      const struct hf_hash_key *hash_key)
{
    struct hf_core *core;

    engine->rules = hf_calloc(&hf_alloc_heap, 1, sizeof(*engine->rules));
    core = engine->rules ? hf_engine_core_new(config, hash_key, engine->rules) : NULL;
    if (!core || hf_rpc_client_new(engine->loop, &hf_alloc_heap, hash_key, &engine->client) < 0) {
        hf_core_del(core);
        hf_free(&hf_alloc_heap, engine->rules);
        return HF_ENOMEM;
    }
    hf_service_init(&engine->service, core, engine->loop, &hf_alloc_heap);
    engine->service.troubles = &engine->troubles;
    hf_losses_file_open(&engine->losses_file, &engine->service, engine->store_path);
    uv_prepare_init(engine->loop, &engine->prepare);
    engine->prepare.data = engine;
    uv_timer_init(engine->loop, &engine->alarm);
    engine->alarm.data = engine;
    engine->alarm_ms = UINT64_MAX;
    hf_nlm_init(&engine->nlm, &engine->service, engine->client);
    hf_nsm_init(&engine->nsm, &engine->service, engine->client);
    engine->nsm.own_port = (uint16_t)config->port;
    return 0;
}

static void close_parts(struct hf_engine *engine)
{
    hf_rpc_client_close(engine->client, NULL, NULL);
    uv_close((uv_handle_t *)&engine->prepare, NULL);
    uv_close((uv_handle_t *)&engine->alarm, NULL);
}

static void warn_without_grace(const struct hf_config *config)
{
    if (config->grace_seconds == 0 && config->programs == HF_PROGRAMS_ALL)
        hf_log(HF_LOG_WARN, "no grace period: a restart drops every lock",
               HF_STR("reason", "grace.seconds=0"),
               HF_STR("advice", "clients need time to reclaim their locks; the default is 90"));
}

int hf_engine_open(struct hf_engine *engine, uv_loop_t *loop, const struct hf_config *config,
                   const struct hf_hash_key *hash_key, struct hf_commit_pump *pump,
                   const struct hf_store_settings *settings)
{
    int rv;

    *engine = (struct hf_engine){
        .loop = loop,
        .commits = pump,
        .store_path = config->backend == HF_BACKEND_LMDB ? config->path : NULL,
    };
    warn_without_grace(config);
    rv = hf_commit_pump_open(pump, config, settings);
    if (rv < 0)
        return rv;
    rv = open_parts(engine, config, hash_key);
    if (rv < 0)
        goto err_store;
    rv = hf_commit_pump_load(pump, &engine->service);
    if (rv == 0)
        rv = hf_commit_pump_attach(pump, loop);
    if (rv == 0)
        return 0;
    close_parts(engine);
    hf_core_del(engine->service.core);
    hf_free(&hf_alloc_heap, engine->rules);
err_store:
    hf_commit_pump_close(pump);
    return rv;
}

static void start_turns(struct hf_engine *engine)
{
    engine->started = true;
    hf_events_init(&engine->events, &engine->service, &engine->nsm);
    engine->events.lines.loop = engine->loop;
    engine->events.lines.names = engine->names;
    uv_prepare_start(&engine->prepare, end_turn);
}

int hf_engine_start(struct hf_engine *engine, void (*begun)(void *ctx), void *ctx)
{
    int rv = hf_commit_pump_start(engine->commits);

    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot start", HF_STR("reason", "no thread for the store"));
        return rv;
    }
    engine->begun = begun;
    engine->begun_ctx = ctx;
    start_turns(engine);
    return 0;
}

/* ---- with standbys ---- */

int hf_engine_open_empty(struct hf_engine *engine, uv_loop_t *loop, const struct hf_config *config,
                         const struct hf_hash_key *hash_key, struct hf_commit_pump *pump,
                         const struct hf_rpc_gate *gate)
{
    int rv;

    *engine = (struct hf_engine){.loop = loop, .commits = pump, .gate = gate};
    warn_without_grace(config);
    rv = open_parts(engine, config, hash_key);
    if (rv < 0)
        return rv;
    engine->service.loading = true;
    engine->service.fenced = true;
    hf_rpc_client_set_gate(engine->client, gate);
    return 0;
}

void hf_engine_adopt(struct hf_engine *engine, struct hf_core *core, struct hf_export_rules *rules)
{
    hf_core_del(engine->service.core);
    hf_free(&hf_alloc_heap, engine->rules);
    engine->service.core = core;
    engine->rules = rules;
    hf_commit_pump_serve(engine->commits, &engine->service);
    start_turns(engine);
}

void hf_engine_serve(struct hf_engine *engine)
{
    engine->service.loading = false;
}

void hf_engine_rest(struct hf_engine *engine)
{
    uv_prepare_stop(&engine->prepare);
    uv_timer_stop(&engine->alarm);
    engine->alarm_ms = UINT64_MAX;
}

static void on_closed(uv_handle_t *handle)
{
    ((struct hf_engine *)handle->data)->open_handles--;
}

static void on_client_closed(void *ctx)
{
    ((struct hf_engine *)ctx)->open_handles--;
}

void hf_engine_abandon(struct hf_engine *engine)
{
    uv_prepare_stop(&engine->prepare);
    engine->open_handles = 3;
    hf_rpc_client_close(engine->client, on_client_closed, engine);
    hf_nsm_stop(&engine->nsm);
    hf_commit_pump_forget(engine->commits);
    uv_close((uv_handle_t *)&engine->prepare, on_closed);
    uv_close((uv_handle_t *)&engine->alarm, on_closed);
}

bool hf_engine_is_gone(const struct hf_engine *engine)
{
    return engine->open_handles == 0 && engine->nsm.resolving == 0 &&
           !hf_named_lines_wait(&engine->events.lines) &&
           !(engine->started && engine->commits->committing);
}

enum { DIGEST_ANY_NUMBER, DIGEST_IF_QUICK };

/*
 * The digest is compared with that of the next start. It costs 0.2 us a lock, so while clients wait
 * it is left out where there are many.
 */
static void log_state(struct hf_engine *engine, const char *text, int digest)
{
    enum { QUICK = 10000 };
    struct hf_core *core = engine->service.core;
    struct hf_view_status status;
    uint64_t clients;

    hf_core_view_status(core, hf_service_now(&engine->service), &status);
    clients = status.nlm_clients + status.nsm_clients;
    if (digest == DIGEST_ANY_NUMBER || clients + status.locks <= QUICK)
        hf_log(HF_LOG_INFO, text, HF_UINT("clients", clients), HF_UINT("locks", status.locks),
               HF_UINT("digest", hf_core_digest(core)));
    else
        hf_log(HF_LOG_INFO, text, HF_UINT("clients", clients), HF_UINT("locks", status.locks));
}

void hf_engine_reconfigure(struct hf_engine *engine, const struct hf_config *config)
{
    struct hf_limits limits = limits_of(config);

    hf_core_set_limits(engine->service.core, &limits);
    log_state(engine, "durable now", DIGEST_IF_QUICK);
}

/* ---- closing ---- */

void hf_engine_stop(struct hf_engine *engine)
{
    uv_prepare_stop(&engine->prepare);
    hf_rpc_client_close(engine->client, NULL, NULL);
    hf_nsm_stop(&engine->nsm);
    hf_commit_pump_stop(engine->commits);
    log_state(engine, "durable at the end", DIGEST_ANY_NUMBER);
    uv_close((uv_handle_t *)&engine->prepare, NULL);
    uv_close((uv_handle_t *)&engine->alarm, NULL);
}

void hf_engine_free(struct hf_engine *engine)
{
    hf_losses_file_free(&engine->losses_file);
    hf_nlm_free(&engine->nlm);
    hf_nsm_free(&engine->nsm);
    hf_core_del(engine->service.core);
    hf_free(&hf_alloc_heap, engine->rules);
}
