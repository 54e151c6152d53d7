/*
 * A host counts what the clients and registrations of one account (base/trust.h) have together, so
 * that no remote address and no user of this host can use up what others need (SEC-02). Several
 * clients may share an address, behind a gateway that translates addresses, or because a host uses
 * several names.
 */
#include "base/trust.h"
#include "core/clients/private.h"
#include "core/internal.h"

static bool same_addr(const struct hf_map_node *node, const void *key)
{
    return hf_addr_same_host(&hf_container_of(node, struct hf_host, node)->addr, key);
}

struct hf_host *hf_host_get(struct hf_core *core, const struct hf_addr *addr)
{
    struct hf_clients *clients = core->clients;
    struct hf_addr key = hf_addr_host(addr);
    uint64_t hash = hf_client_hash_addr(core, &key);
    struct hf_map_node *node = hf_map_find(&clients->hosts, hash, same_addr, &key);
    struct hf_host *host;

    if (node) {
        host = hf_container_of(node, struct hf_host, node);
        host->refs++;
        return host;
    }
    host = hf_slab_take(&clients->host_slab);
    if (!host)
        return NULL;
    *host = (struct hf_host){.id = 1, .refs = 1, .addr = key};
    host->is_local = !hf_trust_account_has_quota(&key);
    hf_list_init(&host->monitors);
    hf_map_insert(&clients->hosts, &host->node, hash);
    return host;
}

void hf_host_unref(struct hf_core *core, struct hf_host *host)
{
    if (--host->refs > 0)
        return;
    HF_ASSERT(host->n_clients == 0 && host->n_registrations == 0 && host->n_held == 0);
    hf_map_remove(&core->clients->hosts, &host->node);
    hf_slab_give(&core->clients->host_slab, host);
}

struct hf_host *hf_host_find(const struct hf_core *core, const struct hf_addr *addr)
{
    struct hf_addr key = hf_addr_host(addr);
    struct hf_map_node *node =
        hf_map_find(&core->clients->hosts, hf_client_hash_addr(core, &key), same_addr, &key);

    return node ? hf_container_of(node, struct hf_host, node) : NULL;
}
