#include "base/refmap.h"

#include "base/assert.h"
#include "base/error.h"

/*
 * When the table changes its size. It grows when there are as many nodes as buckets, and all
 * buckets have been moved long before it would grow again. It shrinks when only one bucket in
 * SPARSE would be used, to a size at which half of the buckets are; so the map must lose or gain
 * many nodes before its size changes again. A removal moves so many buckets, most of which are
 * empty, that the move ends before the last node goes. A small table never shrinks: nodes that come
 * and go with each request would make it grow and shrink all the time.
 */
enum {
    FIRST_BUCKETS = 16,
    SMALL_BUCKETS = 4096, /* 16 KiB */
    MOVE_PER_INSERT = 4,
    MOVE_PER_REMOVE = 16,
    SPARSE = 8,
    SHRINK_BY = 4
};

static int table_init(struct hf_refmap_table *table, size_t buckets, const struct hf_alloc *alloc)
{
    table->buckets = hf_calloc(alloc, buckets, sizeof(table->buckets[0]));
    if (!table->buckets)
        return HF_ENOMEM;
    table->mask = buckets - 1;
    return 0;
}

int hf_refmap_init(struct hf_refmap *map, const struct hf_alloc *alloc)
{
    *map = (struct hf_refmap){.alloc = alloc};
    return table_init(&map->now, FIRST_BUCKETS, alloc);
}

void hf_refmap_free(struct hf_refmap *map)
{
    if (map->alloc) {
        hf_free(map->alloc, map->now.buckets);
        hf_free(map->alloc, map->old.buckets);
    }
    *map = (struct hf_refmap){0};
}

static uint32_t kept_part(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

static hf_ref *bucket_of(const struct hf_refmap_table *table, uint32_t hash)
{
    return &table->buckets[hash & table->mask];
}

static void push(struct hf_refmap_table *table, struct hf_refmap_node *node)
{
    hf_ref *bucket = bucket_of(table, node->hash);

    node->next = *bucket;
    *bucket = hf_ref_to(node);
}

/* Moves a few more buckets of the old table to the new one. */
static void move_some(struct hf_refmap *map, int n)
{
    for (int i = 0; i < n && map->old.buckets; i++) {
        struct hf_refmap_node *node = hf_at(map->old.buckets[map->moved]);

        while (node) {
            struct hf_refmap_node *next = hf_at(node->next);
            push(&map->now, node);
            node = next;
        }
        map->old.buckets[map->moved] = 0;
        if (map->moved++ == map->old.mask) {
            hf_free(map->alloc, map->old.buckets);
            map->old = (struct hf_refmap_table){0};
        }
    }
}

static void resize(struct hf_refmap *map, size_t buckets)
{
    struct hf_refmap_table other;

    if (map->old.buckets || table_init(&other, buckets, map->alloc) < 0)
        return;
    map->old = map->now;
    map->now = other;
    map->moved = 0;
}

struct hf_refmap_node *hf_refmap_find(const struct hf_refmap *map, uint64_t hash,
                                      hf_refmap_match match, const void *key)
{
    const struct hf_refmap_table *tables[] = {&map->now, &map->old};
    uint32_t kept = kept_part(hash);

    for (size_t i = 0; i < HF_COUNT_OF(tables) && tables[i]->buckets; i++) {
        struct hf_refmap_node *node = hf_at(*bucket_of(tables[i], kept));

        for (; node; node = hf_at(node->next)) {
            if (node->hash == kept && match(node, key))
                return node;
        }
    }
    return NULL;
}

void hf_refmap_fetch_bucket(const struct hf_refmap *map, uint64_t hash)
{
    __builtin_prefetch(bucket_of(&map->now, kept_part(hash)), 1);
    if (map->old.buckets)
        __builtin_prefetch(bucket_of(&map->old, kept_part(hash)));
}

void hf_refmap_fetch_node(const struct hf_refmap *map, uint64_t hash)
{
    __builtin_prefetch(hf_at(*bucket_of(&map->now, kept_part(hash))));
    if (map->old.buckets)
        __builtin_prefetch(hf_at(*bucket_of(&map->old, kept_part(hash))));
}

static bool any_key(const struct hf_refmap_node *node, const void *key)
{
    (void)node;
    (void)key;
    return true;
}

struct hf_refmap_node *hf_refmap_peek(const struct hf_refmap *map, uint64_t hash)
{
    return hf_refmap_find(map, hash, any_key, NULL);
}

void hf_refmap_insert(struct hf_refmap *map, struct hf_refmap_node *node, uint64_t hash)
{
    size_t buckets = map->now.mask + 1;

    if (map->count >= buckets)
        resize(map, buckets * 2);
    move_some(map, MOVE_PER_INSERT);
    node->hash = kept_part(hash);
    push(&map->now, node);
    map->count++;
}

static bool unlink_from(struct hf_refmap_table *table, const struct hf_refmap_node *node)
{
    hf_ref ref = hf_ref_to(node);
    hf_ref *link = table->buckets ? bucket_of(table, node->hash) : NULL;

    while (link && *link) {
        if (*link == ref) {
            *link = node->next;
            return true;
        }
        link = &((struct hf_refmap_node *)hf_at(*link))->next;
    }
    return false;
}

void hf_refmap_remove(struct hf_refmap *map, struct hf_refmap_node *node)
{
    bool found = unlink_from(&map->now, node) || unlink_from(&map->old, node);
    size_t buckets = map->now.mask + 1;

    HF_ASSERT(found);
    node->next = 0;
    map->count--;
    if (buckets > SMALL_BUCKETS && map->count < buckets / SPARSE)
        resize(map, buckets / SHRINK_BY > SMALL_BUCKETS ? buckets / SHRINK_BY : SMALL_BUCKETS);
    if (map->old.buckets)
        move_some(map, MOVE_PER_REMOVE);
}

void hf_refmap_each(const struct hf_refmap *map, void (*visit)(struct hf_refmap_node *, void *ctx),
                    void *ctx)
{
    const struct hf_refmap_table *tables[] = {&map->now, &map->old};

    for (size_t i = 0; i < HF_COUNT_OF(tables) && tables[i]->buckets; i++) {
        for (size_t b = 0; b <= tables[i]->mask; b++) {
            struct hf_refmap_node *node = hf_at(tables[i]->buckets[b]);

            for (; node; node = hf_at(node->next))
                visit(node, ctx);
        }
    }
}
