#include "daemon/commit_pump.h"

#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "daemon/backup_work.h"
#include "daemon/cluster.h"
#include "daemon/term.h"

/* ---- results ---- */

static void observe(struct hf_commit_pump *pump, const struct hf_batch *batch, uint64_t duration_ns)
{
    hf_histogram_observe(&pump->commits_ns, duration_ns);
    hf_histogram_observe(&pump->batch_sizes, batch->n_ops);
}

static void settle(struct hf_commit_pump *pump, const struct hf_commit_result *result)
{
    if (result->batch == &pump->rehearsal) {
        if (result->status < 0)
            hf_term_settled(pump->daemon, result->status);
        return;
    }
    observe(pump, result->batch, result->duration_ns);
    hf_service_batch_done(pump->service, result->batch->seq, result->status);
    if (result->status == 0)
        pump->service->store_up = true;
    hf_term_settled(pump->daemon, result->status);
}

/* True if a result has ended the term, and the pump with it. */
static bool is_ended(const struct hf_commit_pump *pump)
{
    return !pump->open;
}

/* Collects the committer's results. Requests are refused while the store is down. A batch that
 * became durable shows that the store is up; only after a failure, or a wake-up without a result,
 * must the committer be asked for the store's health. */
static void collect(struct hf_commit_pump *pump)
{
    struct hf_store_health health;
    struct hf_commit_result result;

    if (hf_committer_collect(&pump->committer, &result)) {
        pump->committing = false;
        /* check the lease before answers leave: without a valid lease none may */
        if (pump->cluster)
            hf_cluster_batch_ended(pump->cluster, &result);
        if (pump->service)
            settle(pump, &result);
        if (pump->cluster)
            hf_cluster_carry_on(pump->cluster);
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

    if (pump->cluster && hf_committer_collect_lease(&pump->committer, &result))
        hf_cluster_lease_ended(pump->cluster, &result);
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

/* Ends a backup in progress, because the store is about to be closed. */
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

int hf_commit_pump_back_up(struct hf_commit_pump *pump, struct hf_backup_request *request)
{
    if (pump->backup)
        return HF_ELIMIT;
    if (hf_store_can_read_aside(pump->store_config)) {
        pump->aside = hf_backup_work_start(pump->loop, pump->store_config, hf_clock_wall_ms(),
                                           on_backed_up_aside, pump);
        pump->backup = pump->aside ? request : NULL;
        return pump->aside ? 0 : HF_ENOMEM;
    }
    pump->backup = request;
    hf_committer_back_up(&pump->committer, hf_clock_wall_ms(), &request->out);
    return 0;
}

/* Wakes the loop; runs on the commit thread. */
static void wake(void *ctx)
{
    uv_async_send(&((struct hf_commit_pump *)ctx)->committed);
}

static bool may_begin(const struct hf_commit_pump *pump)
{
    return !pump->cluster || hf_cluster_may_commit(pump->cluster);
}

/* Writes a batch that may be lost in a crash of the host (DUR-02) on the loop thread. A batch that
 * must be durable is flushed on the commit thread, because a flush on a disk that hangs would stop
 * the loop, and with it every client and the watchdog. */
static bool write_here(struct hf_commit_pump *pump, const struct hf_batch *batch)
{
    uint64_t began_ns = uv_hrtime();

    if (!batch->may_be_lost || pump->cluster || !hf_committer_write(&pump->committer, batch))
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
        /* With a lease, even an empty batch is committed: it proves that the lease is still ours
         * (HA-03). */
        if (batch->n_ops == 0 && !pump->cluster) {
            hf_service_batch_done(pump->service, batch->seq, 0);
            continue;
        }
        if (write_here(pump, batch))
            continue;
        pump->committing = true;
        if (pump->cluster)
            hf_cluster_batch_begins(pump->cluster);
        hf_committer_submit(&pump->committer, batch);
    }
}

/* ---- opening ---- */

/* True if the host's boot id is known. Without it a crash of the host cannot be told from one of
 * the daemon (DUR-02). */
static bool has_boot_id(const struct hf_store_config *store)
{
    static const uint8_t none[HF_BOOT_ID_SIZE];

    return memcmp(store->boot_id, none, sizeof(none)) != 0;
}

static int open_store(struct hf_commit_pump *pump, const struct hf_store_config *config)
{
    int rv;

    if (config->unflushed && !has_boot_id(config)) {
        hf_log(HF_LOG_ERROR, "cannot use locks.durable=process",
               HF_STR("reason", "the id of this boot of the host is unknown: it is neither in "
                                "/proc/sys/kernel/random/boot_id nor in HOLDFAST_BOOT_ID"));
        return HF_EUNAVAIL;
    }
    rv = hf_store_open(&pump->store, config);
    if (rv < 0)
        hf_log(HF_LOG_ERROR, "cannot open the store", HF_STR("backend", config->backend),
               HF_STR("reason", hf_store_error(&pump->store)));
    return rv;
}

uint64_t hf_daemon_busy_poll_ns(const struct hf_config *config)
{
    return uv_available_parallelism() > 1 ? config->busy_poll * UINT64_C(1000) : 0;
}

int hf_commit_pump_open(struct hf_commit_pump *pump, uv_loop_t *loop,
                        const struct hf_config *config)
{
    struct hf_committer_config committer = {.give_up_ms = config->patience * 1000,
                                            .wake = wake,
                                            .ctx = pump,
                                            .leased = pump->cluster != NULL,
                                            .busy_poll_ns = hf_daemon_busy_poll_ns(config)};
    int rv = open_store(pump, pump->store_config);

    if (rv < 0)
        return rv;
    rv = hf_committer_init(&pump->committer, &pump->store, &committer);
    if (rv < 0) {
        hf_store_close(&pump->store);
        return rv;
    }
    pump->loop = loop;
    hf_batch_init(&pump->rehearsal, &hf_alloc_heap);
    uv_async_init(loop, &pump->committed, on_committed);
    pump->committed.data = pump;
    pump->open = true;
    return 0;
}

int hf_commit_pump_start(struct hf_commit_pump *pump)
{
    return hf_committer_start(&pump->committer);
}

/* Commits the rehearsal, a batch that changes nothing: it puts the server's record as it is, or
 * deletes it where there is none. */
int hf_commit_pump_rehearse(struct hf_commit_pump *pump)
{
    if (pump->rehearsal.n_ops == 0 && hf_batch_delete(&pump->rehearsal, HF_RECORD_SERVER, 0) < 0)
        return HF_ENOMEM;
    pump->committing = true;
    hf_committer_submit(&pump->committer, &pump->rehearsal);
    return 0;
}

void hf_commit_pump_serve(struct hf_commit_pump *pump, struct hf_service *service)
{
    HF_ASSERT(!pump->service && !pump->committing);
    pump->service = service;
}

/* ---- closing ---- */

/* Records a clean stop. The commit thread has ended, so the loop thread commits the remaining
 * batches, the last of which has the clean stop. */
static void record_clean_stop(struct hf_commit_pump *pump)
{
    const struct hf_batch *batch;

    hf_core_stop(pump->service->core, hf_service_now(pump->service));
    while ((batch = hf_core_take_batch(pump->service->core))) {
        int rv = batch->n_ops ? hf_store_apply(&pump->store, batch) : 0;

        hf_service_batch_done(pump->service, batch->seq, rv);
        if (rv < 0) {
            hf_log(HF_LOG_ERROR, "cannot record the clean stop",
                   HF_STR("reason", hf_store_error(&pump->store)));
            break;
        }
    }
}

void hf_commit_pump_forget(struct hf_commit_pump *pump)
{
    if (pump->service)
        hf_service_fail_waiters(pump->service);
    pump->service = NULL;
}

void hf_commit_pump_stop(struct hf_commit_pump *pump)
{
    if (!pump->open)
        return;
    pump->open = false;
    hf_committer_stop(&pump->committer);
    collect(pump);
    end_backup(pump);
    /* otherwise the release of the lease has recorded the stop */
    if (pump->service && !pump->service->loading)
        record_clean_stop(pump);
    hf_commit_pump_forget(pump);
    hf_committer_free(&pump->committer);
    hf_batch_free(&pump->rehearsal);
    hf_store_close(&pump->store);
    uv_close((uv_handle_t *)&pump->committed, NULL);
}
