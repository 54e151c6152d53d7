#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "ctl/ctl.h"

static void print_line(const char *name, const char *text)
{
    printf("%-15s %s\n", name, text);
}

static void print_grace(struct ctl *ctl, const json_t *grace)
{
    char text[CTL_WORD_MAX];

    printf("%-15s ", "grace");
    if (json_is_true(json_object_get(grace, "active"))) {
        hf_format(text, sizeof(text), "%.0f s left, %.0f reclaimed, %.0f to go",
                  ctl_number(grace, "remaining_seconds"), ctl_number(grace, "reclaimed"),
                  ctl_number(grace, "unreclaimed"));
        ctl_paint(ctl, CTL_YELLOW, text);
    } else if (ctl_number(grace, "held_seconds") > 0) {
        hf_format(text, sizeof(text), "new locks are held back for %.0f s",
                  ctl_number(grace, "held_seconds"));
        ctl_paint(ctl, CTL_YELLOW, text);
    } else {
        ctl_paint(ctl, CTL_GREEN, "none");
    }
    putchar('\n');
}

static void print_store(struct ctl *ctl, const json_t *store)
{
    bool up = json_is_true(json_object_get(store, "up"));

    printf("%-15s ", "store");
    ctl_paint(ctl, up ? CTL_GREEN : CTL_RED, up ? "up" : ctl_text(store, "reason"));
    putchar('\n');
}

/* Prints whether names of files are known; nothing where names were never set up, because they are
 * optional. */
static void print_names(struct ctl *ctl, const json_t *names)
{
    const char *namer = ctl_text(names, "namer");

    if (strcmp(namer, "none") == 0)
        return;
    printf("%-15s ", "file names");
    ctl_paint(ctl, strcmp(namer, "up") == 0 ? CTL_GREEN : CTL_YELLOW,
              strcmp(namer, "up") == 0 ? "known" : "none; the namer: ");
    printf("%s\n", ctl_text(names, "reason"));
}

static void print_rpcbind(struct ctl *ctl, const json_t *rpcbind)
{
    bool up = json_is_true(json_object_get(rpcbind, "up"));

    printf("%-15s ", "rpcbind");
    ctl_paint(ctl, up ? CTL_GREEN : CTL_RED, ctl_text(rpcbind, "state"));
    if (!up)
        printf(": %s", ctl_text(rpcbind, "reason"));
    putchar('\n');
}

/* Prints losses until an operator acknowledges them, and nothing if there are none. */
static void print_losses(struct ctl *ctl, const json_t *losses)
{
    char text[CTL_WORD_MAX];

    if (ctl_number(losses, "clients") == 0)
        return;
    hf_format(text, sizeof(text), "%.0f locks of %.0f clients: see holdfastctl losses",
              ctl_number(losses, "locks"), ctl_number(losses, "clients"));
    printf("%-15s ", "LOST");
    ctl_paint(ctl, CTL_RED, text);
    putchar('\n');
}

static void print_limits(struct ctl *ctl, const json_t *limits)
{
    char text[CTL_WORD_MAX];
    const json_t *row;
    size_t i;

    json_array_foreach(limits, i, row)
    {
        hf_format(text, sizeof(text), "%.60s: %.0f refused, last %.120s (%.60s) at %.40s",
                  ctl_text(row, "limit"), ctl_number(row, "hits"), ctl_text(row, "client"),
                  ctl_text(row, "address"), ctl_text(row, "time"));
        printf("%-15s ", "limit reached");
        ctl_paint(ctl, CTL_YELLOW, text);
        putchar('\n');
    }
}

/* Prints the role of the node, where there are standbys. */
static void print_role(struct ctl *ctl, const json_t *s)
{
    const char *active = ctl_text(s, "active_node");
    char text[CTL_WORD_MAX];

    if (!ctl_text(s, "role")[0])
        return;
    if (!ctl_stands_by(s))
        hf_format(text, sizeof(text), "active on \"%.64s\"", ctl_text(s, "node"));
    else if (active[0])
        hf_format(text, sizeof(text), "%.20s: \"%.64s\" does not serve; \"%.64s\" took it last",
                  ctl_text(s, "role"), ctl_text(s, "node"), active);
    else
        hf_format(text, sizeof(text), "%.20s: \"%.64s\" does not serve; no node has yet",
                  ctl_text(s, "role"), ctl_text(s, "node"));
    printf("%-15s ", "service");
    ctl_paint(ctl, ctl_stands_by(s) ? CTL_YELLOW : CTL_GREEN, text);
    putchar('\n');
}

/* Prints those parts of the status that a node knows only while it serves. */
static void print_serving(struct ctl *ctl, const json_t *s)
{
    const json_t *counts = json_object_get(s, "counts");
    const json_t *notices = json_object_get(s, "notifications");
    char text[CTL_WORD_MAX];

    print_grace(ctl, json_object_get(s, "grace"));
    print_losses(ctl, json_object_get(s, "losses"));
    print_limits(ctl, json_object_get(s, "limits"));
    hf_format(text, sizeof(text), "%.0f, and %.0f registered by SM_MON",
              ctl_number(counts, "clients"), ctl_number(counts, "registrations"));
    print_line("clients", text);
    hf_format(text, sizeof(text), "%.0f on %.0f files, %.0f waiting", ctl_number(counts, "locks"),
              ctl_number(counts, "files"), ctl_number(counts, "waiters"));
    print_line("locks", text);
    hf_format(text, sizeof(text), "%.0f delivered, %.0f pending, %.0f failing, %.0f given up",
              ctl_number(notices, "delivered"), ctl_number(notices, "pending"),
              ctl_number(notices, "failing"), ctl_number(notices, "given_up"));
    print_line("notifications", text);
}

static void print_state(const json_t *s)
{
    char text[CTL_WORD_MAX];

    hf_format(text, sizeof(text), "%.0f (epoch %.24s, last stop %s)", ctl_number(s, "state"),
              ctl_text(s, "epoch"),
              json_is_true(json_object_get(s, "clean_start")) ? "clean" : "not clean, or none");
    print_line("state", text);
    if (json_is_true(json_object_get(s, "continued")))
        print_line("last start", "continued: no client was told, nothing had to be reclaimed");
    else if (ctl_text(s, "recovers_because")[0]) {
        hf_format(text, sizeof(text), "clients were told: %.100s", ctl_text(s, "recovers_because"));
        print_line("last start", text);
    }
}

int ctl_status(struct ctl *ctl, int argc, char **argv)
{
    char text[CTL_WORD_MAX];
    json_t *s;
    int rv;

    (void)argv;
    if (argc > 0)
        return CTL_USAGE;
    rv = ctl_ask(ctl, "GET", "status", NULL, &s);
    if (rv != CTL_OK)
        return rv;
    rv = ctl_stands_by(s) ? CTL_STANDBY : CTL_OK;
    if (ctl->json) {
        ctl_print_json(s);
        json_decref(s);
        return rv;
    }
    hf_format(text, sizeof(text), "%.200s, holdfastd %.40s", ctl_text(s, "name"),
              ctl_text(s, "version"));
    print_line("server", text);
    print_role(ctl, s);
    if (rv == CTL_OK)
        print_state(s);
    print_store(ctl, json_object_get(s, "store"));
    print_rpcbind(ctl, json_object_get(s, "rpcbind"));
    if (rv == CTL_OK)
        print_serving(ctl, s);
    print_names(ctl, json_object_get(s, "names"));
    json_decref(s);
    return rv;
}
