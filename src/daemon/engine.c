#include "daemon/engine.h"

#include "base/error.h"
#include "base/log.h"
#include "daemon/outcalls.h"

/* ---- once a turn ---- */

static void on_alarm(uv_timer_t *timer)
{
    struct hf_engine *engine = timer->data;

    engine->alarm_ms = UINT64_MAX;
    hf_service_read_wall_clock(&engine->service);
    hf_core_tick(engine->service.core, hf_service_now(&engine->service));
}

/*
 * Sets the engine's timer for when the core wants to be woken, and at least once a second to read
 * the wall clock. A timer that is set for an earlier time stays: it does no harm, and moving it in
 * each turn costs more.
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

/* True if outgoing calls may begin: the core's new epoch is durable and, with standbys, the lease
 * is valid. An attempt that cannot be made must not count against a client. */
static bool may_call(const struct hf_engine *engine)
{
    return !engine->service.loading && hf_rpc_gate_is_open(engine->gate);
}

static void end_turn(uv_prepare_t *prepare)
{
    struct hf_engine *engine = prepare->data;

    hf_service_settle(&engine->service);
    hf_coherence_end_turn(&engine->coherence);
    hf_commit_pump_submit(engine->commits);
    /* once more, because submitting may have written a batch at once */
    hf_coherence_end_turn(&engine->coherence);
    engine->more_calls =
        may_call(engine) && hf_outcalls_begin(&engine->service, &engine->nlm, &engine->nsm);
    hf_events_handle(&engine->events);
    if (engine->recorder)
        hf_recorder_end_turn(engine->recorder);
    hf_losses_file_follow(&engine->losses_file);
    hf_nlm_end_turn(&engine->nlm);
    set_alarm(engine);
    hf_service_end_turn(&engine->service);
}

/* ---- opening ---- */

/* Opens a core without records, and all parts of the engine that use it. */
static int open_parts(struct hf_engine *engine, const struct hf_config *config,
                      const struct hf_hash_key *hash_key)
{
    struct hf_core_config wanted = hf_new_core_config(config, hash_key);
    struct hf_core *core;

    engine->rules = hf_calloc(&hf_alloc_heap, 1, sizeof(*engine->rules));
    core = engine->rules ? hf_new_core(config, &wanted, engine->rules) : NULL;
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

static void start_turns(struct hf_engine *engine)
{
    engine->started = true;
    hf_events_init(&engine->events, &engine->service, &engine->nsm);
    engine->events.lines.loop = engine->loop;
    engine->events.lines.names = engine->names;
    engine->events.recorder = engine->recorder;
    if (engine->recorder)
        hf_recorder_follow(engine->recorder, &engine->service);
    uv_prepare_start(&engine->prepare, end_turn);
}

int hf_engine_open(struct hf_engine *engine, uv_loop_t *loop, const struct hf_config *config,
                   const struct hf_hash_key *hash_key, struct hf_commit_pump *pump,
                   const struct hf_rpc_gate *gate)
{
    int rv;

    *engine = (struct hf_engine){
        .loop = loop,
        .commits = pump,
        .store_path = config->backend == HF_BACKEND_LMDB ? config->path : NULL,
        .gate = gate,
    };
    rv = open_parts(engine, config, hash_key);
    if (rv < 0)
        return rv;
    engine->service.loading = true;
    engine->service.shares_wait =
        config->cluster_mode == HF_CLUSTER_STANDBY || config->recovery_notify == HF_RECOVERY_NEEDED;
    hf_rpc_client_set_gate(engine->client, gate);
    return 0;
}

/* ---- a term ---- */

void hf_engine_adopt(struct hf_engine *engine, const struct hf_config *config, struct hf_core *core,
                     struct hf_export_rules *rules, const struct hf_coherence_watcher *watcher)
{
    struct hf_limits limits = hf_new_core_limits(config);

    /* a reload may have changed the limits while the core was loaded */
    hf_core_set_limits(core, &limits);
    hf_core_del(engine->service.core);
    hf_free(&hf_alloc_heap, engine->rules);
    engine->service.core = core;
    engine->rules = rules;
    hf_commit_pump_serve(engine->commits, &engine->service);
    hf_coherence_start(&engine->coherence, &engine->service, engine->loop, config, watcher);
    start_turns(engine);
}

void hf_engine_serve(struct hf_engine *engine)
{
    engine->service.loading = false;
}

void hf_engine_rest(struct hf_engine *engine)
{
    hf_coherence_rest(&engine->coherence);
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

void hf_engine_close(struct hf_engine *engine)
{
    hf_engine_rest(engine);
    hf_coherence_close(&engine->coherence);
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

/*
 * Logs how many records are durable, and their digest, which an operator compares with that of the
 * next start. The digest costs 0.2 us a lock, so it is left out while clients wait if there are
 * many locks.
 */
void hf_engine_log_state(struct hf_engine *engine, const char *text, bool clients_wait)
{
    enum { QUICK = 10000 };
    struct hf_core *core = engine->service.core;
    struct hf_view_status status;
    uint64_t clients;

    hf_core_view_status(core, hf_service_now(&engine->service), &status);
    clients = status.nlm_clients + status.nsm_clients;
    if (!clients_wait || clients + status.locks <= QUICK)
        hf_log(HF_LOG_INFO, text, HF_UINT("clients", clients), HF_UINT("locks", status.locks),
               HF_UINT("digest", hf_core_digest(core)));
    else
        hf_log(HF_LOG_INFO, text, HF_UINT("clients", clients), HF_UINT("locks", status.locks));
}

void hf_engine_reconfigure(struct hf_engine *engine, const struct hf_config *config)
{
    struct hf_limits limits = hf_new_core_limits(config);

    hf_core_set_limits(engine->service.core, &limits);
    hf_engine_log_state(engine, "durable now", true);
}

void hf_engine_free(struct hf_engine *engine)
{
    hf_losses_file_free(&engine->losses_file);
    hf_nlm_free(&engine->nlm);
    hf_nsm_free(&engine->nsm);
    hf_core_del(engine->service.core);
    hf_free(&hf_alloc_heap, engine->rules);
}
