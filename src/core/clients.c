/*
 * The client tracker (TRK-01): hosts by identity, by id and by address, each in O(1).
 *
 * Identity of an NLM client is its name and the address it comes from, so nobody frees or steals
 * another host's locks by using its name; and the address of ours that it uses. For a Linux kernel
 * that mounts by two of our addresses we are two servers: it numbers its lock owners (svid) for
 * each from 0, and reclaims from each only after a notice from that address. Identity of an SM_MON
 * registration is the host it is about and who wants to know: name, program, version, procedure,
 * and the address it came from.
 *
 * A client object lives as long as something refers to it: its registration, its owners and shares,
 * an undo entry. Its record is durable only while it is registered.
 */
#include "core/parts.h"

static struct hf_addr host_of(const struct hf_addr *addr)
{
    struct hf_addr host = *addr;

    host.port = 0;
    return host;
}

static uint64_t hash_addr(const struct hf_core *core, const struct hf_addr *addr)
{
    uint64_t halves[2];

    memcpy(halves, addr->bytes, sizeof(halves));
    return hf_hash_u64(&core->config.hash_key, halves[0] ^ addr->family,
                       halves[1] ^ (uint64_t)addr->scope << 32);
}

/* What tells one client from all others; a look-up makes one, so it is small. */
struct identity {
    enum hf_protocol protocol;
    struct hf_bytes name;
    struct hf_addr host;  /* NLM: where it comes from; NSM: where the registration came from */
    struct hf_addr local; /* NLM: the address of ours it talks to */
    struct hf_bytes my_name;
    uint32_t prog, vers, proc;
};

static struct identity identity_of(const struct hf_record_client *r)
{
    bool nlm = r->protocol == HF_PROTOCOL_NLM;

    return (struct identity){.protocol = r->protocol,
                             .name = r->name,
                             .host = host_of(nlm ? &r->addrs[0] : &r->callback_host),
                             .local = host_of(&r->local),
                             .my_name = r->my_name,
                             .prog = r->prog,
                             .vers = r->vers,
                             .proc = r->proc};
}

static uint64_t hash_identity(const struct hf_core *core, const struct identity *id)
{
    const struct hf_hash_key *key = &core->config.hash_key;
    uint8_t bytes[(size_t)2 * HF_NAME_MAX + sizeof(id->host.bytes)];
    size_t len = 0;

    HF_ASSERT(id->name.len <= HF_NAME_MAX && id->my_name.len <= HF_NAME_MAX);
    memcpy(bytes, id->host.bytes, sizeof(id->host.bytes));
    len += sizeof(id->host.bytes);
    len += hf_name_fold(id->name, bytes + len);
    if (id->protocol == HF_PROTOCOL_NLM)
        return hf_hash(key, bytes, len);
    len += hf_name_fold(id->my_name, bytes + len);
    return hf_hash_u64(key, hf_hash(key, bytes, len),
                       id->prog ^ (uint64_t)id->vers << 24 ^ (uint64_t)id->proc << 44);
}

static bool same_identity(const struct hf_map_node *node, const void *key)
{
    const struct hf_client *c = hf_container_of(node, struct hf_client, by_identity);
    const struct identity *id = key;

    if (c->protocol != id->protocol || !hf_name_equal(c->name, id->name))
        return false;
    if (id->protocol == HF_PROTOCOL_NLM)
        return hf_addr_same_host(&c->addr, &id->host) && hf_addr_same_host(&c->m.local, &id->local);
    return c->prog == id->prog && c->vers == id->vers && c->proc == id->proc &&
           hf_name_equal(c->my_name, id->my_name) &&
           hf_addr_same_host(&c->callback_host, &id->host);
}

static struct hf_client *find(const struct hf_core *core, const struct identity *id)
{
    struct hf_map_node *node =
        hf_map_find(&core->clients_by_identity, hash_identity(core, id), same_identity, id);

    return node ? hf_container_of(node, struct hf_client, by_identity) : NULL;
}

struct hf_client *hf_client_find_nlm(const struct hf_core *core, const struct hf_peer *peer)
{
    struct identity id = {
        .protocol = HF_PROTOCOL_NLM,
        .name = peer->name,
        .host = host_of(&peer->addr),
        .local = host_of(&peer->local),
    };

    return find(core, &id);
}

