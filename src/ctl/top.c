#include "ctl/top.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

enum { SHOWN = 10 }; /* how many rows of each table go into a pipe without --limit */

/* ---- looking ---- */

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double rate(const json_t *before, const json_t *after, const char *key, double seconds)
{
    double more = ctl_number(json_object_get(after, "totals"), key) -
                  ctl_number(json_object_get(before, "totals"), key);

    return before && seconds > 0 && more >= 0 ? more / seconds : -1;
}

/* Computes how many requests a client has made since the last look at the daemon. A client that was
 * not there then has made all of its requests since. */
static void add_rates(json_t *before, json_t *clients, double seconds)
{
    json_t *by_id = json_object();
    json_t *row;
    size_t i;

    json_array_foreach(before, i, row) json_object_set(by_id, ctl_text(row, "id"), row);
    json_array_foreach(clients, i, row)
    {
        double more = ctl_number(row, "requests") -
                      ctl_number(json_object_get(by_id, ctl_text(row, "id")), "requests");

        json_object_set_new(row, "rate",
                            json_real(before && seconds > 0 && more > 0 ? more / seconds : 0));
    }
    json_decref(by_id);
}

/* Makes one row for each file that is waited for: its oldest wait, and how many waits there are. */
static json_t *by_file(const json_t *waits)
{
    json_t *files = json_array();
    json_t *index = json_object();
    json_t *wait;
    size_t i;

    json_array_foreach((json_t *)waits, i, wait)
    {
        json_t *file = json_object_get(index, ctl_text(wait, "file"));

        if (!file) {
            file = json_copy(wait); /* the oldest wait of a file comes first */
            json_object_set_new(file, "waiters", json_integer(0));
            json_object_set(index, ctl_text(wait, "file"), file);
            json_array_append_new(files, file);
        }
        json_object_set_new(file, "waiters",
                            json_integer((json_int_t)ctl_number(file, "waiters") + 1));
    }
    json_decref(index);
    return files;
}

/* Adds to each wait the lock that is in its way. */
static void add_blockers(json_t *waits, json_t *locks)
{
    json_t *by_id = json_object();
    json_t *row;
    size_t i;

    json_array_foreach(locks, i, row) json_object_set(by_id, ctl_text(row, "id"), row);
    json_array_foreach(waits, i, row)
    {
        json_t *blocker = json_object_get(by_id, ctl_text(row, "blocked_by"));

        if (blocker)
            json_object_set(row, "blocker", blocker);
    }
    json_decref(by_id);
}

static void keep(struct ctl_top *top, enum ctl_top_view view, json_t *rows)
{
    json_decref(top->rows[view]);
    top->rows[view] = rows;
}

static int read_rows(struct ctl_top *top, double seconds)
{
    static const struct ctl_list WAITS = {.name = "waiters"};
    static const struct ctl_list CLIENTS = {.name = "clients"};
    struct ctl all = *top->ctl;
    json_t *waits = NULL, *clients = NULL, *locks = NULL;
    bool cut;
    int rv;

    all.limit = all.sort = NULL;
    rv = ctl_choose_rows(&all, &WAITS, &waits, &cut);
    if (rv == CTL_OK) {
        struct ctl of_files = all;

        /* --address chooses the waits, not the locks, so it is cleared here. */
        of_files.address = NULL;
        rv = ctl_ask_waited(&of_files, &locks);
    }
    if (rv == CTL_OK) {
        /* --file and --export choose the waits, not the clients, so they are cleared here. */
        all.file = all.export = NULL;
        rv = ctl_choose_rows(&all, &CLIENTS, &clients, &cut);
    }
    if (rv == CTL_OK) {
        ctl_sort_rows(waits, CTL_SORT_WAITERS, "-waited");
        add_blockers(waits, locks);
        add_rates(top->rows[CTL_TOP_CLIENTS], clients, seconds);
        top->longest_s = json_array_size(waits) > 0
                             ? ctl_number(json_array_get(waits, 0), "waiting_seconds")
                             : -1;
        keep(top, CTL_TOP_FILES, by_file(waits));
        keep(top, CTL_TOP_WAITS, json_incref(waits));
        keep(top, CTL_TOP_CLIENTS, json_incref(clients));
    }
    json_decref(waits);
    json_decref(locks);
    json_decref(clients);
    return rv;
}

