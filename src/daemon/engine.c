#include "daemon/engine.h"

#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/check.h"
#include "base/error.h"
#include "daemon/events.h"

enum {
    LINGER_MS = 5 * 60 * 1000, /* SPEC section 4: a registration outlives its last lock */
    CALLS_PER_TURN = 64,       /* begun before requests, and the answers to calls, get their turn */
    SUM_UP_MS = 1000,
};

/* ---- time ---- */

static void update_wall_clock(struct hf_engine *engine)
{
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    engine->wall_offset_ms =
        (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000 - (int64_t)uv_now(engine->loop);
}

/* The loop's own clock, read once a turn: no system call for each request. */
struct hf_now hf_engine_now(const struct hf_engine *engine)
{
    uint64_t mono_ms = uv_now(engine->loop);

    return (struct hf_now){mono_ms, (int64_t)mono_ms + engine->wall_offset_ms};
}

static struct hf_now now(void *ctx)
{
    return hf_engine_now(ctx);
}

/* ---- the store ---- */

static void settle(struct hf_engine *engine, uint64_t seq, int error)
{
    hf_core_batch_done(engine->core, now(engine), seq, error);
    engine->nlm.settled_ns = uv_hrtime();
    if (error < 0)
        hf_later_fail(&engine->answers);
    else
        hf_later_reach(&engine->answers, hf_core_durable(engine->core));
}

/* The store's thread logs what became of it; here it decides whether requests are let in. */
static void note_health(struct hf_engine *engine)
{
    struct hf_store_health health;

    hf_committer_health(&engine->committer, &health);
    engine->store_up = health.up;
}

static void collect(struct hf_engine *engine)
{
    struct hf_commit_result result;

    if (hf_committer_collect(&engine->committer, &result)) {
        engine->committing = false;
        hf_histogram_observe(&engine->commits_ns, result.duration_ns);
        hf_histogram_observe(&engine->batch_sizes, result.batch->n_ops);
        settle(engine, result.batch->seq, result.status);
    }
    note_health(engine);
}

static void on_committed(uv_async_t *async)
{
    collect(async->data);
}

/* From the store's thread. */
static void wake(void *ctx)
{
    uv_async_send(&((struct hf_engine *)ctx)->committed);
}

static void submit(struct hf_engine *engine)
{
    const struct hf_batch *batch;

    while (!engine->committing && (batch = hf_core_take_batch(engine->core))) {
        if (batch->n_ops == 0) {
            settle(engine, batch->seq, 0);
            continue;
        }
        engine->committing = true;
        hf_committer_submit(&engine->committer, batch);
    }
}

/* ---- once a turn ---- */

/*
 * A restart may want ten thousand of them at once: begun in one go they would keep requests
 * waiting, and their answers would overflow the socket before anybody reads it.
 */
static void start_calls(struct hf_engine *engine)
{
    struct hf_call call;
    unsigned n = 0;

    while (n < CALLS_PER_TURN && hf_core_next_call(engine->core, now(engine), &call)) {
        n++;
        if (call.kind == HF_CALL_GRANTED)
            hf_nlm_call_granted(&engine->nlm, &call);
        else if (call.kind == HF_CALL_PROBE)
            hf_nlm_call_probe(&engine->nlm, &call);
        else
            hf_nsm_call(&engine->nsm, &call);
    }
    engine->more_calls = n == CALLS_PER_TURN;
}

/* A host registered by name only: its address is wanted before its first notice comes. */
static void resolve_if_needed(struct hf_engine *engine, uint64_t client_id)
{
    struct hf_view_client client;

    if (hf_core_view_client(engine->core, client_id, &client) == 0 && client.record.n_addrs == 0)
        hf_nsm_resolve(&engine->nsm, client_id, client.record.name);
}

/* When nobody is left who has not been tried, once for each restart. */
static void sum_up_notices(struct hf_engine *engine)
{
    struct hf_view_status status;

    hf_core_view_status(engine->core, now(engine), &status);
    engine->untold = status.notices[HF_NOTICE_PENDING];
    engine->counted_ms = uv_now(engine->loop);
    if (engine->untold > 0)
        return;
    engine->summed_up = status.state;
    if (status.notices[HF_NOTICE_NONE] < status.nlm_clients + status.nsm_clients)
        hf_log(HF_LOG_INFO, "clients told of our restart", HF_INT("state", status.state),
               HF_UINT("delivered", status.notices[HF_NOTICE_DELIVERED]),
               HF_UINT("failing", status.notices[HF_NOTICE_FAILING]),
               HF_UINT("given_up", status.notices[HF_NOTICE_GIVEN_UP]));
}

/* Counting all clients costs too much to do it at every turn: only when all may have been told. */
static void review_notices(struct hf_engine *engine, uint64_t told)
{
    bool due = uv_now(engine->loop) - engine->counted_ms >= SUM_UP_MS;

    if (hf_core_sm_stat(engine->core).state == engine->summed_up)
        return;
    engine->untold -= told < engine->untold ? told : engine->untold;
    if (engine->untold == 0 || due)
        sum_up_notices(engine);
}

/* What one turn brought, where one line for each client would be too many. */
struct tally {
    uint64_t notices, unreachable, released;
};

static void count_event(struct tally *tally, const struct hf_event *event)
{
    switch (event->kind) {
    case HF_EVENT_NOTICE_DELIVERED:
    case HF_EVENT_NOTICE_FAILED:
    case HF_EVENT_NOTICE_GIVEN_UP:
        tally->notices++;
        break;
    case HF_EVENT_CLIENT_UNREACHABLE:
        tally->unreachable++;
        tally->released += (uint64_t)event->b;
        break;
    default:
        break;
    }
}

static void log_events(struct hf_engine *engine)
{
    struct tally tally = {0};
    struct hf_event event;

    while (hf_core_next_event(engine->core, &event)) {
        hf_event_log(&event);
        count_event(&tally, &event);
        if (event.kind == HF_EVENT_CLIENT_REGISTERED)
            resolve_if_needed(engine, event.client_id);
    }
    review_notices(engine, tally.notices);
    if (tally.unreachable > 0)
        hf_log(HF_LOG_INFO, "clients that could not be told are given up as crashed",
               HF_UINT("clients", tally.unreachable), HF_UINT("locks_released", tally.released));
}

static void on_alarm(uv_timer_t *timer)
{
    struct hf_engine *engine = timer->data;

    update_wall_clock(engine);
    hf_core_tick(engine->core, now(engine));
}

/* The next moment the core wants to be woken; and at least once a second for the wall clock. */
static void set_alarm(struct hf_engine *engine)
{
    enum { WALL_CLOCK_MS = 1000 };
    uint64_t deadline = hf_core_deadline(engine->core);
    uint64_t mono_ms = uv_now(engine->loop);
    uint64_t pause = deadline > mono_ms && !engine->more_calls ? deadline - mono_ms : 0;

    uv_timer_start(&engine->alarm, on_alarm, pause < WALL_CLOCK_MS ? pause : WALL_CLOCK_MS, 0);
}

static void pump(uv_prepare_t *prepare)
{
    struct hf_engine *engine = prepare->data;

    submit(engine);
    start_calls(engine);
    log_events(engine);
    hf_nlm_turn_over(&engine->nlm);
    set_alarm(engine);
}

/* ---- opening ---- */

/* Each may need a file, and clients' connections need theirs. */
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
    return (struct hf_limits){config->max_clients, config->max_locks_per_client,
                              config->max_locks_per_file, config->max_locks,
                              config->max_waiters_per_file};
}

