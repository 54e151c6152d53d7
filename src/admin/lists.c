/*
 * Answers with lists: rows of the core's view that match the filter, a page at a time. An answer is
 * produced piece by piece while it is sent; each piece visits a bounded number of slots and rows,
 * whatever has come and gone meanwhile, so that a list of a million locks does not delay lock
 * requests. A row that is created or deleted meanwhile may be shown or not; every other row is
 * shown exactly once.
 */
#include <stdlib.h>
#include <string.h>

#include "admin/filter.h"
#include "admin/private.h"
#include "admin/rows.h"
#include "admin/sort.h"
#include "base/assert.h"
#include "base/text.h"

enum {
    ROWS_AT_ONCE = 16,
    /* How many rows one piece of an answer looks at, whether they are shown or not. */
    ROWS_PER_PIECE = 96,
    /* How many slots one piece of an answer visits, most of which may be empty. */
    SLOTS_PER_PIECE = 4096,
    BYTES_PER_PIECE = 6144, /* how many bytes of rows one piece of an answer shows */
    /* How many pieces of an answer may follow each other without showing a row. */
    SILENT_PIECES = 64,
    BLOCK_SIZE = 16384, /* how many bytes libmicrohttpd sends at once */
    LIMIT_DEFAULT = 1000,
    LIMIT_MAX = 1000000,
    NAMES_MS = 2000, /* how long a list waits for names that it only shows */
    NAMES_PATH_MS =
        /* How long a list waits to find a path; the namer's silence ends the wait sooner. */
    3600000,
};

struct kind {
    const char *name;
    size_t (*fetch)(const struct hf_core *core, uint64_t *cursor, uint64_t end, union row *rows,
                    size_t max);
    bool (*match)(struct filter *filter, const union row *row);
    void (*show)(struct writer *w, const struct row_context *context, const union row *row);
    /* The columns by which the list can be sorted; NULL: it cannot be sorted. */
    const struct sort_column *columns;
    /* Returns the handle of the row's file; NULL: rows of this kind have no file. */
    struct hf_bytes (*fh)(const union row *row);
};

struct list {
    const struct kind *kind;
    struct hf_admin *admin;
    struct listener *listener;
    struct MHD_Connection *connection;
    struct row_context context;
    struct turn turn;
    struct filter filter;
    uint64_t cursor;
    uint64_t left; /* how many rows there are until the page is full */
    struct sorter sorter;
    size_t next;      /* the index of the sorter's entry that is shown next */
    bool collected;   /* the list has seen every row */
    bool sorted;      /* the rows to be shown are in order */
    uint64_t unnamed; /* how many rows were left out because their files have no name */
    unsigned silent;  /* how many pieces of the answer showed nothing, one after the other */
    bool opened, any, closed;

    struct hf_names_wait wait;
    /* The time of uv_now() at which the list stops waiting for names; 0: not set yet. */
    uint64_t patience_ms;
    uint64_t named_to; /* rows below this cursor have been asked for their names */
    /* Entries of the sorter below this index have been asked for their names. */
    size_t named_entries;

    struct hf_buf out;
    union row rows[ROWS_AT_ONCE];
};

/* ---- kinds of rows ---- */

#define FETCH(name, member)                                                                \
    static size_t fetch_##name(const struct hf_core *core, uint64_t *cursor, uint64_t end, \
                               union row *rows, size_t max)                                \
    {                                                                                      \
        __typeof__(rows->member) found[ROWS_AT_ONCE];                                      \
        size_t n = hf_core_view_##name(core, cursor, end, found, max);                     \
        for (size_t i = 0; i < n; i++)                                                     \
            rows[i].member = found[i];                                                     \
        return n;                                                                          \
    }

FETCH(clients, client)
FETCH(locks, lock)
FETCH(waiters, waiter)
FETCH(shares, reservation)

