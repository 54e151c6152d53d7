/*
 * `holdfastctl history` shows which client held or waited for which file, and when (ADM-11). Times
 * are read and shown as local time of this terminal. Locks that are held now have no entry in the
 * history yet, so they are added from the lists of locks and waiters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "ctl/ctl.h"

/* ---- times ---- */

/* Parses how long ago a moment is: "2h", "30m", "45s" or "3d". */
static bool parse_ago(const char *text, time_t now, time_t *out)
{
    char *unit;
    long n = strtol(text, &unit, 10);
    long seconds;

    if (unit == text || n < 0 || n > 1000000 || !unit[0] || unit[1])
        return false;
    switch (*unit) {
    case 's':
        seconds = 1;
        break;
    case 'm':
        seconds = 60;
        break;
    case 'h':
        seconds = 3600;
        break;
    case 'd':
        seconds = 86400;
        break;
    default:
        return false;
    }
    *out = now - n * seconds;
    return true;
}

/* Parses seconds since 1970, "@1795000000", as date(1) and Pacemaker write them. */
static bool parse_unix(const char *text, time_t *out)
{
    char *end;
    long n = text[0] == '@' ? strtol(text + 1, &end, 10) : -1;

    if (n < 0 || end == text + 1 || *end)
        return false;
    *out = n;
    return true;
}

/* Parses a moment. A time of day is the last such time that has passed: "03:12" is today at noon,
 * but yesterday at 2 o'clock. */
