/*
 * The history (ADM-11): which client held or waited for which file, and when, over restarts; with
 * crashes, losses, restarts and what operators did. `holdfastctl history` and REST search it.
 *
 * It is written off the path of requests: entries are copied into a buffer of bounded size, and a
 * worker thread of libuv makes lines of them and appends these to a file, one buffer at a time. It
 * is for people and promises nothing: what finds the buffer full (a disk that hangs) is left out
 * and counted, the file is not flushed, and a file that cannot be written stops no lock.
 *
 * There are two files, `history` and `history.old`. When the first has half of the configured size,
 * it takes the place of the second. Both stay below the configured size, and a search shows nothing
 * that is older than the configured age.
 *
 * Everything but the writing and the reading of files belongs to the loop's thread.
 */
#ifndef HF_HISTORY_HISTORY_H
#define HF_HISTORY_HISTORY_H

#include <uv.h>

#include "history/entry.h"

enum { HF_HISTORY_BUFFER_BYTES = 4 << 20 }; /* that wait to be written */

struct hf_history_config {
    const char *directory; /* that is there; outlives the history */
    uint64_t bytes;        /* the size that both files may have together */
    int64_t age_ms;
};

struct hf_history_counters {
    uint64_t lines; /* put */
    uint64_t lost;  /* that found the buffer full, or that could not be written */
};

struct hf_history;

/* NULL: no memory. The file is opened when the first line is written. */
struct hf_history *hf_history_new(uv_loop_t *loop, const struct hf_history_config *config);

/* Never waits. */
void hf_history_put(struct hf_history *history, const struct hf_history_entry *entry);

/* Lets a worker write what was put, unless one is at work: once a turn. */
void hf_history_end_turn(struct hf_history *history);

struct hf_history_counters hf_history_counters(const struct hf_history *history);

/* Why the last write failed; "": it did not. */
const char *hf_history_error(const struct hf_history *history);

/* Writes what is left, now, and frees the history as soon as its worker and searches have ended,
 * which takes turns of the loop. Searches that are in progress end without a call of done. */
void hf_history_close(struct hf_history *history);

/* ---- searching ---- */

/* What is to be found. Empty texts and zeros: any. */
struct hf_history_query {
    char client[HF_HISTORY_NAME_MAX * 4 + 1]; /* the name, quoted, or the address */
    char file[HF_HISTORY_TEXT_MAX + 1];       /* the handle in hexadecimal, or the path, quoted */
    int64_t since_ms, until_ms;               /* what overlaps this time; 0: no bound */
    unsigned limit;                           /* the newest so many; at least 1 */
};

enum { HF_HISTORY_ROWS_MAX = 10000 };

/* What was found: rows in order of the time at which they ended, oldest first. */
struct hf_history_found {
    struct hf_history_row *rows;
    unsigned n_rows;
    bool more; /* older rows were left out, because of the limit */
    int error; /* HF_ENOMEM, HF_EIO; the rows may be incomplete */
};

/* A search: in the memory of the caller. */
struct hf_history_search {
    struct hf_history_query query;
    /* On the worker's thread: the text to answer with, from malloc(); NULL: no memory. Optional. */
    char *(*render)(const struct hf_history_found *found);
    void (*done)(struct hf_history_search *search); /* called once, in a later turn */

    /* The result, valid from done until hf_history_search_free(). */
    struct hf_history_found found;
    const char *text; /* rendered */
    void *job;
};

/* HF_ELIMIT: so many searches are in progress; HF_ENOMEM. */
int hf_history_search(struct hf_history *history, struct hf_history_search *search);

/* Frees what was found. A search that is in progress ends without a call of done. */
void hf_history_search_free(struct hf_history_search *search);

#endif
