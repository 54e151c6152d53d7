#include "rpc/dupcache.h"

#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "rpc/program.h"

struct key {
    const struct hf_addr *peer;
    uint32_t xid;
};

static bool matches(const struct hf_map_node *node, const void *key)
{
    const struct hf_dup *entry = hf_container_of(node, const struct hf_dup, node);
    const struct key *k = key;

    return entry->xid == k->xid && hf_addr_same_host(&entry->peer, k->peer);
}

int hf_dupcache_init(struct hf_dupcache *cache, const struct hf_hash_key *key,
                     const struct hf_alloc *alloc)
{
    *cache = (struct hf_dupcache){.key = *key, .alloc = alloc};
    cache->ring = hf_calloc(alloc, HF_DUP_ENTRIES, sizeof(cache->ring[0]));
    if (!cache->ring)
        return HF_ENOMEM;
    if (hf_map_init(&cache->map, alloc) < 0) {
        hf_free(alloc, cache->ring);
        return HF_ENOMEM;
    }
    return 0;
}

void hf_dupcache_free(struct hf_dupcache *cache)
{
    for (uint32_t i = 0; i < HF_DUP_ENTRIES; i++)
        hf_free(cache->alloc, cache->ring[i].large);
    hf_free(cache->alloc, cache->ring);
    hf_map_free(&cache->map);
}

static bool in_use(const struct hf_dup *entry)
{
    return entry->peer.family != HF_ADDR_NONE;
}

void hf_dup_forget(struct hf_dupcache *cache, struct hf_dup *entry)
{
    hf_map_remove(&cache->map, &entry->node);
    hf_free(cache->alloc, entry->large);
    if (entry->call)
        entry->call->dup = NULL; /* it goes on, and its answer is not kept */
    entry->large = NULL;
    entry->call = NULL;
    entry->peer.family = HF_ADDR_NONE;
}

/* The oldest place in the ring, made free. */
static struct hf_dup *claim(struct hf_dupcache *cache)
{
    struct hf_dup *entry = &cache->ring[cache->next];

    cache->next = (cache->next + 1) % HF_DUP_ENTRIES;
    if (in_use(entry))
        hf_dup_forget(cache, entry);
    return entry;
}

/* Host and bytes together, so that the same bytes from many (forged) hosts do not share a bucket.
 */
static uint64_t hash_of(const struct hf_dupcache *cache, const struct hf_addr *peer,
                        struct hf_bytes message)
{
    uint64_t host[2];

    memcpy(host, peer->bytes, sizeof(host));
    return hf_hash_u64(&cache->key, hf_hash(&cache->key, message.data, message.len) ^ host[0],
                       host[1]);
}

enum hf_dup_verdict hf_dupcache_check(struct hf_dupcache *cache, uint64_t now_ms,
                                      const struct hf_addr *peer, uint32_t xid,
                                      struct hf_bytes message, struct hf_dup **out)
{
    struct key key = {peer, xid};
    uint64_t hash = hash_of(cache, peer, message);
    struct hf_map_node *node = hf_map_find(&cache->map, hash, matches, &key);
    struct hf_dup *entry;

    if (node) {
        entry = hf_container_of(node, struct hf_dup, node);
        if (now_ms - entry->born_ms <= HF_DUP_WINDOW_MS) {
            *out = entry;
            return entry->call ? HF_DUP_UNDERWAY : HF_DUP_ANSWERED;
        }
        hf_dup_forget(cache, entry);
    }
    entry = claim(cache);
    entry->peer = *peer;
    entry->xid = xid;
    entry->len = 0;
    entry->born_ms = now_ms;
    hf_map_insert(&cache->map, &entry->node, hash);
    *out = entry;
    return HF_DUP_NEW;
}

void hf_dup_answer(struct hf_dupcache *cache, struct hf_dup *entry, struct hf_bytes reply)
{
    uint8_t *room = entry->small;

    HF_ASSERT(entry->len == 0 && reply.len > 0);
    if (reply.len > sizeof(entry->small)) {
        room = entry->large = hf_malloc(cache->alloc, reply.len);
        if (!room) {
            hf_dup_forget(cache, entry);
            return;
        }
    }
    memcpy(room, reply.data, reply.len);
    entry->len = (uint32_t)reply.len;
    entry->call = NULL;
}
