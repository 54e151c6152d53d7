/*
 * The duplicate request cache. A client that hears nothing sends its request again; an UNLOCK or a
 * LOCK done twice could undo what came between. So the answer to a request that must be done only
 * once is kept for a while, and given again to the same request.
 *
 * The same request: same host, same bytes (transaction id, program, version, procedure, arguments).
 * The bytes are compared through a keyed 64-bit hash, which no peer can aim. The port is left out,
 * because a client that reconnects over TCP comes from another one.
 *
 * The entries are a ring: the newest takes the place of the oldest of all, so they are used one
 * after the other and the next one is in the processor's cache before it is needed. An index leads
 * to them. The hash chooses one of its sets, a cache line of small slots, each with the place of an
 * entry and a part of its hash; so a request never seen before, as nearly all are, costs a look at
 * that line. A slot may be stale, because the ring has gone on: the entry tells. None is used
 * beyond the window.
 */
#ifndef HF_RPC_DUPCACHE_H
#define HF_RPC_DUPCACHE_H

#include <stdint.h>

#include "base/addr.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"

enum {
    HF_DUP_ENTRIES = 16384, /* a power of two: 2 MiB of entries, a huge page */
    HF_DUP_SETS = 2048,
    HF_DUP_WAYS = 15, /* and which is next: one cache line; in all, twice the entries */
    HF_DUP_WINDOW_MS = 120 * 1000, /* beyond the longest retransmission pause of known clients */
    HF_DUP_INLINE = 64,            /* answers up to this size need no allocation */
};

struct hf_rpc_call;

/* Two cache lines: what a look needs, and the answer. */
struct hf_dup {
    uint64_t hash; /* 0: not in use */
    struct hf_addr peer;
    uint32_t xid;
    uint32_t len; /* of the answer; 0 while there is none yet */
    uint64_t born_ms;
    struct hf_rpc_call *call; /* the call being worked on; NULL once answered */
    uint8_t *large;           /* an answer longer than fits inline */
    uint8_t small[HF_DUP_INLINE];
};

struct hf_dup_set {
    uint32_t slots[HF_DUP_WAYS]; /* the entry's place, and above it the top bits of its hash */
    uint32_t next;               /* way to be used next */
};

struct hf_dupcache {
    struct hf_dup *entries;
    struct hf_dup_set *sets;
    uint32_t next; /* place in the ring to be used next */
    struct hf_hash_key key;
    const struct hf_alloc *alloc;
};

enum hf_dup_verdict {
    HF_DUP_NEW,      /* entry is fresh: do the work, then hf_dup_answer() or hf_dup_forget() */
    HF_DUP_UNDERWAY, /* entry->call is still at work on it */
    HF_DUP_ANSWERED, /* hf_dup_reply(entry) is the answer to send again */
};

int hf_dupcache_init(struct hf_dupcache *cache, const struct hf_hash_key *key,
                     const struct hf_alloc *alloc);
void hf_dupcache_free(struct hf_dupcache *cache);

/* Identifies the request; and has the set fetched that hf_dupcache_check() will look into. */
uint64_t hf_dupcache_hash(const struct hf_dupcache *cache, const struct hf_addr *peer,
                          struct hf_bytes message);

enum hf_dup_verdict hf_dupcache_check(struct hf_dupcache *cache, uint64_t now_ms,
                                      const struct hf_addr *peer, uint32_t xid, uint64_t hash,
                                      struct hf_dup **out);

/* Keeps the answer. Without memory for it the entry is forgotten, as if it had made way. */
void hf_dup_answer(struct hf_dupcache *cache, struct hf_dup *entry, struct hf_bytes reply);
void hf_dup_forget(struct hf_dupcache *cache, struct hf_dup *entry);

/* Forgets every answer; requests under way go on. */
void hf_dupcache_clear(struct hf_dupcache *cache);

static inline struct hf_bytes hf_dup_reply(const struct hf_dup *entry)
{
    return hf_bytes(entry->large ? entry->large : entry->small, entry->len);
}

#endif
