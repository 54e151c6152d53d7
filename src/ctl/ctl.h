/*
 * holdfastctl: what the daemon's REST interface says, for people at a terminal and for scripts.
 * A table of commands, one file each; what they share is asking (ask.c), tables (table.c) and words
 * about time and bytes (words.c).
 */
#ifndef HF_CTL_CTL_H
#define HF_CTL_CTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* For scripts; holdfastctl(8) explains them. */
enum ctl_exit {
    CTL_OK = 0,
    CTL_REFUSED = 1, /* the daemon said no, or something failed */
    CTL_USAGE = 2,
    CTL_UNREACHABLE = 3, /* no daemon there */
    CTL_NOT_FOUND = 4,   /* no such client, lock or file */
    CTL_TROUBLE = 5,     /* check: the client cannot be called back */
};

struct ctl {
    const char *socket; /* path of the unix socket, or NULL */
    const char *url;    /* http://host:port, or NULL */
    const char *token_file;
    bool json;
    bool yes;   /* do not ask */
    bool watch; /* again and again */
    bool color;
    const char *client, *file, *share, *owner, *lock, *limit; /* options of commands; NULL: none */
};

struct ctl_command {
    const char *name;
    const char *arguments;
    const char *help;
    int (*run)(struct ctl *ctl, int argc, char **argv); /* arguments behind the name */
    bool watchable;
    const char *filters; /* which of --client, --file, ... it takes, by their letters (main.c) */
};

int ctl_status(struct ctl *ctl, int argc, char **argv);
int ctl_clients(struct ctl *ctl, int argc, char **argv);
int ctl_locks(struct ctl *ctl, int argc, char **argv);
int ctl_waiters(struct ctl *ctl, int argc, char **argv);
int ctl_grace(struct ctl *ctl, int argc, char **argv);
int ctl_release(struct ctl *ctl, int argc, char **argv);
int ctl_notify(struct ctl *ctl, int argc, char **argv);
int ctl_check(struct ctl *ctl, int argc, char **argv);

/*
 * ask.c: one request. On success CTL_OK and *out, to be decref'd; else what was wrong has been said
 * on standard error. body NULL: none.
 */
int ctl_ask(struct ctl *ctl, const char *method, const char *path, const char *body, json_t **out);

/* A list with the filters of the command line, all pages of it up to --limit: an array. */
int ctl_ask_list(struct ctl *ctl, const char *name, json_t **out);

/* The id of the one client that this names (id, name or address); CTL_NOT_FOUND said. */
int ctl_find_client(struct ctl *ctl, const char *word, char id[32]);

void ctl_print_json(const json_t *json);

/* words.c: for columns. Each writes into text and returns it. */
enum { CTL_WORD_MAX = 320 };
const char *ctl_word_age(double seconds, char text[CTL_WORD_MAX]);
const char *ctl_word_client(const json_t *client, char text[CTL_WORD_MAX]);
const char *ctl_word_file(const json_t *row, char text[CTL_WORD_MAX]);
const char *ctl_word_owner(const json_t *owner, char text[CTL_WORD_MAX]);
const char *ctl_word_range(const json_t *range, char text[CTL_WORD_MAX]);
const char *ctl_text(const json_t *object, const char *key); /* "" if there is none */
double ctl_number(const json_t *object, const char *key);

/* table.c: cells are kept until the table is printed, with every column as wide as it must be. */
enum { CTL_COLUMNS_MAX = 10 };
enum ctl_color { CTL_PLAIN, CTL_RED, CTL_GREEN, CTL_YELLOW, CTL_BOLD, CTL_DIM };

struct ctl_table {
    const struct ctl *ctl;
    size_t columns;
    struct ctl_cell *cells;
    size_t count;
};

void ctl_table_init(struct ctl_table *table, const struct ctl *ctl, size_t columns,
                    const char *const *titles);
void ctl_table_add(struct ctl_table *table, const char *text, enum ctl_color color);
void ctl_table_print(struct ctl_table *table); /* and frees */

/* A command that lists something: what it asks the daemon for, and a row for each answer. */
struct ctl_list {
    const char *name;
    size_t columns;
    const char *const *titles;
    void (*add_row)(struct ctl_table *table, const json_t *row);
};
int ctl_show_list(struct ctl *ctl, int argc, const struct ctl_list *list);

/* Prints text in a colour, if there are colours. */
void ctl_paint(const struct ctl *ctl, enum ctl_color color, const char *text);

#endif
