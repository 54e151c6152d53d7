#include "rpc/dupcache.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "rpc/program.h"

static_assert(sizeof(struct hf_dup) == 128 && sizeof(struct hf_dup_set) == 64, "cache lines");

enum {
    PLACE_MASK = HF_DUP_ENTRIES - 1,
    LOOKS = 4,        /* how many entries are examined to find one that is out of date */
    LOOKS_MAX = 1024, /* how many entries are examined to find a host with more than its share */
};

/* Makes a number of 64 bits from a transport, one by which no two of our addresses differ. */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

#define SLOT_USED 0x80000000U /* set in each slot in use, so that no used slot is 0 */

int hf_dupcache_init(struct hf_dupcache *cache, const struct hf_hash_key *key,
                     const struct hf_alloc *alloc,
                     void (*emptied)(void *ctx, struct hf_dup_host *host), void *ctx)
{
    *cache = (struct hf_dupcache){.key = *key, .alloc = alloc, .emptied = emptied, .ctx = ctx};
    cache->sets = hf_calloc(alloc, HF_DUP_SETS, sizeof(cache->sets[0]));
    if (!cache->sets)
        return HF_ENOMEM;
    /* Do not clear the entries: memory then is taken only for entries that are used. */
    cache->entries = hf_malloc(alloc, HF_DUP_ENTRIES * sizeof(cache->entries[0]));
    if (!cache->entries) {
        hf_free(alloc, cache->sets);
        return HF_ENOMEM;
    }
    return 0;
}

void hf_dupcache_free(struct hf_dupcache *cache)
{
    for (uint32_t i = 0; i < cache->n_used; i++)
        hf_free(cache->alloc, cache->entries[i].large);
    hf_free(cache->alloc, cache->entries);
    hf_free(cache->alloc, cache->sets);
}

static struct hf_dup_set *set_of(const struct hf_dupcache *cache, uint64_t hash)
{
    return &cache->sets[hash % HF_DUP_SETS];
}

/* Returns the slot value for an entry with this hash, without the entry's position. It holds hash
 * bits other than those that choose the set. */
static uint32_t slot_of(uint64_t hash)
{
    return ((uint32_t)(hash >> 32) & ~(uint32_t)PLACE_MASK) | SLOT_USED;
}

/*
 * Hashes the host together with the bytes, so that equal bytes from many forged hosts do not fall
 * into one set. Our address is combined with the host's by XOR: it tells two of our addresses apart
 * for one host, and an entry counts for its own host only.
 */
uint64_t hf_dupcache_hash(const struct hf_dupcache *cache, const struct hf_dup_host *host,
                          const struct hf_dup_path *path, struct hf_bytes message)
{
    uint64_t peer[2] = {0};
    uint64_t local[2];
    uint64_t hash = hf_hash(&cache->key, message.data, message.len);

    if (!host->roams)
        memcpy(peer, path->peer->bytes, sizeof(peer));
    memcpy(local, path->local->bytes, sizeof(local));
    hash = hf_hash_u64(&cache->key, hash ^ peer[0] ^ local[0] ^ path->transport * SPREAD,
                       peer[1] ^ local[1]);
    __builtin_prefetch(set_of(cache, hash), 1);
    return hash ? hash : 1;
}

/* True if the requests of these hosts may be those of one client. */
static bool is_alike(const struct hf_dup_host *a, const struct hf_dup_host *b)
{
    return a == b || (a->roams && b->roams);
}

/* Finds an entry. Equal hashes are not proof: host and transaction id must be equal as well. */
static struct hf_dup *find(const struct hf_dupcache *cache, const struct hf_dup_set *set,
                           uint64_t hash, const struct hf_dup_host *host, uint32_t xid)
{
    uint32_t slot = slot_of(hash);

    for (unsigned way = 0; way < HF_DUP_WAYS; way++) {
        struct hf_dup *entry;

        if (((set->slots[way] ^ slot) & ~(uint32_t)PLACE_MASK) != 0)
            continue;
        entry = &cache->entries[set->slots[way] & PLACE_MASK];
        if (entry->hash == hash && entry->xid == xid && is_alike(entry->host, host))
            return entry;
    }
    return NULL;
}

/* Forgets an entry's answer. The entry stays in its host's list until it is replaced. */
void hf_dup_forget(struct hf_dupcache *cache, struct hf_dup *entry)
{
    if (entry->hash == 0)
        return;
    set_of(cache, entry->hash)->slots[entry->way] = 0;
    if (entry->large)
        hf_free(cache->alloc, entry->large);
    if (entry->call)
        entry->call->dup = NULL; /* the request goes on, but the cache will not keep its answer */
    entry->hash = 0;
    entry->large = NULL;
    entry->call = NULL;
}

/* ---- the entries of one host ---- */

static void append(struct hf_dupcache *cache, struct hf_dup_host *host, uint32_t place)
{
    if (host->n++ == 0) {
        host->oldest = place;
        cache->n_hosts++;
    } else {
        cache->entries[host->newest].newer = place;
    }
    host->newest = place;
    if (!cache->largest || host->n > cache->largest->n)
        cache->largest = host;
    cache->entries[place].host = host;
}

