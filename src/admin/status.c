/* The state of the daemon as a whole: status, grace, health, metrics. */
#include "admin/private.h"
#include "admin/rows.h"
#include "admin/values.h"

static struct hf_view_status view_status(const struct request *request)
{
    struct hf_service *service = request->admin->config.service;
    struct hf_view_status status;

    hf_core_view_status(service->core, hf_service_now(service), &status);
    return status;
}

static json_t *show_grace(const struct hf_view_status *s)
{
    return json_pack("{s:b, s:f, s:I, s:I}", "active", s->grace_active, "remaining_seconds",
                     (double)s->grace_remaining_ms / 1000, "reclaimed", (json_int_t)s->reclaimed,
                     "unreclaimed", (json_int_t)s->unreclaimed);
}

static json_t *show_notices(const struct hf_view_status *s)
{
    json_t *json = json_object();

    for (int i = HF_NOTICE_PENDING; i <= HF_NOTICE_GIVEN_UP; i++)
        json_object_set_new(json, row_notice_name((enum hf_notice_status)i),
                            json_integer((json_int_t)s->notices[i]));
    return json;
}

static json_t *show_counts(const struct hf_view_status *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "clients", (json_int_t)s->nlm_clients,
                     "registrations", (json_int_t)s->nsm_clients, "locks", (json_int_t)s->locks,
                     "waiters", (json_int_t)s->waiters, "reservations", (json_int_t)s->shares,
                     "files", (json_int_t)s->files, "calls_in_flight",
                     (json_int_t)s->calls_in_flight);
}

static json_t *show_totals(const struct hf_admin_ops *ops)
{
    struct hf_admin_totals t;

    ops->totals(ops->ctx, &t);
    return json_pack("{s:I, s:f, s:I, s:f, s:I}", "requests", (json_int_t)t.requests,
                     "request_seconds", (double)t.requests_ns / 1e9, "commits",
                     (json_int_t)t.commits, "commit_seconds", (double)t.commits_ns / 1e9,
                     "callbacks", (json_int_t)t.callbacks);
}

static json_t *show_store(const struct hf_admin_health *health)
{
    return json_pack("{s:b, s:s?}", "up", health->store_up, "reason",
                     health->store_up ? NULL : health->reason);
}

static json_t *show_rpcbind(const struct hf_admin_health *health)
{
    return json_pack("{s:b, s:s, s:s?}", "up", health->rpcbind_up, "state", health->rpcbind,
                     "reason", health->rpcbind_up ? NULL : health->rpcbind_reason);
}

static json_t *show_names(const struct hf_names *names)
{
    struct hf_names_source source = hf_names_source(names);
    const char *namer = !source.namer ? "none" : source.up ? "up" : "down";

    return json_pack("{s:s, s:b, s:s?}", "namer", namer, "map", source.map, "reason",
                     source.namer && !source.up ? source.reason : NULL);
}

static json_t *show_listen(const struct hf_admin_config *config)
{
    json_t *json = json_array();
    char text[HF_ADDR_TEXT_MAX];

    for (unsigned i = 0; i < config->n_server_listen; i++)
        json_array_append_new(json, json_string(hf_addr_format(&config->server_listen[i], text)));
    return json;
}

/* null without standbys. */
static json_t *show_role(const struct hf_admin_ops *ops)
{
    struct hf_admin_cluster cluster;

    return ops->cluster && ops->cluster(ops->ctx, &cluster) ? json_string(cluster.role)
                                                            : json_null();
}

enum MHD_Result on_status(struct request *request)
{
    const struct hf_admin_config *config = &request->admin->config;
    struct hf_view_status s = view_status(request);
    struct hf_admin_health health;

    config->ops.health(config->ops.ctx, &health);
    return reply_json(
        request, MHD_HTTP_OK,
        json_pack(
            "{s:o, s:s, s:s, s:o, s:i, s:o, s:o, s:i, s:b, s:b, s:s, s:o, s:o, s:o, s:o, s:o, "
            "s:o, s:o, s:o, s:o}",
            "role", show_role(&config->ops), "version", HF_VERSION, "name", config->server_name,
            "listen", show_listen(config), "port", config->server_port, "time",
            value_time(hf_service_now(config->service).wall_ms), "epoch", value_id(s.epoch),
            "state", s.state, "clean_start", s.was_clean, "token_needed",
            request->admin->token[0] != '\0', "changes", access_changes(request), "grace",
            show_grace(&s), "counts", show_counts(&s), "notifications", show_notices(&s), "store",
            show_store(&health), "rpcbind", show_rpcbind(&health), "losses",
            troubles_losses(config), "limits", troubles_limits(config), "totals",
            show_totals(&config->ops), "names", show_names(request->admin->names)));
}

enum MHD_Result on_grace(struct request *request)
{
    struct hf_view_status s = view_status(request);

    return reply_json(request, MHD_HTTP_OK, show_grace(&s));
}

enum MHD_Result on_healthz(struct request *request)
{
    return reply_text(request, MHD_HTTP_OK, "text/plain; charset=utf-8", hf_bytes_str("alive\n"));
}

/* Not ready while the store is down, because nothing can be promised then, while new clients do not
 * find us by rpcbind, and on a standby; a grace period is no reason, because clients can reclaim.
 */
enum MHD_Result on_readyz(struct request *request)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    struct hf_admin_health health;
    struct hf_admin_cluster cluster;

    if (cluster_waits(request, &cluster))
        return reply_waiting(request, &cluster);
    ops->health(ops->ctx, &health);
    if (!health.store_up)
        return reply_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE, health.reason);
    if (!health.rpcbind_up)
        return reply_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE, health.rpcbind_reason);
    return reply_text(request, MHD_HTTP_OK, "text/plain; charset=utf-8", hf_bytes_str("ready\n"));
}

static void expose_names(const struct hf_names *names, struct hf_exposition *out)
{
    const struct hf_names_counters *c = hf_names_counters(names);
    struct hf_names_source source = hf_names_source(names);

    hf_expose_gauge(out, "holdfast_namer_up", "1 if the namer is connected.", source.up);
    hf_expose_counter(out, "holdfast_names_asked_total", "Questions sent to the namer.", c->asked);
    hf_expose_family(out, "holdfast_names_answers_total", "counter", "How they ended.");
    hf_expose_uint(out, "holdfast_names_answers_total", "result=\"named\"", c->named);
    hf_expose_uint(out, "holdfast_names_answers_total", "result=\"deleted\"", c->deleted);
    hf_expose_uint(out, "holdfast_names_answers_total", "result=\"unknown\"", c->unknown);
    hf_expose_uint(out, "holdfast_names_answers_total", "result=\"unanswered\"", c->unanswered);
    hf_expose_gauge(out, "holdfast_names_cached", "Files whose names are kept.",
                    (double)hf_names_kept(names));
}

enum MHD_Result on_metrics(struct request *request)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    enum MHD_Result rv = MHD_NO;
    struct hf_buf buf;
    struct hf_exposition out = {.out = &buf};

    hf_buf_init(&buf, &hf_alloc_heap);
    ops->metrics(ops->ctx, &out);
    expose_names(request->admin->names, &out);
    if (!out.failed)
        rv = reply_text(request, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8",
                        hf_buf_view(&buf));
    hf_buf_free(&buf);
    return rv;
}
