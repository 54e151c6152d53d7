/*
 * Lets requests wait that cannot be answered yet: a change waits until it is durable, a check until
 * its calls have ended, a backup until it is made. Meanwhile libmicrohttpd leaves the connection
 * alone (it is suspended).
 */
#include "admin/private.h"
#include "admin/values.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

enum { NAMES_REQUEST_MS = 60000, NAMES_DETAIL_MAX = 320 };

enum MHD_Result hf_admin_wait_suspend(struct request *request)
{
    hf_list_add_tail(&request->admin->waiting, &request->link);
    MHD_suspend_connection(request->connection);
    return MHD_YES;
}

static void make_ready(struct request *request)
{
    request->ready = true;
    if (!hf_list_linked(&request->link))
        return; /* the request did not wait for anything */
    hf_list_remove(&request->link);
    MHD_resume_connection(request->connection);
    hf_admin_listener_kick(request->listener);
}

/* Answers with a backup. libmicrohttpd takes over the buffer, and sends as much in each turn as the
 * socket takes. */
static enum MHD_Result reply_backup(struct request *request)
{
    struct hf_buf *buf = &request->backup.out;
    struct MHD_Response *response;

    HF_ASSERT(buf->start == 0);
    response = MHD_create_response_from_buffer(hf_buf_len(buf), buf->data, MHD_RESPMEM_MUST_FREE);
    if (response)
        hf_buf_init(buf, &hf_alloc_heap);
    return hf_admin_reply_response(request, MHD_HTTP_OK, "application/octet-stream", response);
}

enum MHD_Result hf_admin_reply_pending(struct request *request)
{
    json_t *json = request->pending;

    if (!json && request->backup.done)
        return reply_backup(request);
    request->pending = NULL;
    return hf_admin_reply_json(request, request->pending_status, json);
}

static void become_problem(struct request *request, unsigned status, const char *detail)
{
    json_decref(request->pending);
    request->pending_status = status;
    request->pending = hf_admin_problem_json(status, detail);
}

static void on_durable(struct hf_commit_waiter *waiter, bool durable)
{
    struct request *request = hf_container_of(waiter, struct request, waiter);

    hf_admin_log_change(request, durable);
    if (durable && !request->pending)
        request->pending = hf_admin_released_json(request);
    if (!durable)
        become_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                       "The store could not record this, so nothing was changed. Try again when "
                       "/readyz says ready.");
    make_ready(request);
}

enum MHD_Result hf_admin_reply_when_durable(struct request *request, struct hf_ticket wait,
                                            json_t *json)
{
    struct hf_service *service = request->admin->config.service;

    request->pending = json;
    request->pending_status = MHD_HTTP_OK;
    if (hf_service_when(service, wait, &request->waiter, on_durable))
        return hf_admin_reply_pending(request);
    return hf_admin_wait_suspend(request);
}

static json_t *show_step(const struct hf_admin_step *step)
{
    return json_pack("{s:s, s:b, s:f, s:o, s:o}", "step", step->name, "ok", step->ok,
                     "elapsed_seconds", step->elapsed_ms / 1000.0, "finding",
                     hf_value_str(step->finding), "advice",
                     hf_value_str(step->advice[0] ? step->advice : NULL));
}

static void on_checked(struct hf_admin_check *check, int error)
{
    struct request *request = hf_container_of(check, struct request, check);
    json_t *steps = json_array();
    bool ok = true;
    bool finds_us = true;

    for (unsigned i = 0; i < check->n_steps; i++) {
        if (check->steps[i].back)
            finds_us = finds_us && check->steps[i].ok;
        else
            ok = ok && check->steps[i].ok;
        json_array_append_new(steps, show_step(&check->steps[i]));
    }
    request->pending_status = MHD_HTTP_OK;
    request->pending =
        json_pack("{s:b, s:b, s:o}", "reachable", ok, "finds_us", finds_us, "steps", steps);
    if (error < 0)
        become_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE, "The daemon is stopping.");
    make_ready(request);
}

enum MHD_Result hf_admin_reply_when_checked(struct request *request,
                                            const struct hf_view_client *client)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    int rv;

    request->check = (struct hf_admin_check){.done = on_checked};
    rv = ops->check(ops->ctx, client, &request->check);
    if (rv < 0)
        return hf_admin_reply_error(request, rv, "The address of this client is not known yet.");
    return hf_admin_wait_suspend(request);
}

