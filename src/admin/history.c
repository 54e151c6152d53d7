/*
 * Serves GET /api/v1/history (ADM-11): shows what src/history finds. A worker thread reads the
 * files and makes the text of the answer; the request waits meanwhile, and is then routed again.
 */
#include "history/history.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "admin/private.h"
#include "admin/values.h"
#include "base/quote.h"

enum { LIMIT_DEFAULT = 100 };

struct asked {
    struct hf_history_search search;
    struct request *request;
    bool done;
};

/* ---- the answer, on the worker's thread ---- */

static json_t *or_null(const char *text)
{
    return text[0] ? hf_value_str(text) : json_null();
}

/* Shows a range as lists do: null as the last byte means the end of the file. */
static json_t *range_of(const struct hf_history_row *row)
{
    return json_pack("{s:o, s:o}", "first", hf_value_id(row->first), "last",
                     row->last == UINT64_MAX ? json_null() : hf_value_id(row->last));
}

static json_t *entry_of(const struct hf_history_row *row)
{
    bool held = row->kind != HF_HISTORY_NOTE;

    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "kind",
        hf_history_kind_name(row->kind), "from", hf_value_time(row->from_ms), "to",
        hf_value_time(row->to_ms), "what", hf_value_str(row->why), "client",
        row->client[0] || row->addr[0]
            ? json_pack("{s:o, s:o}", "name", or_null(row->client), "address", or_null(row->addr))
            : json_null(),
        "file", or_null(row->fh), "path", or_null(row->path), "owner",
        held ? json_pack("{s:i, s:o}", "svid", (int)row->svid, "text", or_null(row->owner))
             : json_null(),
        "range", held ? range_of(row) : json_null(), "mode",
        held ? json_string(row->exclusive ? "exclusive" : "shared") : json_null(), "text",
        or_null(row->text), "id", held ? hf_value_id(row->id) : json_null());
}

static char *render(const struct hf_history_found *found)
{
    json_t *entries = json_array();
    json_t *all;
    char *text;

    for (unsigned i = 0; i < found->n_rows; i++)
        json_array_append_new(entries, entry_of(&found->rows[i]));
    all = json_pack("{s:o, s:b, s:o}", "entries", entries, "more", (int)found->more, "begins",
                    found->begins_ms ? hf_value_time(found->begins_ms) : json_null());
    text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return text;
}

/* ---- the question ---- */

static const char *value_of(const struct request *request, const char *key)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, key);
}

/* Parses a time in UTC, in the form of our own answers, with or without a fraction of a second. */
bool hf_admin_parse_time(const char *text, int64_t *out)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int64_t ms = 0;

    if (!end)
        return false;
    if (*end == '.') {
        int64_t digit = 100;
        for (end++; *end >= '0' && *end <= '9'; end++, digit /= 10)
            ms += (*end - '0') * digit;
    }
    if (strcmp(end, "Z") != 0)
        return false;
    *out = (int64_t)timegm(&tm) * 1000 + ms;
    return true;
}

static bool copy_quoted(const char *value, char *out, size_t size)
{
    return hf_path_quote(hf_bytes_str(value), out, size) >= 0;
}

/* Reads the query of the request. Returns NULL if all is well, else what is wrong. */
static const char *read_query(const struct request *request, struct hf_history_query *query)
{
    const char *client = value_of(request, "client");
    const char *file = value_of(request, "file");
    const char *since = value_of(request, "since");
    const char *until = value_of(request, "until");
    const char *limit = value_of(request, "limit");
    uint64_t wanted = LIMIT_DEFAULT;

    if (client && !copy_quoted(client, query->client, sizeof(query->client)))
        return "client is a name or an address, or a part of one.";
    if (file && !copy_quoted(file, query->file, sizeof(query->file)))
        return "file is a path, a part of a path or of a handle in hexadecimal, or a pattern.";
    if ((since && !hf_admin_parse_time(since, &query->since_ms)) ||
        (until && !hf_admin_parse_time(until, &query->until_ms)))
        return "since and until are times in UTC, as 2026-11-18T03:12:00Z.";
    if (query->since_ms && query->until_ms && query->since_ms > query->until_ms)
        return "since is later than until.";
    if (limit &&
        (!hf_admin_parse_id(limit, &wanted) || wanted == 0 || wanted > HF_HISTORY_ROWS_MAX))
        return "limit is a number from 1 to 10000.";
    query->limit = (unsigned)wanted;
    return NULL;
}

/* ---- asking and answering ---- */

static void on_found(struct hf_history_search *search)
{
    struct asked *asked = hf_container_of(search, struct asked, search);

    asked->done = true;
    hf_admin_wait_resume(asked->request);
}

void hf_admin_history_free(struct asked *asked)
{
    if (!asked)
        return;
    hf_history_search_free(&asked->search);
    free(asked);
}

static enum MHD_Result ask(struct request *request)
{
    struct hf_history *history = request->admin->config.history;
    struct asked *asked;
    const char *wrong;
    int rv;

    if (!history)
        return hf_admin_reply_problem(request, MHD_HTTP_CONFLICT,
                                      "No history is kept; see history.path.");
    asked = calloc(1, sizeof(*asked));
    if (!asked)
        return MHD_NO;
    request->asked = asked;
    asked->request = request;
    asked->search.render = render;
    asked->search.done = on_found;
    wrong = read_query(request, &asked->search.query);
    if (wrong)
        return hf_admin_reply_problem(request, MHD_HTTP_BAD_REQUEST, wrong);
    rv = hf_history_search(history, &asked->search);
    if (rv < 0)
        return hf_admin_reply_error(request, rv, "");
    return hf_admin_wait_suspend(request);
}

/* Handles GET history; it is called again when the search has ended. */
enum MHD_Result hf_admin_on_history(struct request *request)
{
    const struct asked *asked = request->asked;

    if (!asked)
        return ask(request);
    if (asked->search.found.error < 0 || !asked->search.text)
        return hf_admin_reply_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                                      "The history could not be read.");
    return hf_admin_reply_text(request, MHD_HTTP_OK, "application/json",
                               hf_bytes_str(asked->search.text));
}