struct hf_client *hf_client_find_nsm(struct hf_core *core, const struct hf_mon_args *args,
                                     const struct hf_addr *callback_host)
{
    struct identity id = {
        .protocol = HF_PROTOCOL_NSM,
        .name = args->mon_name,
        .host = host_of(callback_host),
        .my_name = args->my_name,
        .prog = args->prog,
        .vers = args->vers,
        .proc = args->proc,
    };

    return find(core, &id);
}

static bool same_id(const struct hf_map_node *node, const void *key)
{
    return hf_container_of(node, struct hf_client, by_id)->id == *(const uint64_t *)key;
}

struct hf_client *hf_client_find_id(const struct hf_core *core, uint64_t id)
{
    struct hf_map_node *node =
        hf_map_find(&core->clients_by_id, hf_hash_u64(&core->config.hash_key, id, 0), same_id, &id);

    return node ? hf_container_of(node, struct hf_client, by_id) : NULL;
}

static bool same_addr(const struct hf_map_node *node, const void *key)
{
    return hf_addr_same_host(&hf_container_of(node, struct hf_alias, node)->addr, key);
}

struct hf_alias *hf_alias_find(struct hf_core *core, const struct hf_addr *addr)
{
    struct hf_addr host = host_of(addr);
    struct hf_map_node *node =
        hf_map_find(&core->aliases, hash_addr(core, &host), same_addr, &host);

    return node ? hf_container_of(node, struct hf_alias, node) : NULL;
}

struct hf_alias *hf_alias_find_next(struct hf_alias *alias)
{
    struct hf_alias *next = hf_list_entry(alias->same.next, struct hf_alias, same);

    return next->in_map ? NULL : next; /* round the ring, back at the first */
}

int hf_client_add_alias(struct hf_core *core, struct hf_client *client, const struct hf_addr *addr)
{
    struct hf_alias *first = hf_alias_find(core, addr);
    struct hf_alias *alias = hf_slab_take(&core->alias_slab);

    if (!alias)
        return HF_ENOMEM;
    *alias = (struct hf_alias){.client = client, .addr = host_of(addr)};
    alias->next = client->aliases;
    client->aliases = alias;
    client->n_addrs++;
    if (first) {
        hf_list_add_tail(&first->same, &alias->same);
    } else {
        hf_list_init(&alias->same);
        alias->in_map = true;
        hf_map_insert(&core->aliases, &alias->node, hash_addr(core, &alias->addr));
    }
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
    if (alias->in_map) {
        struct hf_alias *heir = hf_list_first(&alias->same, struct hf_alias, same);
        hf_map_remove(&core->aliases, &alias->node);
        if (heir) {
            heir->in_map = true;
            hf_map_insert(&core->aliases, &heir->node, hash_addr(core, &heir->addr));
        }
    }
    hf_list_remove(&alias->same);
    hf_slab_give(&core->alias_slab, alias);
}

/* A mon_name may be ours: our configured name, long or short, or the address it talks to. */
static bool names_us(const struct hf_core *core, const struct hf_record_client *r)
{
    struct hf_addr addr;

    if (r->protocol != HF_PROTOCOL_NSM)
        return false;
    if (hf_name_is_addr(r->name, &addr))
        return hf_addr_same_host(&addr, &r->local);
    return hf_name_same_host(r->name, core->config.server_name);
}

static void set_fields(struct hf_client *client, const struct hf_record_client *r)
{
    client->protocol = r->protocol;
    client->m.state = r->state;
    client->m.transport = r->transport;
    client->m.local = host_of(&r->local);
    memcpy(client->m.priv, r->priv, HF_PRIV_SIZE);
    client->addr = host_of(&r->addrs[0]);
    client->registered_at_ms = r->registered_at_ms;
    client->first_seen_ms = client->last_seen_ms = r->registered_at_ms;
    client->epoch = r->epoch;
    client->ttl_ms = r->ttl_ms;
    client->prog = r->prog;
    client->vers = r->vers;
    client->proc = r->proc;
    client->callback_host = host_of(&r->callback_host);
}

static int set_names(struct hf_core *core, struct hf_client *client,
                     const struct hf_record_client *r)
{
    client->bytes = hf_malloc(core->alloc, r->name.len + r->my_name.len + 1);
    if (!client->bytes)
        return HF_ENOMEM;
    if (r->name.len > 0)
        memcpy(client->bytes, r->name.data, r->name.len);
    if (r->my_name.len > 0)
        memcpy(client->bytes + r->name.len, r->my_name.data, r->my_name.len);
    client->name = hf_bytes(client->bytes, r->name.len);
    client->my_name = hf_bytes(client->bytes + r->name.len, r->my_name.len);
    return 0;
}

