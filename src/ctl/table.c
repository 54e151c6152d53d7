#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "ctl/ctl.h"

struct ctl_cell {
    char *text;
    enum ctl_color color;
};

static const char *const CODES[] = {
    [CTL_PLAIN] = "",          [CTL_RED] = "\033[31m", [CTL_GREEN] = "\033[32m",
    [CTL_YELLOW] = "\033[33m", [CTL_BOLD] = "\033[1m", [CTL_DIM] = "\033[2m",
};

/* Names are chosen by peers: nothing in them may steer the terminal. */
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

/* In columns of the terminal, not bytes. */
static size_t width(const char *text)
{
    wchar_t wide[CTL_WORD_MAX];
    size_t n = mbstowcs(wide, text, CTL_WORD_MAX - 1);
    int columns = n == (size_t)-1 ? -1 : wcswidth(wide, n);

    return columns < 0 ? strlen(text) : (size_t)columns;
}

void ctl_table_print(struct ctl_table *table)
{
    size_t widths[CTL_COLUMNS_MAX] = {0};

    for (size_t i = 0; i < table->count; i++) {
        size_t w = width(table->cells[i].text);
        if (w > widths[i % table->columns])
            widths[i % table->columns] = w;
    }
    for (size_t i = 0; i < table->count; i++) {
        bool last = i % table->columns == table->columns - 1;

        ctl_paint(table->ctl, table->cells[i].color, table->cells[i].text);
        if (last)
            putchar('\n');
        else
            printf("%*s", (int)(widths[i % table->columns] - width(table->cells[i].text) + 2), "");
        free(table->cells[i].text);
    }
    free(table->cells);
}
