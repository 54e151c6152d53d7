#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ctl/ctl.h"

enum {
    GAP = 2,        /* spaces between two columns */
    WIDTH_MIN = 14, /* no column is cut below this: ids and numbers stay whole */
};

struct ctl_cell {
    char *text;
    enum ctl_color color;
};

static const char *const CODES[] = {
    [CTL_PLAIN] = "",          [CTL_RED] = "\033[31m", [CTL_GREEN] = "\033[32m",
    [CTL_YELLOW] = "\033[33m", [CTL_BOLD] = "\033[1m", [CTL_DIM] = "\033[2m",
};

/* Replaces control characters: peers choose names, which must not send control sequences to the
 * terminal. */
static void neutralise(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0))
            *p = '?';
    }
}

void ctl_paint(const struct ctl *ctl, enum ctl_color color, const char *text)
{
    bool paint = ctl->color && color != CTL_PLAIN;
    char *copy = strdup(text);

    if (!copy)
        return;
    neutralise(copy);
    printf("%s%s%s", paint ? CODES[color] : "", copy, paint ? "\033[0m" : "");
    free(copy);
}

void ctl_table_init(struct ctl_table *table, const struct ctl *ctl, size_t columns,
                    const char *const *titles)
{
    *table = (struct ctl_table){.ctl = ctl, .columns = columns};
    for (size_t i = 0; i < columns; i++)
        ctl_table_add(table, titles[i], CTL_BOLD);
}

void ctl_table_add(struct ctl_table *table, const char *text, enum ctl_color color)
{
    struct ctl_cell *cells = realloc(table->cells, (table->count + 1) * sizeof(*cells));

    if (!cells) {
        (void)fprintf(stderr, "holdfastctl: out of memory\n");
        exit(CTL_REFUSED);
    }
    cells[table->count].text = strdup(text);
    cells[table->count].color = color;
    if (!cells[table->count].text)
        exit(CTL_REFUSED);
    neutralise(cells[table->count].text);
    table->cells = cells;
    table->count++;
}

static size_t total(const size_t *widths, size_t columns)
{
    size_t sum = (columns - 1) * GAP;

    for (size_t i = 0; i < columns; i++)
        sum += widths[i];
    return sum;
}

/* Takes from the widest column until the table fits, or no column has anything to give. */
static void fit(size_t *widths, size_t columns, size_t room)
{
    while (total(widths, columns) > room) {
        size_t widest = 0;

        for (size_t i = 1; i < columns; i++) {
            if (widths[i] > widths[widest])
                widest = i;
        }
        if (widths[widest] <= WIDTH_MIN)
            return;
        widths[widest]--;
    }
}

/* Returns the width of the terminal; it is unlimited in a pipe or a file, so that scripts get whole
 * texts. */
static size_t room_of(const struct ctl *ctl)
{
    struct winsize size;

    if (ctl->wide || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return SIZE_MAX;
    return size.ws_col;
}

static void print_cell(const struct ctl_table *table, const struct ctl_cell *cell, size_t width,
                       bool last)
{
    char text[CTL_WORD_MAX];

    ctl_elide(cell->text, width, text);
    ctl_paint(table->ctl, cell->color, text);
    if (last)
        putchar('\n');
    else
        printf("%*s", (int)(width - ctl_width(text) + GAP), "");
}

void ctl_table_print(struct ctl_table *table)
{
    size_t widths[CTL_COLUMNS_MAX] = {0};

    for (size_t i = 0; i < table->count; i++) {
        size_t w = ctl_width(table->cells[i].text);
        if (w > widths[i % table->columns])
            widths[i % table->columns] = w;
    }
    fit(widths, table->columns, room_of(table->ctl));
    for (size_t i = 0; i < table->count; i++) {
        size_t column = i % table->columns;

        print_cell(table, &table->cells[i], widths[column], column == table->columns - 1);
        free(table->cells[i].text);
    }
    free(table->cells);
}
