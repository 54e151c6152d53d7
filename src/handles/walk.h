/*
 * A walk through the exports, for files that the kernel cannot name: after a restart of the host,
 * for example, the kernel can open a file that a client has locked by its inode, but has not seen
 * the directory of the file. A walk looks for all files that are wanted (places.h), a slice of the
 * tree at a time, between requests; it rests three times as long as it works, and ten times as long
 * after its end, so that it can cost a busy disk a quarter of its time at most.
 *
 * The walk stays on each file system (mounts below an export are roots of their own), follows no
 * symbolic link, and holds no directory open while it rests.
 */
#ifndef HF_HANDLES_WALK_H
#define HF_HANDLES_WALK_H

#include "handles/exports.h"
#include "handles/places.h"

enum {
    HF_WALK_DEPTH_MAX = 128,
    HF_WALK_SLICE = 4096,
    HF_WALK_REST_MS = 5000,
    HF_WALK_GATHER_MS = 200
};

struct hf_walk {
    struct hf_exports *exports;
    struct hf_places *places;
    uint64_t max; /* how many directory entries one walk looks at; 0: there is no walk at all */

    bool running;
    bool gathering; /* a walk begins soon; files that are asked for until then join it */
    bool cut;       /* the last walk ended early, because of max */
    uint64_t seen;
    size_t root;
    char path[HF_PATH_BYTES_MAX]; /* the directory that the walk is in, as a path below the root */
    struct {
        size_t len;    /* the length of the directory's path */
        long position; /* where the walk is in that directory, as telldir() tells */
    } levels[HF_WALK_DEPTH_MAX];
    size_t depth;
    int64_t started_ms, worked_ms, next_ms; /* before next_ms there is no slice and no new walk */
};

void hf_walk_init(struct hf_walk *walk, struct hf_exports *exports, struct hf_places *places,
                  uint64_t max);

/* Does a slice if one is due; a walk begins a moment after the first file is wanted. Returns how
 * long the caller may wait for the next slice, -1: for ever. */
int hf_walk_step(struct hf_walk *walk, int64_t now_ms);

#endif
