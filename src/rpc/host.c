#include "rpc/host.h"

#include <string.h>

#include "base/trust.h"

int hf_rpc_hosts_init(struct hf_rpc_hosts *hosts, const struct hf_hash_key *key,
                      const struct hf_alloc *alloc)
{
    *hosts = (struct hf_rpc_hosts){.key = *key, .alloc = alloc};
    hf_list_init(&hosts->spare);
    hf_list_init(&hosts->unused);
    return hf_map_init(&hosts->map, alloc);
}

static bool free_one(struct hf_map_node *node, void *ctx)
{
    struct hf_rpc_hosts *hosts = ctx;

    hf_map_remove(&hosts->map, node);
    hf_free(hosts->alloc, hf_container_of(node, struct hf_rpc_host, node));
    return true;
}

void hf_rpc_hosts_free(struct hf_rpc_hosts *hosts)
{
    hf_map_each(&hosts->map, free_one, hosts);
    hf_list_foreach_safe (node, &hosts->spare) {
        hf_free(hosts->alloc, hf_list_entry(node, struct hf_rpc_host, spare));
    }
    hf_map_free(&hosts->map);
}

static bool matches(const struct hf_map_node *node, const void *key)
{
    return hf_addr_same_host(&hf_container_of(node, const struct hf_rpc_host, node)->addr, key);
}

static struct hf_rpc_host *host_new(struct hf_rpc_hosts *hosts)
{
    struct hf_rpc_host *host = hf_list_first(&hosts->spare, struct hf_rpc_host, spare);

    if (!host)
        return hf_malloc(hosts->alloc, sizeof(*host));
    hf_list_remove(&host->spare);
    return host;
}

struct hf_rpc_host *hf_rpc_hosts_get(struct hf_rpc_hosts *hosts, const struct hf_addr *addr)
{
    struct hf_rpc_host *host = hosts->last;
    struct hf_map_node *node;
    uint64_t words[2];
    uint64_t hash;

    if (host && hf_addr_same_host(&host->addr, addr))
        return host;
    memcpy(words, addr->bytes, sizeof(words));
    hash = hf_hash_u64(&hosts->key, words[0], words[1] ^ addr->scope);
    node = hf_map_find(&hosts->map, hash, matches, addr);
    if (node) {
        host = hf_container_of(node, struct hf_rpc_host, node);
    } else {
        host = host_new(hosts);
        if (!host)
            return NULL;
        *host = (struct hf_rpc_host){.addr = *addr,
                                     .exempt = !hf_trust_account_has_quota(addr),
                                     .dups.roams = hosts->roams && hosts->roams(hosts->ctx, addr)};
        hf_list_init(&host->spare);
        hf_list_init(&host->conns);
        hf_map_insert(&hosts->map, &host->node, hash);
    }
    hosts->last = host;
    return host;
}

void hf_rpc_hosts_release(struct hf_rpc_hosts *hosts, struct hf_rpc_host *host)
{
    if (!hf_rpc_host_in_use(host) && hf_list_empty(&host->spare))
        hf_list_add_tail(&hosts->unused, &host->spare);
}

void hf_rpc_hosts_end_turn(struct hf_rpc_hosts *hosts)
{
    struct hf_rpc_host *host;

    while ((host = hf_list_first(&hosts->unused, struct hf_rpc_host, spare))) {
        hf_list_remove(&host->spare);
        if (hf_rpc_host_in_use(host))
            continue;
        if (hosts->last == host)
            hosts->last = NULL;
        hf_map_remove(&hosts->map, &host->node);
        hf_list_add_head(&hosts->spare, &host->spare);
    }
}
