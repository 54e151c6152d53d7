#include "daemon/coherence_private.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

/* ---- from the core to the keeper ---- */

static struct hf_keeper_op op_of(const struct hf_claim *claim)
{
    static const uint8_t kinds[] = {
        [HF_CLAIM_RAISE] = HF_KEEPER_CLAIM,   [HF_CLAIM_SET] = HF_KEEPER_SET,
        [HF_CLAIM_TEST] = HF_KEEPER_TEST,     [HF_CLAIM_WAIT] = HF_KEEPER_WAIT,
        [HF_CLAIM_CANCEL] = HF_KEEPER_CANCEL,
    };
    static const uint8_t modes[] = {
        [HF_CLAIM_NONE] = HF_KEEPER_NONE,
        [HF_CLAIM_SHARED] = HF_KEEPER_SHARED,
        [HF_CLAIM_EXCLUSIVE] = HF_KEEPER_EXCLUSIVE,
    };
    struct hf_keeper_op op = {.id = claim->id, .kind = kinds[claim->kind]};

    if (claim->kind == HF_CLAIM_CANCEL)
        return op;
    op.mode = modes[claim->mode];
    op.offset = claim->first;
    op.length = claim->last == UINT64_MAX ? 0 : claim->last - claim->first + 1;
    op.handle_len = (uint8_t)claim->fh.len;
    memcpy(op.handle, claim->fh.data, claim->fh.len);
    return op;
}

/* Sends a claim of the core to the keeper. Operations that wait for room in the queue go first, so
 * that their order is kept. */
static void on_claim(void *ctx, const struct hf_claim *claim)
{
    struct hf_coherence *c = ctx;
    struct hf_keeper_op op = op_of(claim);

    if (claim->kind == HF_CLAIM_RAISE && !c->compared)
        c->missing++;
    if (claim->kind != HF_CLAIM_WAIT && claim->kind != HF_CLAIM_CANCEL && c->n_open++ == 0) {
        c->asked_ns = uv_hrtime();
        c->heard_ms = uv_now(c->loop);
    }
    if (hf_buf_len(&c->waiting) == 0 && hf_keeper_client_put(c->client, &op) == 0)
        return;
    if (hf_buf_append(&c->waiting, &op, sizeof(op)) < 0)
        c->broken = true;
}

static void put_waiting(struct hf_coherence *c)
{
    struct hf_keeper_op op;

    while (hf_buf_len(&c->waiting) > 0) {
        memcpy(&op, hf_buf_view(&c->waiting).data, sizeof(op));
        if (hf_keeper_client_put(c->client, &op) < 0)
            return;
        hf_buf_consume(&c->waiting, sizeof(op));
    }
}

/* ---- the lease ---- */

/* Tells the keeper until when the lease is valid. Returns false if the lease is over, or the keeper
 * cannot be told. */
static bool tell_lease(struct hf_coherence *c)
{
    const struct hf_keeper_op op = {.id = HF_COHERENCE_CONTROL | HF_COHERENCE_RENEW,
                                    .kind = HF_KEEPER_RENEW,
                                    .offset = c->valid_until_ms};

    if (c->valid_until_ms <= hf_clock_boot_ms() || hf_keeper_client_put(c->client, &op) < 0)
        return false;
    c->told_ms = c->valid_until_ms;
    hf_keeper_client_flush(c->client);
    return true;
}

/* Asks the keeper for the list of locks that it holds. With standbys this waits until the lease is
 * valid, because the keeper then lets go what it held under an older lease. */
static void begin_list(struct hf_coherence *c)
{
    if (!c->leased || tell_lease(c))
        c->broken = hf_keeper_client_list(c->client) < 0;
}

