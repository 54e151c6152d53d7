#include <stdlib.h>

#include "admin/private.h"
#include "admin/values.h"
#include "base/error.h"

/* Headers by which browsers neither cache answers nor take text from a peer for a script. */
static const struct {
    const char *name;
    const char *value;
} HEADERS[] = {
    {"Cache-Control", "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "
                                "img-src 'self'; connect-src 'self'; base-uri 'none'; "
                                "form-action 'none'; frame-ancestors 'none'"},
};

enum MHD_Result hf_admin_reply_response(struct request *request, unsigned status, const char *type,
                                        struct MHD_Response *response)
{
    enum MHD_Result rv;

    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (size_t i = 0; i < sizeof(HEADERS) / sizeof(HEADERS[0]); i++)
        MHD_add_response_header(response, HEADERS[i].name, HEADERS[i].value);
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                                "Bearer realm=\"holdfast\"");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, request->allow);
    rv = MHD_queue_response(request->connection, status, response);
    MHD_destroy_response(response);
    return rv;
}

enum MHD_Result hf_admin_reply_text(struct request *request, unsigned status, const char *type,
                                    struct hf_bytes text)
{
    return hf_admin_reply_response(request, status, type,
                                   MHD_create_response_from_buffer(text.len,
                                                                   (void *)(uintptr_t)text.data,
                                                                   MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result reply_dump(struct request *request, unsigned status, const char *type,
                                  json_t *json)
{
    static const char NONE[] = "{\"type\":\"about:blank\",\"title\":\"Error\",\"status\":500,"
                               "\"detail\":\"There is no memory for the answer.\"}";
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    enum MHD_Result rv;

    if (text)
        rv = hf_admin_reply_text(request, status, type, hf_bytes_str(text));
    else
        rv = hf_admin_reply_text(request, MHD_HTTP_INTERNAL_SERVER_ERROR,
                                 "application/problem+json", hf_bytes_str(NONE));
    free(text);
    json_decref(json);
    return rv;
}

enum MHD_Result hf_admin_reply_json(struct request *request, unsigned status, json_t *json)
{
    return reply_dump(
        request, status,
        status < MHD_HTTP_BAD_REQUEST ? "application/json" : "application/problem+json", json);
}

/* ---- RFC 9457 ---- */

static const struct {
    unsigned status;
    const char *title;
} TITLES[] = {
    {MHD_HTTP_BAD_REQUEST, "Bad request"},
    {MHD_HTTP_UNAUTHORIZED, "Token needed"},
    {MHD_HTTP_FORBIDDEN, "Not permitted"},
    {MHD_HTTP_NOT_FOUND, "Not found"},
    {MHD_HTTP_METHOD_NOT_ALLOWED, "Method not allowed"},
    {MHD_HTTP_CONTENT_TOO_LARGE, "Too large"},
    {MHD_HTTP_TOO_MANY_REQUESTS, "Too many at a time"},
    {MHD_HTTP_SERVICE_UNAVAILABLE, "Not available"},
};

json_t *hf_admin_problem_json(unsigned status, const char *detail)
{
    const char *title = "Error";

    for (size_t i = 0; i < sizeof(TITLES) / sizeof(TITLES[0]); i++) {
        if (TITLES[i].status == status)
            title = TITLES[i].title;
    }
    return json_pack("{s:s, s:s, s:i, s:o}", "type", "about:blank", "title", title, "status",
                     (int)status, "detail", hf_value_str(detail));
}

enum MHD_Result hf_admin_reply_problem(struct request *request, unsigned status, const char *detail)
{
    return hf_admin_reply_json(request, status, hf_admin_problem_json(status, detail));
}

enum MHD_Result hf_admin_reply_error(struct request *request, int error, const char *what)
{
    switch (error) {
    case HF_ENOENT:
        return hf_admin_reply_problem(request, MHD_HTTP_NOT_FOUND, what);
    case HF_ELIMIT:
        return hf_admin_reply_problem(
            request, MHD_HTTP_TOO_MANY_REQUESTS,
            "Too many of these are in flight; try again in a few seconds.");
    default:
        return hf_admin_reply_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE, hf_strerror(error));
    }
}
