/*
 * holdfastctl: the daemon's REST interface for users at a terminal and for scripts. One file for
 * each command; they share requests (ask.c), tables (table.c) and text for columns (words.c).
 */
#ifndef HF_CTL_CTL_H
#define HF_CTL_CTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* These codes are for scripts; holdfastctl(8) explains them. */
enum ctl_exit {
    CTL_OK = 0,
    CTL_REFUSED = 1, /* the daemon refused, or an operation failed */
    CTL_USAGE = 2,
    CTL_UNREACHABLE = 3, /* no daemon answers */
    CTL_NOT_FOUND = 4,   /* no such client, lock or file */
    CTL_TROUBLE = 5,     /* `check` found that the client cannot be called back */
    CTL_STANDBY = 6,     /* another node serves; this one knows no locks */
};

struct ctl {
    const char *socket; /* path of the unix socket, or NULL */
    const char *url;    /* http://host:port, or NULL */
    const char *token_file;
    bool json;
    bool wide;  /* tables may be wider than the terminal */
    bool yes;   /* do not ask for confirmation */
    bool watch; /* repeat until interrupted */
    bool help, version;
    bool color;
    const char *client, *file, *export, *owner, *lock, *limit; /* options of commands; NULL: none */
    const char *address, *held, *waited, *sort; /* lists: networks, ages, a column; NULL: none */
    bool csv, tree, once, dry_run;
    const char *at, *since, *until; /* history: times */
    const char *server;             /* doctor: HOST:/DIRECTORY */
    bool after_restart;
    bool only_waited; /* of locks, those on files that clients wait for; chosen by the daemon */
};

struct ctl_command {
    const char *name;
    const char *arguments;
    const char *help;
    /* Runs the command with the arguments behind its name. */
    int (*run)(struct ctl *ctl, int argc, char **argv);
    bool watchable;
    const char *options; /* which options it takes, by their letters (main.c) */
};

int ctl_status(struct ctl *ctl, int argc, char **argv);
int ctl_clients(struct ctl *ctl, int argc, char **argv);
int ctl_top(struct ctl *ctl, int argc, char **argv);
int ctl_reservations(struct ctl *ctl, int argc, char **argv);
int ctl_client(struct ctl *ctl, int argc, char **argv);
int ctl_page(struct ctl *ctl, int argc, char **argv);
int ctl_locks(struct ctl *ctl, int argc, char **argv);
int ctl_waiters(struct ctl *ctl, int argc, char **argv);
int ctl_why(struct ctl *ctl, int argc, char **argv);
int ctl_exports(struct ctl *ctl, int argc, char **argv);
int ctl_grace(struct ctl *ctl, int argc, char **argv);
int ctl_release(struct ctl *ctl, int argc, char **argv);
int ctl_notify(struct ctl *ctl, int argc, char **argv);
int ctl_check(struct ctl *ctl, int argc, char **argv);
int ctl_doctor(struct ctl *ctl, int argc, char **argv);
int ctl_history(struct ctl *ctl, int argc, char **argv);
int ctl_losses(struct ctl *ctl, int argc, char **argv);
int ctl_cluster(struct ctl *ctl, int argc, char **argv);
int ctl_backup(struct ctl *ctl, int argc, char **argv);

/* ask.c: makes one request. On success it returns CTL_OK and *out, which the caller decrefs;
 * otherwise the reason has been printed on standard error. body may be NULL. */
int ctl_ask(struct ctl *ctl, const char *method, const char *path, const char *body, json_t **out);

/* Works like ctl_ask(), but does not print a refusal. It is for what adds to an answer and may be
 * missing. */
int ctl_ask_quietly(struct ctl *ctl, const char *path, json_t **out);

/* Adds a key of the query to the path of a request; a value that is NULL adds nothing. */
enum { CTL_PATH_MAX = 16384 };
void ctl_add_query(char path[CTL_PATH_MAX], const char *key, const char *value);

/* Fetches an answer that is not JSON; the caller frees the bytes. */
int ctl_download(struct ctl *ctl, const char *path, char **data, size_t *len);

/* Fetches a list with the filters of the command line, all its pages up to --limit, as an array. */
int ctl_ask_list(struct ctl *ctl, const char *name, json_t **out);

/* Fetches the locks on files that clients wait for, of the export and file of the command line, as
 * an array. */
int ctl_ask_waited(struct ctl *ctl, json_t **out);

/* release.c: adds the answer to a release, which it takes, to the sum (NULL at first). */
void ctl_add_released(json_t **sum, json_t *answer);
/* Prints what was released, and the requests that were granted because of it. */
void ctl_print_released(struct ctl *ctl, const json_t *answer);

/* why.c: every wait, by file, as `why` shows it. */
int ctl_show_tree(struct ctl *ctl);

/* Whether the word is the id, name or address of a client. */
bool ctl_is_named(const json_t *client, const char *word);
/* Finds the id of the client with this id, name or address. Returns CTL_NOT_FOUND, and prints it,
 * unless there is exactly one. */
