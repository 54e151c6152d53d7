/*
 * Finds paths of files, where they can be known (NAM-01): in a file that the operator provides
 * (fh_map.h), else by asking a namer (namer.h), whose answers are kept for a while.
 *
 * Names are asked for when rows are about to be shown: the caller asks for the handles of a few
 * hundred rows, waits once until all of them have been answered or cannot be, and then shows them
 * with what is known. No lock request comes here. What is known is bounded in number and bytes; the
 * name that was not used for longest gives way.
 */
#ifndef HF_ADMIN_NAMES_H
#define HF_ADMIN_NAMES_H

#include <uv.h>

#include "admin/answer.h"
#include "base/bytes.h"
#include "base/list.h"

enum {
    HF_NAMES_KEPT_MAX = 32768,
    HF_NAMES_PATH_BYTES_MAX = 8 << 20, /* how many bytes all paths that are kept may have */
    /* After this time a name is asked for again: the file may have another. */
    HF_NAMES_FRESH_MS = 2000,
    /* After this time a name is not shown, even if there is no newer answer. */
    HF_NAMES_STALE_MS = 30000,
    HF_NAMES_HANDLE_MAX = 64, /* the limit of RFC 1813; longer handles have no name */
};

struct hf_names_counters {
    uint64_t asked, named, deleted, unknown, unanswered;
};

/* Which sources of names there are. */
struct hf_names_source {
    bool map;   /* admin.fh_map has names */
    bool namer; /* there is a namer, up or down */
    bool up;
    bool connecting;
    const char *reason; /* why the namer is not up */
};

/* A caller that waits; in the memory of the caller. */
struct hf_names_wait {
    struct hf_list link;
    /* The number of the last question it waits for; 0: it waits for the connection. */
    uint64_t last;
    uint64_t until_ms; /* how long the caller waits, by uv_now() */
    void (*done)(struct hf_names_wait *wait);
};

struct hf_names;

/* Returns HF_EINVAL, with the reason in the log, if the map cannot be read. */
int hf_names_new(uv_loop_t *loop, const char *socket, const char *fh_map, struct hf_names **out);
/* Reads the map again; the old one stays if it cannot be read. */
void hf_names_reload(struct hf_names *names);
void hf_names_close(struct hf_names *names); /* calls every caller that waits */

struct hf_names_source hf_names_source(const struct hf_names *names);
const struct hf_names_counters *hf_names_counters(const struct hf_names *names);
size_t hf_names_kept(const struct hf_names *names);

/* Begins to connect to the namer, if there is one and it is time. */
void hf_names_connect(struct hf_names *names);

/* Asks for the file's name unless a fresh one is known. True if an answer is awaited. */
bool hf_names_ask(struct hf_names *names, struct hf_bytes fh);

/*
 * Calls done in a later turn: when all that was asked so far is answered, or cannot be, or at
 * until_ms. False, and no call, if there is nothing to wait for. wait->link must be initialised.
 */
bool hf_names_wait(struct hf_names *names, struct hf_names_wait *wait, uint64_t until_ms,
                   void (*done)(struct hf_names_wait *wait));
void hf_names_cancel(struct hf_names_wait *wait);

/* Returns what is known, and was learnt at since_ms of uv_now() or later; it asks nothing. path,
 * which may be NULL, is set if the status is HF_NAME_KNOWN, and valid until the next turn. */
enum hf_name_status hf_names_get(struct hf_names *names, struct hf_bytes fh, uint64_t since_ms,
                                 const char **path);

/* Does what hf_names_get() does for a row to be shown: it returns what was learnt within the last
 * HF_NAMES_STALE_MS. */
enum hf_name_status hf_names_show(struct hf_names *names, struct hf_bytes fh, const char **path);

#endif
