/*
 * Finds paths of files, where they can be known (NAM-01): in a file that the operator provides
 * (fh_map.h), else by asking a namer (namer.h), whose answers are kept for a while.
 *
 * Names are asked for when rows are about to be shown: the caller asks for the names of the handles
 * in the next rows, waits once until all of them have been answered or cannot be, and then shows
 * the rows with the names that are known. No lock request waits for a name. The names that are kept
 * are bounded in number and bytes; the one that has gone unused longest gives way.
 */
#ifndef HF_ADMIN_NAMES_H
#define HF_ADMIN_NAMES_H

#include <uv.h>

#include "admin/answer.h"
#include "base/bytes.h"
#include "base/list.h"

enum {
    HF_NAMES_KEPT_MAX = 32768,
    /* How many bytes all paths that are kept may have together. */
    HF_NAMES_PATH_BYTES_MAX = 8 << 20,
    /* After this time a name is asked for again, because the file may have been renamed. */
    HF_NAMES_FRESH_MS = 2000,
    /* After this time a name is not shown, even if the namer has not given a newer one. */
    HF_NAMES_STALE_MS = 30000,
    /* The limit of RFC 1813: longer handles are not valid, and have no name. */
    HF_NAMES_HANDLE_MAX = 64,
};

struct hf_names_counters {
    uint64_t asked, named, deleted, unknown, unanswered;
};

/* Tells which sources of file names there are. */
struct hf_names_source {
    bool map;   /* admin.fh_map has names */
    bool namer; /* a namer is configured, whether up or down */
    bool up;
    bool connecting;
    const char *reason; /* why the namer is not up */
};

/* A caller that waits for names; the caller owns the memory. */
struct hf_names_wait {
    struct hf_list link;
    /* The number of the last question that the caller waits for; 0: it waits for the connection to
     * the namer. */
    uint64_t last;
    uint64_t until_ms; /* until when the caller waits, by uv_now() */
    void (*done)(struct hf_names_wait *wait);
};

struct hf_names;

/* Makes the object that finds names. Returns HF_EINVAL, with the reason in the log, if the map
 * cannot be read. */
int hf_names_new(uv_loop_t *loop, const char *socket, const char *fh_map, struct hf_names **out);
/* Reads the map of file handles again; the old map stays in use if the file cannot be read. */
void hf_names_reload(struct hf_names *names);
/* Closes the sources of names, and calls done() of every caller that waits. */
void hf_names_close(struct hf_names *names);

struct hf_names_source hf_names_source(const struct hf_names *names);
const struct hf_names_counters *hf_names_counters(const struct hf_names *names);
size_t hf_names_kept(const struct hf_names *names);

/* Begins to connect to the namer, if there is one and the pause since the last attempt is over. */
void hf_names_connect(struct hf_names *names);

/* Asks for the file's name unless a fresh one is known. True if the namer's answer is awaited. */
bool hf_names_ask(struct hf_names *names, struct hf_bytes fh);

/*
 * Calls done in a later turn: when every question asked so far has been answered or cannot be, at
 * the latest at until_ms. Returns false, and calls nothing, if there is nothing to wait for.
 * wait->link must be initialised.
 */
bool hf_names_wait(struct hf_names *names, struct hf_names_wait *wait, uint64_t until_ms,
                   void (*done)(struct hf_names_wait *wait));
void hf_names_cancel(struct hf_names_wait *wait);

/* Returns what was learnt about the file's name at since_ms of uv_now() or later, and asks nothing.
 * path, which may be NULL, is set if the status is HF_NAME_KNOWN, and valid until the next turn. */
enum hf_name_status hf_names_get(struct hf_names *names, struct hf_bytes fh, uint64_t since_ms,
                                 const char **path);

/* Returns the name of a file for a row to be shown, as hf_names_get() does, if it was learnt within
 * the last HF_NAMES_STALE_MS. */
enum hf_name_status hf_names_show(struct hf_names *names, struct hf_bytes fh, const char **path);

#endif
