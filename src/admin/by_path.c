/*
 * Releases locks by path. The core knows handles only, so this file first asks for the names of all
 * handles that are locked, waited for or reserved, a bounded number in each turn, and then releases
 * the handles with this path, a few at a time: a file that two exports share has two handles, and a
 * client can make up any number. A name counts only if it was learnt for this request, because the
 * file may have been renamed since an earlier request asked.
 */
#include <string.h>
#include <sys/random.h>

#include "admin/filter.h"
#include "admin/private.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/text.h"

enum {
    ROWS_AT_ONCE = 32,
    ROWS_PER_TURN = 512,
    SLOTS_PER_TURN = 16384,
    HANDLES_PER_TURN = 64, /* how many handles a turn of the loop releases */
    /* How many locks are released in a turn; all locks of one handle are released at once. */
    LOCKS_PER_TURN = 1000,
};

struct handle {
    struct hf_map_node node;
    struct hf_list link;
    uint8_t len;
    uint8_t bytes[];
};

struct by_path {
    struct filter filter; /* the filter that selects rows by the path */
    uint64_t since_ms;    /* when the request came, by uv_now() */
    /* The index in FETCH of the kind of rows being looked at; past the end when all handles are
     * known. */
    unsigned kind;
    uint64_t cursor;
    uint64_t named_to; /* rows below this cursor have been asked for their names */
    bool last;         /* no rows of this kind are behind named_to */
    bool failed;       /* memory ran out */
    uint64_t unnamed;
    struct hf_map known; /* handles with the path, released already or still to be released */
    struct hf_list handles;
    struct hf_hash_key key;
    int64_t released; /* how many locks were released; HF_ENOENT: none yet */
    struct hf_ticket wait;
    json_t *granted;
};

#define FETCH_HANDLES(name, type, member)                                                  \
    static size_t fetch_##name(const struct hf_core *core, uint64_t *cursor, uint64_t end, \
                               struct hf_bytes fhs[ROWS_AT_ONCE])                          \
    {                                                                                      \
        struct type rows[ROWS_AT_ONCE];                                                    \
        size_t n = hf_core_view_##name(core, cursor, end, rows, ROWS_AT_ONCE);             \
        for (size_t i = 0; i < n; i++)                                                     \
            fhs[i] = rows[i].member;                                                       \
        return n;                                                                          \
    }

FETCH_HANDLES(locks, hf_view_lock, record.fh)
FETCH_HANDLES(waiters, hf_view_waiter, fh)
FETCH_HANDLES(shares, hf_view_share, fh)

static size_t (*const FETCH[])(const struct hf_core *core, uint64_t *cursor, uint64_t end,
                               struct hf_bytes fhs[ROWS_AT_ONCE]) = {fetch_locks, fetch_waiters,
                                                                     fetch_shares};

void hf_admin_by_path_free(struct by_path *by_path)
{
    if (!by_path)
        return;
    while (!hf_list_empty(&by_path->handles)) {
        struct handle *handle = hf_list_first(&by_path->handles, struct handle, link);

        hf_list_remove(&handle->link);
        hf_map_remove(&by_path->known, &handle->node);
        hf_free(&hf_alloc_heap, handle);
    }
    hf_map_free(&by_path->known);
    json_decref(by_path->granted);
    hf_free(&hf_alloc_heap, by_path);
}

/* ---- finding ---- */

static bool same_fh(const struct hf_map_node *node, const void *key)
{
    const struct handle *handle = hf_container_of(node, struct handle, node);
    const struct hf_bytes *fh = key;

    return hf_bytes_equal(hf_bytes(handle->bytes, handle->len), *fh);
}

static void take(struct by_path *b, struct hf_bytes fh)
{
    uint64_t hash = hf_hash(&b->key, fh.data, fh.len);
    struct handle *handle;

    if (hf_map_find(&b->known, hash, same_fh, &fh))
        return;
    handle = hf_calloc(&hf_alloc_heap, 1, sizeof(*handle) + fh.len);
    if (!handle) {
        b->failed = true;
        return;
    }
    handle->len = (uint8_t)fh.len;
    memcpy(handle->bytes, fh.data, fh.len);
    hf_map_insert(&b->known, &handle->node, hash);
    hf_list_add_tail(&b->handles, &handle->link);
}

static void take_if_named(struct by_path *b, struct hf_names *names, struct hf_bytes fh)
{
    const char *path = NULL;
    enum hf_name_status status = hf_names_get(names, fh, b->since_ms, &path);

    b->unnamed += status == HF_NAME_NONE;
    if (status == HF_NAME_KNOWN && fh.len <= HF_NAMES_HANDLE_MAX &&
        (strcmp(path, b->filter.quoted) == 0 || strcmp(path, b->filter.path) == 0))
        take(b, fh);
}

/* Asks for the names of the rows that come next; true if the namer's answer is awaited. */
static bool ask(struct by_path *b, const struct hf_core *core, struct hf_names *names)
{
    struct hf_bytes fhs[ROWS_AT_ONCE];
    uint64_t cursor = b->cursor;
    uint64_t end = cursor + SLOTS_PER_TURN;
    bool awaited = false;

    b->last = false;
    for (size_t n, seen = 0; seen < ROWS_PER_TURN && cursor < end && !b->last; seen += n) {
        n = FETCH[b->kind](core, &cursor, end, fhs);
        for (size_t i = 0; i < n; i++)
            awaited |= hf_names_ask(names, fhs[i]);
        b->last = n < ROWS_AT_ONCE && cursor < end;
    }
    b->named_to = cursor;
    return awaited;
}

