#include "rpc/dupcache.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "rpc/program.h"

static_assert(sizeof(struct hf_dup) == 128 && offsetof(struct hf_dup, small) == 64 &&
                  offsetof(struct hf_dup_set, entries) == 64,
              "cache lines");
static_assert(HF_DUP_SETS * sizeof(struct hf_dup_set) <= HF_DUP_BYTES, "one huge page");

int hf_dupcache_init(struct hf_dupcache *cache, const struct hf_hash_key *key,
                     const struct hf_alloc *alloc)
{
    *cache = (struct hf_dupcache){.key = *key, .alloc = alloc};
    cache->sets = hf_calloc(alloc, 1, HF_DUP_BYTES);
    return cache->sets ? 0 : HF_ENOMEM;
}

void hf_dupcache_free(struct hf_dupcache *cache)
{
    for (size_t i = 0; i < HF_DUP_ENTRIES; i++)
        hf_free(cache->alloc, cache->sets[i / HF_DUP_WAYS].entries[i % HF_DUP_WAYS].large);
    hf_free(cache->alloc, cache->sets);
}

static struct hf_dup_set *set_of(const struct hf_dupcache *cache, uint64_t hash)
{
    return &cache->sets[hash % HF_DUP_SETS];
}

/* Other bits than those that chose the set; never 0, which marks a free place. */
static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32) | 1;
}

/* Host and bytes together, so that the same bytes from many (forged) hosts do not share a set. */
uint64_t hf_dupcache_hash(const struct hf_dupcache *cache, const struct hf_addr *peer,
                          struct hf_bytes message)
{
    uint64_t host[2];
    uint64_t hash = hf_hash(&cache->key, message.data, message.len);
    const struct hf_dup_set *set;
    const struct hf_dup *next;

    memcpy(host, peer->bytes, sizeof(host));
    hash = hf_hash_u64(&cache->key, hash ^ host[0], host[1]);
    set = set_of(cache, hash);
    next = &set->entries[set->oldest];
    __builtin_prefetch(next, 1);
    __builtin_prefetch(next->small, 1);
    return hash;
}

/* The same hash is not yet the same request: host and transaction id must agree as well. */
static struct hf_dup *find(struct hf_dup_set *set, uint64_t hash, const struct hf_addr *peer,
                           uint32_t xid)
{
    uint32_t tag = tag_of(hash);

    for (unsigned way = 0; way < HF_DUP_WAYS; way++) {
        struct hf_dup *entry;

        if (set->tags[way] != tag)
            continue;
        entry = &set->entries[way];
        if (entry->hash == hash && entry->xid == xid && hf_addr_same_host(&entry->peer, peer))
            return entry;
    }
    return NULL;
}

/* What an entry no longer in use left behind. */
static void let_go(struct hf_dupcache *cache, struct hf_dup *entry)
{
    hf_free(cache->alloc, entry->large);
    if (entry->call)
        entry->call->dup = NULL; /* it goes on, and its answer is not kept */
    entry->large = NULL;
    entry->call = NULL;
}

void hf_dup_forget(struct hf_dupcache *cache, struct hf_dup *entry)
{
    struct hf_dup_set *set = set_of(cache, entry->hash);

    set->tags[entry - set->entries] = 0;
    let_go(cache, entry);
}

/* The oldest place of the set, made free. */
static struct hf_dup *claim(struct hf_dupcache *cache, struct hf_dup_set *set, uint64_t hash)
{
    unsigned way = set->oldest;
    struct hf_dup *entry = &set->entries[way];

    set->oldest = way + 1 < HF_DUP_WAYS ? way + 1 : 0;
    set->tags[way] = tag_of(hash);
    let_go(cache, entry);
    return entry;
}

enum hf_dup_verdict hf_dupcache_check(struct hf_dupcache *cache, uint64_t now_ms,
                                      const struct hf_addr *peer, uint32_t xid, uint64_t hash,
                                      struct hf_dup **out)
{
    struct hf_dup_set *set = set_of(cache, hash);
    struct hf_dup *entry = find(set, hash, peer, xid);

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
    for (size_t i = 0; i < HF_DUP_SETS; i++) {
        struct hf_dup_set *set = &cache->sets[i];

        memset(set->tags, 0, sizeof(set->tags));
        for (unsigned way = 0; way < HF_DUP_WAYS; way++)
            let_go(cache, &set->entries[way]);
    }
}