void hf_coherence_renew(struct hf_coherence *c, uint64_t valid_until_ms)
{
    bool ended = c->valid_until_ms > 0 && c->valid_until_ms <= hf_clock_boot_ms();

    if (!c->leased || !c->client || c->letting_go || valid_until_ms <= c->valid_until_ms)
        return;
    c->valid_until_ms = valid_until_ms;
    if (!hf_keeper_client_is_up(c->client))
        return; /* on_up() will tell the keeper about the lease */
    if (ended && c->up)
        c->broken = true; /* the keeper has let all locks go: begin the connection anew */
    else if (c->told_ms == 0 || (!c->up && ended))
        begin_list(c);
    else if (c->told_ms + HF_COHERENCE_RENEW_MS <= valid_until_ms)
        (void)tell_lease(c);
}

/* ---- from the keeper to the core ---- */

/* Translates the keeper's status for the core. The core asks again after a status which means that
 * the keeper cannot answer yet; all others but a conflict are reasons why the kernel cannot hold
 * the range. */
static enum hf_claim_outcome outcome_of(uint32_t status)
{
    switch (status) {
    case HF_KEEPER_OK:
        return HF_CLAIM_DONE;
    case HF_KEEPER_CONFLICT:
        return HF_CLAIM_HELD;
    case HF_KEEPER_CANCELLED:
        return HF_CLAIM_CANCELLED;
    case HF_KEEPER_NOT_YET:
    case HF_KEEPER_TOO_MANY_WAITS:
    case HF_KEEPER_WAS_LET_GO:
    case HF_KEEPER_LEASE_OVER:
    case HF_KEEPER_NO_MEMORY:
        return HF_CLAIM_LATER;
    case HF_KEEPER_STALE:
        return HF_CLAIM_STALE;
    case HF_KEEPER_READ_ONLY:
    case HF_KEEPER_EXECUTED:
        return HF_CLAIM_READ_ONLY;
    case HF_KEEPER_TOO_MANY_FILES:
        return HF_CLAIM_FULL;
    default:
        return HF_CLAIM_UNMIRRORED;
    }
}

static uint64_t last_of(uint64_t offset, uint64_t length)
{
    return length == 0 || length - 1 > UINT64_MAX - offset ? UINT64_MAX : offset + length - 1;
}

static void note_time(struct hf_coherence *c)
{
    if (c->n_open == 0 || --c->n_open > 0)
        return;
    hf_histogram_observe(&c->claims_ns, uv_hrtime() - c->asked_ns);
}

static void end_letting_go(struct hf_coherence *c)
{
    hf_coherence_close(c);
    c->told_ms = 0;
    c->watcher.let_go(c->watcher.ctx);
}

/* Takes the result of an operation on the whole service. If the lease ended because the keeper
 * heard of its renewal too late, the keeper holds no lock any more. */
static void on_control(struct hf_coherence *c, const struct hf_keeper_result *result)
{
    switch ((enum hf_coherence_control)(result->id & ~HF_COHERENCE_CONTROL)) {
    case HF_COHERENCE_RENEW:
        c->broken = c->broken || (result->length > 0 && c->service);
        break;
    case HF_COHERENCE_RELEASE_ALL:
        end_letting_go(c);
        break;
    case HF_COHERENCE_PATH:
        hf_coherence_on_path(c, result);
        break;
    case HF_COHERENCE_RELEASED:
        if (c->service && !hf_coherence_tell_released(c))
            begin_list(c);
        break;
    }
}

static void on_result(void *ctx, const struct hf_keeper_result *result)
{
    struct hf_coherence *c = ctx;
    struct hf_claim_result claim = {
        .id = result->id,
        .outcome = outcome_of(result->status),
        .holder = {result->offset, last_of(result->offset, result->length),
                   result->mode != HF_KEEPER_SHARED, result->pid},
    };

    c->heard_ms = uv_now(c->loop);
    if ((result->id >> 62) == 1) {
        on_control(c, result);
        return;
    }
    if (!c->up || c->broken || !c->service)
        return;
    if (claim.outcome == HF_CLAIM_UNMIRRORED)
        hf_log_limited(HF_LOG_WARN, "the kernel cannot hold a lock for us",
                       HF_STR("reason", hf_keeper_status_text(result->status)));
    if (claim.outcome == HF_CLAIM_FULL)
        hf_log_limited(HF_LOG_WARN, "the kernel cannot hold a lock for us",
                       HF_STR("reason", hf_keeper_status_text(result->status)),
                       HF_STR("advice", "raise files= and LimitNOFILE= of holdfast-keeper"));
    if ((result->id >> 63) == 0)
        note_time(c);
    c->broken = hf_core_claim_done(c->service->core, hf_service_now(c->service), &claim) < 0;
}