int ctl_top_look(struct ctl_top *top)
{
    double now = now_s();
    double seconds = now - top->looked_s;
    json_t *status;
    int rv = ctl_ask(top->ctl, "GET", "status", NULL, &status);

    if (rv == CTL_OK && ctl_stands_by(status)) {
        json_decref(status);
        (void)fprintf(stderr, "holdfastctl: this node does not serve (see holdfastctl status)\n");
        return CTL_STANDBY;
    }
    if (rv == CTL_OK)
        rv = read_rows(top, seconds);
    if (rv != CTL_OK)
        return rv;
    top->requests = rate(top->status, status, "requests", seconds);
    top->commits = rate(top->status, status, "commits", seconds);
    top->callbacks = rate(top->status, status, "callbacks", seconds);
    json_decref(top->status);
    top->status = status;
    top->looked_s = now;
    for (int v = 0; v < CTL_TOP_VIEWS; v++) {
        if (top->ctl->sort)
            ctl_sort_rows(top->rows[v], ctl_top_columns((enum ctl_top_view)v), top->ctl->sort);
    }
    return CTL_OK;
}

void ctl_top_free(struct ctl_top *top)
{
    json_decref(top->status);
    for (int v = 0; v < CTL_TOP_VIEWS; v++)
        json_decref(top->rows[v]);
}

/* ---- showing ---- */

void ctl_top_head(const struct ctl_top *top, char lines[CTL_TOP_HEAD][CTL_WORD_MAX])
{
    const json_t *counts = json_object_get(top->status, "counts");
    const json_t *grace = json_object_get(top->status, "grace");
    char age[CTL_WORD_MAX];
    char rates[CTL_WORD_MAX] = "";

    if (top->requests >= 0)
        hf_format(rates, sizeof(rates), ": %.0f requests, %.0f commits, %.0f callbacks a second",
                  top->requests, top->commits, top->callbacks);
    hf_format(lines[0], CTL_WORD_MAX, "%.80s%.150s%.60s", ctl_text(top->status, "name"), rates,
              json_is_true(json_object_get(grace, "active")) ? "; GRACE: clients reclaim" : "");
    hf_format(lines[1], CTL_WORD_MAX,
              "%.0f locks on %.0f files, %.0f waiting, %.0f clients; longest wait %.40s",
              ctl_number(counts, "locks"), ctl_number(counts, "files"),
              ctl_number(counts, "waiters"), ctl_number(counts, "clients"),
              top->longest_s < 0 ? "none" : ctl_word_age(top->longest_s, age));
}

static void add_count(struct ctl_table *table, double n, enum ctl_color color)
{
    char text[CTL_WORD_MAX];

    hf_format(text, sizeof(text), "%.0f", n);
    ctl_table_add(table, text, color);
}

static void add_holder(struct ctl_table *table, const json_t *row)
{
    const json_t *blocker = json_object_get(row, "blocker");
    char text[CTL_WORD_MAX] = "";

    if (blocker)
        ctl_word_client(json_object_get(blocker, "client"), text);
    else if (json_is_object(json_object_get(row, "outside")))
        ctl_word_outside(json_object_get(row, "outside"), text);
    ctl_table_add(table, text, CTL_BOLD);
    ctl_table_add(table, blocker ? ctl_word_age(ctl_number(blocker, "held_seconds"), text) : "",
                  CTL_PLAIN);
}

static void add_file(struct ctl_table *table, const json_t *row)
{
    char text[CTL_WORD_MAX];

    ctl_table_add(table, ctl_word_file(row, text), CTL_PLAIN);
    add_count(table, ctl_number(row, "waiters"), CTL_YELLOW);
    ctl_table_add(table, ctl_word_age(ctl_number(row, "waiting_seconds"), text), CTL_YELLOW);
    add_holder(table, row);
}

static void add_wait(struct ctl_table *table, const json_t *row)
{
    char text[CTL_WORD_MAX];

    ctl_table_add(table, ctl_word_client(json_object_get(row, "client"), text), CTL_PLAIN);
    ctl_table_add(table, ctl_word_age(ctl_number(row, "waiting_seconds"), text), CTL_YELLOW);
    ctl_table_add(table, ctl_word_file(row, text), CTL_PLAIN);
    add_holder(table, row);
}

static void add_client(struct ctl_table *table, const json_t *row)
{
    char text[CTL_WORD_MAX];

    ctl_table_add(table, ctl_word_client(row, text), CTL_PLAIN);
    add_count(table, ctl_number(row, "rate"), CTL_BOLD);
    add_count(table, ctl_number(row, "locks"), CTL_PLAIN);
    add_count(table, ctl_number(row, "waiters"), CTL_PLAIN);
    ctl_table_add(table, ctl_word_age(ctl_number(row, "idle_seconds"), text), CTL_PLAIN);
}

/* The first column is the one by which a view is ordered at first. */
static const struct ctl_column SORT_FILES[] = {
    {"waiters", "waiters"}, {"waited", "waiting_seconds"}, {"file", "path"}, {NULL, NULL}};
static const struct ctl_column SORT_WAITS[] = {
    {"waited", "waiting_seconds"}, {"client", "client.name"}, {"file", "path"}, {NULL, NULL}};
