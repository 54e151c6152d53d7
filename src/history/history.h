/* The history (ADM-11): which client held or waited for which file, and when, over restarts; with
 * crashes, losses, restarts and what operators did. `holdfastctl history` and REST search it.
 *
 * Requests never wait for it: entries are copied into a buffer of bounded size, and a worker thread
 * of libuv's pool makes lines of them and appends these to a file, one buffer at a time. The
 * history is for people and promises nothing: an entry that finds the buffer full (because a disk
 * hangs) is left out and counted, the file is not flushed, and a file that cannot be written stops
 * no lock.
 *
 * There are two files, `history` and `history.old`. When the first has half of the configured size,
 * it is renamed and replaces the second. So both together stay below the configured size. A search
 * shows nothing that is older than the configured age.
 *
 * Only the writing and the reading of files happens on worker threads; everything else runs on the
 * loop thread. */
#ifndef HF_HISTORY_HISTORY_H
#define HF_HISTORY_HISTORY_H

#include <uv.h>

#include "history/entry.h"

enum { HF_HISTORY_BUFFER_BYTES = 4 << 20 }; /* how many bytes of entries may wait to be written */

struct hf_history_config {
    const char *directory; /* an existing directory; the string must outlive the history */
    uint64_t bytes;        /* the size that both history files may have together */
    int64_t age_ms;
};

struct hf_history_counters {
    uint64_t lines; /* how many entries were put into the history */
    uint64_t lost;  /* how many entries found the buffer full, or could not be written */
};

struct hf_history;

/* Opens the history, whose file is opened when the first line is written. Returns NULL if memory
 * runs out. */
struct hf_history *hf_history_new(uv_loop_t *loop, const struct hf_history_config *config);

/* Puts an entry into the history, without ever waiting. */
void hf_history_put(struct hf_history *history, const struct hf_history_entry *entry);

/* Makes a worker write the gathered entries, unless a worker is still writing. Called once in each
 * turn of the loop. */
void hf_history_end_turn(struct hf_history *history);

struct hf_history_counters hf_history_counters(const struct hf_history *history);

/* Returns why the last write of the history failed; "": it succeeded. */
const char *hf_history_error(const struct hf_history *history);

/* Writes the remaining entries at once, and frees the history when its worker and searches have
 * ended, which takes turns of the loop. Searches in progress end without a call of done. */
void hf_history_close(struct hf_history *history);

/* ---- searching ---- */

/* The conditions of a search. An empty text or a zero matches everything. */
struct hf_history_query {
    /* A part of the client's quoted name or of its address, in any case. */
    char client[HF_HISTORY_NAME_MAX * 4 + 1];
    /* A whole quoted path, if it begins with a slash; a pattern with *, ? or [ for the whole path
     * or handle; otherwise a part of the path or of the handle in hexadecimal. */
    char file[HF_HISTORY_TEXT_MAX + 1];
    int64_t since_ms, until_ms; /* The search finds entries that overlap this time; 0: no bound. */
    unsigned limit;             /* how many of the newest entries the search returns; at least 1 */
};

enum { HF_HISTORY_ROWS_MAX = 10000 };

/* The rows that a search found, ordered by the time at which they ended, oldest first. */
struct hf_history_found {
    struct hf_history_row *rows;
    unsigned n_rows;
    bool more; /* the search left out older rows, because of its limit */
    int64_t
        begins_ms; /* the end of the oldest lock, wait or event that is kept; 0: there is none */
    int error;     /* HF_ENOMEM or HF_EIO: the rows may be incomplete */
};

/* A search; its memory belongs to the caller. */
struct hf_history_search {
    struct hf_history_query query;
    /* Makes the text of the answer, in memory from malloc(); runs on the worker's thread. NULL as a
     * result: memory ran out. The function is optional. */
    char *(*render)(const struct hf_history_found *found);
    /* called once with the result, in a later turn of the loop */
    void (*done)(struct hf_history_search *search);

    /* The result of the search, valid from the call of done until hf_history_search_free(). */
    struct hf_history_found found;
    const char *text; /* the text of the answer, which render() made */
    void *job;
};

/* Starts a search. Returns HF_ELIMIT if too many searches are in progress, or HF_ENOMEM. */
int hf_history_search(struct hf_history *history, struct hf_history_search *search);

/* Frees the result of a search. A search in progress ends without a call of done. */
void hf_history_search_free(struct hf_history_search *search);

#endif
