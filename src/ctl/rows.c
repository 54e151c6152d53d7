/* Chooses which rows of a list are shown, and in which order. The daemon chooses by client, file,
 * export and owner; addresses, ages, patterns and the order are decided here, over all rows. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/network.h"
#include "base/text.h"
#include "ctl/ctl.h"

const struct ctl_column CTL_SORT_LOCKS[] = {
    {"client", "client.name"}, {"address", "client.address"},
    {"file", "path"},          {"owner", "owner.svid"},
    {"mode", "mode"},          {"held", "held_seconds"},
    {"waiters", "waiters"},    {NULL, NULL},
};

const struct ctl_column CTL_SORT_WAITERS[] = {
    {"client", "client.name"},
    {"address", "client.address"},
    {"file", "path"},
    {"owner", "owner.svid"},
    {"mode", "mode"},
    {"waited", "waiting_seconds"},
    {NULL, NULL},
};

const struct ctl_column CTL_SORT_CLIENTS[] = {
    {"client", "name"},
    {"address", "address"},
    {"locks", "locks"},
    {"waiters", "waiters"},
    {"requests", "requests"},
    {"idle", "idle_seconds"},
    {"notice", "notification.status"},
    {NULL, NULL},
};

const struct ctl_column CTL_SORT_RESERVATIONS[] = {
    {"client", "client.name"},
    {"address", "client.address"},
    {"file", "path"},
    {"access", "access"},
    {NULL, NULL},
};

/* ---- order ---- */

/* Returns the value of a row at a path such as "client.name"; a file without a path is known by its
 * handle. */
static const json_t *value_at(const json_t *row, const char *path)
{
    const char *dot = strchr(path, '.');
    char first[32];
    const json_t *value;

    if (dot) {
        hf_format(first, sizeof(first), "%.*s", (int)(dot - path), path);
        return value_at(json_object_get(row, first), dot + 1);
    }
    value = json_object_get(row, path);
    return json_is_null(value) && strcmp(path, "path") == 0 ? json_object_get(row, "file") : value;
}

static const char *sort_path; /* static, because qsort() passes no context */
static bool sort_descending;

static int compare(const void *a, const void *b)
{
    const json_t *x = value_at(*(json_t *const *)a, sort_path);
    const json_t *y = value_at(*(json_t *const *)b, sort_path);
    double difference = json_number_value(x) - json_number_value(y);
    int order = difference > 0 ? 1 : difference < 0 ? -1 : 0;

    if (json_is_string(x) && json_is_string(y))
        order = strcasecmp(json_string_value(x), json_string_value(y));
    return sort_descending ? -order : order;
}

bool ctl_sort_rows(json_t *rows, const struct ctl_column *columns, const char *by)
{
    size_t n = json_array_size(rows);
    json_t **order = n > 0 ? malloc(n * sizeof(json_t *)) : NULL;

    sort_descending = by[0] == '-';
    for (sort_path = NULL; columns && columns->name; columns++) {
        if (strcmp(columns->name, by + sort_descending) == 0)
            sort_path = columns->path;
    }
    for (size_t i = 0; order && i < n; i++)
        order[i] = json_incref(json_array_get(rows, i));
    if (order && sort_path)
        qsort(order, n, sizeof(json_t *), compare);
    for (size_t i = 0; order && i < n; i++)
        json_array_set_new(rows, i, order[i]);
    free(order);
    return sort_path != NULL;
}

void ctl_print_columns(const char *command)
{
    static const struct {
        const char *command;
        const struct ctl_column *columns;
    } LISTS[] = {{"locks", CTL_SORT_LOCKS},
                 {"waiters", CTL_SORT_WAITERS},
                 {"clients", CTL_SORT_CLIENTS},
                 {"reservations", CTL_SORT_RESERVATIONS}};

    for (size_t i = 0; i < sizeof(LISTS) / sizeof(LISTS[0]); i++) {
        if (strcmp(LISTS[i].command, command) != 0)
            continue;
        printf("\nCOLUMN is one of:");
        for (const struct ctl_column *c = LISTS[i].columns; c->name; c++)
            printf(" %s", c->name);
        putchar('\n');
    }
}

/* ---- filters ---- */

bool ctl_read_age(const char *option, const char *text, double *seconds)
{
    static const char UNITS[] = "smhd";
    static const double SECONDS[] = {1, 60, 3600, 86400};
    char *end;
    double n = strtod(text, &end);
    const char *unit = *end ? strchr(UNITS, *end) : UNITS;

    if (end == text || n < 0 || !unit || (*end && end[1])) {
        (void)fprintf(stderr, "holdfastctl: --%s takes an age, as 90s, 10m, 2h or 1d; not \"%s\"\n",
                      option, text);
        return false;
    }
    *seconds = n * SECONDS[unit - UNITS];
    return true;
}

