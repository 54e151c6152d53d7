/* The table of paths. A * matches one part of the path, which the handler gets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "admin/private.h"
#include "base/assert.h"
#include "base/text.h"

struct entry {
    const char *method;
    const char *path;
    enum MHD_Result (*handle)(struct request *request);
    enum access needs;
    bool serving; /* only a node that serves can answer; a standby says which one does */
    /* The keys that the query may have, as shown to the user; NULL: any key is ignored. */
    const char *keys;
};

static const struct entry ROUTES[] = {
    {"GET", "/", hf_admin_on_file, ACCESS_READER, false, NULL},
    {"GET", "/page/*", hf_admin_on_file, ACCESS_READER, false, NULL},
    {"GET", "/healthz", hf_admin_on_healthz, ACCESS_READER, false, NULL},
    {"GET", "/readyz", hf_admin_on_readyz, ACCESS_READER, false, NULL},
    {"GET", "/metrics", hf_admin_on_metrics, ACCESS_READER, false, NULL},
    {"GET", "/api/v1/openapi.json", hf_admin_on_file, ACCESS_READER, false, ""},
    {"GET", "/api/v1/status", hf_admin_on_status, ACCESS_READER, false, ""},
    {"POST", "/api/v1/session", hf_admin_on_session_begin, ACCESS_FILES, false, ""},
    {"DELETE", "/api/v1/session", hf_admin_on_session_end, ACCESS_READER, false, ""},
    {"GET", "/api/v1/clients", hf_admin_on_clients, ACCESS_READER, true,
     "client, search, sort, offset, limit, cursor"},
    {"GET", "/api/v1/clients/*", hf_admin_on_client, ACCESS_READER, true, ""},
    {"DELETE", "/api/v1/clients/*", hf_admin_on_delete_client, ACCESS_CHANGE, true, ""},
    {"POST", "/api/v1/check", hf_admin_on_check_address, ACCESS_CHANGE, true, ""},
    {"POST", "/api/v1/clients/*/dead", hf_admin_on_client_dead, ACCESS_CHANGE, true, ""},
    {"POST", "/api/v1/clients/*/check", hf_admin_on_check, ACCESS_CHANGE, true, ""},
    {"GET", "/api/v1/locks", hf_admin_on_locks, ACCESS_READER, true,
     "client, file, path, share, owner, search, waited, sort, offset, limit, cursor"},
    {"DELETE", "/api/v1/locks/*", hf_admin_on_delete_lock, ACCESS_CHANGE, true, ""},
    {"DELETE", "/api/v1/files/*", hf_admin_on_delete_file, ACCESS_CHANGE, true, ""},
    {"DELETE", "/api/v1/files", hf_admin_on_delete_path, ACCESS_CHANGE, true, "path"},
    {"GET", "/api/v1/waiters", hf_admin_on_waiters, ACCESS_READER, true,
     "client, file, path, share, owner, search, limit, cursor"},
    {"GET", "/api/v1/reservations", hf_admin_on_reservations, ACCESS_READER, true,
     "client, file, path, share, search, limit, cursor"},
    {"GET", "/api/v1/cluster", hf_admin_on_cluster, ACCESS_READER, false, ""},
    {"POST", "/api/v1/cluster/take", hf_admin_on_cluster_take, ACCESS_CHANGE, false, ""},
    {"POST", "/api/v1/cluster/release", hf_admin_on_cluster_release, ACCESS_CHANGE, false, ""},
    {"POST", "/api/v1/cluster/move", hf_admin_on_cluster_move, ACCESS_CHANGE, false, ""},
    {"GET", "/api/v1/grace", hf_admin_on_grace, ACCESS_READER, true, ""},
    {"POST", "/api/v1/grace/end", hf_admin_on_end_grace, ACCESS_CHANGE, true, ""},
    {"POST", "/api/v1/grace/hold", hf_admin_on_hold_grace, ACCESS_CHANGE, true, ""},
    {"GET", "/api/v1/exports", hf_admin_on_exports, ACCESS_FILES, true, ""},
    {"POST", "/api/v1/exports/release", hf_admin_on_release_export, ACCESS_CHANGE, true, ""},
    {"POST", "/api/v1/exports/take-back", hf_admin_on_take_back_export, ACCESS_CHANGE, true, ""},
    {"GET", "/api/v1/losses", hf_admin_on_losses, ACCESS_READER, true, ""},
    {"DELETE", "/api/v1/losses", hf_admin_on_acknowledge, ACCESS_CHANGE, true, ""},
    {"GET", "/api/v1/history", hf_admin_on_history, ACCESS_FILES, false,
     "client, file, since, until, limit"},
    {"GET", "/api/v1/backup", hf_admin_on_backup, ACCESS_CHANGE, true, ""},
    {"GET", "/api/v1/notifications", hf_admin_on_notifications, ACCESS_READER, true,
     "client, status, limit, cursor"},
    {"POST", "/api/v1/notifications", hf_admin_on_notify, ACCESS_CHANGE, true, ""},
};

