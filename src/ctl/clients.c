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

static void add_row(struct ctl_table *table, const json_t *client)
{
    const json_t *notice = json_object_get(client, "notification");
    const char *status = ctl_text(notice, "status");
    const char *error = ctl_text(notice, "error");
    char text[CTL_WORD_MAX];

    ctl_table_add(table, ctl_text(client, "id"), CTL_DIM);
    ctl_table_add(table, ctl_text(client, "name"), CTL_PLAIN);
    ctl_table_add(table, ctl_text(client, "address"), CTL_PLAIN);
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
