#include "rpc/dupcache.h"

#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "rpc/program.h"

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

/*
 * Host and bytes together, so that the same bytes from many (forged) hosts do not share a set.
 * Never 0, which marks a free place.
 */
static uint64_t tag_of(const struct hf_dupcache *cache, const struct hf_addr *peer,
                       struct hf_bytes message)
{
    uint64_t host[2];
    uint64_t tag;

    memcpy(host, peer->bytes, sizeof(host));
    tag = hf_hash_u64(&cache->key, hf_hash(&cache->key, message.data, message.len) ^ host[0],
                      host[1]);
    return tag ? tag : 1;
}

static struct hf_dup *entry_at(struct hf_dupcache *cache, const struct hf_dup_set *set,
                               unsigned way)
{
    return &cache->entries[(size_t)(set - cache->sets) * HF_DUP_WAYS + way];
}

/* The same hash is not yet the same request: host and transaction id must agree as well. */
static struct hf_dup *find(struct hf_dupcache *cache, const struct hf_dup_set *set, uint64_t tag,
                           const struct hf_addr *peer, uint32_t xid)
{
    for (unsigned way = 0; way < HF_DUP_WAYS; way++) {
        struct hf_dup *entry;

        if (set->tags[way] != tag)
            continue;
        entry = entry_at(cache, set, way);
        if (entry->xid == xid && hf_addr_same_host(&entry->peer, peer))
            return entry;
    }
    return NULL;
}

static uint64_t *tag_at(struct hf_dupcache *cache, const struct hf_dup *entry)
{
    size_t i = (size_t)(entry - cache->entries);

    return &cache->sets[i / HF_DUP_WAYS].tags[i % HF_DUP_WAYS];
}

void hf_dup_forget(struct hf_dupcache *cache, struct hf_dup *entry)
{
    *tag_at(cache, entry) = 0;
    hf_free(cache->alloc, entry->large);
    if (entry->call)
        entry->call->dup = NULL; /* it goes on, and its answer is not kept */
    entry->large = NULL;
    entry->call = NULL;
}

/* The oldest place of the set, made free. */
static struct hf_dup *claim(struct hf_dupcache *cache, struct hf_dup_set *set, uint64_t tag)
{
    unsigned way = set->oldest;
    struct hf_dup *entry = entry_at(cache, set, way);

    set->oldest = (way + 1) % HF_DUP_WAYS;
    if (set->tags[way])
        hf_dup_forget(cache, entry);
    set->tags[way] = tag;
    return entry;
}

enum hf_dup_verdict hf_dupcache_check(struct hf_dupcache *cache, uint64_t now_ms,
                                      const struct hf_addr *peer, uint32_t xid,
                                      struct hf_bytes message, struct hf_dup **out)
{
    uint64_t tag = tag_of(cache, peer, message);
    struct hf_dup_set *set = &cache->sets[tag % HF_DUP_SETS];
    struct hf_dup *entry = find(cache, set, tag, peer, xid);

    if (entry && now_ms - entry->born_ms <= HF_DUP_WINDOW_MS) {
        *out = entry;
        return entry->call ? HF_DUP_UNDERWAY : HF_DUP_ANSWERED;
    }
    if (entry)
        hf_dup_forget(cache, entry);
    entry = claim(cache, set, tag);
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
    for (size_t i = 0; i < HF_DUP_ENTRIES; i++) {
        struct hf_dup *entry = &cache->entries[i];
        if (*tag_at(cache, entry))
            hf_dup_forget(cache, entry);
    }
}