static const struct ctl_column SORT_CLIENTS[] = {{"rate", "rate"},       {"locks", "locks"},
                                                 {"waiters", "waiters"}, {"idle", "idle_seconds"},
                                                 {"client", "name"},     {NULL, NULL}};

static const struct view {
    const char *title;
    const char *titles[CTL_COLUMNS_MAX];
    const struct ctl_column *columns;
    void (*add)(struct ctl_table *table, const json_t *row);
} VIEWS[] = {
    [CTL_TOP_FILES] = {"files that are waited for",
                       {"FILE", "WAITING", "LONGEST", "HELD BY", "HELD"},
                       SORT_FILES,
                       add_file},
    [CTL_TOP_WAITS] = {"the longest waits",
                       {"CLIENT", "WAITED", "FOR FILE", "HELD BY", "HELD"},
                       SORT_WAITS,
                       add_wait},
    [CTL_TOP_CLIENTS] = {"the busiest clients",
                         {"CLIENT", "REQUESTS/S", "LOCKS", "WAITING", "IDLE"},
                         SORT_CLIENTS,
                         add_client},
};
enum { COLUMNS = 5 };

const char *ctl_top_title(enum ctl_top_view view)
{
    return VIEWS[view].title;
}

const struct ctl_column *ctl_top_columns(enum ctl_top_view view)
{
    return VIEWS[view].columns;
}

void ctl_top_fill(const struct ctl_top *top, enum ctl_top_view view, size_t first, size_t n,
                  struct ctl_table *table)
{
    const json_t *rows = top->rows[view];

    ctl_table_init(table, top->ctl, COLUMNS, VIEWS[view].titles);
    for (size_t i = first; i < json_array_size(rows) && i - first < n; i++)
        VIEWS[view].add(table, json_array_get(rows, i));
}

/* ---- in a pipe ---- */

static size_t shown(const struct ctl *ctl)
{
    unsigned long n = SHOWN;

    if (ctl->limit)
        (void)sscanf(ctl->limit, "%lu", &n);
    return n;
}

static void print_views(const struct ctl_top *top)
{
    char head[CTL_TOP_HEAD][CTL_WORD_MAX];
    struct ctl_table table;

    ctl_top_head(top, head);
    for (int i = 0; i < CTL_TOP_HEAD; i++) {
        ctl_paint(top->ctl, CTL_PLAIN, head[i]);
        putchar('\n');
    }
    for (int v = 0; v < CTL_TOP_VIEWS; v++) {
        printf("\n%s:\n", ctl_top_title((enum ctl_top_view)v));
        ctl_top_fill(top, (enum ctl_top_view)v, 0, shown(top->ctl), &table);
        ctl_table_print(&table);
    }
}

static void print_json(const struct ctl_top *top)
{
    json_t *json =
        json_pack("{s:O, s:O, s:O, s:O}", "status", top->status, "files", top->rows[CTL_TOP_FILES],
                  "waits", top->rows[CTL_TOP_WAITS], "clients", top->rows[CTL_TOP_CLIENTS]);

    ctl_print_json(json);
    json_decref(json);
}

/* Looks at the daemon twice, a second apart, because rates need two looks. */
static int print_once(struct ctl_top *top)
{
    int rv = ctl_top_look(top);

    if (rv != CTL_OK)
        return rv;
    sleep(1);
    rv = ctl_top_look(top);
    if (rv != CTL_OK)
        return rv;
    for (int v = 0; v < CTL_TOP_VIEWS && !top->ctl->sort; v++) {
        char by[16];

        hf_format(by, sizeof(by), "-%s", VIEWS[v].columns[0].name);
        ctl_sort_rows(top->rows[v], VIEWS[v].columns, by);
    }
    if (top->ctl->json)
        print_json(top);
    else
        print_views(top);
    return CTL_OK;
}

static bool is_sortable(const char *by)
{
    json_t *none = json_array();
    bool found = false;

    for (int v = 0; v < CTL_TOP_VIEWS; v++)
        found |= ctl_sort_rows(none, VIEWS[v].columns, by);
    json_decref(none);
    return found;
}

int ctl_top(struct ctl *ctl, int argc, char **argv)
{
    struct ctl_top top = {.ctl = ctl};
    int rv;

    (void)argv;
    if (argc > 0)
        return CTL_USAGE;
    if (ctl->sort && !is_sortable(ctl->sort)) {
        (void)fprintf(stderr, "holdfastctl: top has no column \"%s\" to sort by\n", ctl->sort);
        return CTL_USAGE;
    }
    if (ctl->once || ctl->json || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        rv = print_once(&top);
    else
        rv = ctl_top_live(&top);
    ctl_top_free(&top);
    return rv;
}