bool hf_admin_parse_id(const char *text, uint64_t *out)
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

/* ---- the query ---- */

struct query {
    const char *keys;    /* the keys that the query of this path may have */
    const char *unknown; /* the first key of the query that is not allowed */
};

static bool is_one_of(const char *keys, const char *key)
{
    size_t len = strlen(key);

    for (const char *k = keys; *k; k += strspn(k, ", ")) {
        size_t n = strcspn(k, ",");
        if (n == len && memcmp(k, key, n) == 0)
            return true;
        k += n;
    }
    return false;
}

static enum MHD_Result see_key(void *ctx, enum MHD_ValueKind kind, const char *key,
                               const char *value)
{
    struct query *query = ctx;

    (void)kind;
    (void)value;
    if (is_one_of(query->keys, key))
        return MHD_YES;
    query->unknown = key;
    return MHD_NO;
}

static enum MHD_Result reply_unknown_key(struct request *request, const struct query *query)
{
    char detail[256];
    char key[64];
    size_t n = 0;

    /* A peer can send any bytes, but JSON must be UTF-8. */
    for (; query->unknown[n] && n < sizeof(key) - 1; n++)
        key[n] =
            (char)(query->unknown[n] > ' ' && query->unknown[n] < 0x7f ? query->unknown[n] : '?');
    key[n] = '\0';
    if (query->keys[0])
        hf_format(detail, sizeof(detail), "There is no key \"%s\" here; there are %s.", key,
                  query->keys);
    else
        hf_format(detail, sizeof(detail), "There is no key \"%s\" here; this path takes none.",
                  key);
    return hf_admin_reply_problem(request, MHD_HTTP_BAD_REQUEST, detail);
}

/* ---- routing ---- */

/* Calls the handler. Unknown keys of the query are refused, because a mistyped filter that was
 * ignored would list everything. */
static enum MHD_Result enter(struct request *request, const struct entry *entry)
{
    struct query query = {.keys = entry->keys};
    struct hf_admin_cluster cluster;
    enum MHD_Result answered = MHD_NO;

    if (!hf_admin_access_may(request, entry->needs, &answered))
        return answered;
    if (entry->serving && hf_admin_cluster_waits(request, &cluster))
        return hf_admin_reply_waiting(request, &cluster);
    if (entry->keys)
        MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, see_key, &query);
    return query.unknown ? reply_unknown_key(request, &query) : entry->handle(request);
}

/* Adds the method to the Allow header, which RFC 9110 (section 15.5.6) requires with a 405. */
static void allow(struct request *request, const char *method)
{
    size_t len = strlen(request->allow);

    hf_format(request->allow + len, sizeof(request->allow) - len, "%s%s", len ? ", " : "",
              strcmp(method, "GET") == 0 ? "GET, HEAD" : method);
}

enum MHD_Result hf_admin_route(struct request *request)
{
    enum MHD_Result answered = MHD_NO;

    request->level = hf_admin_access_level(request);
    hf_connections_begin(&request->listener->connections, request->connection,
                         request->level == ACCESS_CHANGE);
    if (!hf_admin_access_may(request, ACCESS_READER, &answered))
        return answered;
    for (size_t i = 0; i < HF_COUNT_OF(ROUTES); i++) {
        if (!matches(ROUTES[i].path, request->path, request->argument, sizeof(request->argument)))
            continue;
        if (same_method(ROUTES[i].method, request->method))
            return enter(request, &ROUTES[i]);
        allow(request, ROUTES[i].method);
    }
    if (request->allow[0])
        return hf_admin_reply_problem(request, MHD_HTTP_METHOD_NOT_ALLOWED,
                                      "This path is there, but not for this method.");
    return hf_admin_reply_problem(request, MHD_HTTP_NOT_FOUND,
                                  "There is no such path; /api/v1/openapi.json lists them all.");
}
