#include <stdio.h>

#include "base/text.h"
#include "ctl/ctl.h"

static void add_row(struct ctl_table *table, const json_t *waiter)
{
    bool granting = json_is_true(json_object_get(waiter, "granting"));
    const char *blocker = ctl_text(waiter, "blocked_by");
    char text[CTL_WORD_MAX];

    ctl_table_add(table, ctl_word_client(json_object_get(waiter, "client"), text), CTL_PLAIN);
    ctl_table_add(table, ctl_word_file(waiter, text), CTL_PLAIN);
    ctl_table_add(table, ctl_word_range(json_object_get(waiter, "range"), text), CTL_PLAIN);
    ctl_table_add(table, ctl_text(waiter, "mode"), CTL_PLAIN);
    ctl_table_add(table, ctl_word_owner(json_object_get(waiter, "owner"), text), CTL_PLAIN);
    ctl_table_add(table, ctl_word_age(ctl_number(waiter, "waiting_seconds"), text), CTL_YELLOW);
    if (granting)
        hf_format(text, sizeof(text), "granted; telling it, attempt %.0f",
                  ctl_number(waiter, "attempts"));
    else if (blocker[0])
        hf_format(text, sizeof(text), "lock %s", blocker);
    else
        hf_format(text, sizeof(text), "waiters before it");
    ctl_table_add(table, text, granting ? CTL_GREEN : CTL_PLAIN);
}

int ctl_waiters(struct ctl *ctl, int argc, char **argv)
{
    static const char *const TITLES[] = {"CLIENT", "FILE",   "BYTES", "MODE",
                                         "OWNER",  "WAITED", "FOR"};
    static const struct ctl_list LIST = {"waiters", 7, TITLES, add_row};

    (void)argv;
    return ctl_show_list(ctl, argc, &LIST);
}
