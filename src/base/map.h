/*
 * Intrusive hash map. A node is part of the object it indexes, and carries the full 64-bit hash, so
 * a lookup compares keys only where the hashes agree.
 *
 * It grows without a pause: while it doubles, the old table stays beside the new one, and each
 * insertion moves a few buckets over. When no memory can be had for growing, chains
 * get longer and nothing fails; only hf_map_init() can fail.
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
    size_t mask; /* number of buckets - 1, a power of two less one */
};

struct hf_map {
    struct hf_map_table now; /* where new nodes go */
    struct hf_map_table old; /* being emptied into now; buckets NULL when not growing */
    size_t moved;            /* buckets of old below this index are empty */
    size_t count;
    const struct hf_alloc *alloc;
};

/* True if the node's object has this key; called only where the hash agrees. */
typedef bool (*hf_map_match)(const struct hf_map_node *node, const void *key);

int hf_map_init(struct hf_map *map, const struct hf_alloc *alloc);
void hf_map_free(struct hf_map *map);

struct hf_map_node *hf_map_find(const struct hf_map *map, uint64_t hash, hf_map_match match,
                                const void *key);

/* The caller has made sure that the key is not there yet. */
void hf_map_insert(struct hf_map *map, struct hf_map_node *node, uint64_t hash);

/* The node must be in the map. */
void hf_map_remove(struct hf_map *map, struct hf_map_node *node);

/*
 * Visits every node in no particular order; visit returns false to stop. The map must not change
 * meanwhile, but visit may remove the very node it is given.
 */
void hf_map_each(const struct hf_map *map, bool (*visit)(struct hf_map_node *node, void *ctx),
                 void *ctx);

#endif
