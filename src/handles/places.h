/*
 * Remembers where files were found that the kernel could not name: a path for each device and inode
 * number, which is believed only after another look, because the file may have been renamed. It
 * also remembers which files are still wanted: the next walk through the exports (walk.h) looks for
 * all of them at once.
 *
 * The number of found and of wanted files is bounded; the oldest gives way.
 */
#ifndef HF_HANDLES_PLACES_H
#define HF_HANDLES_PLACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"

enum { HF_PLACES_WANTED_MAX = 4096, HF_PLACES_FOUND_MAX = 16384 };

struct hf_place {
    struct hf_map_node node;
    struct hf_list link;
    dev_t device;
    ino_t ino;
    /* The path of the file; NULL: the file is wanted; "": a whole walk did not find it. */
    char *path;
    uint64_t round; /* the walk that ran, or had ended last, when the file became wanted */
};

struct hf_places {
    struct hf_map map;
    /* Lists of wanted and of found places; in each the oldest comes first. */
    struct hf_list wanted, found;
    size_t n_wanted, n_found;
    uint64_t round; /* the number of the walk that runs, or of the last one */
    struct hf_hash_key key;
};

int hf_places_init(struct hf_places *places);
void hf_places_free(struct hf_places *places);

/* Returns the place of the file; NULL if the file is neither wanted nor found. */
struct hf_place *hf_places_get(struct hf_places *places, dev_t device, ino_t ino);

/* Marks the file as wanted; what was known about it is forgotten. */
void hf_places_want(struct hf_places *places, dev_t device, ino_t ino);

/* Remembers where the file is. Without memory, the file is forgotten instead. */
void hf_places_put(struct hf_places *places, dev_t device, ino_t ino, const char *path);

/* Ends a walk. Files that were wanted before it began, and that it did not find, do not exist. */
void hf_places_give_up(struct hf_places *places);

/* True if a file with this inode number, on any device, is wanted. */
bool hf_places_may_want(const struct hf_places *places, ino_t ino);

#endif
