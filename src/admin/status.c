/* Shows the state of the daemon as a whole: status, grace, health, metrics. */

#include "admin/private.h"
#include "admin/rows.h"
#include "admin/values.h"
#include "base/clock.h"

static struct hf_view_status view_status(const struct request *request)
{
    struct hf_service *service = request->admin->config.service;
    struct hf_view_status status;

    hf_core_view_status(service->core, hf_service_now(service), &status);
    return status;
}

static json_t *show_grace(const struct hf_view_status *s)
{
    return json_pack("{s:b, s:f, s:I, s:I, s:f}", "active", s->grace_active, "remaining_seconds",
                     (double)s->grace_remaining_ms / 1000, "reclaimed", (json_int_t)s->reclaimed,
                     "unreclaimed", (json_int_t)s->unreclaimed, "held_seconds",
                     (double)s->grace_held_ms / 1000);
}

static json_t *show_notices(const struct hf_view_status *s)
{
    json_t *json = json_object();

    for (int i = HF_NOTICE_PENDING; i <= HF_NOTICE_GIVEN_UP; i++)
        json_object_set_new(json, hf_row_notice_name((enum hf_notice_status)i),
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
    return json_pack("{s:b, s:o}", "up", health->store_up, "reason",
                     hf_value_str(health->store_up ? NULL : health->reason));
}

static json_t *show_rpcbind(const struct hf_admin_health *health)
{
    return json_pack("{s:b, s:s, s:o}", "up", health->rpcbind_up, "state", health->rpcbind,
                     "reason", hf_value_str(health->rpcbind_up ? NULL : health->rpcbind_reason));
}

static json_t *show_names(const struct hf_names *names)
{
    struct hf_names_source source = hf_names_source(names);
    const char *namer = !source.namer ? "none" : source.up ? "up" : "down";

    return json_pack("{s:s, s:b, s:o}", "namer", namer, "map", source.map, "reason",
                     hf_value_str(source.namer && !source.up ? source.reason : NULL));
}

/* Shows what locks the kernel holds for our clients (COH-10). */
static json_t *show_coherence(const struct hf_view_status *s)
{
    const char *state = !s->coherent ? "off" : s->claims_ready ? "up" : "down";

    return json_pack("{s:s, s:I, s:I, s:I, s:I}", "state", state, "files",
                     (json_int_t)s->claimed_files, "ranges", (json_int_t)s->claimed_ranges,
                     "unmirrored_files", (json_int_t)s->unmirrored_files, "waiters_outside",
                     (json_int_t)s->outside_waits);
}

static json_t *show_listen(const struct hf_admin_config *config)
{
    json_t *json = json_array();
    char text[HF_ADDR_TEXT_MAX];

    for (unsigned i = 0; i < config->n_server_listen; i++)
        json_array_append_new(json, json_string(hf_addr_format(&config->server_listen[i], text)));
    return json;
}

/* Shows which node this is, and which one serves; null without standbys. */
static void put_node(const struct request *request, json_t *json)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    struct hf_admin_cluster c;
    bool known = ops->cluster && ops->cluster(ops->ctx, &c);

    json_object_set_new(json, "role", hf_value_str(known ? c.role : NULL));
    json_object_set_new(json, "node", hf_value_str(known ? c.node : NULL));
    json_object_set_new(json, "active_node", hf_value_str(known && c.owner[0] ? c.owner : NULL));
}

