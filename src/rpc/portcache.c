#include "rpc/portcache.h"

#include <string.h>

#include "base/error.h"

struct hf_portcache_entry {
    struct hf_map_node node;
    struct hf_portcache_key key;
    uint16_t port; /* the cached port; 0: this position in the ring is free */
    uint64_t born_ms;
};

int hf_portcache_init(struct hf_portcache *cache, const struct hf_hash_key *hash_key,
                      const struct hf_alloc *alloc)
{
    *cache = (struct hf_portcache){.hash_key = *hash_key, .alloc = alloc};
    cache->ring = hf_calloc(alloc, HF_PORTCACHE_ENTRIES, sizeof(cache->ring[0]));
    if (!cache->ring)
        return HF_ENOMEM;
    if (hf_map_init(&cache->map, alloc) < 0) {
        hf_free(alloc, cache->ring);
        return HF_ENOMEM;
    }
    return 0;
}

void hf_portcache_free(struct hf_portcache *cache)
{
    hf_free(cache->alloc, cache->ring);
    hf_map_free(&cache->map);
}

static bool matches(const struct hf_map_node *node, const void *key)
{
    const struct hf_portcache_key *a =
        &hf_container_of(node, const struct hf_portcache_entry, node)->key;
    const struct hf_portcache_key *b = key;

    return a->prog == b->prog && a->vers == b->vers && a->transport == b->transport &&
           hf_addr_same_host(&a->host, &b->host);
}

static uint64_t hash_of(const struct hf_portcache *cache, const struct hf_portcache_key *key)
{
    uint64_t host = hf_hash(&cache->hash_key, key->host.bytes, sizeof(key->host.bytes));

    return hf_hash_u64(&cache->hash_key, host,
                       (uint64_t)key->prog << 32 | key->vers << 8 | (uint64_t)key->transport);
}

static struct hf_portcache_entry *find(struct hf_portcache *cache,
                                       const struct hf_portcache_key *key)
{
    struct hf_map_node *node = hf_map_find(&cache->map, hash_of(cache, key), matches, key);

    return node ? hf_container_of(node, struct hf_portcache_entry, node) : NULL;
}

static void drop(struct hf_portcache *cache, struct hf_portcache_entry *entry)
{
    hf_map_remove(&cache->map, &entry->node);
    entry->port = 0;
}

uint16_t hf_portcache_get(struct hf_portcache *cache, const struct hf_portcache_key *key,
                          uint64_t now_ms)
{
    struct hf_portcache_entry *entry = find(cache, key);

    if (!entry)
        return 0;
    if (now_ms - entry->born_ms > HF_PORTCACHE_KEEP_MS) {
        drop(cache, entry);
        return 0;
    }
    return entry->port;
}

void hf_portcache_put(struct hf_portcache *cache, const struct hf_portcache_key *key, uint16_t port,
                      uint64_t now_ms)
{
    struct hf_portcache_entry *entry = find(cache, key);

    if (!entry) {
        entry = &cache->ring[cache->next];
        cache->next = (cache->next + 1) % HF_PORTCACHE_ENTRIES;
        if (entry->port)
            drop(cache, entry);
        entry->key = *key;
        hf_map_insert(&cache->map, &entry->node, hash_of(cache, key));
    }
    entry->port = port;
    entry->born_ms = now_ms;
}

void hf_portcache_forget(struct hf_portcache *cache, const struct hf_portcache_key *key)
{
    struct hf_portcache_entry *entry = find(cache, key);

    if (entry)
        drop(cache, entry);
}
