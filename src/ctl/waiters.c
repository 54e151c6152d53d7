#include <stdio.h>

#include "base/text.h"
#include "ctl/ctl.h"

/* Gives each waiter the lock in its way, as "blocker", because the API names only the id of that
 * lock. */
static int add_blockers(struct ctl *ctl, json_t *waiters)
{
    json_t *by_id;
    json_t *locks;
    json_t *row;
    size_t i;
    int rv;

    if (json_array_size(waiters) == 0)
        return CTL_OK;
    rv = ctl_ask_waited(ctl, &locks);
    if (rv != CTL_OK)
        return rv;
    by_id = json_object();
    json_array_foreach(locks, i, row) json_object_set(by_id, ctl_text(row, "id"), row);
    json_array_foreach(waiters, i, row)
    {
        json_t *blocker = json_object_get(by_id, ctl_text(row, "blocked_by"));

        json_object_set_new(row, "blocker", blocker ? json_incref(blocker) : json_null());
    }
    json_decref(locks);
    json_decref(by_id);
    return CTL_OK;
}

/*
 * Adds the holder of the lock in the way, and since when it holds; or why no holder can be named.
 */
static void add_holder(struct ctl_table *table, const json_t *waiter)
{
    const json_t *blocker = json_object_get(waiter, "blocker");
    char text[CTL_WORD_MAX];

    if (json_is_object(blocker)) {
        ctl_table_add(table, ctl_word_client(json_object_get(blocker, "client"), text), CTL_BOLD);
        ctl_table_add(table, ctl_word_age(ctl_number(blocker, "held_seconds"), text), CTL_PLAIN);
        return;
    }
    if (json_is_object(json_object_get(waiter, "outside"))) {
        ctl_table_add(table, ctl_word_outside(json_object_get(waiter, "outside"), text), CTL_BOLD);
    } else if (json_is_true(json_object_get(waiter, "granting"))) {
        hf_format(text, sizeof(text), "granted; callback attempt %.0f",
                  ctl_number(waiter, "attempts"));
        ctl_table_add(table, text, CTL_GREEN);
    } else {
        ctl_table_add(table, "behind other waiters", CTL_PLAIN);
    }
    ctl_table_add(table, "", CTL_PLAIN);
}

static void add_row(struct ctl_table *table, const json_t *waiter)
{
    char text[CTL_WORD_MAX];

    ctl_table_add(table, ctl_word_client(json_object_get(waiter, "client"), text), CTL_PLAIN);
    ctl_table_add(table, ctl_word_owner(json_object_get(waiter, "owner"), text), CTL_PLAIN);
    ctl_table_add(table, ctl_word_age(ctl_number(waiter, "waiting_seconds"), text), CTL_YELLOW);
    ctl_table_add(table, ctl_word_file(waiter, text), CTL_PLAIN);
    ctl_table_add(table, ctl_word_range(json_object_get(waiter, "range"), text), CTL_PLAIN);
    ctl_table_add(table, ctl_text(waiter, "mode"), CTL_PLAIN);
    add_holder(table, waiter);
}

int ctl_waiters(struct ctl *ctl, int argc, char **argv)
{
    static const char *const TITLES[] = {"CLIENT", "OWNER", "WAITED",  "FOR FILE",
                                         "BYTES",  "MODE",  "HELD BY", "HELD"};
    static const struct ctl_list LIST = {
        .name = "waiters",
        .columns = 8,
        .titles = TITLES,
        .spare = "1547",
        .sortable = CTL_SORT_WAITERS,
        .waited = "waiting_seconds",
        .add_row = add_row,
        .complete = add_blockers,
    };

    (void)argv;
    if (ctl->tree && argc == 0)
        return ctl_show_tree(ctl);
    return ctl_show_list(ctl, argc, &LIST);
}