static bool match_address(struct filter *f, const struct hf_view_client *c,
                          const struct hf_addr *addr)
{
    const struct filter_fields fields = {.id = c->record.id,
                                         .client_id = c->record.id,
                                         .client_name = c->record.name,
                                         .client_addr = addr};

    return hf_filter_client(f, c->record.id, c->record.name, addr) && hf_filter_search(f, &fields);
}

/* A client matches if one of its addresses does. */
static bool match_client(struct filter *f, const union row *row)
{
    const struct hf_view_client *c = &row->client;
    bool fits = match_address(f, c, hf_row_client_addr(c));

    for (unsigned i = 0; i < c->record.n_addrs && !fits; i++)
        fits = match_address(f, c, &c->record.addrs[i]);
    return fits;
}

static bool match_notification(struct filter *f, const union row *row)
{
    enum hf_notice_status status = row->client.notice;

    return status != HF_NOTICE_NONE && match_client(f, row) &&
           (!f->status[0] || strcmp(f->status, hf_row_notice_name(status)) == 0);
}

static bool match_lock(struct filter *f, const union row *row)
{
    const struct hf_view_lock *l = &row->lock;
    const struct filter_fields fields = {l->record.id,    l->record.client_id, l->client_name,
                                         &l->client_addr, l->record.fh,        &l->record.svid,
                                         l->record.oh};

    return (!f->waited || l->n_waiters > 0) &&
           hf_filter_client(f, l->record.client_id, l->client_name, &l->client_addr) &&
           hf_filter_file(f, l->record.export, l->record.fh) &&
           hf_filter_owner(f, l->record.svid, l->record.oh) && hf_filter_search(f, &fields);
}

static bool match_waiter(struct filter *f, const union row *row)
{
    const struct hf_view_waiter *w = &row->waiter;
    const struct filter_fields fields = {w->id, w->client_id, w->client_name, &w->client_addr,
                                         w->fh, &w->svid,     w->oh};

    return hf_filter_search(f, &fields) &&
           hf_filter_client(f, w->client_id, w->client_name, &w->client_addr) &&
           hf_filter_file(f, w->export, w->fh) && hf_filter_owner(f, w->svid, w->oh);
}

static bool match_reservation(struct filter *f, const union row *row)
{
    const struct hf_view_share *s = &row->reservation;
    const struct filter_fields fields = {.id = s->id,
                                         .client_id = s->client_id,
                                         .client_name = s->client_name,
                                         .client_addr = &s->client_addr,
                                         .fh = s->fh};

    return hf_filter_search(f, &fields) &&
           hf_filter_client(f, s->client_id, s->client_name, &s->client_addr) &&
           hf_filter_file(f, s->export, s->fh);
}

static struct hf_bytes fh_of_lock(const union row *row)
{
    return row->lock.record.fh;
}

static struct hf_bytes fh_of_waiter(const union row *row)
{
    return row->waiter.fh;
}

static struct hf_bytes fh_of_reservation(const union row *row)
{
    return row->reservation.fh;
}

/* ---- names of files ---- */

/* Fetches up to max rows from slots below end; *ended tells that there are no slots any more. */
static size_t fetch(struct list *list, uint64_t *cursor, uint64_t end, size_t max, bool *ended)
{
    size_t n = list->kind->fetch(list->admin->config.service->core, cursor, end, list->rows, max);

    *ended = n < max && *cursor < end;
    return n;
}

/* Fetches the row in this slot into the first of list->rows; false if the slot has no row, or none
 * any more. */
static bool fetch_slot(struct list *list, uint64_t slot)
{
    bool ended;

    return fetch(list, &(uint64_t){slot}, slot + 1, 1, &ended) == 1;
}

/* True if names of files decide which rows are in the list, or in which order. */
static bool names_decide(const struct list *list)
{
    return list->filter.by_path || list->filter.file[0] ||
           (list->filter.search[0] && list->filter.searches_files) ||
           (list->sorter.column && strcmp(list->sorter.column->name, "file") == 0);
}