struct choice {
    const struct ctl_list *list;
    bool by_network;
    struct hf_network network;
    double held, waited;  /* the least age in seconds; negative: any age */
    const char *pattern;  /* the pattern of a path or a handle; NULL: any file */
    bool waiting_clients; /* only clients that wait for a lock are shown */
};

static bool is_in_network(const struct choice *choice, const json_t *row)
{
    const json_t *client = json_object_get(row, "client");
    struct hf_addr addr;

    return !choice->by_network ||
           (hf_addr_parse(ctl_text(client ? client : row, "address"), &addr) == 0 &&
            hf_network_contains(&choice->network, &addr));
}

static bool matches(const char *pattern, const json_t *row)
{
    return !pattern || fnmatch(pattern, ctl_text(row, "path"), 0) == 0 ||
           fnmatch(pattern, ctl_text(row, "file"), FNM_CASEFOLD) == 0;
}

static bool passes(const struct choice *choice, const json_t *row)
{
    return is_in_network(choice, row) && matches(choice->pattern, row) &&
           (choice->held < 0 || ctl_number(row, choice->list->held) >= choice->held) &&
           (choice->waited < 0 || ctl_number(row, choice->list->waited) >= choice->waited) &&
           (!choice->waiting_clients || ctl_number(row, "waiters") > 0);
}

/* Reads --waited. Without an age it means locks that are waited for, which the daemon chooses, or
 * clients that wait. */
static bool read_waited(struct ctl *ctl, struct choice *choice)
{
    if (!ctl->waited)
        return true;
    if (ctl->waited[0] && !choice->list->waited) {
        (void)fprintf(stderr, "holdfastctl: %s --waited takes no age\n", choice->list->name);
        return false;
    }
    if (ctl->waited[0])
        return ctl_read_age("waited", ctl->waited, &choice->waited);
    ctl->only_waited = strcmp(choice->list->name, "locks") == 0;
    choice->waiting_clients = strcmp(choice->list->name, "clients") == 0;
    return true;
}

static bool read_choice(struct ctl *ctl, const struct ctl_list *list, struct choice *choice)
{
    *choice = (struct choice){.list = list, .held = -1, .waited = -1};
    if (ctl->file && strpbrk(ctl->file, "*?["))
        choice->pattern = ctl->file;
    choice->by_network = ctl->address != NULL;
    if (ctl->address && hf_network_parse(ctl->address, &choice->network) < 0) {
        (void)fprintf(stderr,
                      "holdfastctl: --address takes an address or a network, as 192.0.2.0/24; not "
                      "\"%s\"\n",
                      ctl->address);
        return false;
    }
    if (ctl->held && !ctl_read_age("held", ctl->held, &choice->held))
        return false;
    return read_waited(ctl, choice);
}

static bool needs_all(const struct ctl *ctl, const struct choice *choice)
{
    return ctl->sort || choice->by_network || choice->pattern || choice->held >= 0 ||
           choice->waited >= 0 || choice->waiting_clients;
}

int ctl_choose_rows(struct ctl *ctl, const struct ctl_list *list, json_t **out, bool *cut)
{
    size_t limit = ctl->limit ? strtoull(ctl->limit, NULL, 10) : (size_t)-1;
    struct ctl asked = *ctl;
    struct choice choice;
    char one_more[24];
    json_t *rows, *row;
    size_t i;
    int rv;

    if (!read_choice(&asked, list, &choice))
        return CTL_USAGE;
    hf_format(one_more, sizeof(one_more), "%zu", limit + 1);
    asked.limit = needs_all(ctl, &choice) || !ctl->limit ? NULL : one_more;
    rv = ctl_ask_list(&asked, list->name, &rows);
    if (rv != CTL_OK)
        return rv;
    *out = json_array();
    json_array_foreach(rows, i, row)
    {
        if (passes(&choice, row))
            json_array_append(*out, row);
    }
    json_decref(rows);
    if (ctl->sort && !ctl_sort_rows(*out, list->sortable, ctl->sort)) {
        (void)fprintf(stderr, "holdfastctl: %s has no column \"%s\" to sort by; there are",
                      list->name, ctl->sort);
        for (const struct ctl_column *c = list->sortable; c->name; c++)
            (void)fprintf(stderr, "%s %s", c == list->sortable ? "" : ",", c->name);
        (void)fputc('\n', stderr);
        json_decref(*out);
        return CTL_USAGE;
    }
    *cut = json_array_size(*out) > limit;
    while (json_array_size(*out) > limit)
        json_array_remove(*out, json_array_size(*out) - 1);
    return CTL_OK;
}
