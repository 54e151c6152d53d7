/* `holdfastctl top`: a live view of what is waited for. Each look at the daemon (top.c) gives three
 * tables, which a screen (top_screen.c) shows one at a time, or a pipe one after the other. */
#ifndef HF_CTL_TOP_H
#define HF_CTL_TOP_H

#include "ctl/ctl.h"

enum ctl_top_view { CTL_TOP_FILES, CTL_TOP_WAITS, CTL_TOP_CLIENTS, CTL_TOP_VIEWS };

/* What one look at the daemon has shown. */
struct ctl_top {
    struct ctl *ctl;
    json_t *status;              /* the status of the daemon; NULL: it was not looked at yet */
    json_t *rows[CTL_TOP_VIEWS]; /* for each view, an array of all rows that pass the filters */
    double looked_s;             /* when the look was made, on a clock that only goes forward */
    /* How many there were a second since the look before; negative: not known. */
    double requests, commits, callbacks;
    double longest_s; /* how long the oldest wait lasts; negative: there is none */
};

/* Looks at the daemon once more; the counters of the look before are kept, for the rates. */
int ctl_top_look(struct ctl_top *top);
void ctl_top_free(struct ctl_top *top);

/* Writes the lines above the tables, without colours and newlines. */
enum { CTL_TOP_HEAD = 2 };
void ctl_top_head(const struct ctl_top *top, char lines[CTL_TOP_HEAD][CTL_WORD_MAX]);

const char *ctl_top_title(enum ctl_top_view view);
/* The columns by which a view can be sorted. */
const struct ctl_column *ctl_top_columns(enum ctl_top_view view);

/* Fills the table of a view: its titles, and at most n rows from the row `first` on. */
void ctl_top_fill(const struct ctl_top *top, enum ctl_top_view view, size_t first, size_t n,
                  struct ctl_table *table);

/* top_screen.c: shows the tables on the terminal until the user quits. */
int ctl_top_live(struct ctl_top *top);

#endif
