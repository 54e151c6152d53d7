/* Declarations that the files of src/history share. */
#ifndef HF_HISTORY_PRIVATE_H
#define HF_HISTORY_PRIVATE_H

#include "base/buf.h"
#include "history/history.h"

enum { HF_HISTORY_SEARCHES_MAX = 4 }; /* how many searches may run at a time */

/* A search with the fields that its worker needs. */
struct job {
    uv_work_t work;
    struct hf_history *history;
    /* Used by the loop thread only; NULL: the search is done, or was given up. */
    struct hf_history_search *search;
    struct hf_history_query query;
    int64_t oldest_ms; /* rows that ended before this time are too old to be shown */
    char *(*render)(const struct hf_history_found *found);
    struct hf_history_found found;
    char **lines; /* the lines into which the found rows point, one for each row */
    char *text;
};

/* An entry that waits to be written, followed by the bytes of its views and texts. */
struct packed {
    struct hf_history_entry entry;
    size_t size;                 /* the size of the entry together with all its bytes */
    size_t path_size, text_size; /* the sizes of path and text with their NUL; 0: there is none */
    uint8_t bytes[];
};

struct hf_history {
    uv_loop_t *loop;
    struct hf_history_config config;
    struct hf_buf gathering; /* the entries that wait for the worker, as struct packed */
    struct hf_history_counters counters;
    bool writing; /* while true, the worker owns `out`, `fd`, `written` and `error` */
    bool closing;
    uv_work_t work;
    struct hf_buf out;
    int fd;           /* descriptor of the newer history file; -1: the file is not open */
    uint64_t written; /* how many bytes the newer file has */
    uint64_t lost;    /* lines that the worker could not write, not yet added to the counter */
    char error[160];  /* the error of the last write; "": it succeeded */
    struct job *jobs[HF_HISTORY_SEARCHES_MAX];
    unsigned n_jobs;
};

/* history.c: makes the path of the newer or the older history file. */
enum { PATH_BYTES = 4096 };
const char *hf_history_file_path(const struct hf_history *history, bool older,
                                 char out[PATH_BYTES]);

/* Frees a history if it is closed and no worker uses it any more. */
void hf_history_free_if_unused(struct hf_history *history);

#endif
