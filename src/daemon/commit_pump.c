#include "daemon/commit_pump.h"

#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/boot_id.h"
#include "base/error.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/text.h"
#include "daemon/backup_work.h"
#include "daemon/engine.h"

/* ---- results ---- */

static void observe(struct hf_commit_pump *pump, const struct hf_batch *batch, uint64_t duration_ns)
{
    hf_histogram_observe(&pump->commits_ns, duration_ns);
    hf_histogram_observe(&pump->batch_sizes, batch->n_ops);
}

static void settle(struct hf_commit_pump *pump, const struct hf_commit_result *result)
{
    observe(pump, result->batch, result->duration_ns);
    hf_service_batch_done(pump->service, result->batch->seq, result->status);
    if (result->status == 0)
        pump->service->store_up = true;
}

/* The lessee may end the pump when it hears a result. */
static bool is_ended(const struct hf_commit_pump *pump)
{
    return uv_is_closing((const uv_handle_t *)&pump->committed);
}

/*
 * Requests are refused while the store is down. A batch that became durable shows that it is up;
 * only after a failure, or news without a result, must the committer be asked.
 */
static void collect(struct hf_commit_pump *pump)
{
    struct hf_store_health health;
    struct hf_commit_result result;

    if (hf_committer_collect(&pump->committer, &result)) {
        pump->committing = false;
        if (pump->lessee)
            pump->lessee->batch_ended(pump->lessee->ctx, &result);
        if (pump->service && result.batch != &pump->rehearsal)
            settle(pump, &result);
        if (pump->lessee)
            pump->lessee->batch_settled(pump->lessee->ctx, &result);
        if (result.status == 0 || is_ended(pump))
            return;
    }
    hf_committer_health(&pump->committer, &health);
    if (pump->service)
        pump->service->store_up = health.up;
}

static void collect_lease(struct hf_commit_pump *pump)
{
    struct hf_commit_lease result;

    if (pump->lessee && hf_committer_collect_lease(&pump->committer, &result))
        pump->lessee->lease_ended(pump->lessee->ctx, &result);
}

static void collect_backup(struct hf_commit_pump *pump)
{
    struct hf_backup_request *request = pump->backup;
    int status;

    if (!hf_committer_collect_backup(&pump->committer, &status))
        return;
    pump->backup = NULL;
    request->done(request, status);
}

static void on_backed_up_aside(void *ctx, int status, struct hf_buf *out)
{
    struct hf_commit_pump *pump = ctx;
    struct hf_backup_request *request = pump->backup;

    pump->backup = NULL;
    pump->aside = NULL;
    if (status == 0) {
        struct hf_buf empty = request->out;

        request->out = *out;
        *out = empty;
    }
    request->done(request, status);
}

/* The store is about to be closed. */
static void end_backup(struct hf_commit_pump *pump)
{
    struct hf_buf none;

    collect_backup(pump);
    if (!pump->aside)
        return;
    hf_backup_work_abandon(pump->aside);
    hf_buf_init(&none, &hf_alloc_heap);
    on_backed_up_aside(pump, HF_ECANCELED, &none);
}

static void on_committed(uv_async_t *async)
{
    collect(async->data);
    if (!is_ended(async->data))
        collect_lease(async->data);
    if (!is_ended(async->data))
        collect_backup(async->data);
}

