/*
 * The history (ADM-11): which client held or waited for which file, and when, over restarts; with
 * crashes, losses, restarts and what operators did. `holdfastctl history` and REST search it.
 *
 * It is written off the path of requests: entries are copied into a buffer of bounded size, and a
 * worker thread of libuv makes lines of them and appends these to a file, one buffer at a time. It
 * is for people and promises nothing: an entry that finds the buffer full (because a disk hangs) is
 * left out and counted, the file is not flushed, and a file that cannot be written stops no lock.
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

enum { HF_HISTORY_BUFFER_BYTES = 4 << 20 }; /* how many bytes may wait to be written */

struct hf_history_config {
    const char *directory; /* an existing directory; the text outlives the history */
    uint64_t bytes;        /* the size that both files may have together */
    int64_t age_ms;
};

struct hf_history_counters {
    uint64_t lines; /* how many lines were put */
    uint64_t lost;  /* how many lines found the buffer full, or could not be written */
};

struct hf_history;

/* Returns NULL without memory. The file is opened when the first line is written. */
struct hf_history *hf_history_new(uv_loop_t *loop, const struct hf_history_config *config);

/* Puts an entry; this never waits. */
void hf_history_put(struct hf_history *history, const struct hf_history_entry *entry);

/* Lets a worker write the entries that were put, unless one is at work. The caller calls it once a
 * turn. */
void hf_history_end_turn(struct hf_history *history);

struct hf_history_counters hf_history_counters(const struct hf_history *history);

/* Tells why the last write failed; "": it did not. */
const char *hf_history_error(const struct hf_history *history);

/* Writes what is left, now, and frees the history as soon as its worker and searches have ended,
 * which takes turns of the loop. Searches in progress end without a call of done. */
void hf_history_close(struct hf_history *history);

/* ---- searching ---- */

/* What a search looks for. Empty texts and zeros match any. */
struct hf_history_query {
    char client[HF_HISTORY_NAME_MAX * 4 + 1]; /* the client's name, quoted, or its address */
    /* The file's handle in hexadecimal, or its path, quoted. */
    char file[HF_HISTORY_TEXT_MAX + 1];
    int64_t since_ms, until_ms; /* entries that overlap this time are found; 0: no bound */
    unsigned limit;             /* how many of the newest entries are wanted; at least 1 */
};

enum { HF_HISTORY_ROWS_MAX = 10000 };

/* The rows that were found, in order of the time at which they ended, oldest first. */
struct hf_history_found {
    struct hf_history_row *rows;
    unsigned n_rows;
    bool more; /* older rows were left out, because of the limit */
    int error; /* HF_ENOMEM, HF_EIO: the rows may be incomplete */
};

/* A search, in memory of the caller. */
struct hf_history_search {
    struct hf_history_query query;
    /* Runs on the worker's thread and makes the text to answer with, from malloc(); NULL: no
     * memory. It is optional. */
    char *(*render)(const struct hf_history_found *found);
    void (*done)(struct hf_history_search *search); /* called once, in a later turn */

    /* The result, valid from done until hf_history_search_free(). */
    struct hf_history_found found;
    const char *text; /* the text that render() made */
    void *job;
};

/* Returns HF_ELIMIT if too many searches are in progress; HF_ENOMEM. */
int hf_history_search(struct hf_history *history, struct hf_history_search *search);

/* Frees what was found. A search in progress ends without a call of done. */
void hf_history_search_free(struct hf_history_search *search);

#endif