static struct hf_core_config core_config(struct hf_engine *engine, const struct hf_config *config,
                                         const struct hf_hash_key *hash_key)
{
    struct hf_core_config core = hf_core_config_default();

    core.server_name = hf_bytes_str(config->name);
    core.limits = limits_of(config);
    core.grace_mode = (enum hf_grace_mode)config->grace_mode;
    core.grace_ms = (uint64_t)config->grace_seconds * 1000;
    core.durable_locks = config->durable != 0;
    core.linger_ms = LINGER_MS;
    core.call_timeout_ms = (uint64_t)config->notify_timeout * 1000;
    core.call_attempts = config->notify_attempts;
    core.notify_in_flight = notify_in_flight(config);
    core.on_failure = (enum hf_on_failure)config->notify_on_failure;
    core.retry_for_ms = (uint64_t)config->notify_retry_for * 1000;
    core.hash_key = *hash_key;
    for (unsigned i = 0; i < config->n_shares; i++) {
        const struct hf_config_share *share = &config->shares[i];
        engine->shares[i] = (struct hf_share_rule){hf_bytes_str(share->name), share->offset,
                                                   hf_bytes(share->bytes, share->len)};
    }
    core.shares = engine->shares;
    core.n_shares = config->n_shares;
    return core;
}

struct loading {
    struct hf_core *core;
    uint64_t clients, locks;
};

