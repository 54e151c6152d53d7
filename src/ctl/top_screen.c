/*
 * The screen of `holdfastctl top`: drawn with the few control sequences that every terminal has, on
 * the terminal's second screen, so that the first is as before when the user quits. Output of stdio
 * goes through a large buffer, and is flushed once for each picture.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/text.h"
#include "ctl/top.h"

enum { LOOK_MS = 2000, WORD_MAX = 60, LINES_DEFAULT = 24 };

struct screen {
    struct ctl_top *top;
    enum ctl_top_view view;
    size_t sort[CTL_TOP_VIEWS]; /* the column by which each view is sorted */
    bool ascending[CTL_TOP_VIEWS];
    size_t selected; /* the number of the selected row */
    size_t first;    /* the number of the first row that is shown */
    bool paused;
    bool typing; /* the user is typing a filter */
    char word[WORD_MAX];
};

static struct termios before;
static volatile sig_atomic_t ended;

static void on_signal(int number)
{
    (void)number;
    ended = 1;
}

static void leave(void)
{
    (void)fputs("\033[?25h\033[?1049l", stdout);
    (void)fflush(stdout);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static bool enter(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct termios raw;

    if (tcgetattr(STDIN_FILENO, &before) < 0)
        return false;
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGWINCH, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    (void)fputs("\033[?1049h\033[?25l", stdout);
    return true;
}

static size_t lines(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row
                                                                           : LINES_DEFAULT;
}

/* ---- drawing ---- */

static const struct ctl_column *column(const struct screen *s)
{
    return &ctl_top_columns(s->view)[s->sort[s->view]];
}

static void order(struct screen *s)
{
    char by[32];

    hf_format(by, sizeof(by), "%s%s", s->ascending[s->view] ? "" : "-", column(s)->name);
    ctl_sort_rows(s->top->rows[s->view], ctl_top_columns(s->view), by);
}

/* Keeps the selection inside the list, and moves the list so that the selection is seen. */
static void place(struct screen *s, size_t room)
{
    size_t n = json_array_size(s->top->rows[s->view]);

    if (s->selected >= n)
        s->selected = n > 0 ? n - 1 : 0;
    if (s->selected < s->first)
        s->first = s->selected;
    if (room > 0 && s->selected >= s->first + room)
        s->first = s->selected - room + 1;
}

static void draw_foot(const struct screen *s)
{
    if (s->typing)
        printf("filter by client or file: %s_", s->word);
    else
        printf(
            "f files  w waits  c clients  s sort  r reverse  / filter  Enter why  p %s  q quit%s%s",
            s->paused ? "go on" : "pause", s->word[0] ? "   filter: " : "", s->word);
}

static void draw(struct screen *s)
{
    size_t all = lines();
    size_t room = all > CTL_TOP_HEAD + 5 ? all - CTL_TOP_HEAD - 5 : 1;
    char head[CTL_TOP_HEAD][CTL_WORD_MAX];
    struct ctl_table table;
    size_t n = json_array_size(s->top->rows[s->view]);

    order(s);
    place(s, room);
    ctl_top_head(s->top, head);
    (void)fputs("\033[H\033[2J", stdout);
    for (int i = 0; i < CTL_TOP_HEAD; i++) {
        ctl_paint(s->top->ctl, CTL_PLAIN, head[i]);
        putchar('\n');
    }
    printf("\n%s, by %s, %s first: %zu%s\n", ctl_top_title(s->view), column(s)->name,
           s->ascending[s->view] ? "smallest" : "largest", n, s->paused ? "   PAUSED" : "");
    ctl_top_fill(s->top, s->view, s->first, room, &table);
    table.marked = n > 0 ? s->selected - s->first + 1 : 0;
    ctl_table_print(&table);
    printf("\033[%zu;1H", all);
    draw_foot(s);
    (void)fflush(stdout);
}

/* ---- looking at one row ---- */

static void look_at_one(struct screen *s)
{
    const json_t *row = json_array_get(s->top->rows[s->view], s->selected);
    const char *word = s->view == CTL_TOP_CLIENTS ? ctl_text(row, "id") : ctl_text(row, "file");
    struct ctl one = *s->top->ctl;
    struct pollfd key = {.fd = STDIN_FILENO, .events = POLLIN};
    char *arguments[] = {(char *)word, NULL};
    char answer[8];

    if (!row)
        return;
    one.client = one.file = one.export = one.address = one.limit = NULL;
    (void)fputs("\033[H\033[2J", stdout);
    if (s->view == CTL_TOP_CLIENTS && ctl_number(row, "waiters") == 0)
        printf("%s waits for nothing.\n", ctl_text(row, "name"));
    else
        (void)ctl_why(&one, 1, arguments);
    printf("\nany key: back\n");
    (void)fflush(stdout);
    while (!ended && poll(&key, 1, -1) <= 0)
        ;
    (void)!read(STDIN_FILENO, answer, sizeof(answer));
}

/* ---- keys ---- */

static void show(struct screen *s, enum ctl_top_view view)
{
    s->view = view;
    s->selected = s->first = 0;
}

static void sort_by_next(struct screen *s)
{
    if (!ctl_top_columns(s->view)[++s->sort[s->view]].name)
        s->sort[s->view] = 0;
}

/* Applies the word that was typed as a filter: a word with a slash or a wildcard names a file, any
 * other word a client. */
static void apply(struct screen *s)
{
    struct ctl *ctl = s->top->ctl;
    bool file = strchr(s->word, '/') || strpbrk(s->word, "*?");

    ctl->client = s->word[0] && !file ? s->word : NULL;
    ctl->file = s->word[0] && file ? s->word : NULL;
}

/* Handles a key of the word that the user is typing. True: the word is complete, so the daemon must
 * be asked again. */
static bool type(struct screen *s, char key)
{
    size_t len = strlen(s->word);

    if (key == '\n' || key == '\r' || key == '\033') {
        s->typing = false;
        if (key == '\033')
            s->word[0] = '\0';
        apply(s);
        return true;
    }
    if ((key == 0x7f || key == '\b') && len > 0)
        s->word[len - 1] = '\0';
    else if ((unsigned char)key >= 0x20 && key != 0x7f && len + 1 < sizeof(s->word))
        memcpy(s->word + len, (char[]){key, '\0'}, 2);
    return false;
}

static bool press(struct screen *s, char key)
{
    switch (key) {
    case 'q':
        ended = 1;
        break;
    case 'f':
        show(s, CTL_TOP_FILES);
        break;
    case 'w':
        show(s, CTL_TOP_WAITS);
        break;
    case 'c':
        show(s, CTL_TOP_CLIENTS);
        break;
    case '\t':
        show(s, (enum ctl_top_view)((s->view + 1) % CTL_TOP_VIEWS));
        break;
    case 's':
        sort_by_next(s);
        break;
    case 'r':
        s->ascending[s->view] = !s->ascending[s->view];
        break;
    case 'j':
        s->selected++;
        break;
    case 'k':
        s->selected -= s->selected > 0;
        break;
    case '/':
        s->typing = true;
        s->word[0] = '\0';
        break;
    case 'p':
        s->paused = !s->paused;
        break;
    case '\n':
    case '\r':
        look_at_one(s);
        return true;
    case ' ':
        return true;
    default:
        break;
    }
    return false;
}

/* Handles keys. Arrow keys, which come as three bytes, count as j and k. True: the daemon must be
 * asked again. */
static bool handle(struct screen *s, const char *keys, size_t n)
{
    bool look = false;

    for (size_t i = 0; i < n && !ended; i++) {
        if (keys[i] == '\033' && i + 2 < n && keys[i + 1] == '[') {
            char key = keys[i + 2];

            i += 2;
            look |= press(s, key == 'A' ? 'k' : key == 'B' ? 'j' : '\0');
        } else {
            look |= s->typing ? type(s, keys[i]) : press(s, keys[i]);
        }
    }
    return look;
}

int ctl_top_live(struct ctl_top *top)
{
    struct screen s = {.top = top};
    struct pollfd key = {.fd = STDIN_FILENO, .events = POLLIN};
    char keys[64];
    int rv = ctl_top_look(top);

    if (rv != CTL_OK || !enter())
        return rv;
    while (!ended && rv == CTL_OK) {
        ssize_t n = 0;
        bool look;

        draw(&s);
        look = poll(&key, 1, LOOK_MS) == 0 && !s.paused;
        if (key.revents & (POLLIN | POLLHUP))
            n = read(STDIN_FILENO, keys, sizeof(keys));
        if (n < 0 || (key.revents & POLLHUP))
            break;
        look |= handle(&s, keys, (size_t)n);
        key.revents = 0;
        if (look && !ended)
            rv = ctl_top_look(top);
    }
    leave();
    return rv;
}
