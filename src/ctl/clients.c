#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "ctl/ctl.h"

static enum ctl_color color_of(const char *status)
{
    if (strcmp(status, "delivered") == 0)
        return CTL_GREEN;
    if (strcmp(status, "pending") == 0)
        return CTL_YELLOW;
    return strcmp(status, "none") == 0 ? CTL_DIM : CTL_RED;
}

/* Shows the address at which the client is called, and how many more addresses it is known by. */
static const char *addresses_of(const json_t *client, char text[CTL_WORD_MAX])
{
    size_t more = json_array_size(json_object_get(client, "addresses"));

    if (more < 2)
        return ctl_text(client, "address");
    hf_format(text, CTL_WORD_MAX, "%.60s +%zu", ctl_text(client, "address"), more - 1);
    return text;
}

static void add_row(struct ctl_table *table, const json_t *client)
{
    const json_t *notice = json_object_get(client, "notification");
    const char *status = ctl_text(notice, "status");
    const char *error = ctl_text(notice, "error");
    char text[CTL_WORD_MAX];

    ctl_table_add(table, ctl_text(client, "id"), CTL_DIM);
    ctl_table_add(table, ctl_text(client, "name"), CTL_PLAIN);
    ctl_table_add(table, addresses_of(client, text), CTL_PLAIN);
    ctl_table_add(table, ctl_text(client, "protocol"), CTL_PLAIN);
    hf_format(text, sizeof(text), "%.0f", ctl_number(client, "locks"));
    ctl_table_add(table, text, CTL_PLAIN);
    hf_format(text, sizeof(text), "%.0f", ctl_number(client, "waiters"));
    ctl_table_add(table, text, CTL_PLAIN);
    ctl_table_add(table, ctl_word_age(ctl_number(client, "idle_seconds"), text), CTL_PLAIN);
    hf_format(text, sizeof(text), error[0] ? "%.40s: %.200s" : "%.40s", status, error);
    ctl_table_add(table, text, color_of(status));
}

int ctl_clients(struct ctl *ctl, int argc, char **argv)
{
    static const char *const TITLES[] = {"ID",    "NAME",    "ADDRESS", "BY",
                                         "LOCKS", "WAITING", "IDLE",    "NOTICE"};
    static const struct ctl_list LIST = {
        .name = "clients",
        .columns = 8,
        .titles = TITLES,
        .spare = "036",
        .sortable = CTL_SORT_CLIENTS,
        .add_row = add_row,
    };

    (void)argv;
    return ctl_show_list(ctl, argc, &LIST);
}
