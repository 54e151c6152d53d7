/*
 * The operator's hand: every change is logged with who and what, and answered when it is durable.
 * Whoever was granted something because of it is named in the answer.
 */
#include <stdio.h>

#include "admin/private.h"
#include "admin/rows.h"
#include "admin/values.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/text.h"

enum { WAITERS_AT_ONCE = 64, GRANTED_MAX = 1000 };

/* Waiters that have their lock and are being told so. */
struct grants {
    uint64_t ids[GRANTED_MAX];
    size_t count;
};

static bool grants_has(const struct grants *grants, uint64_t id)
{
    for (size_t i = 0; i < grants->count; i++) {
        if (grants->ids[i] == id)
            return true;
    }
    return false;
}

typedef void (*see_grant)(void *ctx, const struct hf_view_waiter *waiter);

static void each_grant(const struct hf_core *core, see_grant see, void *ctx)
{
    struct hf_view_waiter rows[WAITERS_AT_ONCE];
    uint64_t cursor = 0;
    size_t n;

    while ((n = hf_core_view_waiters(core, &cursor, rows, WAITERS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < n; i++) {
            if (rows[i].granting)
                see(ctx, &rows[i]);
        }
    }
}

static void remember(void *ctx, const struct hf_view_waiter *waiter)
{
    struct grants *grants = ctx;

    if (grants->count < GRANTED_MAX)
        grants->ids[grants->count++] = waiter->id;
}

struct news {
    const struct grants *before;
    struct row_context context;
    json_t *granted;
};

/* A row as a value, for an answer that is none of the lists. */
static json_t *waiter_json(const struct row_context *context, const struct hf_view_waiter *waiter)
{
    union row row = {.waiter = *waiter};
    struct hf_buf buf;
    struct writer writer = {.out = &buf};
    json_t *json = NULL;

    hf_buf_init(&buf, &hf_alloc_heap);
    row_waiter(&writer, context, &row);
    if (!writer.failed)
        json = json_loadb((const char *)hf_buf_view(&buf).data, hf_buf_len(&buf), 0, NULL);
    hf_buf_free(&buf);
    return json;
}

static void tell_if_new(void *ctx, const struct hf_view_waiter *waiter)
{
    struct news *news = ctx;

    if (!grants_has(news->before, waiter->id) && json_array_size(news->granted) < GRANTED_MAX)
        json_array_append_new(news->granted, waiter_json(&news->context, waiter));
}

/* ---- releases ---- */

typedef int64_t (*release)(struct request *request, uint64_t *seq);

static void log_change(const struct request *request, const char *what, int64_t n)
{
    char who[WHO_MAX];

    hf_log(HF_LOG_INFO, "operator", HF_STR("who", access_who(request, who)), HF_STR("does", what),
           HF_STR("to", request->argument), HF_INT("released", n));
}

static enum MHD_Result reply_release(struct request *request, const char *what, release act)
{
    const struct hf_admin_config *config = &request->admin->config;
    struct grants before = {.count = 0};
    struct news news = {&before, {&request->admin->map, 0}, json_array()};
    uint64_t seq = 0;
    int64_t n;

    each_grant(config->core, remember, &before);
    n = act(request, &seq);
    if (n < 0) {
        json_decref(news.granted);
        return reply_error(request, (int)n, "There is nothing of that name.");
    }
    news.context.wall_ms = config->ops.now(config->ops.ctx).wall_ms;
    each_grant(config->core, tell_if_new, &news);
    log_change(request, what, n);
    return reply_when_durable(
        request, seq, json_pack("{s:I, s:o}", "released", (json_int_t)n, "granted", news.granted));
}

static int64_t release_client(struct request *request, uint64_t *seq)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    uint64_t id;

    return parse_id(request->argument, &id) ? ops->release_client(ops->ctx, id, seq) : HF_ENOENT;
}

static int64_t release_lock(struct request *request, uint64_t *seq)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    uint64_t id;

    return parse_id(request->argument, &id) ? ops->release_lock(ops->ctx, id, seq) : HF_ENOENT;
}

static int64_t release_file(struct request *request, uint64_t *seq)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    uint8_t fh[HF_FH_MAX];
    int len = hf_hex_decode(request->argument, strlen(request->argument), fh, sizeof(fh));

    return len > 0 ? ops->release_file(ops->ctx, hf_bytes(fh, (size_t)len), seq) : HF_ENOENT;
}

enum MHD_Result on_delete_client(struct request *request)
{
    return reply_release(request, "release client", release_client);
}

enum MHD_Result on_delete_lock(struct request *request)
{
    return reply_release(request, "release lock", release_lock);
}

enum MHD_Result on_delete_file(struct request *request)
{
    return reply_release(request, "release file", release_file);
}

/* ---- the rest ---- */

enum MHD_Result on_end_grace(struct request *request)
{
    const struct hf_admin_config *config = &request->admin->config;
    struct hf_view_status status;
    uint64_t seq;

    hf_core_view_status(config->core, config->ops.now(config->ops.ctx), &status);
    if (!status.grace_active)
        return reply_json(request, MHD_HTTP_OK,
                          json_pack("{s:b, s:i}", "ended", false, "released", 0));
    seq = config->ops.end_grace(config->ops.ctx);
    log_change(request, "end grace", (int64_t)status.unreclaimed);
    return reply_when_durable(
        request, seq,
        json_pack("{s:b, s:I}", "ended", true, "released", (json_int_t)status.unreclaimed));
}

/* The client named in the body, 0 for all of them; false if the body makes no sense. */
static bool client_of_body(const struct request *request, uint64_t *out)
{
    struct hf_bytes body = hf_buf_view(&request->body);
    const char *text;
    json_t *json;
    bool ok = true;

    *out = 0;
    if (body.len == 0)
        return true;
    json = json_loadb((const char *)body.data, body.len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(json)) {
        json_decref(json);
        return false;
    }
    if (json_object_get(json, "client")) {
        text = json_string_value(json_object_get(json, "client"));
        ok = text && parse_id(text, out) && *out != 0;
    }
    json_decref(json);
    return ok;
}

enum MHD_Result on_notify(struct request *request)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    uint64_t client;
    int rv;

    if (!client_of_body(request, &client))
        return reply_problem(request, MHD_HTTP_BAD_REQUEST,
                             "The body is {\"client\": \"ID\"}, or empty for all clients.");
    rv = ops->notify(ops->ctx, client);
    if (rv < 0)
        return reply_error(request, rv, "There is no such client, or nothing to tell it.");
    hf_format(request->argument, sizeof(request->argument), "%llu", (unsigned long long)client);
    log_change(request, client ? "notify client" : "notify all", 0);
    return reply_json(request, MHD_HTTP_ACCEPTED,
                      json_pack("{s:o}", "client", client ? value_id(client) : json_null()));
}

enum MHD_Result on_check(struct request *request)
{
    uint64_t id;

    if (!parse_id(request->argument, &id))
        return reply_problem(request, MHD_HTTP_NOT_FOUND, "There is no such client.");
    log_change(request, "check client", 0);
    return reply_when_checked(request, id);
}
