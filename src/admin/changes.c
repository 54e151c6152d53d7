/*
 * Changes by an operator: each is logged with the operator's identity, and answered when it is
 * durable. The answer to a release names the waiters that were granted a lock because of it.
 */
#include <stdio.h>

#include "admin/private.h"
#include "admin/rows.h"
#include "admin/values.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/text.h"

enum { HOLD_MAX_S = 3600, NAME_SHOWN = 64 };

enum { WAITERS_AT_ONCE = 64, GRANTED_MAX = 1000 };

/* Notes which operator made a change; the history itself shows releases lock by lock. */
static void note_change(const struct request *request)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    const char *to = request->of_path[0] ? request->of_path : request->argument;
    char who[WHO_MAX];
    char text[WHO_MAX + sizeof(request->of_path)];

    hf_format(text, sizeof(text), "%s, by %s", to[0] ? to : "-", hf_admin_access_who(request, who));
    if (ops->did)
        ops->did(ops->ctx, request->change, text);
}

void hf_admin_log_change(const struct request *request, bool durable)
{
    char who[WHO_MAX];

    if (durable)
        note_change(request);
    if (durable && request->of_path[0])
        hf_log(HF_LOG_INFO, "operator", HF_STR("who", hf_admin_access_who(request, who)),
               HF_STR("does", request->change), HF_STR("to", request->argument),
               HF_STR("path", request->of_path), HF_INT("released", request->released));
    else if (durable)
        hf_log(HF_LOG_INFO, "operator", HF_STR("who", hf_admin_access_who(request, who)),
               HF_STR("does", request->change), HF_STR("to", request->argument),
               HF_INT("released", request->released));
    else
        hf_log(HF_LOG_WARN, "operator's change undone",
               HF_STR("who", hf_admin_access_who(request, who)), HF_STR("does", request->change),
               HF_STR("to", request->argument), HF_STR("reason", "the store could not record it"));
}

/* ---- releases ---- */

/* Shows one row as a JSON value, for an answer that is not a list. */
static json_t *waiter_json(const struct row_context *context, const struct hf_view_waiter *waiter)
{
    union row row = {.waiter = *waiter};
    struct hf_buf buf;
    struct writer writer = {.out = &buf};
    json_t *json = NULL;

    hf_buf_init(&buf, &hf_alloc_heap);
    hf_row_waiter(&writer, context, &row);
    if (!writer.failed)
        json = json_loadb((const char *)hf_buf_view(&buf).data, hf_buf_len(&buf), 0, NULL);
    hf_buf_free(&buf);
    return json;
}

/* Shows the waiters granted since the mark, at most GRANTED_MAX together with those that were shown
 * before. */