int ctl_find_client(struct ctl *ctl, const char *word, char id[32]);
/* Works like ctl_find_client(), but tells how many clients match, and prints nothing about it. */
int ctl_match_clients(struct ctl *ctl, const char *word, char id[32], size_t *matches);

void ctl_print_json(const json_t *json);

/* words.c: texts for columns. Each function writes into text and returns it. */
enum { CTL_WORD_MAX = 320 };
const char *ctl_word_age(double seconds, char text[CTL_WORD_MAX]);
const char *ctl_word_client(const json_t *client, char text[CTL_WORD_MAX]);
const char *ctl_word_file(const json_t *row, char text[CTL_WORD_MAX]);
const char *ctl_word_owner(const json_t *owner, char text[CTL_WORD_MAX]);
/* Describes "outside" of a waiter: its holder, with the program where this host shows it. */
const char *ctl_word_outside(const json_t *outside, char text[CTL_WORD_MAX]);
const char *ctl_word_range(const json_t *range, char text[CTL_WORD_MAX]);
const char *ctl_text(const json_t *object, const char *key); /* returns "" if there is none */
/* True if a status or a problem tells of a node that does not serve. */
bool ctl_stands_by(const json_t *answer);
double ctl_number(const json_t *object, const char *key);

/* elide.c: returns the number of columns of the terminal that a text takes, not its bytes. */
size_t ctl_width(const char *text);
/* Writes text into out with its middle left out, so that it takes at most columns. */
void ctl_elide(const char *text, size_t columns, char out[CTL_WORD_MAX]);

/* table.c: holds all cells until it is printed, because columns are as wide as their widest cell.
 */
enum { CTL_COLUMNS_MAX = 10 }; /* so that a digit names one */
enum ctl_color { CTL_PLAIN, CTL_RED, CTL_GREEN, CTL_YELLOW, CTL_BOLD, CTL_DIM };

struct ctl_table {
    const struct ctl *ctl;
    size_t columns;
    const char
        *spare; /* columns that are left out first where there is no room: "05"; NULL: none */
    struct ctl_cell *cells;
    size_t count;
    size_t marked; /* a row that stands out, counted from the titles; 0: none */
};

void ctl_table_init(struct ctl_table *table, const struct ctl *ctl, size_t columns,
                    const char *const *titles);
void ctl_table_add(struct ctl_table *table, const char *text, enum ctl_color color);
void ctl_table_print(struct ctl_table *table); /* prints the table and frees it */

/* What a list can be sorted by: the name for --sort, and where a row has it ("client.name"). */
struct ctl_column {
    const char *name;
    const char *path;
};

/* A command that prints a list: its name in the API, and how a row is shown. */
struct ctl_list {
    const char *name;
    size_t columns;
    const char *const *titles;
    const char *spare;                 /* as in ctl_table */
    const struct ctl_column *sortable; /* the last has no name */
    const char *held, *waited;         /* keys of the seconds for --held and --waited; or NULL */
    void (*add_row)(struct ctl_table *table, const json_t *row);
    /* Adds to the rows what else they need; NULL: nothing. */
    int (*complete)(struct ctl *ctl, json_t *rows);
    /* Adds rows of another list; NULL: there are none. */
    void (*add_more)(struct ctl *ctl, struct ctl_table *table);
};
int ctl_show_list(struct ctl *ctl, int argc, const struct ctl_list *list);

/* rows.c: the rows of a list that pass the filters of the command line, in the order of --sort, at
 * most --limit of them; *cut: there are more. The list may lack all but its name. */
int ctl_choose_rows(struct ctl *ctl, const struct ctl_list *list, json_t **out, bool *cut);
/* Sorts an array by a column; -COLUMN: descending. False if there is none of that name. */
bool ctl_sort_rows(json_t *rows, const struct ctl_column *columns, const char *by);
/* For the help of a command: what its list can be sorted by. */
void ctl_print_columns(const char *command);
extern const struct ctl_column CTL_SORT_LOCKS[], CTL_SORT_WAITERS[], CTL_SORT_CLIENTS[],
    CTL_SORT_RESERVATIONS[];
/* "90s", "10m", "2h", "1d". False, printed, if it is no age. */
bool ctl_read_age(const char *option, const char *text, double *seconds);

/* history.c: a time as a user writes it, into the form of REST. text NULL: out is "". False: not a
 * time, and printed. */
enum { CTL_TIME_MAX = 32 };
bool ctl_read_time(const char *option, const char *text, char out[CTL_TIME_MAX]);

/* history.c: prints the files of the locks that were lost since then, in UTC; nothing, if no
 * history is kept or the caller may not see files. */
void ctl_history_lost(struct ctl *ctl, const char *since);

/* Prints text in a colour, if colours are enabled. */
void ctl_paint(const struct ctl *ctl, enum ctl_color color, const char *text);

#endif
