#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

/* Says that files are hidden. One row tells, because the daemon hides the files from all rows or
 * from none. */
static void say_hidden(const json_t *row)
{
    if (strcmp(ctl_text(row, "path_status"), "hidden") == 0)
        (void)fputs("holdfastctl: the files are shown to root only, or with --token-file\n",
                    stderr);
}

int ctl_show_list(struct ctl *ctl, int argc, const struct ctl_list *list)
{
    struct ctl_table table;
    json_t *rows;
    json_t *row;
    bool cut = false;
    size_t i;
    int rv;

    if (argc > 0)
        return CTL_USAGE;
    rv = ctl_choose_rows(ctl, list, &rows, &cut);
    if (rv != CTL_OK)
        return rv;
    if (list->complete) {
        rv = list->complete(ctl, rows);
        if (rv != CTL_OK) {
            json_decref(rows);
            return rv;
        }
    }
    if (ctl->json) {
        ctl_print_json(rows);
    } else {
        ctl_table_init(&table, ctl, list->columns, list->titles);
        table.spare = list->spare;
        json_array_foreach(rows, i, row) list->add_row(&table, row);
        if (list->add_more)
            list->add_more(ctl, &table);
        ctl_table_print(&table);
        if (cut)
            (void)fprintf(stderr, "holdfastctl: only the first %s are shown; --limit shows more\n",
                          ctl->limit);
        say_hidden(json_array_get(rows, 0));
    }
    json_decref(rows);
    return CTL_OK;
}
