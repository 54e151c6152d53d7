#include "base/map.h"

#include "base/assert.h"
#include "base/error.h"

enum {
    FIRST_BUCKETS = 16,
    /* Each insertion moves this many buckets, so the old table is empty long before the new one is
     * full. */
    MOVE_PER_INSERT = 4,
};

static int table_init(struct hf_map_table *table, size_t buckets, const struct hf_alloc *alloc)
{
    table->buckets = hf_calloc(alloc, buckets, sizeof(struct hf_map_node *));
    if (!table->buckets)
        return HF_ENOMEM;
    table->mask = buckets - 1;
    return 0;
}

int hf_map_init(struct hf_map *map, const struct hf_alloc *alloc)
{
    *map = (struct hf_map){.alloc = alloc};
    return table_init(&map->now, FIRST_BUCKETS, alloc);
}

void hf_map_free(struct hf_map *map)
{
    if (map->alloc) {
        hf_free(map->alloc, map->now.buckets);
        hf_free(map->alloc, map->old.buckets);
    }
    *map = (struct hf_map){0};
}

static struct hf_map_node **bucket_of(const struct hf_map_table *table, uint64_t hash)
{
    return &table->buckets[hash & table->mask];
}

static void push(struct hf_map_table *table, struct hf_map_node *node)
{
    struct hf_map_node **bucket = bucket_of(table, node->hash);

    node->next = *bucket;
    *bucket = node;
}

/* Moves a few more buckets of the old table to the new one. */
static void move_some(struct hf_map *map)
{
    for (int i = 0; i < MOVE_PER_INSERT && map->old.buckets; i++) {
        struct hf_map_node *node = map->old.buckets[map->moved];

        while (node) {
            struct hf_map_node *next = node->next;
            push(&map->now, node);
            node = next;
        }
        map->old.buckets[map->moved] = NULL;
        if (map->moved++ == map->old.mask) {
            hf_free(map->alloc, map->old.buckets);
            map->old = (struct hf_map_table){0};
        }
    }
}

static void maybe_grow(struct hf_map *map)
{
    struct hf_map_table bigger;

    if (map->old.buckets || map->count <= map->now.mask)
        return;
    if (table_init(&bigger, (map->now.mask + 1) * 2, map->alloc) < 0)
        return; /* if memory runs out, the chains get longer, and nothing fails */
    map->old = map->now;
    map->now = bigger;
    map->moved = 0;
}

struct hf_map_node *hf_map_find(const struct hf_map *map, uint64_t hash, hf_map_match match,
                                const void *key)
{
    const struct hf_map_table *tables[] = {&map->now, &map->old};

    for (size_t i = 0; i < HF_COUNT_OF(tables) && tables[i]->buckets; i++) {
        for (struct hf_map_node *n = *bucket_of(tables[i], hash); n; n = n->next) {
            if (n->hash == hash && match(n, key))
                return n;
        }
    }
    return NULL;
}

void hf_map_fetch_bucket(const struct hf_map *map, uint64_t hash)
{
    __builtin_prefetch(bucket_of(&map->now, hash), 1);
    if (map->old.buckets)
        __builtin_prefetch(bucket_of(&map->old, hash));
}

void hf_map_fetch_node(const struct hf_map *map, uint64_t hash)
{
    __builtin_prefetch(*bucket_of(&map->now, hash));
    if (map->old.buckets)
        __builtin_prefetch(*bucket_of(&map->old, hash));
}

void hf_map_insert(struct hf_map *map, struct hf_map_node *node, uint64_t hash)
{
    maybe_grow(map);
    move_some(map);
    node->hash = hash;
    push(&map->now, node);
    map->count++;
}

static bool unlink_from(struct hf_map_table *table, const struct hf_map_node *node)
{
    if (!table->buckets)
        return false;
    for (struct hf_map_node **p = bucket_of(table, node->hash); *p; p = &(*p)->next) {
        if (*p == node) {
            *p = node->next;
            return true;
        }
    }
    return false;
}

void hf_map_remove(struct hf_map *map, struct hf_map_node *node)
{
    bool found = unlink_from(&map->now, node) || unlink_from(&map->old, node);

    HF_ASSERT(found);
    node->next = NULL;
    map->count--;
}

void hf_map_each(const struct hf_map *map, bool (*visit)(struct hf_map_node *node, void *ctx),
                 void *ctx)
{
    const struct hf_map_table *tables[] = {&map->now, &map->old};

    for (size_t i = 0; i < HF_COUNT_OF(tables) && tables[i]->buckets; i++) {
        for (size_t b = 0; b <= tables[i]->mask; b++) {
            for (struct hf_map_node *n = tables[i]->buckets[b], *next; n; n = next) {
                next = n->next;
                if (!visit(n, ctx))
                    return;
            }
        }
    }
}