/* Looks at the rows whose names have been asked for. */
static void look(struct by_path *b, const struct hf_core *core, struct hf_names *names)
{
    struct hf_bytes fhs[ROWS_AT_ONCE];
    size_t n = ROWS_AT_ONCE;

    while (n == ROWS_AT_ONCE) {
        n = FETCH[b->kind](core, &b->cursor, b->named_to, fhs);
        for (size_t i = 0; i < n; i++)
            take_if_named(b, names, fhs[i]);
    }
    b->cursor = b->named_to;
    if (!b->last)
        return;
    b->cursor = b->named_to = 0;
    b->kind++;
}

/* ---- releasing ---- */

static void release_one(struct by_path *b, struct hf_service *service, const struct handle *handle)
{
    struct hf_ticket one = {0}; /* all locks of a file are released at once */
    int64_t n = hf_core_release_file(service->core, hf_service_now(service),
                                     hf_bytes(handle->bytes, handle->len), &one);

    if (n < 0)
        return; /* the last lock of the file went meanwhile */
    b->released = n + (b->released > 0 ? b->released : 0);
    b->wait.seq = one.seq > b->wait.seq ? one.seq : b->wait.seq;
}

/* Releases some handles. The waiters that are granted because of that must be read in the same
 * turn. */
static void release_some(struct request *request, struct by_path *b)
{
    struct hf_service *service = request->admin->config.service;
    uint64_t mark = hf_core_view_grant_mark(service->core);
    int64_t before = b->released;
    struct handle *handle;
    json_t *granted;

    for (unsigned i = 0; i < HANDLES_PER_TURN && b->released - before < LOCKS_PER_TURN &&
                         (handle = hf_list_first(&b->handles, struct handle, link));
         i++) {
        release_one(b, service, handle);
        hf_list_remove(&handle->link);
        hf_map_remove(&b->known, &handle->node);
        hf_free(&hf_alloc_heap, handle);
    }
    granted = hf_admin_granted_since(request, mark, json_array_size(b->granted));
    json_array_extend(b->granted, granted);
    json_decref(granted);
}

static enum MHD_Result reply(struct request *request, struct by_path *b)
{
    json_t *granted = b->granted;
    char detail[128];

    if (b->released < 0 && b->unnamed > 0) {
        hf_format(detail, sizeof(detail),
                  "No lock is on a file of that path; but %llu are on files without a known name.",
                  (unsigned long long)b->unnamed);
        return hf_admin_reply_problem(request, MHD_HTTP_NOT_FOUND, detail);
    }
    if (b->released < 0)
        return hf_admin_reply_error(request, HF_ENOENT, HF_ADMIN_NOTHING_THERE);
    hf_format(request->argument, sizeof(request->argument), "%s", b->filter.quoted);
    request->change = "release file";
    request->released = b->released;
    b->granted = NULL;
    return hf_admin_reply_when_durable(
        request, b->wait,
        json_pack("{s:I, s:o}", "released", (json_int_t)b->released, "granted", granted));
}

static struct by_path *begin(struct request *request)
{
    struct by_path *b = hf_calloc(&hf_alloc_heap, 1, sizeof(*b));
    uint64_t now = uv_now(request->admin->config.loop);

    if (!b)
        return NULL;
    hf_list_init(&b->handles);
    b->since_ms = now > HF_NAMES_FRESH_MS ? now - HF_NAMES_FRESH_MS : 0;
    b->released = HF_ENOENT;
    b->granted = json_array();
    if (hf_map_init(&b->known, &hf_alloc_heap) < 0 ||
        getrandom(&b->key, sizeof(b->key), 0) != (ssize_t)sizeof(b->key) || !b->granted) {
        hf_admin_by_path_free(b);
        return NULL;
    }
    return b;
}

/* Does one turn's part of a release by path: finds some of the handles or, once all are found,
 * releases some; false when all is done. */
static bool step(struct request *request, struct by_path *b)
{
    const struct hf_core *core = request->admin->config.service->core;
    struct hf_names *names = request->admin->names;

    if (b->kind == HF_COUNT_OF(FETCH)) {
        release_some(request, b);
        if (hf_list_empty(&b->handles))
            return false;
        hf_admin_wait_for_turn(request);
        return true;
    }
    if (b->cursor >= b->named_to && ask(b, core, names) && hf_admin_wait_for_names(request))
        return true;
    look(b, core, names);
    hf_admin_wait_for_turn(request);
    return true;
}

/* Handles the release of a file by its path; it is called again after each wait of the request. */
enum MHD_Result hf_admin_on_delete_path(struct request *request)
{
    const char *path =
        MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, "path");
    enum MHD_Result answered;
    struct by_path *b = request->by_path;

    if (!b) {
        if (!hf_admin_names_are_there(request, &answered))
            return answered;
        b = request->by_path = begin(request);
        if (!b)
            return MHD_NO;
        if (!path || !hf_filter_set_path(&b->filter, path))
            return hf_admin_reply_problem(
                request, MHD_HTTP_BAD_REQUEST,
                "path is the absolute path of a file, of at most 4096 bytes.");
    }
    if (step(request, b))
        return MHD_YES;
    return b->failed ? MHD_NO : reply(request, b);
}
