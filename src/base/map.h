/*
 * Intrusive hash map. A node is part of the object it indexes and holds the full 64-bit hash, so
 * that a lookup compares keys only when the hashes are equal.
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
#include "base/list.h"

struct hf_map_node {
    struct hf_map_node *next;
    uint64_t hash;
};

struct hf_map_table {
    struct hf_map_node **buckets;
    size_t mask; /* number of buckets - 1; the number is a power of two */
};

struct hf_map {
    struct hf_map_table now; /* new nodes are inserted here */
    struct hf_map_table old; /* the table that is being moved into now; buckets is NULL when the map
                                is not growing */
    size_t moved;            /* buckets of old below this index are empty */
    size_t count;
    const struct hf_alloc *alloc;
};

/* True if the node's object has this key; called only when the hashes are equal. */
typedef bool (*hf_map_match)(const struct hf_map_node *node, const void *key);

int hf_map_init(struct hf_map *map, const struct hf_alloc *alloc);
void hf_map_free(struct hf_map *map);

struct hf_map_node *hf_map_find(const struct hf_map *map, uint64_t hash, hf_map_match match,
                                const void *key);

/*
 * For a caller that knows many keys before it looks them up: each lookup in a big map misses the
 * processor's cache, and these let it wait for many at once. The first fetches the bucket; the
 * second, a while later, the first node in it. They change nothing.
 */
void hf_map_fetch_bucket(const struct hf_map *map, uint64_t hash);
void hf_map_fetch_node(const struct hf_map *map, uint64_t hash);

/* The key must not be in the map yet. */
void hf_map_insert(struct hf_map *map, struct hf_map_node *node, uint64_t hash);

/* The node must be in the map. */
void hf_map_remove(struct hf_map *map, struct hf_map_node *node);

/*
 * Visits every node in no particular order until visit returns false. The map must not change
 * meanwhile, except that visit may remove the node it is given.
 */
void hf_map_each(const struct hf_map *map, bool (*visit)(struct hf_map_node *node, void *ctx),
                 void *ctx);

#endif