static void count(struct hf_core *core, const struct hf_client *client, int by)
{
    if (client->protocol == HF_PROTOCOL_NLM)
        core->n_nlm_clients += (uint32_t)by;
}

static void free_parts(struct hf_core *core, struct hf_client *client)
{
    while (client->aliases)
        hf_client_drop_alias(core, client->aliases);
    hf_free(core->alloc, client->bytes);
    hf_slab_give(&core->client_slab, client);
}

struct hf_client *hf_client_new(struct hf_core *core, const struct hf_record_client *r)
{
    struct hf_client *client = hf_slab_take(&core->client_slab);
    struct identity identity = identity_of(r);

    if (!client)
        return NULL;
    *client = (struct hf_client){.id = r->id, .refs = 1};
    hf_list_init(&client->locks);
    hf_list_init(&client->waiters);
    hf_list_init(&client->shares);
    hf_list_init(&client->doom.link);
    client->linger.kind = HF_TIMER_LINGER;
    hf_errand_init(&client->notice, HF_ERRAND_NOTICE);
    hf_errand_init(&client->told, HF_ERRAND_TOLD);
    hf_errand_init(&client->probe, HF_ERRAND_PROBE);
    set_fields(client, r);
    client->monitors_us = names_us(core, r);
    if (set_names(core, client, r) < 0)
        goto fail;
    for (unsigned i = 0; i < r->n_addrs; i++) {
        if (hf_client_add_alias(core, client, &r->addrs[i]) < 0)
            goto fail;
    }
    hf_map_insert(&core->clients_by_identity, &client->by_identity, hash_identity(core, &identity));
    hf_map_insert(&core->clients_by_id, &client->by_id,
                  hf_hash_u64(&core->config.hash_key, client->id, 0));
    hf_list_add_tail(&core->clients, &client->all);
    count(core, client, 1);
    return client;

fail:
    free_parts(core, client);
    return NULL;
}

void hf_client_del(struct hf_core *core, struct hf_client *client)
{
    hf_timer_disarm(core, &client->linger);
    hf_errand_end(core, &client->notice);
    hf_errand_end(core, &client->told);
    hf_errand_end(core, &client->probe);
    hf_list_remove(&client->doom.link);
    hf_list_remove(&client->all);
    hf_map_remove(&core->clients_by_identity, &client->by_identity);
    hf_map_remove(&core->clients_by_id, &client->by_id);
    count(core, client, -1);
    free_parts(core, client);
}

void hf_client_unref(struct hf_core *core, struct hf_client *client)
{
    HF_ASSERT(client->refs > 0);
    if (--client->refs > 0)
        return;
    HF_ASSERT(!client->registered && client->n_locks == 0 && client->n_shares == 0);
    hf_client_del(core, client);
}

void hf_client_record(const struct hf_client *client, struct hf_record_client *out)
{
    unsigned n = client->n_addrs;

    *out = (struct hf_record_client){
        .id = client->id,
        .protocol = client->protocol,
        .transport = client->m.transport,
        .name = client->name,
        .n_addrs = client->n_addrs,
        .local = client->m.local,
        .state = client->m.state,
        .ttl_ms = client->ttl_ms,
        .registered_at_ms = client->registered_at_ms,
        .epoch = client->epoch,
        .my_name = client->my_name,
        .prog = client->prog,
        .vers = client->vers,
        .proc = client->proc,
        .callback_host = client->callback_host,
    };
    memcpy(out->priv, client->m.priv, HF_PRIV_SIZE);
    for (const struct hf_alias *a = client->aliases; a; a = a->next)
        out->addrs[--n] = a->addr; /* newest first in the list; in the record, oldest first */
}

struct hf_client *hf_client_get_nlm(struct hf_core *core, struct hf_now now,
                                    const struct hf_peer *peer, struct hf_client *found)
{
    struct hf_record_client record;

    if (found) {
        found->refs++;
        found->last_seen_ms = now.wall_ms;
        return found;
    }
    if (hf_limit_client(core) < 0)
        return NULL;
    record = (struct hf_record_client){
        .id = hf_core_new_id(core),
        .protocol = HF_PROTOCOL_NLM,
        .transport = peer->transport,
        .name = peer->name,
        .addrs = {peer->addr},
        .n_addrs = 1,
        .local = peer->local,
        .registered_at_ms = now.wall_ms,
        .epoch = core->epoch,
    };
    return hf_client_new(core, &record);
}