static int64_t wall_ms(void)
{
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    return (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000;
}

int hf_commit_pump_back_up(struct hf_commit_pump *pump, struct hf_backup_request *request)
{
    if (pump->backup)
        return HF_ELIMIT;
    if (hf_store_can_read_aside(pump->store_config)) {
        pump->aside = hf_backup_work_start(pump->loop, pump->store_config, wall_ms(),
                                           on_backed_up_aside, pump);
        pump->backup = pump->aside ? request : NULL;
        return pump->aside ? 0 : HF_ENOMEM;
    }
    pump->backup = request;
    hf_committer_back_up(&pump->committer, wall_ms(), &request->out);
    return 0;
}

/* Runs on the store's thread. */
static void wake(void *ctx)
{
    uv_async_send(&((struct hf_commit_pump *)ctx)->committed);
}

static bool may_begin(const struct hf_commit_pump *pump)
{
    return !pump->lessee || pump->lessee->may_begin(pump->lessee->ctx);
}

/*
 * Writes a batch that may be lost (DUR-02) without a change of threads. A batch that must be
 * durable is flushed on the store's thread: a flush on a disk that hangs would stop every client,
 * and the watchdog.
 */
static bool write_here(struct hf_commit_pump *pump, const struct hf_batch *batch)
{
    uint64_t began_ns = uv_hrtime();

    if (!batch->may_be_lost || pump->lessee || !hf_committer_write(&pump->committer, batch))
        return false;
    observe(pump, batch, uv_hrtime() - began_ns);
    hf_service_batch_done(pump->service, batch->seq, 0);
    return true;
}

void hf_commit_pump_submit(struct hf_commit_pump *pump)
{
    const struct hf_batch *batch;

    while (!pump->committing && may_begin(pump) &&
           (batch = hf_core_take_batch(pump->service->core))) {
        /* With a lease an empty batch proves that it is still ours (HA-03). */
        if (batch->n_ops == 0 && !pump->lessee) {
            hf_service_batch_done(pump->service, batch->seq, 0);
            continue;
        }
        if (write_here(pump, batch))
            continue;
        pump->committing = true;
        if (pump->lessee)
            pump->lessee->batch_begins(pump->lessee->ctx);
        hf_committer_submit(&pump->committer, batch);
    }
}

/* ---- opening ---- */

static const char *backend_name(uint32_t backend)
{
    static const char *const names[] = {"memory", "lmdb", "postgres"};

    HF_ASSERT(backend < HF_COUNT_OF(names));
    return names[backend];
}

int hf_store_config_from(const struct hf_config *config, char dsn[HF_CONFIG_TEXT_MAX],
                         struct hf_store_config *out, const char **reason)
{
    int rv = 0;

    hf_format(dsn, HF_CONFIG_TEXT_MAX, "%s", config->dsn);
    if (config->dsn_file[0])
        rv = hf_secret_read(config->dsn_file, dsn, HF_CONFIG_TEXT_MAX, reason);
    *out = (struct hf_store_config){
        .backend = backend_name(config->backend),
        .path = config->path,
        .dsn = dsn,
        .service = config->service,
        .unflushed = config->durable == HF_DURABLE_PROCESS,
    };
    (void)hf_boot_id_read(out->boot_id); /* zeros: an unknown boot, unlike any other */
    return rv;
}

/* The exports of the configuration, which no other service may have. */
static void take_exports(const struct hf_config *config, struct hf_store_settings *out)
{
    for (unsigned i = 0; i < config->n_export_rules; i++) {
        const struct hf_config_export_rule *rule = &config->export_rules[i];
        struct hf_store_export *export = &out->exports[i];

        hf_format(export->name, sizeof(export->name), "%s", rule->name);
        export->offset = rule->offset;
        export->len = rule->len;
        memcpy(export->bytes, rule->bytes, rule->len);
    }
}

int hf_store_settings_from(const struct hf_config *config, struct hf_store_settings *out)
{
    const char *reason;
    int rv;

    *out = (struct hf_store_settings){0};
    rv = hf_store_config_from(config, out->dsn, &out->store, &reason);
    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot use store.dsn_file", HF_STR("file", config->dsn_file),
               HF_STR("reason", reason));
        return rv;
    }
    if (config->cluster_mode != HF_CLUSTER_STANDBY)
        return 0;
    take_exports(config, out);
    out->cluster = (struct hf_store_cluster){.node = config->node,
                                             .version = HF_VERSION,
                                             .require_sync = config->require_sync != 0,
                                             .exports = out->exports,
                                             .n_exports = config->n_export_rules};
    out->store.cluster = &out->cluster;
    /* An attempt without an answer is given up before a standby has waited long enough to take the
     * service: after a stall the owner renews its lease on a new connection first. */
    out->store.timeout_ms = config->lease_ms;
    return 0;
}

