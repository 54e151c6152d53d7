/*
 * Intrusive hash map. A node is part of the object that it indexes and holds the full 64-bit hash,
 * so that a lookup compares keys only when the hashes are equal.
 *
 * The map grows without a pause: the old table stays beside the new one, and each insertion moves a
 * few buckets over. If there is no memory for a larger table, chains get longer and nothing fails;
 * only hf_map_init() can fail.
 *
 * The map owns its tables, never the nodes.
 */
#ifndef HF_BASE_MAP_H
#define HF_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

struct hf_map_node {
    struct hf_map_node *next;
    uint64_t hash;
};

struct hf_map_table {
    struct hf_map_node **buckets;
    size_t mask; /* the number of buckets, a power of two, minus 1 */
};

struct hf_map {
    struct hf_map_table now; /* the table into which new nodes are inserted */
    /* The table whose nodes move into `now`; its buckets are NULL while the map is not growing. */
    struct hf_map_table old;
    size_t moved; /* buckets of the old table below this index are empty */
    size_t count;
    const struct hf_alloc *alloc;
};

/* True if the node's object has this key. Called only when the hashes are equal. */
typedef bool (*hf_map_match)(const struct hf_map_node *node, const void *key);

int hf_map_init(struct hf_map *map, const struct hf_alloc *alloc);
void hf_map_free(struct hf_map *map);

struct hf_map_node *hf_map_find(const struct hf_map *map, uint64_t hash, hf_map_match match,
                                const void *key);

/*
 * For a caller that knows many keys before it looks them up. Each lookup in a big map misses the
 * processor's cache, and these functions let the caller wait for many misses at once:
 * hf_map_fetch_bucket() prefetches a key's bucket and, a while later, hf_map_fetch_node() the first
 * node in it. They do not change the map.
 */
void hf_map_fetch_bucket(const struct hf_map *map, uint64_t hash);
void hf_map_fetch_node(const struct hf_map *map, uint64_t hash);

/* Inserts a node, whose key must not be in the map yet. */
void hf_map_insert(struct hf_map *map, struct hf_map_node *node, uint64_t hash);

/* Removes a node, which must be in the map. */
void hf_map_remove(struct hf_map *map, struct hf_map_node *node);

/* Visits every node, in no particular order, until visit returns false. The map must not change
 * meanwhile, except that visit may remove the node that it gets. */
void hf_map_each(const struct hf_map *map, bool (*visit)(struct hf_map_node *node, void *ctx),
                 void *ctx);

#endif