static void on_up(void *ctx, const struct hf_keeper_hello *hello)
{
    struct hf_coherence *c = ctx;

    hf_log(HF_LOG_INFO, "connected to the keeper", HF_UINT("files", hello->files),
           HF_UINT("ranges", hello->ranges));
    c->n_told = 0;
    if (!hf_coherence_tell_released(c))
        begin_list(c);
}

static void on_held(void *ctx, const struct hf_keeper_op *held)
{
    struct hf_coherence *c = ctx;

    if (c->up || c->broken || !c->service)
        return;
    if (held) {
        c->broken = hf_core_claims_listed(
                        c->service->core, hf_bytes(held->handle, held->handle_len), held->offset,
                        last_of(held->offset, held->length), held->mode == HF_KEEPER_EXCLUSIVE) < 0;
        return;
    }
    c->up = true;
    c->compared = false;
    c->missing = 0;
    hf_core_claims_begin(c->service->core, hf_service_now(c->service));
}

static void lose(struct hf_coherence *c)
{
    c->up = c->broken = c->was_ready = false;
    c->n_open = 0;
    hf_buf_clear(&c->waiting);
    hf_coherence_exports_end(c, HF_ECANCELED, NULL);
    hf_core_claims_lost(c->service->core, hf_service_now(c->service));
}

static void on_down(void *ctx, const char *reason)
{
    struct hf_coherence *c = ctx;

    if (!c->service) { /* when its lease ends the keeper lets the locks go by itself */
        hf_coherence_close(c);
        return;
    }
    if (c->up) {
        c->lost++;
        hf_log(HF_LOG_ERROR, "the keeper is gone: no lock is granted until it is back",
               HF_STR("reason", reason));
    } else {
        hf_log_limited(HF_LOG_WARN, "cannot reach the keeper: no lock is granted",
                       HF_STR("reason", reason), HF_STR("socket", c->socket),
                       HF_STR("advice", "is holdfast-keeper running? See keeper.socket"));
    }
    lose(c);
}

/* ---- start and end ---- */

static int connect_to(struct hf_coherence *c)
{
    c->client = hf_keeper_client_new(c->loop, c->socket, &c->ops);
    return c->client ? 0 : HF_ENOMEM;
}

bool hf_coherence_is_wanted(const struct hf_config *config)
{
    return config->keeper_socket[0] != '\0' && config->programs != HF_PROGRAMS_NSM;
}

void hf_coherence_start(struct hf_coherence *c, struct hf_service *service, uv_loop_t *loop,
                        const struct hf_config *config, const struct hf_coherence_watcher *watcher)
{
    *c = (struct hf_coherence){
        .loop = loop,
        .socket = config->keeper_socket,
        .watcher = *watcher,
        .started_ms = uv_now(loop),
        .leased = config->cluster_mode == HF_CLUSTER_STANDBY,
    };
    if (!hf_coherence_is_wanted(config))
        return;
    c->service = service;
    c->ops = (struct hf_keeper_client_ops){c,         on_up,   on_down,
                                           on_result, on_held, hf_coherence_on_exported};
    hf_buf_init(&c->waiting, service->alloc);
    (void)connect_to(c); /* If memory runs out, the next turn of the loop tries to connect again. */
}

/*
 * Reconnects to the keeper and lists its locks, because what the kernel holds is no longer known.
 */
static void begin_anew(struct hf_coherence *c)
{
    hf_keeper_client_close(c->client);
    c->lost++;
    lose(c);
    if (connect_to(c) < 0)
        c->client = NULL; /* the next turn of the loop connects again */
}

