#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "ctl/ctl.h"

static void add_row(struct ctl_table *table, const json_t *lock)
{
    bool unreclaimed = json_is_true(json_object_get(lock, "unreclaimed"));
    double waiters = ctl_number(lock, "waiters");
    const char *mode = ctl_text(lock, "mode");
    char text[CTL_WORD_MAX];

    ctl_table_add(table, ctl_text(lock, "id"), CTL_DIM);
    ctl_table_add(table, ctl_word_client(json_object_get(lock, "client"), text), CTL_PLAIN);
    ctl_table_add(table, ctl_word_file(lock, text), CTL_PLAIN);
    ctl_table_add(table, ctl_word_range(json_object_get(lock, "range"), text), CTL_PLAIN);
    ctl_table_add(table, mode, strcmp(mode, "exclusive") == 0 ? CTL_BOLD : CTL_PLAIN);
    ctl_table_add(table, ctl_word_owner(json_object_get(lock, "owner"), text), CTL_PLAIN);
    ctl_table_add(table, ctl_word_age(ctl_number(lock, "held_seconds"), text), CTL_PLAIN);
    hf_format(text, sizeof(text), "%.0f%s", waiters, unreclaimed ? ", not reclaimed" : "");
    ctl_table_add(table, text, waiters > 0 || unreclaimed ? CTL_YELLOW : CTL_PLAIN);
}

/* Adds the holders outside NFSv3 behind which clients wait, each once. */
static void add_outside(struct ctl *ctl, struct ctl_table *table)
{
    json_t *waiters = NULL, *waiter, *seen;
    char text[CTL_WORD_MAX], key[CTL_WORD_MAX * 2];
    size_t i;

    if (ctl->address || ctl->held || ctl_ask_list(ctl, "waiters", &waiters) != CTL_OK)
        return; /* of a holder outside, neither its address nor since when it holds is known */
    seen = json_object();
    json_array_foreach(waiters, i, waiter)
    {
        const json_t *outside = json_object_get(waiter, "outside");

        if (!json_is_object(outside))
            continue;
        hf_format(key, sizeof(key), "%s %s", ctl_text(waiter, "file"),
                  ctl_word_outside(outside, text));
        if (json_object_get(seen, key))
            continue;
        json_object_set_new(seen, key, json_true());
        ctl_table_add(table, "", CTL_DIM);
        ctl_table_add(table, ctl_word_outside(outside, text), CTL_BOLD);
        ctl_table_add(table, ctl_word_file(waiter, text), CTL_PLAIN);
        ctl_table_add(table, ctl_word_range(json_object_get(outside, "range"), text), CTL_PLAIN);
        ctl_table_add(table, ctl_text(outside, "mode"), CTL_PLAIN);
        ctl_table_add(table, "", CTL_PLAIN);
        ctl_table_add(table, "", CTL_PLAIN);
        ctl_table_add(table, "waited for", CTL_YELLOW);
    }
    json_decref(waiters);
    json_decref(seen);
}

int ctl_locks(struct ctl *ctl, int argc, char **argv)
{
    static const char *const TITLES[] = {"ID",   "CLIENT", "FILE", "BYTES",
                                         "MODE", "OWNER",  "HELD", "WAITERS"};
    static const struct ctl_list LIST = {
        .name = "locks",
        .columns = 8,
        .titles = TITLES,
        .spare = "0543",
        .sortable = CTL_SORT_LOCKS,
        .held = "held_seconds",
        .add_row = add_row,
        .add_more = add_outside,
    };

    (void)argv;
    return ctl_show_list(ctl, argc, &LIST);
}