/* Asks for the names of the rows that come next; true if the namer's answer is awaited. */
static bool ask_rows(struct list *list)
{
    uint64_t left = names_decide(list) ? UINT64_MAX : list->left;
    uint64_t cursor = list->cursor;
    uint64_t end = cursor + SLOTS_PER_PIECE;
    bool awaited = false;
    bool ended = false;

    if (cursor < list->named_to)
        return false;
    list->filter.any_file = true;
    for (size_t n, seen = 0; seen < ROWS_PER_PIECE && cursor < end && !ended && left > 0;
         seen += n) {
        n = fetch(list, &cursor, end, ROWS_AT_ONCE, &ended);
        for (size_t i = 0; i < n && left > 0; i++) {
            if (!list->kind->match(&list->filter, &list->rows[i]))
                continue;
            awaited |= hf_names_ask(list->admin->names, list->kind->fh(&list->rows[i]));
            left--;
        }
    }
    list->filter.any_file = false;
    list->named_to = cursor;
    return awaited;
}

static bool ask_entries(struct list *list)
{
    bool awaited = false;

    if (list->next < list->named_entries)
        return false;
    list->named_entries = list->next;
    for (; list->named_entries < list->next + ROWS_PER_PIECE &&
           list->named_entries < list->sorter.count;
         list->named_entries++) {
        if (fetch_slot(list, list->sorter.entries[list->named_entries].slot))
            awaited |= hf_names_ask(list->admin->names, list->kind->fh(list->rows));
    }
    return awaited;
}

static void on_names(struct hf_names_wait *wait)
{
    struct list *list = hf_container_of(wait, struct list, wait);

    MHD_resume_connection(list->connection);
    hf_admin_listener_kick(list->listener);
}

/*
 * True if the list must wait for names. A list that only shows names waits NAMES_MS in all, and
 * then goes on with those that are known; a list that looks for a path waits until the namer has
 * answered.
 */
static bool must_wait(struct list *list)
{
    uint64_t now = uv_now(list->admin->config.loop);
    bool awaited;

    if (!list->kind->fh || !list->context.names ||
        (list->sorter.column && !list->sorted && (list->collected || !names_decide(list))))
        return false;
    awaited = list->sorted ? ask_entries(list) : ask_rows(list);
    if (!awaited)
        return false;
    if (!list->patience_ms)
        list->patience_ms = now + (list->filter.by_path ? NAMES_PATH_MS : NAMES_MS);
    return hf_names_wait(list->admin->names, &list->wait, list->patience_ms, on_names);
}

/* ---- producing an answer ---- */

static bool put(struct list *list, const char *text)
{
    return hf_buf_append(&list->out, text, strlen(text)) == 0;
}

static bool put_row(struct list *list, const struct row_context *context, const union row *row)
{
    struct writer writer = {.out = &list->out};

    if (!put(list, list->any ? ",\n" : "\n"))
        return false;
    list->any = true;
    list->kind->show(&writer, context, row);
    return !writer.failed;
}

/* Ends the list. A caller that asked for a path also gets the number of files whose names are not
 * known, because one of them might be the file at that path. */
static bool put_end(struct list *list)
{
    char text[64] = "}\n";

    if (list->filter.by_path)
        hf_format(text, sizeof(text), ",\"unnamed\":%llu}\n",
                  (unsigned long long)list->filter.unnamed);
    list->closed = true;
    return put(list, text);
}

static bool close_list(struct list *list, bool more)
{
    char text[64];

    hf_format(text, sizeof(text), more ? "\n],\"next\":\"%llu\"" : "\n],\"next\":null",
              (unsigned long long)list->cursor);
    return put(list, text) && put_end(list);
}

static bool open_list(struct list *list)
{
    list->opened = true;
    return put(list, "{\"") && put(list, list->kind->name) && put(list, "\":[");
}

