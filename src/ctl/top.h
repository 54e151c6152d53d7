/*
 * top: a live view of what is waited for. Each look at the daemon (top.c) gives three tables, which
 * a screen (top_screen.c) shows one at a time, or a pipe one after the other.
 */
#ifndef HF_CTL_TOP_H
#define HF_CTL_TOP_H

#include "ctl/ctl.h"

enum ctl_top_view { CTL_TOP_FILES, CTL_TOP_WAITS, CTL_TOP_CLIENTS, CTL_TOP_VIEWS };

/* What one look has shown. */
struct ctl_top {
    struct ctl *ctl;
    json_t *status;                      /* NULL: there was no look yet */
    json_t *rows[CTL_TOP_VIEWS];         /* arrays, of all that passes the filters */
    double looked_s;                     /* on a clock that only goes forward */
    double requests, commits, callbacks; /* a second, since the look before; negative: unknown */
    double longest_s;                    /* the oldest wait; negative: there is none */
};

/* Asks the daemon once more; the counters of the look before are kept, for the rates. */
int ctl_top_look(struct ctl_top *top);
void ctl_top_free(struct ctl_top *top);

/* The lines above the tables, without colours and newlines; how many. */
enum { CTL_TOP_HEAD = 2 };
void ctl_top_head(const struct ctl_top *top, char lines[CTL_TOP_HEAD][CTL_WORD_MAX]);

const char *ctl_top_title(enum ctl_top_view view);
const struct ctl_column *ctl_top_columns(enum ctl_top_view view); /* to sort by */

/* The cells of the table, with its titles; the rows from first on, at most n. */
void ctl_top_fill(const struct ctl_top *top, enum ctl_top_view view, size_t first, size_t n,
                  struct ctl_table *table);

/* top_screen.c: shows it on the terminal until the user quits. */
int ctl_top_live(struct ctl_top *top);

#endif
