#include "ctl/ctl.h"

static void add_row(struct ctl_table *table, const json_t *row)
{
    char text[CTL_WORD_MAX];

    ctl_table_add(table, ctl_text(row, "id"), CTL_DIM);
    ctl_table_add(table, ctl_word_client(json_object_get(row, "client"), text), CTL_PLAIN);
    ctl_table_add(table, ctl_word_file(row, text), CTL_PLAIN);
    ctl_table_add(table, ctl_text(row, "access"), CTL_PLAIN);
    ctl_table_add(table, ctl_text(row, "denies"), CTL_PLAIN);
    ctl_table_add(table, ctl_text(row, "owner_handle"), CTL_DIM);
}

int ctl_reservations(struct ctl *ctl, int argc, char **argv)
{
    static const char *const TITLES[] = {"ID", "CLIENT", "FILE", "ACCESS", "DENIES", "OWNER"};
    static const struct ctl_list LIST = {
        .name = "reservations",
        .columns = 6,
        .titles = TITLES,
        .spare = "05",
        .sortable = CTL_SORT_RESERVATIONS,
        .add_row = add_row,
    };

    (void)argv;
    return ctl_show_list(ctl, argc, &LIST);
}