static int load_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct loading *loading = ctx;

    loading->clients += kind == HF_RECORD_CLIENT;
    loading->locks += kind == HF_RECORD_LOCK;
    return hf_core_load(loading->core, kind, record);
}

const char *hf_engine_backend_name(uint32_t backend)
{
    static const char *const names[] = {"memory", "lmdb", "postgres"};

    HF_ASSERT(backend < HF_COUNT_OF(names));
    return names[backend];
}

static int open_store(struct hf_engine *engine, const struct hf_config *config)
{
    struct hf_store_config store = {
        .backend = hf_engine_backend_name(config->backend),
        .path = config->path,
        .dsn = config->dsn,
    };
    int rv = hf_store_open(&engine->store, &store);

    if (rv < 0)
        hf_log(HF_LOG_ERROR, "cannot open the store", HF_STR("backend", store.backend),
               HF_STR("reason", hf_store_error(&engine->store)));
    return rv;
}

/* Everything that was durable into the core, and the new epoch into the store. */
static int load(struct hf_engine *engine)
{
    struct loading loading = {.core = engine->core};
    const struct hf_batch *batch;
    int rv = hf_store_load(&engine->store, load_record, &loading);

    if (rv < 0) {
        const char *why = hf_store_error(&engine->store);
        hf_log(HF_LOG_ERROR, "cannot load the store",
               HF_STR("reason", why[0] ? why : hf_strerror(rv)));
        return rv;
    }
    rv = hf_core_start(engine->core, now(engine));
    while (rv == 0 && (batch = hf_core_take_batch(engine->core))) {
        rv = hf_store_apply(&engine->store, batch);
        hf_core_batch_done(engine->core, now(engine), batch->seq, rv);
    }
    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot record the new epoch", HF_STR("reason", hf_strerror(rv)),
               HF_STR("detail", hf_store_error(&engine->store)));
        return rv;
    }
    hf_log(HF_LOG_INFO, "store loaded", HF_UINT("clients", loading.clients),
           HF_UINT("locks", loading.locks), HF_UINT("digest", hf_core_digest(engine->core)));
    return 0;
}

static void init_programs(struct hf_engine *engine)
{
    struct hf_nlm_config nlm = {
        .core = engine->core,
        .client = engine->client,
        .answers = &engine->answers,
        .store_up = &engine->store_up,
        .now = now,
        .now_ctx = engine,
        .alloc = &hf_alloc_heap,
    };
    struct hf_nsm_config nsm = {
        .core = engine->core,
        .client = engine->client,
        .answers = &engine->answers,
        .store_up = &engine->store_up,
        .now = now,
        .now_ctx = engine,
        .loop = engine->loop,
        .alloc = &hf_alloc_heap,
    };

    hf_nlm_init(&engine->nlm, &nlm);
    hf_nsm_init(&engine->nsm, &nsm);
}

