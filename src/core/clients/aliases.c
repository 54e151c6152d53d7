/*
 * Aliases: the addresses by which clients are known. The aliases of all clients with the same
 * address form a ring, and only the first of a ring is in the map.
 */
#include <string.h>

#include "core/clients/private.h"
#include "core/internal.h"

uint64_t hf_client_hash_addr(const struct hf_core *core, const struct hf_addr *addr)
{
    uint64_t halves[2];

    memcpy(halves, addr->bytes, sizeof(halves));
    return hf_hash_u64(&core->config.hash_key, halves[0] ^ addr->family,
                       halves[1] ^ (uint64_t)addr->scope << 32);
}

static bool same_addr(const struct hf_map_node *node, const void *key)
{
    return hf_addr_same_host(&hf_container_of(node, struct hf_alias, node)->addr, key);
}

struct hf_alias *hf_alias_find(struct hf_core *core, const struct hf_addr *addr)
{
    struct hf_addr host = hf_addr_host(addr);
    struct hf_map_node *node =
        hf_map_find(&core->clients->aliases, hf_client_hash_addr(core, &host), same_addr, &host);

    return node ? hf_container_of(node, struct hf_alias, node) : NULL;
}

struct hf_alias *hf_alias_find_next(struct hf_alias *alias)
{
    struct hf_alias *next = hf_list_entry(alias->same.next, struct hf_alias, same);

    /* Only the first alias of a ring is in the map: the ring ends here. */
    return next->in_map ? NULL : next;
}

/* Links the alias into the ring of all aliases with its address. */
static void join_ring(struct hf_core *core, struct hf_alias *alias)
{
    struct hf_alias *first = hf_alias_find(core, &alias->addr);

    alias->in_map = !first;
    hf_list_init(&alias->same);
    if (first)
        hf_list_add_tail(&first->same, &alias->same);
    else
        hf_map_insert(&core->clients->aliases, &alias->node,
                      hf_client_hash_addr(core, &alias->addr));
}

static void leave_ring(struct hf_core *core, struct hf_alias *alias)
{
    if (alias->in_map) {
        struct hf_alias *heir = hf_list_first(&alias->same, struct hf_alias, same);
        hf_map_remove(&core->clients->aliases, &alias->node);
        if (heir) {
            heir->in_map = true;
            hf_map_insert(&core->clients->aliases, &heir->node,
                          hf_client_hash_addr(core, &heir->addr));
        }
    }
    hf_list_remove(&alias->same);
}

int hf_client_add_alias(struct hf_core *core, struct hf_client *client, const struct hf_addr *addr)
{
    struct hf_alias *alias = hf_slab_take(&core->clients->alias_slab);

    if (!alias)
        return HF_ENOMEM;
    *alias = (struct hf_alias){.client = client, .addr = hf_addr_host(addr)};
    alias->next = client->aliases;
    client->aliases = alias;
    client->n_addrs++;
    join_ring(core, alias);
    return 0;
}

void hf_client_drop_alias(struct hf_core *core, struct hf_alias *alias)
{
    struct hf_client *client = alias->client;
    struct hf_alias **link = &client->aliases;

    while (*link != alias)
        link = &(*link)->next;
    *link = alias->next;
    client->n_addrs--;
    leave_ring(core, alias);
    hf_slab_give(&core->clients->alias_slab, alias);
}

void hf_alias_set_addr(struct hf_core *core, struct hf_alias *alias, const struct hf_addr *addr)
{
    leave_ring(core, alias);
    alias->addr = hf_addr_host(addr);
    join_ring(core, alias);
}