/* Without it a crash of the host looks like one of the daemon (DUR-02). */
static bool has_boot_id(const struct hf_store_config *store)
{
    static const uint8_t none[HF_BOOT_ID_SIZE];

    return memcmp(store->boot_id, none, sizeof(none)) != 0;
}

int hf_commit_pump_open(struct hf_commit_pump *pump, const struct hf_config *config,
                        const struct hf_store_settings *settings)
{
    int rv;

    pump->patience_ms = config->patience * 1000;
    pump->store_config = &settings->store;
    if (settings->store.unflushed && !has_boot_id(&settings->store)) {
        hf_log(HF_LOG_ERROR, "cannot use locks.durable=process",
               HF_STR("reason", "the id of this boot of the host is unknown: it is neither in "
                                "/proc/sys/kernel/random/boot_id nor in HOLDFAST_BOOT_ID"));
        return HF_EUNAVAIL;
    }
    rv = hf_store_open(&pump->store, &settings->store);
    if (rv < 0)
        hf_log(HF_LOG_ERROR, "cannot open the store", HF_STR("backend", settings->store.backend),
               HF_STR("reason", hf_store_error(&pump->store)));
    return rv;
}

struct loading {
    struct hf_loader *loader;
    struct hf_batch *rehearsal;
    uint64_t clients, locks;
};

static int load_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct loading *loading = ctx;

    loading->clients += kind == HF_RECORD_CLIENT;
    loading->locks += kind == HF_RECORD_LOCK;
    if (kind == HF_RECORD_SERVER && hf_batch_put_encoded(loading->rehearsal, kind, record) < 0)
        return HF_ENOMEM; /* what does not decode, the loader refuses below */
    return hf_loader_add(loading->loader, kind, record);
}

/*
 * A store that cannot be written stops the start. Deleting the server's record where there is none
 * changes nothing, as putting again what is there does.
 */
static int rehearse(struct hf_commit_pump *pump)
{
    int rv = 0;

    if (pump->rehearsal.n_ops == 0)
        rv = hf_batch_delete(&pump->rehearsal, HF_RECORD_SERVER, 0);
    return rv < 0 ? rv : hf_store_apply(&pump->store, &pump->rehearsal);
}

void hf_log_unknown_locks(const struct hf_core *core)
{
    static const char *const texts[] = {
        [HF_UNKNOWN_SINCE_EARLIER] = "locks may be unknown since an earlier start or a backup",
        [HF_UNKNOWN_NOT_DURABLE] = "the last run did not record locks (locks.durable=no)",
        [HF_UNKNOWN_HOST_CRASHED] = "the host has crashed: the newest locks may be unknown",
        [HF_UNKNOWN_OLD_FORMAT] = "locks may be unknown to a store of an earlier version",
    };
    enum hf_unknown_locks why = hf_core_unknown_locks(core);

    if (why != HF_UNKNOWN_NONE)
        hf_log(HF_LOG_WARN, texts[why],
               HF_STR("advice", "clients may reclaim locks that are not in the store"));
}

static int load_all(struct hf_commit_pump *pump, struct loading *loading)
{
    int rv = loading->loader ? hf_store_load(&pump->store, load_record, loading) : HF_ENOMEM;

    if (rv == 0)
        rv = hf_store_blame_record(&pump->store, HF_RECORD_LOCK, hf_loader_end(loading->loader));
    hf_loader_del(loading->loader);
    return hf_engine_blame_records(pump->service->core, rv, pump->store.error);
}

