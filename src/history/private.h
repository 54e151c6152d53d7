/* What the files of src/history share. */
#ifndef HF_HISTORY_PRIVATE_H
#define HF_HISTORY_PRIVATE_H

#include "base/buf.h"
#include "history/history.h"

enum { HF_HISTORY_SEARCHES_MAX = 4 }; /* how many searches may run at a time */

/* A search as its worker sees it. */
struct job {
    uv_work_t work;
    struct hf_history *history;
    /* Used by the loop's thread only; NULL: the search is done, or was given up. */
    struct hf_history_search *search;
    struct hf_history_query query;
    int64_t oldest_ms; /* rows that ended before this time are older than the configured age */
    char *(*render)(const struct hf_history_found *found);
    struct hf_history_found found;
    char **lines; /* the lines that the rows are parts of, one each */
    char *text;
};

/* An entry that waits to be written, and the bytes of its views and texts behind it. */
struct packed {
    struct hf_history_entry entry;
    size_t size;                 /* the size of the entry and of all its bytes */
    size_t path_size, text_size; /* the sizes with their NUL; 0: there is none */
    uint8_t bytes[];
};

struct hf_history {
    uv_loop_t *loop;
    struct hf_history_config config;
    struct hf_buf gathering; /* entries that wait for the worker: struct packed */
    struct hf_history_counters counters;
    bool writing; /* the worker has `out`, `fd`, `written` and `error` now */
    bool closing;
    uv_work_t work;
    struct hf_buf out;
    int fd;           /* the newer file; -1: it is not open */
    uint64_t written; /* the size of the newer file */
    uint64_t lost;    /* lines that the worker could not write, not counted yet */
    char error[160];  /* the error of the last write */
    struct job *jobs[HF_HISTORY_SEARCHES_MAX];
    unsigned n_jobs;
};

/* history.c: makes the path of one of the two files. */
enum { PATH_BYTES = 4096 };
const char *hf_history_file_path(const struct hf_history *history, bool older,
                                 char out[PATH_BYTES]);

/* Frees a history that is closed and that no worker uses any more. */
void hf_history_free_if_unused(struct hf_history *history);

#endif
