/* holdfastctl: the daemon's REST interface for users at a terminal and for scripts. Each command
 * has a file; all share requests (ask.c), tables (table.c) and text for columns (words.c). */
#ifndef HF_CTL_CTL_H
#define HF_CTL_CTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The exit codes of holdfastctl, for scripts; holdfastctl(8) explains them. */
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
    const char *socket; /* the path of the unix socket; NULL: not given */
    const char *url;    /* http://host:port, or NULL */
    const char *token_file;
    bool json;
    bool wide;  /* tables may be wider than the terminal */
    bool yes;   /* do not ask the user for confirmation */
    bool watch; /* repeat the command until it is interrupted */
    bool help, version;
    bool color;
    /* Options that choose rows; NULL: not given. */
    const char *client, *file, *export, *owner, *lock, *limit;
    /* Options of lists: networks, ages, a column; NULL: not given. */
    const char *address, *held, *waited, *sort;
    bool csv, tree, once, dry_run;
    const char *at, *since, *until; /* times for `holdfastctl history` */
    const char *server;             /* HOST:/DIRECTORY for `holdfastctl doctor` */
    bool after_restart;
    bool only_waited; /* show only locks on files that clients wait for; the daemon chooses them */
};

struct ctl_command {
    const char *name;
    const char *arguments;
    const char *help;
    /* Runs the command with the arguments behind its name. */
    int (*run)(struct ctl *ctl, int argc, char **argv);
    bool watchable;
    const char *options; /* the letters of the options that the command takes (main.c) */
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

/* ask.c: makes one request. On success it returns CTL_OK and the answer in *out, which the caller
 * decrefs; otherwise the reason has been printed on standard error. body may be NULL. */
int ctl_ask(struct ctl *ctl, const char *method, const char *path, const char *body, json_t **out);

/* Works like ctl_ask(), but does not print a refusal. It fetches additions to an answer, which may
 * be missing. */
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

/* release.c: adds the answer to a release to the sum (NULL at first), and takes the answer over. */
void ctl_add_released(json_t **sum, json_t *answer);
/* Prints what a release released, and the requests that were granted because of it. */
void ctl_print_released(struct ctl *ctl, const json_t *answer);

/* why.c: shows every wait, by file, as `holdfastctl why` does. */
int ctl_show_tree(struct ctl *ctl);

/* True if the word is the id, name or address of the client. */
bool ctl_is_named(const json_t *client, const char *word);
/* Finds the id of the client with this id, name or address. Returns CTL_NOT_FOUND, and prints why,
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
/* Describes the "outside" of a waiter: the holder outside, with its program where this host shows
 * it. */
const char *ctl_word_outside(const json_t *outside, char text[CTL_WORD_MAX]);
const char *ctl_word_range(const json_t *range, char text[CTL_WORD_MAX]);
/* Returns "" if the object has no such text. */
const char *ctl_text(const json_t *object, const char *key);
/* True if a status or a problem tells of a node that does not serve. */
bool ctl_stands_by(const json_t *answer);
double ctl_number(const json_t *object, const char *key);

/* elide.c: returns how many columns of the terminal a text takes, which its bytes do not tell. */
size_t ctl_width(const char *text);
/*
 * Writes text into out with its middle left out, so that it takes no more than this many columns.
 */
void ctl_elide(const char *text, size_t columns, char out[CTL_WORD_MAX]);

/* table.c: a table holds all cells until it is printed, because columns are as wide as their widest
 * cell. */
enum { CTL_COLUMNS_MAX = 10 }; /* at most ten columns, so that one digit names a column */
enum ctl_color { CTL_PLAIN, CTL_RED, CTL_GREEN, CTL_YELLOW, CTL_BOLD, CTL_DIM };

struct ctl_table {
    const struct ctl *ctl;
    size_t columns;
    const char
        /*
         * The digits of columns that are left out first where there is no room: "05"; NULL: none.
         */
        *spare;
    struct ctl_cell *cells;
    size_t count;
    size_t marked; /* the number of a row that stands out, counted from the titles; 0: none does */
};

void ctl_table_init(struct ctl_table *table, const struct ctl *ctl, size_t columns,
                    const char *const *titles);
void ctl_table_add(struct ctl_table *table, const char *text, enum ctl_color color);
void ctl_table_print(struct ctl_table *table); /* prints the table and frees it */

/* A column by which a list can be sorted: its name for --sort, and where a row has its value
 * ("client.name"). */
struct ctl_column {
    const char *name;
    const char *path;
};

/* A command that prints a list: its name in the API, and how a row is shown. */
struct ctl_list {
    const char *name;
    size_t columns;
    const char *const *titles;
    const char *spare;                 /* the spare columns, as in struct ctl_table */
    const struct ctl_column *sortable; /* columns to sort by; the last entry has no name */
    /* The keys of the seconds that --held and --waited look at; or NULL. */
    const char *held, *waited;
    void (*add_row)(struct ctl_table *table, const json_t *row);
    /* Adds to the rows what they need from other lists; NULL: they need nothing. */
    int (*complete)(struct ctl *ctl, json_t *rows);
    /* Adds rows of another list to the table; NULL: there are none to add. */
    void (*add_more)(struct ctl *ctl, struct ctl_table *table);
};
int ctl_show_list(struct ctl *ctl, int argc, const struct ctl_list *list);

/* rows.c: returns the rows of a list that pass the filters of the command line, in the order of
 * --sort, at most --limit of them; *cut: there are more. Of the list only the name must be set. */
int ctl_choose_rows(struct ctl *ctl, const struct ctl_list *list, json_t **out, bool *cut);
/* Sorts an array by a column; -COLUMN: descending. False if no column has that name. */
bool ctl_sort_rows(json_t *rows, const struct ctl_column *columns, const char *by);
/* Prints, for the help of a command, by which columns its list can be sorted. */
void ctl_print_columns(const char *command);
extern const struct ctl_column CTL_SORT_LOCKS[], CTL_SORT_WAITERS[], CTL_SORT_CLIENTS[],
    CTL_SORT_RESERVATIONS[];
/* Reads an age: "90s", "10m", "2h", "1d". Returns false, and prints why, if the text is no age. */
bool ctl_read_age(const char *option, const char *text, double *seconds);

/* history.c: turns a time as a user writes it into the form of REST; NULL becomes "". Returns
 * false, and prints why, if the text is no time. */
enum { CTL_TIME_MAX = 32 };
bool ctl_read_time(const char *option, const char *text, char out[CTL_TIME_MAX]);

/* history.c: prints the files of the locks that were lost since that time, in UTC; nothing if no
 * history is kept or the caller may not see files. */
void ctl_history_lost(struct ctl *ctl, const char *since);

/* Prints text in a colour, if colours are enabled. */
void ctl_paint(const struct ctl *ctl, enum ctl_color color, const char *text);

#endif