int hf_engine_open(struct hf_engine *engine, uv_loop_t *loop, const struct hf_config *config,
                   const struct hf_hash_key *hash_key)
{
    struct hf_committer_config committer = {HF_COMMIT_GIVE_UP_MS, wake, engine};
    struct hf_core_config core;
    int rv;

    *engine = (struct hf_engine){.loop = loop, .store_up = true};
    hf_later_init(&engine->answers);
    update_wall_clock(engine);
    rv = open_store(engine, config);
    if (rv < 0)
        return rv;
    core = core_config(engine, config, hash_key);
    engine->core = hf_core_new(&core, &hf_alloc_heap);
    if (!engine->core) {
        rv = HF_ENOMEM;
        goto err_store;
    }
    rv = load(engine);
    if (rv < 0)
        goto err_core;
    rv = hf_rpc_client_new(loop, &hf_alloc_heap, hash_key, &engine->client);
    if (rv < 0)
        goto err_core;
    uv_async_init(loop, &engine->committed, on_committed);
    engine->committed.data = engine;
    rv = hf_committer_init(&engine->committer, &engine->store, &committer);
    if (rv < 0)
        goto err_client;
    uv_prepare_init(loop, &engine->prepare);
    engine->prepare.data = engine;
    uv_timer_init(loop, &engine->alarm);
    engine->alarm.data = engine;
    init_programs(engine);
    return 0;

err_client:
    uv_close((uv_handle_t *)&engine->committed, NULL);
    hf_rpc_client_close(engine->client, NULL, NULL);
err_core:
    hf_core_del(engine->core);
err_store:
    hf_store_close(&engine->store);
    return rv;
}

void hf_engine_start(struct hf_engine *engine)
{
    struct hf_view_status status;

    hf_core_view_status(engine->core, now(engine), &status);
    engine->untold = status.notices[HF_NOTICE_PENDING];
    engine->counted_ms = uv_now(engine->loop);
    if (engine->untold == 0)
        engine->summed_up = status.state;
    uv_prepare_start(&engine->prepare, pump);
}

/* To compare with what the next start loads. */
static void log_state(struct hf_engine *engine, const char *text)
{
    struct hf_view_status status;

    hf_core_view_status(engine->core, now(engine), &status);
    hf_log(HF_LOG_INFO, text, HF_UINT("clients", status.nlm_clients + status.nsm_clients),
           HF_UINT("locks", status.locks), HF_UINT("digest", hf_core_digest(engine->core)));
}

void hf_engine_reconfigure(struct hf_engine *engine, const struct hf_config *config)
{
    struct hf_limits limits = limits_of(config);

    hf_core_set_limits(engine->core, &limits);
    log_state(engine, "durable now");
}

/* ---- stopping ---- */

/* What is left to commit goes straight to the store: its thread has ended. */
static void commit_rest(struct hf_engine *engine)
{
    const struct hf_batch *batch;

    while ((batch = hf_core_take_batch(engine->core))) {
        int rv = batch->n_ops ? hf_store_apply(&engine->store, batch) : 0;

        settle(engine, batch->seq, rv);
        if (rv < 0) {
            hf_log(HF_LOG_ERROR, "the clean stop could not be recorded",
                   HF_STR("reason", hf_store_error(&engine->store)));
            break;
        }
    }
    hf_later_fail(&engine->answers);
}

void hf_engine_stop(struct hf_engine *engine)
{
    uv_prepare_stop(&engine->prepare);
    hf_rpc_client_close(engine->client, NULL, NULL);
    hf_nsm_stop(&engine->nsm);
    hf_committer_stop(&engine->committer);
    collect(engine);
    hf_core_stop(engine->core, now(engine));
    commit_rest(engine);
    log_state(engine, "durable at the end");
    hf_committer_free(&engine->committer);
    hf_store_close(&engine->store);
    uv_close((uv_handle_t *)&engine->prepare, NULL);
    uv_close((uv_handle_t *)&engine->alarm, NULL);
    uv_close((uv_handle_t *)&engine->committed, NULL);
}

void hf_engine_free(struct hf_engine *engine)
{
    hf_nlm_free(&engine->nlm);
    hf_nsm_free(&engine->nsm);
    hf_core_del(engine->core);
}