/* Takes the host's oldest entry away from the host. The entry after it will be taken next time, so
 * this prefetches that entry, the set of its slot, and the entry that follows. */
static uint32_t take_oldest(struct hf_dupcache *cache, struct hf_dup_host *host)
{
    uint32_t place = host->oldest;
    struct hf_dup *entry = &cache->entries[place];

    hf_dup_forget(cache, entry);
    if (--host->n == 0) {
        cache->n_hosts--;
        if (cache->largest == host)
            cache->largest = NULL;
        return place;
    }
    host->oldest = entry->newer;
    if (host->n > 1) {
        const struct hf_dup *following = &cache->entries[host->oldest];
        const struct hf_dup *after = &cache->entries[following->newer & PLACE_MASK];

        __builtin_prefetch(set_of(cache, following->hash), 1);
        __builtin_prefetch(following->small, 1);
        __builtin_prefetch(after, 1);
    }
    return place;
}

/* Returns a host with more than this share of the entries, or NULL if there seems to be none.
 * Searches are rare: the host that was found is remembered, and gives up entries until it has no
 * more than its share. */
static struct hf_dup_host *find_large(struct hf_dupcache *cache, uint32_t share)
{
    for (unsigned i = 0; i < LOOKS_MAX && (!cache->largest || cache->largest->n <= share); i++) {
        cache->largest = cache->entries[cache->hand].host;
        cache->hand = (cache->hand + 1) & PLACE_MASK;
    }
    return cache->largest && cache->largest->n > share ? cache->largest : NULL;
}

/* Finds the host that gives up an entry for this host, when all entries are in use. */
static struct hf_dup_host *find_giver(struct hf_dupcache *cache, struct hf_dup_host *host,
                                      uint64_t now_ms)
{
    uint32_t share = HF_DUP_ENTRIES / (cache->n_hosts + (host->n == 0));
    struct hf_dup_host *other;

    for (unsigned i = 0; i < LOOKS; i++) {
        other = cache->entries[cache->hand].host;

        cache->hand = (cache->hand + 1) & PLACE_MASK;
        if (now_ms - cache->entries[other->oldest].born_ms > HF_DUP_WINDOW_MS)
            return other;
    }
    other = host->n < share ? find_large(cache, share) : NULL;
    if (other)
        return other;
    return host->n > 0 ? host : cache->entries[cache->hand].host;
}

/* Finds an entry for a request of the host and returns its position. */
static uint32_t claim(struct hf_dupcache *cache, struct hf_dup_host *host, uint64_t now_ms)
{
    struct hf_dup_host *giver;
    uint32_t place;

    if (host->n >= HF_DUP_HOST_MAX)
        return take_oldest(cache, host);
    if (cache->n_used < HF_DUP_ENTRIES) {
        cache->entries[cache->n_used].call = NULL;
        cache->entries[cache->n_used].large = NULL;
        return cache->n_used++;
    }
    giver = find_giver(cache, host, now_ms);
    place = take_oldest(cache, giver);
    if (giver->n == 0 && giver != host && cache->emptied)
        cache->emptied(cache->ctx, giver);
    return place;
}

/* Returns a free slot of the set. If there is none, which is rare, it frees the slot of the entry
 * whose host has the most entries. */
static uint32_t free_way(struct hf_dupcache *cache, struct hf_dup_set *set)
{
    struct hf_dup *victim = NULL;
    uint32_t way = set->next;

    for (unsigned i = 0; i < HF_DUP_WAYS; i++) {
        struct hf_dup *entry;

        if (set->slots[way] == 0)
            return way;
        entry = &cache->entries[set->slots[way] & PLACE_MASK];
        if (!victim || entry->host->n > victim->host->n)
            victim = entry;
        way = way + 1 < HF_DUP_WAYS ? way + 1 : 0;
    }
    way = victim->way;
    hf_dup_forget(cache, victim);
    return way;
}

enum hf_dup_verdict hf_dupcache_check(struct hf_dupcache *cache, uint64_t now_ms,
                                      struct hf_dup_host *host, uint32_t xid, uint64_t hash,
                                      struct hf_dup **out)
{
    struct hf_dup_set *set = set_of(cache, hash);
    struct hf_dup *entry = find(cache, set, hash, host, xid);
    uint32_t place;

    if (entry && now_ms - entry->born_ms <= HF_DUP_WINDOW_MS) {
        *out = entry;
        return entry->call ? HF_DUP_IN_FLIGHT : HF_DUP_ANSWERED;
    }
    if (entry)
        hf_dup_forget(cache, entry);
    place = claim(cache, host, now_ms);
    append(cache, host, place);
    entry = &cache->entries[place];
    entry->way = free_way(cache, set);
    set->slots[entry->way] = slot_of(hash) | place;
    set->next = entry->way + 1 < HF_DUP_WAYS ? entry->way + 1 : 0;
    entry->hash = hash;
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
    for (uint32_t i = 0; i < cache->n_used; i++)
        hf_dup_forget(cache, &cache->entries[i]);
}
