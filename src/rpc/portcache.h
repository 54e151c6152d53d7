/*
 * Caches the ports of programs on other hosts, as their rpcbinds answered, for a while, so that a
 * GRANTED callback needs no lookup. The cache is a ring of fixed size in which the newest entry
 * replaces the oldest.
 */
#ifndef HF_RPC_PORTCACHE_H
#define HF_RPC_PORTCACHE_H

#include <stdint.h>

#include "base/addr.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "rpc/program.h"

enum {
    HF_PORTCACHE_ENTRIES = 4096,
    HF_PORTCACHE_KEEP_MS = 10 * 60 * 1000,
};

struct hf_portcache_key {
    /* the host on which the program runs; the port in this address is ignored */
    struct hf_addr host;
    uint32_t prog;
    uint32_t vers;
    enum hf_transport transport;
};

struct hf_portcache_entry;

struct hf_portcache {
    struct hf_portcache_entry *ring;
    uint32_t next;
    struct hf_map map;
    struct hf_hash_key hash_key;
    const struct hf_alloc *alloc;
};

int hf_portcache_init(struct hf_portcache *cache, const struct hf_hash_key *hash_key,
                      const struct hf_alloc *alloc);
void hf_portcache_free(struct hf_portcache *cache);

/* Returns the cached port of a program; 0 if it is not known. */
uint16_t hf_portcache_get(struct hf_portcache *cache, const struct hf_portcache_key *key,
                          uint64_t now_ms);
void hf_portcache_put(struct hf_portcache *cache, const struct hf_portcache_key *key, uint16_t port,
                      uint64_t now_ms);
void hf_portcache_forget(struct hf_portcache *cache, const struct hf_portcache_key *key);

#endif