/* Produces enough rows for one piece, in the core's order; false when memory runs out. */
static bool produce_plain(struct list *list, const struct row_context *context)
{
    uint64_t end = list->cursor + SLOTS_PER_PIECE;
    bool ended = false;

    for (size_t n, seen = 0;
         seen < ROWS_PER_PIECE && list->cursor < end && hf_buf_len(&list->out) < BYTES_PER_PIECE;
         seen += n) {
        if (list->left == 0 || ended)
            return close_list(list, !ended);
        n = fetch(list, &list->cursor, end,
                  list->left < ROWS_AT_ONCE ? (size_t)list->left : ROWS_AT_ONCE, &ended);
        for (size_t i = 0; i < n; i++) {
            if (!list->kind->match(&list->filter, &list->rows[i]))
                continue;
            if (!put_row(list, context, &list->rows[i]))
                return false;
            list->left--;
        }
    }
    return true;
}

static bool collect(struct list *list, const struct row_context *context)
{
    uint64_t end = list->cursor + SLOTS_PER_PIECE;
    bool ended = false;

    for (size_t seen = 0; seen < ROWS_PER_PIECE && list->cursor < end && !ended; seen++) {
        /* A cursor is a slot number, and stands behind the row that was fetched last. */
        if (fetch(list, &list->cursor, end, 1, &ended) == 1 &&
            list->kind->match(&list->filter, list->rows) &&
            !hf_sorter_add(&list->sorter, context, list->rows, list->cursor - 1))
            return false;
    }
    list->collected = ended;
    if (ended)
        /* Rows are filtered again, and counted again, when they are shown. */
        list->unnamed = list->filter.unnamed;
    return true;
}

static bool close_sorted(struct list *list)
{
    char text[64];

    hf_format(text, sizeof(text), "\n],\"next\":null,\"total\":%llu",
              (unsigned long long)list->sorter.total);
    list->filter.unnamed = list->unnamed;
    return put(list, text) && put_end(list);
}

/* Produces rows in the order of the sorter. A row may have gone since it was seen, and its slot may
 * hold another row by now. */
static bool produce_sorted(struct list *list, const struct row_context *context)
{
    for (size_t seen = 0; seen < ROWS_PER_PIECE && hf_buf_len(&list->out) < BYTES_PER_PIECE;
         seen++, list->next++) {
        if (list->next >= list->sorter.count)
            return close_sorted(list);
        if (fetch_slot(list, list->sorter.entries[list->next].slot) &&
            list->kind->match(&list->filter, list->rows) && !put_row(list, context, list->rows))
            return false;
    }
    return true;
}

/* Produces one piece of the answer; false when memory runs out. */
static bool produce(struct list *list)
{
    struct row_context context = list->context;
    bool ok = true;

    /*
     * Each row is shown as it is now, but the ages by which rows are ordered belong to one moment.
     */
    if (!list->sorter.column || list->collected)
        context.wall_ms = hf_service_now(list->admin->config.service).wall_ms;
    if (!list->opened && !open_list(list))
        return false;
    if (!list->sorter.column)
        ok = produce_plain(list, &context);
    else if (!list->collected)
        ok = collect(list, &context);
    else if (!list->sorted)
        list->sorted = hf_sorter_order(&list->sorter, ROWS_PER_PIECE);
    else
        ok = produce_sorted(list, &context);
    /* A byte is sent now and then, so that the daemon notices a peer that has gone; JSON allows
     * white space here. */
    return ok &&
           (hf_buf_len(&list->out) > 0 || ++list->silent % SILENT_PIECES != 0 || put(list, "\n"));
}

/* Makes the next piece when it is this list's turn. Returns 0 while the list waits for its turn,
 * for names, or for the turn after a piece that showed nothing. */