int hf_commit_pump_load(struct hf_commit_pump *pump, struct hf_service *service)
{
    struct loading loading = {hf_loader_new(service->core), &pump->rehearsal, 0, 0};
    int rv;

    pump->service = service;
    hf_batch_init(&pump->rehearsal, &hf_alloc_heap);
    rv = load_all(pump, &loading);
    if (rv < 0) {
        const char *why = hf_store_error(&pump->store);
        hf_log(HF_LOG_ERROR, "cannot load the store",
               HF_STR("reason", why[0] ? why : hf_strerror(rv)));
        return rv;
    }
    rv = rehearse(pump);
    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot write to the store", HF_STR("reason", hf_strerror(rv)),
               HF_STR("detail", hf_store_error(&pump->store)));
        return rv;
    }
    rv = hf_core_start(service->core, hf_service_now(service));
    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot start", HF_STR("reason", hf_strerror(rv)));
        return rv;
    }
    hf_log_unknown_locks(service->core);
    hf_log(HF_LOG_INFO, "store loaded", HF_UINT("clients", loading.clients),
           HF_UINT("locks", loading.locks), HF_UINT("digest", hf_core_digest(service->core)));
    return 0;
}

int hf_commit_pump_attach(struct hf_commit_pump *pump, uv_loop_t *loop)
{
    struct hf_committer_config config = {
        .give_up_ms = pump->patience_ms, .wake = wake, .ctx = pump, .leased = pump->lessee != NULL};
    int rv;

    pump->loop = loop;
    uv_async_init(loop, &pump->committed, on_committed);
    pump->committed.data = pump;
    rv = hf_committer_init(&pump->committer, &pump->store, &config);
    if (rv < 0)
        uv_close((uv_handle_t *)&pump->committed, NULL);
    return rv;
}

int hf_commit_pump_start(struct hf_commit_pump *pump)
{
    int rv = hf_committer_start(&pump->committer);

    if (rv == 0 && pump->rehearsal.n_ops > 0) {
        pump->committing = true;
        hf_committer_submit(&pump->committer, &pump->rehearsal);
    }
    return rv;
}

/* ---- closing ---- */

/* The thread has ended: the remaining batches, the clean stop among them, are committed here. */
static void commit_rest(struct hf_commit_pump *pump)
{
    const struct hf_batch *batch;

    while ((batch = hf_core_take_batch(pump->service->core))) {
        int rv = batch->n_ops ? hf_store_apply(&pump->store, batch) : 0;

        hf_service_batch_done(pump->service, batch->seq, rv);
        if (rv < 0) {
            hf_log(HF_LOG_ERROR, "cannot record the clean stop",
                   HF_STR("reason", hf_store_error(&pump->store)));
            break;
        }
    }
    hf_service_fail_waiters(pump->service);
}

void hf_commit_pump_stop(struct hf_commit_pump *pump)
{
    hf_committer_stop(&pump->committer);
    collect(pump);
    end_backup(pump);
    hf_core_stop(pump->service->core, hf_service_now(pump->service));
    commit_rest(pump);
    hf_committer_free(&pump->committer);
    hf_commit_pump_close(pump);
    uv_close((uv_handle_t *)&pump->committed, NULL);
}

void hf_commit_pump_close(struct hf_commit_pump *pump)
{
    hf_batch_free(&pump->rehearsal);
    hf_store_close(&pump->store);
}

/* ---- with a lease ---- */

void hf_commit_pump_serve(struct hf_commit_pump *pump, struct hf_service *service)
{
    HF_ASSERT(!pump->service && !pump->committing);
    pump->service = service;
}

void hf_commit_pump_forget(struct hf_commit_pump *pump)
{
    if (pump->service)
        hf_service_fail_waiters(pump->service);
    pump->service = NULL;
}

void hf_commit_pump_end(struct hf_commit_pump *pump)
{
    hf_committer_stop(&pump->committer);
    collect(pump);
    end_backup(pump);
    hf_committer_free(&pump->committer);
    hf_store_close(&pump->store);
    uv_close((uv_handle_t *)&pump->committed, NULL);
}
