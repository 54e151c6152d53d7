#include "rpc/dupcache.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "rpc/program.h"

static_assert(sizeof(struct hf_dup) == 128 && offsetof(struct hf_dup, small) == 64 &&
                  sizeof(struct hf_dup_set) == 64,
              "cache lines");

enum { PLACE_MASK = HF_DUP_ENTRIES - 1 };

int hf_dupcache_init(struct hf_dupcache *cache, const struct hf_hash_key *key,
                     const struct hf_alloc *alloc)
{
    *cache = (struct hf_dupcache){.key = *key, .alloc = alloc};
    cache->sets = hf_calloc(alloc, HF_DUP_SETS, sizeof(cache->sets[0]));
    if (!cache->sets)
        return HF_ENOMEM;
    cache->entries = hf_calloc(alloc, HF_DUP_ENTRIES, sizeof(cache->entries[0]));
    if (!cache->entries) {
        hf_free(alloc, cache->sets);
        return HF_ENOMEM;
    }
    return 0;
}

void hf_dupcache_free(struct hf_dupcache *cache)
{
    for (uint32_t i = 0; i < HF_DUP_ENTRIES; i++)
        hf_free(cache->alloc, cache->entries[i].large);
    hf_free(cache->alloc, cache->entries);
    hf_free(cache->alloc, cache->sets);
}

static struct hf_dup_set *set_of(const struct hf_dupcache *cache, uint64_t hash)
{
    return &cache->sets[hash % HF_DUP_SETS];
}

/* A slot for an entry with this hash, at whatever place: other bits than those of the set. */
static uint32_t slot_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32) & ~(uint32_t)PLACE_MASK;
}

/* Host and bytes together, so that the same bytes from many (forged) hosts do not share a set. */
uint64_t hf_dupcache_hash(const struct hf_dupcache *cache, const struct hf_addr *peer,
                          struct hf_bytes message)
{
    uint64_t host[2];
    uint64_t hash = hf_hash(&cache->key, message.data, message.len);

    memcpy(host, peer->bytes, sizeof(host));
    hash = hf_hash_u64(&cache->key, hash ^ host[0], host[1]);
    __builtin_prefetch(set_of(cache, hash), 1);
    return hash ? hash : 1;
}

/* The same hash is not yet the same request: host and transaction id must agree as well. */
static struct hf_dup *find(const struct hf_dupcache *cache, const struct hf_dup_set *set,
                           uint64_t hash, const struct hf_addr *peer, uint32_t xid)
{
    uint32_t slot = slot_of(hash);

    for (unsigned way = 0; way < HF_DUP_WAYS; way++) {
        struct hf_dup *entry;

        if (((set->slots[way] ^ slot) & ~(uint32_t)PLACE_MASK) != 0)
            continue;
        entry = &cache->entries[set->slots[way] & PLACE_MASK];
        if (entry->hash == hash && entry->xid == xid && hf_addr_same_host(&entry->peer, peer))
            return entry;
    }
    return NULL;
}

void hf_dup_forget(struct hf_dupcache *cache, struct hf_dup *entry)
{
    hf_free(cache->alloc, entry->large);
    if (entry->call)
        entry->call->dup = NULL; /* it goes on, and its answer is not kept */
    entry->hash = 0;
    entry->large = NULL;
    entry->call = NULL;
}

/* The oldest entry of all, made free, and a slot that leads to it. */
static struct hf_dup *claim(struct hf_dupcache *cache, struct hf_dup_set *set, uint64_t hash)
{
    uint32_t place = cache->next;
    struct hf_dup *entry = &cache->entries[place];
    const struct hf_dup *following;

    cache->next = (place + 1) & PLACE_MASK;
    following = &cache->entries[cache->next];
    __builtin_prefetch(following, 1);
    __builtin_prefetch(following->small, 1);
    set->slots[set->next] = slot_of(hash) | place;
    set->next = set->next + 1 < HF_DUP_WAYS ? set->next + 1 : 0;
    hf_dup_forget(cache, entry);
    return entry;
}

enum hf_dup_verdict hf_dupcache_check(struct hf_dupcache *cache, uint64_t now_ms,
                                      const struct hf_addr *peer, uint32_t xid, uint64_t hash,
                                      struct hf_dup **out)
{
    struct hf_dup_set *set = set_of(cache, hash);
    struct hf_dup *entry = find(cache, set, hash, peer, xid);

    if (entry && now_ms - entry->born_ms <= HF_DUP_WINDOW_MS) {
        *out = entry;
        return entry->call ? HF_DUP_UNDERWAY : HF_DUP_ANSWERED;
    }
    if (entry)
        hf_dup_forget(cache, entry);
    entry = claim(cache, set, hash);
    entry->hash = hash;
    entry->peer = *peer;
    entry->xid = xid;
    entry->len = 0;
    entry->born_ms = now_ms;
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

void hf_dupcache_clear(struct hf_dupcache *cache)
{
    for (uint32_t i = 0; i < HF_DUP_ENTRIES; i++)
        hf_dup_forget(cache, &cache->entries[i]);
}