json_t *hf_admin_granted_since(const struct request *request, uint64_t mark, size_t before)
{
    struct hf_service *service = request->admin->config.service;
    struct row_context context = hf_admin_row_context_of(request);
    struct hf_view_waiter rows[WAITERS_AT_ONCE];
    json_t *granted = json_array();
    size_t n;

    while (before + json_array_size(granted) < GRANTED_MAX &&
           (n = hf_core_view_granted(service->core, &mark, rows, WAITERS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < n && before + json_array_size(granted) < GRANTED_MAX; i++)
            json_array_append_new(granted, waiter_json(&context, &rows[i]));
    }
    return granted;
}

json_t *hf_admin_released_json(const struct request *request)
{
    return json_pack("{s:I, s:o}", "released", (json_int_t)request->released, "granted",
                     hf_admin_granted_since(request, request->grant_mark, 0));
}

/* Answers a release with its outcome in the core: its count or an error, and what to wait for. A
 * large release is made in slices, and most of its grants come later. */
enum MHD_Result hf_admin_reply_release(struct request *request, const char *change,
                                       const char *missing, uint64_t mark, int64_t released,
                                       struct hf_ticket wait)
{
    if (released < 0)
        return hf_admin_reply_error(request, (int)released, missing);
    request->change = change;
    request->released = released;
    request->grant_mark = mark;
    return hf_admin_reply_when_durable(request, wait,
                                       wait.decision == 0 ? hf_admin_released_json(request) : NULL);
}

/* The log and the history name the client of a change, because its id says nothing to a reader. */
static void name_client(struct request *request, const struct hf_view_client *client)
{
    struct hf_bytes text = client->record.name;
    char addr[HF_ADDR_TEXT_MAX];
    char name[4 * NAME_SHOWN + 1];

    (void)hf_path_quote(hf_bytes(text.data, text.len < NAME_SHOWN ? text.len : NAME_SHOWN), name,
                        sizeof(name));
    hf_format(request->argument, sizeof(request->argument), "%.80s (%s)", name,
              hf_addr_format(&client->record.addrs[0], addr));
}

/* Finds the client that the path of the request names by its id. */
static bool find_client(const struct request *request, uint64_t *id, struct hf_view_client *out)
{
    return hf_admin_parse_id(request->argument, id) &&
           hf_core_view_client(request->admin->config.service->core, *id, out) == 0;
}

enum MHD_Result hf_admin_on_delete_client(struct request *request)
{
    struct hf_service *service = request->admin->config.service;
    uint64_t mark = hf_core_view_grant_mark(service->core);
    struct hf_view_client client;
    struct hf_ticket wait = {0};
    uint64_t id;

    if (!find_client(request, &id, &client))
        return hf_admin_reply_problem(request, MHD_HTTP_NOT_FOUND, HF_ADMIN_NO_CLIENT);
    name_client(request, &client);
    return hf_admin_reply_release(
        request, "release client", HF_ADMIN_NO_CLIENT, mark,
        hf_core_release_client(service->core, hf_service_now(service), id, &wait), wait);
}

/* Reads from the body when the client died, in milliseconds; 0: the body does not say. Returns
 * false if the body is not understood. */
static bool died_of_body(const struct request *request, int64_t *out)
{
    struct hf_bytes body = hf_buf_view(&request->body);
    const char *text;
    json_t *json;
    bool ok;

    *out = 0;
    if (body.len == 0)
        return true;
    json = json_loadb((const char *)body.data, body.len, JSON_REJECT_DUPLICATES, NULL);
    text = json_string_value(json_object_get(json, "since"));
    ok = json_object_size(json) == 1 && text && hf_admin_parse_time(text, out);
    json_decref(json);
    return ok;
}

/*
 * Declares a client dead. A client that was heard from after the time of its death is up again, so
 * a declaration that comes late, or twice, takes nothing from its new life.
 */
enum MHD_Result hf_admin_on_client_dead(struct request *request)
{
    struct hf_service *service = request->admin->config.service;
    uint64_t mark = hf_core_view_grant_mark(service->core);
    struct hf_view_client client;
    struct hf_ticket wait;
    int64_t died_ms;
    uint64_t id;

    if (!died_of_body(request, &died_ms))
        return hf_admin_reply_problem(request, MHD_HTTP_BAD_REQUEST,
                                      "The body is empty, or {\"since\": \"TIME\"} in UTC, as "
                                      "2026-11-18T03:12:00Z.");
    if (!find_client(request, &id, &client) || client.record.protocol != HF_PROTOCOL_NLM)
        return hf_admin_reply_problem(request, MHD_HTTP_NOT_FOUND, HF_ADMIN_NO_CLIENT);
    /* The time of death has whole seconds only. */
    if (died_ms != 0 && client.last_seen_ms >= died_ms + 1000)
        return hf_admin_reply_problem(request, MHD_HTTP_CONFLICT,
                                      "The client was heard from since then, so it runs again: "
                                      "nothing was released.");
    name_client(request, &client);
    return hf_admin_reply_release(
        request, "declare client dead", HF_ADMIN_NO_CLIENT, mark,
        hf_core_client_dead(service->core, hf_service_now(service), id, &wait), wait);
}

enum MHD_Result hf_admin_on_delete_lock(struct request *request)
{
    struct hf_service *service = request->admin->config.service;
    uint64_t mark = hf_core_view_grant_mark(service->core);
    int64_t released = HF_ENOENT;
    struct hf_ticket wait = {0};
    uint64_t id;

    if (hf_admin_parse_id(request->argument, &id))
        released = hf_core_release_lock(service->core, hf_service_now(service), id, &wait);
    return hf_admin_reply_release(request, "release lock",
                                  "There is no such lock; it may have been unlocked.", mark,
                                  released, wait);
}

enum MHD_Result hf_admin_on_delete_file(struct request *request)
{
    struct hf_service *service = request->admin->config.service;
    uint64_t mark = hf_core_view_grant_mark(service->core);
    int64_t released = HF_ENOENT;
    struct hf_ticket wait = {0};
    uint8_t fh[HF_FH_MAX];
    int len = hf_hex_decode(request->argument, strlen(request->argument), fh, sizeof(fh));
    const char *path = NULL;

    if (len > 0 &&
        hf_names_show(request->admin->names, hf_bytes(fh, (size_t)len), &path) == HF_NAME_KNOWN)
        hf_format(request->of_path, sizeof(request->of_path), "%s", path);
    if (len > 0)
        released = hf_core_release_file(service->core, hf_service_now(service),
                                        hf_bytes(fh, (size_t)len), &wait);
    return hf_admin_reply_release(request, "release file", HF_ADMIN_NOTHING_THERE, mark, released,
                                  wait);
}

/* ---- grace, notices, checks ---- */

enum MHD_Result hf_admin_on_end_grace(struct request *request)
{
    struct hf_service *service = request->admin->config.service;
    struct hf_now now = hf_service_now(service);
    struct hf_view_status status;

    hf_core_view_status(service->core, now, &status);
    if (!status.grace_active)
        return hf_admin_reply_json(request, MHD_HTTP_OK,
                                   json_pack("{s:b, s:i}", "ended", false, "released", 0));
    request->change = "end grace";
    request->released = (int64_t)status.unreclaimed;
    return hf_admin_reply_when_durable(
        request, hf_core_grace_end(service->core, now),
        json_pack("{s:b, s:I}", "ended", true, "released", (json_int_t)status.unreclaimed));
}

static bool seconds_of_body(const struct request *request, uint64_t *out)
{
    struct hf_bytes body = hf_buf_view(&request->body);
    json_t *json = json_loadb((const char *)body.data, body.len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *seconds = json_object_get(json, "seconds");
    json_int_t n = json_is_integer(seconds) ? json_integer_value(seconds) : -1;

    json_decref(json);
    *out = (uint64_t)n;
    return n >= 0 && n <= HOLD_MAX_S;
}

/* Holds new locks back during the grace period of another server of the same files (GRC-04). */
enum MHD_Result hf_admin_on_hold_grace(struct request *request)
{
    struct hf_service *service = request->admin->config.service;
    uint64_t seconds;

    if (!seconds_of_body(request, &seconds))
        return hf_admin_reply_problem(request, MHD_HTTP_BAD_REQUEST,
                                      "The body is {\"seconds\": N}, from 0 (no longer) to 3600.");
    hf_core_grace_hold(service->core, hf_service_now(service), seconds * 1000);
    hf_format(request->argument, sizeof(request->argument), "%llu s", (unsigned long long)seconds);
    request->change = "hold new locks back";
    hf_admin_log_change(request, true);
    return hf_admin_reply_json(request, MHD_HTTP_OK,
                               json_pack("{s:I}", "held_seconds", (json_int_t)seconds));
}

/* Reads the client named in the body, 0 for all clients; false if the body is not understood. */
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
        ok = text && hf_admin_parse_id(text, out) && *out != 0;
    }
    json_decref(json);
    return ok;
}

