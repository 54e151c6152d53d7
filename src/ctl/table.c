#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "ctl/ctl.h"

enum {
    GAP = 2,        /* the space between two columns */
    MARK = 2,       /* the space before the rows of a table in which one is marked */
    WIDTH_MIN = 14, /* no column is cut to less than this, so that ids and numbers stay whole */
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
        if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) /* a control character of two bytes */
            *p++ = '?';
        else if (*p >= 0x20 && *p != 0x7f)
            continue;
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

/* Returns the width of a table. A column of no width is not shown. */
static size_t total(const size_t *widths, size_t columns)
{
    size_t sum = 0;

    for (size_t i = 0; i < columns; i++)
        sum += widths[i] > 0 ? widths[i] + GAP : 0;
    return sum > 0 ? sum - GAP : 0;
}

/* Narrows the widest column until the table fits, or no column can become narrower. */
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

/* Leaves out spare columns, in their order, until the others fit if they are cut as far as they can
 * be. */
static void drop(const struct ctl_table *table, size_t *widths, size_t room)
{
    for (const char *spare = table->spare; spare && *spare; spare++) {
        size_t least[CTL_COLUMNS_MAX];
        size_t shown = 0;

        for (size_t i = 0; i < table->columns; i++) {
            least[shown] = widths[i] < WIDTH_MIN ? widths[i] : WIDTH_MIN;
            shown += widths[i] > 0;
        }
        if (total(least, shown) <= room)
            return;
        widths[*spare - '0'] = 0;
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

/* Shortens a "NAME (ADDRESS)" that is too wide to the name, if that fits. */
static bool without_brackets(const char *cell, size_t width, char text[CTL_WORD_MAX])
{
    const char *bracket = strrchr(cell, '(');

    if (!bracket || bracket - cell < 2 || bracket[-1] != ' ' || ctl_width(cell) <= width)
        return false;
    hf_format(text, CTL_WORD_MAX, "%.*s", (int)(bracket - 1 - cell), cell);
    return ctl_width(text) <= width;
}

static void print_cell(const struct ctl_table *table, const struct ctl_cell *cell, size_t width,
                       bool last)
{
    char text[CTL_WORD_MAX];

    if (!without_brackets(cell->text, width, text))
        ctl_elide(cell->text, width, text);
    ctl_paint(table->ctl, cell->color, text);
    if (last)
        putchar('\n');
    else
        printf("%*s", (int)(width - ctl_width(text) + GAP), "");
}

/* Prints a cell of CSV. A cell that a spreadsheet would take for a formula begins with a quote,
 * because peers choose names. */
static void print_csv(const char *text, bool last)
{
    bool formula = text[0] && strchr("=+-@", text[0]) && text[strspn(text, "+-.0123456789")];

    printf("\"%s", formula ? "'" : "");
    for (; *text; text++)
        printf(*text == '"' ? "\"\"" : "%c", *text);
    printf("\"%s", last ? "\r\n" : ",");
}

void ctl_table_print(struct ctl_table *table)
{
    size_t widths[CTL_COLUMNS_MAX] = {0};
    size_t end = table->columns - 1;
    size_t room;

    for (size_t i = 0; i < table->count; i++) {
        size_t w = ctl_width(table->cells[i].text);
        if (w > widths[i % table->columns])
            widths[i % table->columns] = w;
    }
    room = room_of(table->ctl);
    room -= table->marked > 0 && room > MARK ? MARK : 0;
    drop(table, widths, room);
    fit(widths, table->columns, room);
    while (end > 0 && widths[end] == 0)
        end--;
    for (size_t i = 0; i < table->count; i++) {
        size_t column = i % table->columns;

        if (table->ctl->csv)
            print_csv(table->cells[i].text, column == table->columns - 1);
        if (table->marked > 0 && column == 0)
            (void)fputs(i / table->columns == table->marked ? "> " : "  ", stdout);
        if (!table->ctl->csv && widths[column] > 0)
            print_cell(table, &table->cells[i], widths[column], column == end);
        free(table->cells[i].text);
    }
    free(table->cells);
}