/*
 * True if the keeper is connected and does not answer: it is frozen, or a disk holds it up. Answers
 * that the loop has not read yet, because it was held up itself, count as heard.
 */
static bool is_silent(const struct hf_coherence *c)
{
    return c->up && c->n_open > 0 && uv_now(c->loop) - c->heard_ms >= HF_COHERENCE_SILENT_MS &&
           !hf_keeper_client_has_input(c->client);
}

/*
 * Gives up a connection that cannot go on. The keeper holds on meanwhile: what it was asked and did
 * later is in the list of the next connection.
 */
static void leave_broken(struct hf_coherence *c)
{
    if (c->broken) {
        hf_log(HF_LOG_ERROR, "the connection to the keeper begins anew",
               HF_STR("reason", c->leased ? "the lease had ended, or memory" : "memory"));
        begin_anew(c);
    } else if (is_silent(c)) {
        hf_log(HF_LOG_ERROR, "the keeper is gone: no lock is granted until it is back",
               HF_STR("reason", "it does not answer"), HF_UINT("claims", c->n_open));
        begin_anew(c);
    }
}

bool hf_coherence_may_serve(const struct hf_coherence *c)
{
    return !c->service || c->may_serve || c->was_ready ||
           uv_now(c->loop) - c->started_ms >= HF_COHERENCE_WAIT_MS;
}

static void tell_may_serve(struct hf_coherence *c)
{
    if (c->may_serve || !hf_coherence_may_serve(c))
        return;
    c->may_serve = true;
    if (!c->was_ready)
        hf_log(HF_LOG_ERROR, "serving without the keeper: no lock is granted until it is there");
    c->watcher.may_serve(c->watcher.ctx);
}

/* Counts the first claims after a list: locks that clients hold and the keeper did not. At the
 * first connection that is normal; later, another program may have locked these bytes meanwhile, so
 * it is logged. */
static void note_missing(struct hf_coherence *c)
{
    if (c->compared)
        return;
    c->compared = true;
    if (c->lost == 0 || c->missing == 0)
        return;
    c->n_missed += c->missing;
    hf_log(HF_LOG_WARN, "the kernel did not hold all locks for a while",
           HF_UINT("ranges", c->missing),
           HF_STR("reason",
                  "the keeper was started anew, without the files that the one before had open"));
}

void hf_coherence_hand_out(struct hf_coherence *c)
{
    leave_broken(c);
    if (!c->client && connect_to(c) < 0) {
        c->client = NULL;
        return;
    }
    hf_service_settle(c->service);
    if (c->up) {
        put_waiting(c);
        hf_core_claims_flush(c->service->core, hf_service_now(c->service), on_claim, c);
        hf_keeper_client_flush(c->client);
        note_missing(c);
    }
    hf_service_released(c->service);
    if (!c->was_ready && hf_core_claims_ready(c->service->core)) {
        c->was_ready = true;
        hf_log(HF_LOG_INFO, "the kernel holds what clients hold");
    }
    tell_may_serve(c);
}

void hf_coherence_rest(struct hf_coherence *c)
{
    if (!c->service)
        return;
    lose(c); /* requests that wait for the kernel are told to try again later */
    hf_service_settle(c->service);
    hf_buf_free(&c->waiting);
    hf_coherence_forget_released(c);
    c->service = NULL;
}

void hf_coherence_let_go(struct hf_coherence *c)
{
    const struct hf_keeper_op op = {.id = HF_COHERENCE_CONTROL | HF_COHERENCE_RELEASE_ALL,
                                    .kind = HF_KEEPER_RELEASE_ALL};

    if (c->letting_go || !c->client)
        return;
    c->letting_go = true;
    if (c->told_ms > 0 && hf_keeper_client_put(c->client, &op) == 0)
        hf_keeper_client_flush(c->client);
    else
        hf_coherence_close(c);
}

uint64_t hf_coherence_free_at(const struct hf_coherence *c)
{
    return c->told_ms;
}

void hf_coherence_close(struct hf_coherence *c)
{
    if (c->client)
        hf_keeper_client_close(c->client);
    c->client = NULL;
}