static void on_backed_up(struct hf_admin_backup *backup, int error)
{
    struct request *request = hf_container_of(backup, struct request, backup);
    char who[WHO_MAX];

    if (error < 0)
        become_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                       "The store could not be read, so there is no backup. Try again when /readyz "
                       "says ready.");
    else
        request->admin->backup_wall_ms = hf_clock_wall_ms();
    hf_log(error < 0 ? HF_LOG_WARN : HF_LOG_INFO, "backup",
           HF_STR("who", hf_admin_access_who(request, who)),
           HF_UINT("bytes", hf_buf_len(&backup->out)), HF_STR("result", hf_strerror(error)));
    make_ready(request);
}

enum MHD_Result hf_admin_reply_when_backed_up(struct request *request)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    int rv;

    request->backup.done = on_backed_up;
    rv = ops->backup(ops->ctx, &request->backup);
    if (rv < 0)
        return hf_admin_reply_error(request, rv, "");
    return hf_admin_wait_suspend(request);
}

/* ---- exports ---- */

static void on_export(struct hf_admin_exports *exports, const struct hf_admin_export *export)
{
    struct request *request = hf_container_of(exports, struct request, exports);

    json_array_append_new(json_object_get(request->pending, "exports"),
                          json_pack("{s:s, s:I, s:I, s:b}", "path", export->path, "files",
                                    (json_int_t) export->files, "ranges",
                                    (json_int_t) export->ranges, "released", export->released));
}

static void on_exported(struct hf_admin_exports *exports, int error, const char *reason)
{
    struct request *request = hf_container_of(exports, struct request, exports);

    if (request->change)
        hf_admin_log_change(request, error == 0);
    if (error < 0)
        become_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                       reason ? reason : "The connection to the keeper was lost; try again.");
    else if (exports->act == HF_ADMIN_EXPORTS_RELEASE)
        json_object_set_new(request->pending, "closed", json_integer((json_int_t)exports->closed));
    make_ready(request);
}

int hf_admin_reply_when_exported(struct request *request, enum hf_admin_exports_act act,
                                 const char *path, enum MHD_Result *result)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    int rv;

    request->exports = (struct hf_admin_exports){.act = act, .one = on_export, .done = on_exported};
    rv = ops->exports(ops->ctx, &request->exports, path);
    if (rv < 0)
        return rv;
    request->pending_status = MHD_HTTP_OK;
    request->pending = act == HF_ADMIN_EXPORTS_LIST ? json_pack("{s:[]}", "exports")
                                                    : json_pack("{s:s}", "path", path);
    *result = hf_admin_wait_suspend(request);
    return 0;
}

/* ---- names ---- */

/* Resumes the request: libmicrohttpd calls on_request() again, which routes it again. */
void hf_admin_wait_resume(struct request *request)
{
    if (!hf_list_linked(&request->link))
        return;
    hf_list_remove(&request->link);
    MHD_resume_connection(request->connection);
    hf_admin_listener_kick(request->listener);
}

static void on_names(struct hf_names_wait *wait)
{
    hf_admin_wait_resume(hf_container_of(wait, struct request, names_wait));
}

bool hf_admin_wait_for_names(struct request *request)
{
    struct hf_admin *admin = request->admin;

    if (!hf_names_wait(admin->names, &request->names_wait,
                       uv_now(admin->config.loop) + NAMES_REQUEST_MS, on_names))
        return false;
    (void)hf_admin_wait_suspend(request);
    return true;
}

void hf_admin_wait_for_turn(struct request *request)
{
    hf_admin_turns_wait(&request->admin->turns, &request->turn, request->listener,
                        request->connection);
}

bool hf_admin_names_are_there(struct request *request, enum MHD_Result *answered)
{
    struct hf_names *names = request->admin->names;
    struct hf_names_source source;
    char detail[NAMES_DETAIL_MAX];

    hf_names_connect(names);
    source = hf_names_source(names);
    *answered = MHD_YES;
    if (source.up || (source.map && !source.namer))
        return true;
    if (source.connecting && hf_admin_wait_for_names(request))
        return false;
    if (!source.namer && !source.connecting) {
        *answered = hf_admin_reply_problem(
            request, MHD_HTTP_CONFLICT,
            "No names of files are configured, so a path cannot be looked "
            "up. Start holdfast-namesd, or set names.socket or admin.fh_map.");
        return false;
    }
    hf_format(detail, sizeof(detail),
              "The namer cannot be asked, so a path cannot be looked up: %s. See names.socket.",
              source.reason);
    *answered = hf_admin_reply_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE, detail);
    return false;
}

/* Ends all waits, because libmicrohttpd must not be stopped while a connection is suspended. */
void hf_admin_wait_abandon_all(struct hf_admin *admin)
{
    hf_list_foreach_safe (node, &admin->waiting) {
        struct request *request = hf_list_entry(node, struct request, link);
        hf_names_cancel(&request->names_wait);
        become_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE, "The daemon is stopping.");
        make_ready(request);
    }
}