enum MHD_Result hf_admin_on_notify(struct request *request)
{
    struct hf_service *service = request->admin->config.service;
    struct hf_view_client named;
    uint64_t client;
    int rv;

    if (!client_of_body(request, &client))
        return hf_admin_reply_problem(
            request, MHD_HTTP_BAD_REQUEST,
            "The body is {\"client\": \"ID\"}, or empty for all clients.");
    rv = hf_core_notify_again(service->core, hf_service_now(service), client);
    if (rv < 0)
        return hf_admin_reply_error(request, rv,
                                    "There is no such client, or no notice to send to it.");
    if (client && hf_core_view_client(service->core, client, &named) == 0)
        name_client(request, &named);
    request->change = client ? "notify client" : "notify all";
    hf_admin_log_change(request, true);
    return hf_admin_reply_json(
        request, MHD_HTTP_ACCEPTED,
        json_pack("{s:o}", "client", client ? hf_value_id(client) : json_null()));
}

enum MHD_Result hf_admin_on_check(struct request *request)
{
    struct hf_view_client client;
    uint64_t id;

    if (!find_client(request, &id, &client))
        return hf_admin_reply_problem(request, MHD_HTTP_NOT_FOUND, HF_ADMIN_NO_CLIENT);
    name_client(request, &client);
    request->change = "check client";
    hf_admin_log_change(request, true);
    return hf_admin_reply_when_checked(request, &client);
}

static bool address_of_body(const struct request *request, struct hf_addr *out)
{
    struct hf_bytes body = hf_buf_view(&request->body);
    json_t *json = json_loadb((const char *)body.data, body.len, JSON_REJECT_DUPLICATES, NULL);
    const char *text = json_string_value(json_object_get(json, "address"));
    bool ok = text && hf_addr_parse(text, out) == 0;

    json_decref(json);
    return ok;
}

/* Checks the way to a host that has not locked anything yet, from the local address that the kernel
 * chooses. */
enum MHD_Result hf_admin_on_check_address(struct request *request)
{
    struct hf_view_client client = {
        .record = {.protocol = HF_PROTOCOL_NLM, .n_addrs = 1},
    };

    if (!address_of_body(request, &client.record.addrs[0]))
        return hf_admin_reply_problem(request, MHD_HTTP_BAD_REQUEST,
                                      "The body is {\"address\": \"ADDRESS\"}, IPv4 or IPv6.");
    hf_addr_format(&client.record.addrs[0], request->argument);
    request->change = "check address";
    hf_admin_log_change(request, true);
    return hf_admin_reply_when_checked(request, &client);
}

/* ---- backup ---- */

/* A backup changes nothing, but contains all there is; so it needs the right to make changes. */
enum MHD_Result hf_admin_on_backup(struct request *request)
{
    return hf_admin_reply_when_backed_up(request);
}
