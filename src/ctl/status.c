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

/* Nothing where names were never set up: they are optional. */
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

int ctl_status(struct ctl *ctl, int argc, char **argv)
{
    char text[CTL_WORD_MAX];
    const json_t *counts;
    const json_t *notices;
    json_t *s;
    int rv;

    (void)argv;
    if (argc > 0)
        return CTL_USAGE;
    rv = ctl_ask(ctl, "GET", "status", NULL, &s);
    if (rv != CTL_OK)
        return rv;
    if (ctl->json) {
        ctl_print_json(s);
        json_decref(s);
        return CTL_OK;
    }
    hf_format(text, sizeof(text), "%.200s, holdfastd %.40s", ctl_text(s, "name"),
              ctl_text(s, "version"));
    print_line("server", text);
    hf_format(text, sizeof(text), "%.0f (epoch %.24s, last stop %s)", ctl_number(s, "state"),
              ctl_text(s, "epoch"),
              json_is_true(json_object_get(s, "clean_start")) ? "clean" : "not clean, or none");
    print_line("state", text);
    print_store(ctl, json_object_get(s, "store"));
    print_grace(ctl, json_object_get(s, "grace"));
    counts = json_object_get(s, "counts");
    hf_format(text, sizeof(text), "%.0f, and %.0f registered by SM_MON",
              ctl_number(counts, "clients"), ctl_number(counts, "registrations"));
    print_line("clients", text);
    hf_format(text, sizeof(text), "%.0f on %.0f files, %.0f waiting", ctl_number(counts, "locks"),
              ctl_number(counts, "files"), ctl_number(counts, "waiters"));
    print_line("locks", text);
    notices = json_object_get(s, "notifications");
    hf_format(text, sizeof(text), "%.0f delivered, %.0f pending, %.0f failing, %.0f given up",
              ctl_number(notices, "delivered"), ctl_number(notices, "pending"),
              ctl_number(notices, "failing"), ctl_number(notices, "given_up"));
    print_line("notifications", text);
    print_names(ctl, json_object_get(s, "names"));
    json_decref(s);
    return CTL_OK;
}
