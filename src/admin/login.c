/*
 * Serves sessions over HTTP (ADM-09): POST takes a token, or a request of root's on the unix
 * socket, and gives the id of a session, which a page sends from then on instead of the token. The
 * answer also has the page's address, for holdfastctl.
 */
#include <string.h>

#include "admin/private.h"
#include "admin/sessions.h"
#include "base/log.h"
#include "base/text.h"

/* Returns the level of access that the body asks for, as in {"level": "files"}; the caller's own
 * level if the body asks for none, and ACCESS_NONE if the body is not understood. */
static enum access wanted_level(const struct request *request)
{
    struct hf_bytes body = hf_buf_view(&request->body);
    enum access level = ACCESS_NONE;
    const char *text;
    json_t *json;

    if (body.len == 0)
        return request->level;
    json = json_loadb((const char *)body.data, body.len, JSON_REJECT_DUPLICATES, NULL);
    text = json_string_value(json_object_get(json, "level"));
    if (text && strcmp(text, "files") == 0)
        level = ACCESS_FILES;
    else if (text && strcmp(text, "changes") == 0)
        level = ACCESS_CHANGE;
    json_decref(json);
    return level;
}

/* Returns the page's address for a browser on this host; NULL: no browser can reach the page. */
static json_t *page_address(const struct hf_admin *admin)
{
    char text[HF_ADDR_TEXT_MAX + 16];
    char number[HF_ADDR_TEXT_MAX];
    struct hf_addr addr;

    if (!admin->listeners[0].daemon || hf_addr_parse_port(admin->config.listen, &addr) < 0)
        return json_null();
    if (hf_addr_is_any(&addr))
        hf_format(text, sizeof(text), "http://localhost:%u/", addr.port);
    else
        hf_format(text, sizeof(text), "http://%s/", hf_addr_format_port(&addr, number));
    return json_string(text);
}

enum MHD_Result hf_admin_on_session_begin(struct request *request)
{
    struct hf_admin *admin = request->admin;
    enum access level = wanted_level(request);
    enum MHD_Result answered = MHD_NO;
    const char *word = level == ACCESS_CHANGE ? "changes" : "files";
    char who[WHO_MAX];
    const char *id;

    if (level == ACCESS_NONE)
        return hf_admin_reply_problem(
            request, MHD_HTTP_BAD_REQUEST,
            "The body is {\"level\": \"files\"} or {\"level\": \"changes\"}, or "
            "empty.");
    if (!hf_admin_access_may(request, level, &answered))
        return answered;
    id = hf_sessions_begin(&admin->sessions, level, uv_now(admin->config.loop));
    if (!id)
        return hf_admin_reply_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                                      "There are too many sessions.");
    hf_log(HF_LOG_INFO, "operator: session", HF_STR("who", hf_admin_access_who(request, who)),
           HF_STR("level", word));
    return hf_admin_reply_json(request, MHD_HTTP_CREATED,
                               json_pack("{s:s, s:s, s:i, s:o}", "session", id, "level", word,
                                         "idle_seconds", SESSION_IDLE_MS / 1000, "page",
                                         page_address(admin)));
}

enum MHD_Result hf_admin_on_session_end(struct request *request)
{
    hf_sessions_end(&request->admin->sessions,
                    MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
                                                MHD_HTTP_HEADER_AUTHORIZATION));
    return hf_admin_reply_json(request, MHD_HTTP_OK, json_pack("{s:b}", "ended", true));
}