static ssize_t make_piece(struct list *list)
{
    struct turns *turns = &list->admin->turns;
    ssize_t rv = 1;

    if (!hf_admin_turns_take(turns, &list->turn)) {
        hf_admin_turns_wait(turns, &list->turn, list->listener, list->connection);
        return 0;
    }
    if (must_wait(list)) {
        MHD_suspend_connection(list->connection);
        rv = 0;
    } else if (!produce(list)) {
        rv = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (hf_buf_len(&list->out) == 0) {
        hf_admin_turns_wait(turns, &list->turn, list->listener, list->connection);
        rv = 0;
    }
    return rv;
}

static ssize_t read_list(void *ctx, uint64_t position, char *room, size_t max)
{
    struct list *list = ctx;
    size_t len;

    (void)position;
    hf_connections_moved(&list->listener->connections, list->connection);
    if (hf_buf_len(&list->out) == 0) {
        ssize_t made = list->closed ? MHD_CONTENT_READER_END_OF_STREAM : make_piece(list);

        if (made <= 0)
            return made;
    }
    len = hf_buf_len(&list->out) < max ? hf_buf_len(&list->out) : max;
    memcpy(room, hf_buf_view(&list->out).data, len);
    hf_buf_consume(&list->out, len);
    return (ssize_t)len;
}

static void free_list(void *ctx)
{
    struct list *list = ctx;

    hf_admin_turns_cancel(&list->turn);
    hf_names_cancel(&list->wait);
    hf_sorter_free(&list->sorter);
    hf_buf_free(&list->out);
    hf_free(&hf_alloc_heap, list);
}

/* ---- the query ---- */

static const char *query(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

static bool take_text(const struct request *request, const char *name, char out[HF_FILTER_TEXT_MAX])
{
    const char *text = query(request, name);

    return hf_text_copy(out, HF_FILTER_TEXT_MAX, text ? text : "");
}

/* Reads sort and offset from the query. Returns NULL, or what is wrong with them. */
static const char *parse_sort(const struct request *request, struct list *list)
{
    const char *sort = query(request, "sort");
    const char *text = query(request, "offset");
    uint64_t offset = 0;

    if (!sort)
        return text ? "offset is for a sorted list; cursor pages through one that is not." : NULL;
    if (!hf_sorter_choose(&list->sorter, list->kind->columns, sort))
        return "sort is the name of a column, with - in front for descending; the description at "
               "/api/v1/openapi.json lists them.";
    if (query(request, "cursor"))
        return "cursor is for a list without sort; offset pages through a sorted one.";
    if (text && !hf_admin_parse_id(text, &offset))
        return "offset is a number.";
    if (offset > SORT_ROWS_MAX || list->left > SORT_ROWS_MAX - offset)
        return "offset and limit are at most 10000 together in a sorted list.";
    list->next = (size_t)offset;
    list->sorter.keep = (size_t)(offset + list->left);
    return NULL;
}

/* Reads the query into list. Returns NULL, or what is wrong with the query. */
static const char *parse(const struct request *request, struct list *list)
{
    struct filter *f = &list->filter;
    const char *limit = query(request, "limit");
    const char *cursor = query(request, "cursor");
    const char *waited = query(request, "waited");
    const char *path = query(request, "path");

    list->left = LIMIT_DEFAULT;
    if (limit &&
        (!hf_admin_parse_id(limit, &list->left) || list->left == 0 || list->left > LIMIT_MAX))
        return "limit is a number from 1 to 1000000.";
    if (cursor && !hf_admin_parse_id(cursor, &list->cursor))
        return "cursor is what the page before named as next.";
    if (!take_text(request, "client", f->client) || !take_text(request, "file", f->file) ||
        !take_text(request, "share", f->export) || !take_text(request, "owner", f->owner) ||
        !take_text(request, "status", f->status) || !take_text(request, "search", f->search))
        return "A filter has at most 255 bytes.";
    f->waited = waited && strcmp(waited, "true") == 0;
    f->names = request->admin->names;
    f->searches_files = list->context.names != NULL;
    if (path && !hf_filter_set_path(f, path))
        return "path is the absolute path of a file, of at most 4096 bytes.";
    return parse_sort(request, list);
}

/* True if the rows of the answer, or their order, would tell what their files are. */
static bool tells_of_files(const struct request *request)
{
    const char *sort = query(request, "sort");

    return query(request, "path") || query(request, "file") ||
           (sort && strcmp(sort + (sort[0] == '-'), "file") == 0);
}

static enum MHD_Result reply_list(struct request *request, const struct kind *kind)
{
    struct MHD_Response *response;
    enum MHD_Result answered;
    const char *wrong;
    struct list *list;

    if (tells_of_files(request) && !hf_admin_access_may(request, ACCESS_FILES, &answered))
        return answered;
    if (query(request, "path") && !hf_admin_names_are_there(request, &answered))
        return answered;
    list = hf_calloc(&hf_alloc_heap, 1, sizeof(*list));
    if (!list)
        return MHD_NO;
    list->kind = kind;
    list->admin = request->admin;
    list->listener = request->listener;
    list->connection = request->connection;
    list->context = hf_admin_row_context_of(request);
    hf_list_init(&list->turn.link);
    hf_list_init(&list->wait.link);
    hf_buf_init(&list->out, &hf_alloc_heap);
    wrong = parse(request, list);
    if (wrong) {
        free_list(list);
        return hf_admin_reply_problem(request, MHD_HTTP_BAD_REQUEST, wrong);
    }
    response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_SIZE, read_list, list, free_list);
    if (!response)
        free_list(list);
    return hf_admin_reply_response(request, MHD_HTTP_OK, "application/json", response);
}

enum MHD_Result hf_admin_on_clients(struct request *request)
{
    static const struct kind CLIENTS = {"clients",     fetch_clients,   match_client,
                                        hf_row_client, HF_SORT_CLIENTS, NULL};

    return reply_list(request, &CLIENTS);
}

enum MHD_Result hf_admin_on_locks(struct request *request)
{
    static const struct kind LOCKS = {"locks",     fetch_locks,   match_lock,
                                      hf_row_lock, HF_SORT_LOCKS, fh_of_lock};

    return reply_list(request, &LOCKS);
}

enum MHD_Result hf_admin_on_waiters(struct request *request)
{
    static const struct kind WAITERS = {"waiters",     fetch_waiters, match_waiter,
                                        hf_row_waiter, NULL,          fh_of_waiter};

    return reply_list(request, &WAITERS);
}

enum MHD_Result hf_admin_on_reservations(struct request *request)
{
    static const struct kind RESERVATIONS = {"reservations",     fetch_shares, match_reservation,
                                             hf_row_reservation, NULL,         fh_of_reservation};

    return reply_list(request, &RESERVATIONS);
}

enum MHD_Result hf_admin_on_notifications(struct request *request)
{
    static const struct kind NOTIFICATIONS = {
        "notifications", fetch_clients, match_notification, hf_row_notification, NULL, NULL};

    return reply_list(request, &NOTIFICATIONS);
}

enum MHD_Result hf_admin_on_client(struct request *request)
{
    struct hf_service *service = request->admin->config.service;
    struct row_context context = hf_admin_row_context_of(request);
    enum MHD_Result rv = MHD_NO;
    struct hf_buf buf;
    struct writer writer = {.out = &buf};
    union row row;
    uint64_t id;

    if (!hf_admin_parse_id(request->argument, &id) ||
        hf_core_view_client(service->core, id, &row.client) < 0)
        return hf_admin_reply_problem(request, MHD_HTTP_NOT_FOUND, HF_ADMIN_NO_CLIENT);
    hf_buf_init(&buf, &hf_alloc_heap);
    hf_row_client(&writer, &context, &row);
    if (!writer.failed)
        rv = hf_admin_reply_text(request, MHD_HTTP_OK, "application/json", hf_buf_view(&buf));
    hf_buf_free(&buf);
    return rv;
}
