/* What is where: one table. A * stands for one part of the path, which the handler gets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "admin/private.h"
#include "base/check.h"

struct entry {
    const char *method;
    const char *path;
    enum MHD_Result (*handle)(struct request *request);
    bool changes; /* something: not for everybody */
};

static const struct entry ROUTES[] = {
    {"GET", "/", on_file, false},
    {"GET", "/page/*", on_file, false},
    {"GET", "/healthz", on_healthz, false},
    {"GET", "/readyz", on_readyz, false},
    {"GET", "/metrics", on_metrics, false},
    {"GET", "/api/v1/openapi.json", on_file, false},
    {"GET", "/api/v1/status", on_status, false},
    {"GET", "/api/v1/clients", on_clients, false},
    {"GET", "/api/v1/clients/*", on_client, false},
    {"DELETE", "/api/v1/clients/*", on_delete_client, true},
    {"POST", "/api/v1/clients/*/check", on_check, true},
    {"GET", "/api/v1/locks", on_locks, false},
    {"DELETE", "/api/v1/locks/*", on_delete_lock, true},
    {"DELETE", "/api/v1/files/*", on_delete_file, true},
    {"GET", "/api/v1/waiters", on_waiters, false},
    {"GET", "/api/v1/reservations", on_reservations, false},
    {"GET", "/api/v1/grace", on_grace, false},
    {"POST", "/api/v1/grace/end", on_end_grace, true},
    {"GET", "/api/v1/notifications", on_notifications, false},
    {"POST", "/api/v1/notifications", on_notify, true},
};

bool parse_id(const char *text, uint64_t *out)
{
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0;
}

static bool matches(const char *pattern, const char *path, char *argument, size_t size)
{
    const char *star = strchr(pattern, '*');
    size_t before = star ? (size_t)(star - pattern) : 0;
    size_t len;

    argument[0] = '\0';
    if (!star)
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, before) != 0)
        return false;
    len = strcspn(path + before, "/");
    if (len == 0 || len >= size || strcmp(star + 1, path + before + len) != 0)
        return false;
    memcpy(argument, path + before, len);
    argument[len] = '\0';
    return true;
}

/* HEAD is GET without the body, which libmicrohttpd leaves out by itself. */
static bool same_method(const char *wanted, const char *given)
{
    return strcmp(wanted, given) == 0 || (strcmp(given, "HEAD") == 0 && strcmp(wanted, "GET") == 0);
}

enum MHD_Result route(struct request *request)
{
    enum MHD_Result answered = MHD_NO;
    bool path_known = false;

    for (size_t i = 0; i < HF_COUNT_OF(ROUTES); i++) {
        if (!matches(ROUTES[i].path, request->path, request->argument, sizeof(request->argument)))
            continue;
        path_known = true;
        if (!same_method(ROUTES[i].method, request->method))
            continue;
        if (ROUTES[i].changes && !access_may_change(request, &answered))
            return answered;
        return ROUTES[i].handle(request);
    }
    if (path_known)
        return reply_problem(request, MHD_HTTP_METHOD_NOT_ALLOWED,
                             "This path is there, but not for this method.");
    return reply_problem(request, MHD_HTTP_NOT_FOUND,
                         "There is no such path; /api/v1/openapi.json lists them all.");
}
