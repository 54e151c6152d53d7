/* The hash map of base/map.h for objects that exist in millions. Its links are 32-bit links of the
 * arena (base/arena.h), where the objects must live, and it keeps only the upper 32 bits of a hash.
 * So a node takes 8 bytes instead of 16, and a bucket 4 instead of 8.
 *
 * Unlike the map of base/map.h it also shrinks. It grows and shrinks without a pause: the old table
 * stays beside the new one, and each insertion and each removal moves a few buckets over. If there
 * is no memory for the new table, nothing fails: chains get longer, or the table stays as large as
 * it is.
 *
 * The map owns its tables, never the nodes. */
#ifndef HF_BASE_REFMAP_H
#define HF_BASE_REFMAP_H

#include <stdbool.h>

#include "base/alloc.h"
#include "base/arena.h"

struct hf_refmap_node {
    _Alignas(HF_REF_UNIT) hf_ref next;
    uint32_t hash;
};

struct hf_refmap_table {
    hf_ref *buckets;
    size_t mask; /* the number of buckets, a power of two, minus 1 */
};

struct hf_refmap {
    struct hf_refmap_table now; /* the table into which new nodes are inserted */
    /* The table whose nodes move into `now`; its buckets are NULL while nothing is moved. */
    struct hf_refmap_table old;
    size_t moved; /* buckets of the old table below this index are empty */
    size_t count;
    const struct hf_alloc *alloc;
};

/*
 * True if the node's object has this key. Called only when the kept parts of the hashes are equal.
 */
typedef bool (*hf_refmap_match)(const struct hf_refmap_node *node, const void *key);

int hf_refmap_init(struct hf_refmap *map, const struct hf_alloc *alloc);
void hf_refmap_free(struct hf_refmap *map);

struct hf_refmap_node *hf_refmap_find(const struct hf_refmap *map, uint64_t hash,
                                      hf_refmap_match match, const void *key);

/* The two fetch functions prefetch, like those of base/map.h. After them, peek finds a node with
 * this hash, most likely that of the key, without comparing keys. */
void hf_refmap_fetch_bucket(const struct hf_refmap *map, uint64_t hash);
void hf_refmap_fetch_node(const struct hf_refmap *map, uint64_t hash);
struct hf_refmap_node *hf_refmap_peek(const struct hf_refmap *map, uint64_t hash);

/* Inserts a node, whose key must not be in the map yet. */
void hf_refmap_insert(struct hf_refmap *map, struct hf_refmap_node *node, uint64_t hash);

/* Removes a node, which must be in the map. */
void hf_refmap_remove(struct hf_refmap *map, struct hf_refmap_node *node);

/* Visits every node in no particular order. The map must not change meanwhile. */
void hf_refmap_each(const struct hf_refmap *map, void (*visit)(struct hf_refmap_node *, void *ctx),
                    void *ctx);

#endif
