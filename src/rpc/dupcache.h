/*
 * The duplicate request cache. A client that gets no answer sends its request again, and an UNLOCK
 * or a LOCK executed twice could undo a request made in between. For a while the cache keeps the
 * answers to requests that must be executed only once, and gives such an answer again when the
 * request is repeated.
 *
 * A request is a repeat if it comes from the host of an earlier request, to the same address of
 * ours by the same transport, and has equal bytes (transaction id, program, version, procedure,
 * arguments). The bytes are compared through a keyed 64-bit hash, for which a client cannot
 * construct collisions. The port is not compared, because a client that reconnects over TCP comes
 * from another port; nor is the address of a host that uses several at a time.
 *
 * Each host has its own entries, in the order of their age. While the cache has room, a host gets
 * more of it, up to HF_DUP_HOST_MAX; beyond that its newest entry replaces its oldest. When all
 * entries are in use, a host with less than an equal share gets an entry that is out of date, or
 * the oldest entry of a host with more than its share. So a host that floods the cache pushes out
 * its own answers and not those of others (SEC-08).
 *
 * An index leads to the entries: the hash chooses a set, one cache line of small slots, each with
 * the position of an entry and a part of its hash. A request that was never seen before, as nearly
 * all are, costs one access to that line. Entries older than the window are ignored.
 */
#ifndef HF_RPC_DUPCACHE_H
#define HF_RPC_DUPCACHE_H

#include <stdint.h>

#include "base/addr.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/transport.h"

enum {
    HF_DUP_ENTRIES = 65536, /* the number of entries in the cache; a power of two */
    /* How many entries one host may have: 2 MiB, which stay in the processor's caches. */
    HF_DUP_HOST_MAX = 16384,
    HF_DUP_SETS = 8192,
    /* How many slots a set has; together with `next` they fill one cache line. In all there are
     * nearly twice as many slots as entries. */
    HF_DUP_WAYS = 15,
    HF_DUP_WINDOW_MS =
        120 * 1000,     /* longer than the longest pause between retransmissions of known clients */
    HF_DUP_INLINE = 72, /* an answer up to this size needs no memory of its own */
};

struct hf_rpc_call;

/* The way that a request has come. */
struct hf_dup_path {
    const struct hf_addr *peer, *local;
    enum hf_transport transport;
};

/* The entries of one host, a list in the order of their age. The owner of this structure keeps it
 * while n is not 0. */
struct hf_dup_host {
    uint32_t oldest, newest; /* positions of the host's oldest and newest entries; valid if n > 0 */
    uint32_t n;
    /* The host's address may be one of several that a client uses at a time (TRK-02): what one of
     * these addresses has sent is known from all of them. */
    bool roams;
};

/* An entry of the cache. It takes two cache lines, and all that a lookup needs is in the first. */
struct hf_dup {
    uint64_t hash; /* the hash of the request; 0: the entry is forgotten */
    struct hf_dup_host *host;
    uint32_t newer; /* the host's next entry by age; not valid in the host's newest entry */
    uint32_t way;   /* the entry's slot number in its set */
    uint32_t xid;
    uint32_t len; /* the length of the answer; 0: there is no answer yet */
    uint64_t born_ms;
    struct hf_rpc_call *call; /* the request in progress; NULL: it is answered */
    uint8_t *large;           /* an answer that does not fit into `small` */
    uint8_t small[HF_DUP_INLINE];
};

struct hf_dup_set {
    /* Each slot has the position of an entry and, in its upper bits, a part of the entry's hash; 0:
     * the slot is free. */
    uint32_t slots[HF_DUP_WAYS];
    uint32_t next; /* the slot at which the search for a free one begins */
};

struct hf_dupcache {
    struct hf_dup *entries;
    struct hf_dup_set *sets;
    uint32_t n_used; /* entries below this position have been used at least once */
    /* where the search for an entry to replace goes on when all entries are in use */
    uint32_t hand;
    uint32_t n_hosts; /* how many hosts have entries */
    /* The host that has, or lately had, the most entries; NULL: unknown. */
    struct hf_dup_host *largest;
    struct hf_hash_key key;
    const struct hf_alloc *alloc;
    /* Called when a host has lost its last entry to another host. */
    void (*emptied)(void *ctx, struct hf_dup_host *host);
    void *ctx;
};

enum hf_dup_verdict {
    /* The entry is new: execute the request, then call hf_dup_answer() or hf_dup_forget(). */
    HF_DUP_NEW,
    HF_DUP_IN_FLIGHT, /* the earlier request, entry->call, is still in progress */
    HF_DUP_ANSWERED,  /* the earlier request was answered; send hf_dup_reply(entry) again */
};

int hf_dupcache_init(struct hf_dupcache *cache, const struct hf_hash_key *key,
                     const struct hf_alloc *alloc,
                     void (*emptied)(void *ctx, struct hf_dup_host *host), void *ctx);
void hf_dupcache_free(struct hf_dupcache *cache);

/* Computes the hash that identifies a request, and prefetches the set that hf_dupcache_check() will
 * search. The same bytes by another transport, or to another address of ours, are another request,
 * because they come from another client (NLM-07). */
uint64_t hf_dupcache_hash(const struct hf_dupcache *cache, const struct hf_dup_host *host,
                          const struct hf_dup_path *path, struct hf_bytes message);

enum hf_dup_verdict hf_dupcache_check(struct hf_dupcache *cache, uint64_t now_ms,
                                      struct hf_dup_host *host, uint32_t xid, uint64_t hash,
                                      struct hf_dup **out);

/* hf_dup_answer() keeps the answer to a request; if memory runs out, it calls hf_dup_forget(),
 * after which a repeat of the request counts as new. */
void hf_dup_answer(struct hf_dupcache *cache, struct hf_dup *entry, struct hf_bytes reply);
void hf_dup_forget(struct hf_dupcache *cache, struct hf_dup *entry);

/* Forgets all answers; requests in progress go on. */
void hf_dupcache_clear(struct hf_dupcache *cache);

static inline struct hf_bytes hf_dup_reply(const struct hf_dup *entry)
{
    return hf_bytes(entry->large ? entry->large : entry->small, entry->len);
}

#endif
