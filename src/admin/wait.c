/*
 * Requests that cannot be answered yet: a change waits until it is durable, a check until its calls
 * have ended. libmicrohttpd is told to leave the connection alone meanwhile.
 */
#include "admin/private.h"
#include "base/error.h"

static void suspend(struct request *request)
{
    hf_list_add_tail(&request->admin->waiting, &request->link);
    MHD_suspend_connection(request->connection);
}

static void resume(struct request *request)
{
    hf_list_remove(&request->link);
    request->ready = true;
    MHD_resume_connection(request->connection);
    listener_kick(request->listener);
}

static void become_problem(struct request *request, unsigned status, const char *detail)
{
    json_decref(request->pending);
    request->pending_status = status;
    request->pending = problem_json(status, detail);
}

static void on_durable(struct hf_later *later, bool reached)
{
    struct request *request = hf_container_of(later, struct request, later);

    if (!reached)
        become_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                       "The store could not record this, so nothing was changed. Try again when "
                       "/readyz says ready.");
    resume(request);
}

enum MHD_Result reply_when_durable(struct request *request, uint64_t seq, json_t *json)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;

    if (ops->is_durable(ops->ctx, seq))
        return reply_json(request, MHD_HTTP_OK, json);
    request->pending = json;
    request->pending_status = MHD_HTTP_OK;
    suspend(request);
    ops->when_durable(ops->ctx, seq, &request->later, on_durable);
    return MHD_YES;
}

static json_t *show_step(const struct hf_admin_step *step)
{
    return json_pack("{s:s, s:b, s:f, s:s, s:s?}", "step", step->name, "ok", step->ok,
                     "elapsed_seconds", step->elapsed_ms / 1000.0, "finding", step->finding,
                     "advice", step->advice[0] ? step->advice : NULL);
}

static void on_checked(struct hf_admin_check *check, int error)
{
    struct request *request = hf_container_of(check, struct request, check);
    json_t *steps = json_array();
    bool ok = true;

    for (unsigned i = 0; i < check->n_steps; i++) {
        ok = ok && check->steps[i].ok;
        json_array_append_new(steps, show_step(&check->steps[i]));
    }
    request->pending_status = MHD_HTTP_OK;
    request->pending = json_pack("{s:b, s:o}", "reachable", ok, "steps", steps);
    if (error < 0)
        become_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE, "The daemon is stopping.");
    resume(request);
}

enum MHD_Result reply_when_checked(struct request *request, uint64_t client_id)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    int rv;

    request->check = (struct hf_admin_check){.done = on_checked};
    rv = ops->check(ops->ctx, client_id, &request->check);
    if (rv < 0)
        return reply_error(request, rv, "There is no such client.");
    suspend(request);
    return MHD_YES;
}

/* libmicrohttpd must not be stopped while a connection is suspended. */
void wait_abandon_all(struct hf_admin *admin)
{
    hf_list_foreach_safe (node, &admin->waiting) {
        struct request *request = hf_list_entry(node, struct request, link);
        become_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE, "The daemon is stopping.");
        resume(request);
    }
}
