/*
 * A release by path. The core knows handles only, so the handles of all files that are locked,
 * waited for or reserved are named first, a few hundred at a time, and those that have this path
 * are released together: a file that two exports share has two handles. A name counts only if it
 * was learnt for this request: the file may have been renamed since another request asked.
 */
#include <string.h>

#include "admin/filter.h"
#include "admin/private.h"
#include "base/error.h"
#include "base/text.h"

enum { HANDLES_MAX = 64, ROWS_AT_ONCE = 32, ROWS_PER_TURN = 512 };

struct handle {
    uint8_t bytes[HF_NAMES_HANDLE_MAX];
    size_t len;
};

struct by_path {
    struct filter filter; /* for its path */
    uint64_t since_ms;    /* of uv_now() */
    unsigned kind;        /* of FETCH */
    uint64_t cursor;
    uint64_t named_to; /* rows below this cursor have been asked for their names */
    uint64_t unnamed;
    struct handle handles[HANDLES_MAX];
    size_t n;
};

#define FETCH_HANDLES(name, type, member)                                    \
    static size_t fetch_##name(const struct hf_core *core, uint64_t *cursor, \
                               struct hf_bytes fhs[ROWS_AT_ONCE])            \
    {                                                                        \
        struct type rows[ROWS_AT_ONCE];                                      \
        size_t n = hf_core_view_##name(core, cursor, rows, ROWS_AT_ONCE);    \
        for (size_t i = 0; i < n; i++)                                       \
            fhs[i] = rows[i].member;                                         \
        return n;                                                            \
    }

FETCH_HANDLES(locks, hf_view_lock, record.fh)
FETCH_HANDLES(waiters, hf_view_waiter, fh)
FETCH_HANDLES(shares, hf_view_share, fh)

static size_t (*const FETCH[])(const struct hf_core *core, uint64_t *cursor,
                               struct hf_bytes fhs[ROWS_AT_ONCE]) = {fetch_locks, fetch_waiters,
                                                                     fetch_shares};

void by_path_free(struct by_path *by_path)
{
    hf_free(&hf_alloc_heap, by_path);
}

static bool is_taken(const struct by_path *b, struct hf_bytes fh)
{
    for (size_t i = 0; i < b->n; i++) {
        if (hf_bytes_equal(fh, hf_bytes(b->handles[i].bytes, b->handles[i].len)))
            return true;
    }
    return false;
}

static void take_if_named(struct by_path *b, struct hf_names *names, struct hf_bytes fh)
{
    const char *path = NULL;
    enum hf_name_status status = hf_names_get(names, fh, b->since_ms, &path);

    b->unnamed += status == HF_NAME_NONE;
    if (status != HF_NAME_KNOWN || is_taken(b, fh) || b->n == HANDLES_MAX ||
        fh.len > HF_NAMES_HANDLE_MAX ||
        (strcmp(path, b->filter.quoted) != 0 && strcmp(path, b->filter.path) != 0))
        return;
    memcpy(b->handles[b->n].bytes, fh.data, fh.len);
    b->handles[b->n++].len = fh.len;
}

/* Asks for the names of the rows that come next; true if an answer is awaited. */
static bool ask(struct by_path *b, const struct hf_core *core, struct hf_names *names)
{
    struct hf_bytes fhs[ROWS_AT_ONCE];
    uint64_t cursor = b->cursor;
    bool awaited = false;
    size_t n = 1;

    for (size_t seen = 0; seen < ROWS_PER_TURN && n > 0; seen += n) {
        n = FETCH[b->kind](core, &cursor, fhs);
        for (size_t i = 0; i < n; i++)
            awaited |= hf_names_ask(names, fhs[i]);
    }
    b->named_to = cursor;
    return awaited;
}

/* The rows that have been asked for; false when the last kind has come to its end. */
static bool look(struct by_path *b, const struct hf_core *core, struct hf_names *names)
{
    struct hf_bytes fhs[ROWS_AT_ONCE];
    size_t n = 1;

    while (b->cursor < b->named_to && n > 0) {
        n = FETCH[b->kind](core, &b->cursor, fhs);
        for (size_t i = 0; i < n; i++)
            take_if_named(b, names, fhs[i]);
    }
    n = FETCH[b->kind](core, &(uint64_t){b->cursor}, fhs);
    if (n > 0)
        return true;
    b->cursor = b->named_to = 0;
    return ++b->kind < sizeof(FETCH) / sizeof(FETCH[0]);
}

static enum MHD_Result release_all(struct request *request, const struct by_path *b)
{
    struct hf_service *service = request->admin->config.service;
    uint64_t mark = hf_core_view_grant_mark(service->core);
    int64_t released = HF_ENOENT;
    struct hf_awaited wait = {0};
    char detail[128];

    for (size_t i = 0; i < b->n; i++) {
        struct hf_awaited one = {0}; /* the locks of a file are released at once */
        int64_t n = hf_core_release_file(service->core, hf_service_now(service),
                                         hf_bytes(b->handles[i].bytes, b->handles[i].len), &one);

        if (n < 0)
            continue; /* its last lock went meanwhile */
        released = n + (released > 0 ? released : 0);
        wait.seq = one.seq > wait.seq ? one.seq : wait.seq;
    }
    if (released < 0 && b->unnamed > 0) {
        hf_format(detail, sizeof(detail),
                  "No lock is on a file of that path; but %llu are on files without a known name.",
                  (unsigned long long)b->unnamed);
        return reply_problem(request, MHD_HTTP_NOT_FOUND, detail);
    }
    hf_format(request->argument, sizeof(request->argument), "%s", b->filter.quoted);
    return reply_release(request, "release file", mark, released, wait);
}

static struct by_path *begin(struct request *request)
{
    struct by_path *b = hf_calloc(&hf_alloc_heap, 1, sizeof(*b));
    uint64_t now = uv_now(request->admin->config.loop);

    if (b)
        b->since_ms = now > HF_NAMES_FRESH_MS ? now - HF_NAMES_FRESH_MS : 0;
    return b;
}

/* Called again after each wait. */
enum MHD_Result on_delete_path(struct request *request)
{
    const struct hf_core *core = request->admin->config.service->core;
    const char *path =
        MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, "path");
    struct hf_names *names = request->admin->names;
    enum MHD_Result answered;
    struct by_path *b = request->by_path;

    if (!b) {
        if (!names_are_there(request, &answered))
            return answered;
        b = request->by_path = begin(request);
        if (!b)
            return MHD_NO;
        if (!path || !filter_set_path(&b->filter, path))
            return reply_problem(request, MHD_HTTP_BAD_REQUEST,
                                 "path is the absolute path of a file, of at most 4096 bytes.");
    }
    if (b->cursor >= b->named_to && ask(b, core, names) && wait_for_names(request))
        return MHD_YES;
    if (look(b, core, names)) {
        wait_for_turn(request);
        return MHD_YES;
    }
    return release_all(request, b);
}