/* Shows the server. A node that does not serve has no state number: it has not read the store. */
static void put_server(const struct request *request, const struct hf_view_status *s, json_t *json)
{
    const struct hf_admin_config *config = &request->admin->config;
    struct hf_admin_cluster cluster;
    bool waits = hf_admin_cluster_waits(request, &cluster);

    put_node(request, json);
    json_object_set_new(json, "version", json_string(HF_VERSION));
    json_object_set_new(json, "name", hf_value_str(config->server_name));
    json_object_set_new(json, "listen", show_listen(config));
    json_object_set_new(json, "port", json_integer(config->server_port));
    json_object_set_new(json, "time", hf_value_time(hf_clock_wall_ms()));
    json_object_set_new(json, "up_seconds", json_real(hf_admin_process_up_seconds(request->admin)));
    json_object_set_new(json, "epoch", hf_value_id(s->epoch));
    json_object_set_new(json, "state", waits ? json_null() : json_integer(s->state));
    json_object_set_new(json, "clean_start", json_boolean(s->was_clean));
    json_object_set_new(json, "continued", json_boolean(s->recovers == HF_RECOVERS_NOT));
    json_object_set_new(json, "recovers_because",
                        waits || hf_recovers_text(s->recovers)[0] == '\0'
                            ? json_null()
                            : json_string(hf_recovers_text(s->recovers)));
    json_object_set_new(json, "token_needed", json_boolean(request->admin->token[0] != '\0'));
    json_object_set_new(json, "changes", json_string(hf_admin_access_word(request, ACCESS_CHANGE)));
    json_object_set_new(json, "files", json_string(hf_admin_access_word(request, ACCESS_FILES)));
}

enum MHD_Result hf_admin_on_status(struct request *request)
{
    const struct hf_admin_config *config = &request->admin->config;
    struct hf_view_status s = view_status(request);
    struct hf_admin_health health;
    json_t *json = json_object();

    config->ops.health(config->ops.ctx, &health);
    put_server(request, &s, json);
    json_object_set_new(json, "grace", show_grace(&s));
    json_object_set_new(json, "counts", show_counts(&s));
    json_object_set_new(json, "notifications", show_notices(&s));
    json_object_set_new(json, "store", show_store(&health));
    json_object_set_new(json, "rpcbind", show_rpcbind(&health));
    json_object_set_new(json, "losses", hf_admin_troubles_losses(config));
    json_object_set_new(json, "limits", hf_admin_troubles_limits(config));
    json_object_set_new(json, "totals", show_totals(&config->ops));
    json_object_set_new(json, "names", show_names(request->admin->names));
    json_object_set_new(json, "coherence", show_coherence(&s));
    return hf_admin_reply_json(request, MHD_HTTP_OK, json);
}

enum MHD_Result hf_admin_on_grace(struct request *request)
{
    struct hf_view_status s = view_status(request);

    return hf_admin_reply_json(request, MHD_HTTP_OK, show_grace(&s));
}

enum MHD_Result hf_admin_on_healthz(struct request *request)
{
    return hf_admin_reply_text(request, MHD_HTTP_OK, "text/plain; charset=utf-8",
                               hf_bytes_str("alive\n"));
}

/*
 * A node is not ready while the store is down, because nothing can be promised then; while new
 * clients do not find it by rpcbind; and while it stands by. A grace period does not matter,
 * because clients can reclaim.
 */
enum MHD_Result hf_admin_on_readyz(struct request *request)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    struct hf_admin_health health;
    struct hf_admin_cluster cluster;

    if (hf_admin_cluster_waits(request, &cluster))
        return hf_admin_reply_waiting(request, &cluster);
    ops->health(ops->ctx, &health);
    if (!health.store_up)
        return hf_admin_reply_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE, health.reason);
    if (!health.rpcbind_up)
        return hf_admin_reply_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE, health.rpcbind_reason);
    return hf_admin_reply_text(request, MHD_HTTP_OK, "text/plain; charset=utf-8",
                               hf_bytes_str("ready\n"));
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

enum MHD_Result hf_admin_on_metrics(struct request *request)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    enum MHD_Result rv = MHD_NO;
    struct hf_buf buf;
    struct hf_exposition out = {.out = &buf};

    hf_buf_init(&buf, &hf_alloc_heap);
    ops->metrics(ops->ctx, &out);
    expose_names(request->admin->names, &out);
    hf_admin_process_expose(request->admin, &out);
    hf_admin_process_expose_backup(request->admin, &out);
    if (!out.failed)
        rv = hf_admin_reply_text(request, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8",
                                 hf_buf_view(&buf));
    hf_buf_free(&buf);
    return rv;
}