static bool parse_moment(const char *text, time_t now, time_t *out)
{
    static const char *const DAYS[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M",
                                       "%Y-%m-%dT%H:%M", "%Y-%m-%d"};
    static const char *const HOURS[] = {"%H:%M:%S", "%H:%M"};
    const char *end;
    struct tm tm;

    for (size_t i = 0; i < sizeof(DAYS) / sizeof(DAYS[0]); i++) {
        tm = (struct tm){.tm_isdst = -1};
        end = strptime(text, DAYS[i], &tm);
        if (end && !*end) {
            *out = mktime(&tm);
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(HOURS) / sizeof(HOURS[0]); i++) {
        (void)localtime_r(&now, &tm);
        tm.tm_sec = 0;
        tm.tm_isdst = -1;
        end = strptime(text, HOURS[i], &tm);
        if (!end || *end)
            continue;
        *out = mktime(&tm);
        if (*out > now) {
            tm.tm_mday--;
            tm.tm_isdst = -1;
            *out = mktime(&tm);
        }
        return true;
    }
    return parse_ago(text, now, out) || parse_unix(text, out);
}

bool ctl_read_time(const char *option, const char *text, char out[CTL_TIME_MAX])
{
    time_t moment;
    struct tm tm;

    out[0] = '\0';
    if (!text)
        return true;
    if (!parse_moment(text, time(NULL), &moment)) {
        (void)fprintf(
            stderr,
            "holdfastctl: --%s takes a time, as 03:12, \"2026-11-18 03:12\", 2026-11-18, or 2h "
            "for two hours ago; not \"%s\"\n",
            option, text);
        return false;
    }
    (void)gmtime_r(&moment, &tm);
    (void)strftime(out, CTL_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return true;
}

/* Shows a time as local time, without the date if it is today. */
static const char *word_time(const char *utc, char text[CTL_WORD_MAX])
{
    struct tm tm = {0}, today;
    time_t moment, now = time(NULL);

    if (!strptime(utc, "%Y-%m-%dT%H:%M:%S", &tm)) {
        hf_format(text, CTL_WORD_MAX, "%s", utc[0] ? utc : "now");
        return text;
    }
    moment = timegm(&tm);
    (void)localtime_r(&moment, &tm);
    (void)localtime_r(&now, &today);
    if (tm.tm_year == today.tm_year && tm.tm_yday == today.tm_yday)
        (void)strftime(text, CTL_WORD_MAX, "%H:%M:%S", &tm);
    else
        (void)strftime(text, CTL_WORD_MAX, "%Y-%m-%d %H:%M:%S", &tm);
    return text;
}

/* ---- what is held or waited for now ---- */

/* True if `began` is not after `until`. Answers have their times in one form, so that they can be
 * compared as texts. */
static bool began_by(const char *began, const char *until)
{
    return !until[0] || strncmp(began, until, sizeof("2026-11-18T03:12:00") - 1) <= 0;
}

static int add_present(struct ctl *ctl, const char *list, const char *until, json_t *entries)
{
    bool waits = strcmp(list, "waiters") == 0;
    bool cut;
    json_t *rows, *row;
    size_t i;
    int rv = ctl_choose_rows(ctl, &(struct ctl_list){.name = list}, &rows, &cut);

    if (rv != CTL_OK)
        return rv;
    if (cut)
        (void)fprintf(stderr,
                      "holdfastctl: only %s of the %s of now are shown; --limit shows more\n",
                      ctl->limit, list);
    json_array_foreach(rows, i, row)
    {
        const char *began = ctl_text(row, waits ? "since" : "acquired_at");

        if (!began_by(began, until))
            continue;
        json_array_append_new(
            entries,
            json_pack("{s:s, s:s, s:n, s:s, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?}", "kind",
                      waits ? "wait" : "lock", "from", began, "to", "what",
                      waits ? "still waits" : "still held", "client",
                      json_object_get(row, "client"), "file", json_object_get(row, "file"), "path",
                      json_object_get(row, "path"), "owner", json_object_get(row, "owner"), "range",
                      json_object_get(row, "range"), "mode", json_object_get(row, "mode"), "id",
                      json_object_get(row, "id")));
    }
    json_decref(rows);
    return CTL_OK;
}

/* ---- the table ---- */

static bool is_lost(const json_t *entry)
{
    return strncmp(ctl_text(entry, "what"), "lost", 4) == 0;
}

static void add_row(struct ctl_table *table, const json_t *entry)
{
    bool waits = strcmp(ctl_text(entry, "kind"), "wait") == 0;
    bool note = strcmp(ctl_text(entry, "kind"), "note") == 0;
    const char *what = ctl_text(entry, "what");
    enum ctl_color color = is_lost(entry) ? CTL_RED : note ? CTL_BOLD : CTL_PLAIN;
    char text[CTL_WORD_MAX];

    ctl_table_add(table, word_time(ctl_text(entry, "from"), text), CTL_PLAIN);
    ctl_table_add(table, note ? "" : word_time(ctl_text(entry, "to"), text), CTL_PLAIN);
    ctl_table_add(table, note ? "" : waits ? "waited" : "held", waits ? CTL_YELLOW : CTL_PLAIN);
    ctl_table_add(table, note ? "" : ctl_text(entry, "mode"), CTL_PLAIN);
    ctl_table_add(table, ctl_word_client(json_object_get(entry, "client"), text), CTL_PLAIN);
    if (note && !ctl_text(entry, "file")[0])
        ctl_table_add(table, ctl_text(entry, "text"), CTL_PLAIN);
    else
        ctl_table_add(table, ctl_word_file(entry, text), CTL_PLAIN);
    ctl_table_add(table, note ? "" : ctl_word_range(json_object_get(entry, "range"), text),
                  CTL_PLAIN);
    ctl_table_add(table, note ? "" : ctl_word_owner(json_object_get(entry, "owner"), text),
                  CTL_PLAIN);
    ctl_table_add(table, what, color);
}

/* An empty table must not pass for "nothing was locked" where nothing is known of that time. */
static void print_beginning(const json_t *answer, const char *since)
{
    const char *begins = ctl_text(answer, "begins");
    char text[CTL_WORD_MAX];

    if (!begins[0])
        (void)fputs("holdfastctl: the history has no entry yet\n", stderr);
    else if (since[0] && strncmp(since, begins, strlen("2026-11-18T03:12:00")) < 0)
        (void)fprintf(stderr,
                      "holdfastctl: the history begins at %s: nothing that ended before is kept\n",
                      word_time(begins, text));
}

static void print(struct ctl *ctl, const json_t *answer, const char *since)
{
    static const char *const TITLES[] = {"FROM", "TO",    "",      "MODE", "CLIENT",
                                         "FILE", "BYTES", "OWNER", "ENDED"};
    const json_t *entries = json_object_get(answer, "entries");
    struct ctl_table table;
    const json_t *entry;
    size_t i;

    ctl_table_init(&table, ctl, 9, TITLES);
    json_array_foreach(entries, i, entry) add_row(&table, entry);
    ctl_table_print(&table);
    if (json_is_true(json_object_get(answer, "more")))
        (void)fputs("holdfastctl: there are older entries; --limit shows more, --since and --until "
                    "choose\n",
                    stderr);
    print_beginning(answer, since);
}

void ctl_history_lost(struct ctl *ctl, const char *since)
{
    static const char *const TITLES[] = {"CLIENT", "FILE", "BYTES", "OWNER"};
    char path[CTL_PATH_MAX] = "history?limit=10000", text[CTL_WORD_MAX];
    struct ctl_table table;
    const json_t *entry;
    json_t *answer;
    size_t i;

    ctl_add_query(path, "since", since);
    if (ctl_ask_quietly(ctl, path, &answer) != CTL_OK)
        return;
    ctl_table_init(&table, ctl, 4, TITLES);
    json_array_foreach(json_object_get(answer, "entries"), i, entry)
    {
        if (!is_lost(entry))
            continue;
        ctl_table_add(&table, ctl_word_client(json_object_get(entry, "client"), text), CTL_PLAIN);
        ctl_table_add(&table, ctl_word_file(entry, text), CTL_BOLD);
        ctl_table_add(&table, ctl_word_range(json_object_get(entry, "range"), text), CTL_PLAIN);
        ctl_table_add(&table, ctl_word_owner(json_object_get(entry, "owner"), text), CTL_PLAIN);
    }
    ctl_table_print(&table);
    json_decref(answer);
}

/* ---- the command ---- */

static int ask(struct ctl *ctl, const char *since, const char *until, json_t **out)
{
    char path[CTL_PATH_MAX];

    hf_format(path, sizeof(path), "history");
    ctl_add_query(path, "client", ctl->client);
    ctl_add_query(path, "file", ctl->file);
    ctl_add_query(path, "since", since[0] ? since : NULL);
    ctl_add_query(path, "until", until[0] ? until : NULL);
    ctl_add_query(path, "limit", ctl->limit);
    return ctl_ask(ctl, "GET", path, NULL, out);
}

int ctl_history(struct ctl *ctl, int argc, char **argv)
{
    char since[CTL_TIME_MAX], until[CTL_TIME_MAX];
    json_t *answer;
    json_t *entries;
    int rv;

    (void)argv;
    if (argc > 0 || (ctl->at && (ctl->since || ctl->until)) ||
        !ctl_read_time(ctl->at ? "at" : "since", ctl->at ? ctl->at : ctl->since, since) ||
        !ctl_read_time(ctl->at ? "at" : "until", ctl->at ? ctl->at : ctl->until, until))
        return CTL_USAGE;
    if (since[0] && until[0] && strcmp(since, until) > 0) {
        (void)fputs("holdfastctl: --since is later than --until\n", stderr);
        return CTL_USAGE;
    }
    rv = ask(ctl, since, until, &answer);
    if (rv != CTL_OK)
        return rv;
    entries = json_object_get(answer, "entries");
    rv = add_present(ctl, "locks", until, entries);
    if (rv == CTL_OK)
        rv = add_present(ctl, "waiters", until, entries);
    if (rv == CTL_STANDBY)
        rv = CTL_OK; /* a standby knows what was, and its message says which node knows what is */
    if (rv == CTL_OK && ctl->json)
        ctl_print_json(answer);
    else if (rv == CTL_OK)
        print(ctl, answer, since);
    json_decref(answer);
    return rv;
}
