/* Makes clients, finds them by identity and by id, and deletes each with its last reference. */
#include <string.h>

#include "core/clients/private.h"
#include "core/common/event.h"
#include "core/common/names.h"
#include "core/common/timer.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"

int hf_clients_init(struct hf_core *core, size_t recovery_size)
{
    struct hf_clients *clients = core->clients;

    hf_list_init(&clients->all);
    clients->recovery_size = recovery_size;
    hf_slab_init(&clients->slab, core->alloc, sizeof(struct hf_client) + recovery_size);
    hf_slab_init(&clients->alias_slab, core->alloc, sizeof(struct hf_alias));
    hf_slab_init(&clients->host_slab, core->alloc, sizeof(struct hf_host));
    if (hf_map_init(&clients->by_identity, core->alloc) < 0 ||
        hf_map_init(&clients->by_id, core->alloc) < 0 ||
        hf_map_init(&clients->aliases, core->alloc) < 0 ||
        hf_map_init(&clients->hosts, core->alloc) < 0)
        return HF_ENOMEM;
    if (core->config.n_vouches == 0)
        return 0;
    clients->vouched = hf_malloc(core->alloc, core->config.n_vouches * sizeof(clients->vouched[0]));
    for (unsigned i = 0; clients->vouched && i < core->config.n_vouches; i++)
        hf_list_init(&clients->vouched[i]);
    return clients->vouched ? 0 : HF_ENOMEM;
}

void hf_clients_free(struct hf_core *core)
{
    struct hf_clients *clients = core->clients;

    hf_map_free(&clients->by_identity);
    hf_map_free(&clients->by_id);
    hf_map_free(&clients->aliases);
    hf_map_free(&clients->hosts);
    hf_slab_free(&clients->slab);
    hf_slab_free(&clients->alias_slab);
    hf_slab_free(&clients->host_slab);
    hf_free(core->alloc, clients->vouched);
}

/* What distinguishes one client from all others; ports do not count. Each look-up makes an
 * identity, so it is small. */
struct identity {
    enum hf_protocol protocol;
    struct hf_bytes name;
    /* NLM: the address that the client's requests come from; NSM: the address that registered. */
    const struct hf_addr *host;
    const struct hf_addr *local; /* NLM: the address of ours that the client talks to */
    /* NLM: UDP or TCP, because a Linux kernel takes each for a server of its own. */
    enum hf_transport transport;
    struct hf_bytes my_name;
    uint32_t prog, vers, proc;
};

static struct identity identity_of_client(const struct hf_client *client)
{
    return (struct identity){.protocol = client->protocol,
                             .name = client->name,
                             .host = client->protocol == HF_PROTOCOL_NLM ? &client->addr
                                                                         : &client->callback_host,
                             .local = &client->m.local,
                             .transport = client->m.transport,
                             .my_name = client->my_name,
                             .prog = client->prog,
                             .vers = client->vers,
                             .proc = client->proc};
}

static uint64_t hash_identity(const struct hf_core *core, const struct identity *id)
{
    const struct hf_hash_key *key = &core->config.hash_key;
    uint8_t bytes[(size_t)2 * HF_NAME_MAX + sizeof(id->host->bytes)];
    size_t len = 0;

    HF_ASSERT(id->name.len <= HF_NAME_MAX && id->my_name.len <= HF_NAME_MAX);
    memcpy(bytes, id->host->bytes, sizeof(id->host->bytes));
    len += sizeof(id->host->bytes);
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
        return c->m.transport == id->transport && hf_addr_same_host(&c->addr, id->host) &&
               hf_addr_same_host(&c->m.local, id->local);
    return c->prog == id->prog && c->vers == id->vers && c->proc == id->proc &&
           hf_name_equal(c->my_name, id->my_name) && hf_addr_same_host(&c->callback_host, id->host);
}

static struct hf_client *find(const struct hf_core *core, const struct identity *id)
{
    struct hf_map_node *node =
        hf_map_find(&core->clients->by_identity, hash_identity(core, id), same_identity, id);

    return node ? hf_container_of(node, struct hf_client, by_identity) : NULL;
}

/* Finds the client. It tries the client that was found last first, because a connection's requests
 * are served many at a time. */
struct hf_client *hf_client_find_nlm(const struct hf_core *core, const struct hf_peer *peer)
{
    struct hf_client **last = &core->clients->last;
    struct identity id = {
        .protocol = HF_PROTOCOL_NLM,
        .name = peer->name,
        .host = &peer->addr,
        .local = &peer->local,
        .transport = peer->transport,
    };

    if (!*last || !same_identity(&(*last)->by_identity, &id))
        *last = find(core, &id);
    return *last;
}

struct hf_client *hf_client_find_nsm(struct hf_core *core, const struct hf_mon_args *args,
                                     const struct hf_addr *callback_host)
{
    struct identity id = {
        .protocol = HF_PROTOCOL_NSM,
        .name = args->mon_name,
        .host = callback_host,
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

static uint64_t id_hash(const struct hf_core *core, uint64_t id)
{
    return hf_hash_u64(&core->config.hash_key, id, 0);
}

struct hf_client *hf_client_find_id(const struct hf_core *core, uint64_t id)
{
    struct hf_map_node *node = hf_map_find(&core->clients->by_id, id_hash(core, id), same_id, &id);

    return node ? hf_container_of(node, struct hf_client, by_id) : NULL;
}

void hf_client_fetch_bucket(const struct hf_core *core, uint64_t id)
{
    hf_map_fetch_bucket(&core->clients->by_id, id_hash(core, id));
}

void hf_client_fetch_node(const struct hf_core *core, uint64_t id)
{
    hf_map_fetch_node(&core->clients->by_id, id_hash(core, id));
}

/* True if `name` is our configured name, long or short, or the address of ours that the client
 * talks to. */
bool hf_name_is_ours(const struct hf_core *core, struct hf_bytes name, const struct hf_addr *local)
{
    struct hf_addr addr;

    if (hf_name_is_addr(name, &addr))
        return hf_addr_same_host(&addr, local);
    return hf_name_same_host(name, core->config.server_name);
}

static void set_fields(struct hf_client *client, const struct hf_record_client *r)
{
    client->protocol = r->protocol;
    client->m.state = r->state;
    client->lives = hf_lives_load(r);
    client->recorded = r->lives;
    client->recorded_life = client->lives.now;
    client->m.transport = r->transport;
    client->m.local = hf_addr_host(&r->local);
    memcpy(client->m.priv, r->priv, HF_PRIV_SIZE);
    client->addr = hf_addr_host(&r->addrs[0]);
    client->registered_at_ms = r->registered_at_ms;
    client->first_seen_ms = client->last_seen_ms = r->registered_at_ms;
    client->epoch = r->epoch;
    client->ttl_ms = r->ttl_ms;
    client->prog = r->prog;
    client->vers = r->vers;
    client->proc = r->proc;
    client->callback_host = hf_addr_host(&r->callback_host);
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

static void count(struct hf_core *core, struct hf_client *client, int by)
{
    if (client->protocol != HF_PROTOCOL_NLM)
        return;
    core->clients->n_nlm += (uint32_t)by;
    client->host->n_clients += (uint32_t)by;
}

void hf_client_place(struct hf_core *core, struct hf_client *client)
{
    struct identity identity = identity_of_client(client);

    hf_map_insert(&core->clients->by_identity, &client->by_identity,
                  hash_identity(core, &identity));
}

void hf_client_displace(struct hf_core *core, struct hf_client *client)
{
    hf_map_remove(&core->clients->by_identity, &client->by_identity);
}

static void free_parts(struct hf_core *core, struct hf_client *client)
{
    while (client->aliases)
        hf_client_drop_alias(core, client->aliases);
    hf_free(core->alloc, client->bytes);
    hf_list_remove(&client->in_host);
    if (client->host)
        hf_host_unref(core, client->host);
    hf_slab_give(&core->clients->slab, client);
}

struct hf_client *hf_client_new(struct hf_core *core, const struct hf_record_client *r,
                                const struct hf_addr *account)
{
    struct hf_client *client = hf_slab_take(&core->clients->slab);
    const struct hf_addr *from;

    if (!client)
        return NULL;
    *client = (struct hf_client){.id = r->id, .refs = 1};
    client->recovery = memset(client + 1, 0, core->clients->recovery_size);
    hf_reflist_init(&client->owners);
    hf_list_init(&client->waiters);
    hf_list_init(&client->shares);
    hf_reflist_init(&client->losing.owners);
    hf_list_init(&client->in_host);
    hf_list_init(&client->vouched);
    client->linger.fire = hf_client_linger_over;
    hf_outcall_init(&client->notice);
    hf_outcall_init(&client->status_call);
    hf_outcall_init(&client->probe);
    set_fields(client, r);
    client->monitors_us =
        r->protocol == HF_PROTOCOL_NSM && hf_name_is_ours(core, r->name, &r->local);
    from = client->protocol == HF_PROTOCOL_NLM ? &client->addr : &client->callback_host;
    client->host = hf_host_get(core, account ? account : from);
    if (!client->host || set_names(core, client, r) < 0)
        goto fail;
    for (unsigned i = 0; i < r->n_addrs; i++) {
        if (hf_client_add_alias(core, client, &r->addrs[i]) < 0)
            goto fail;
    }
    hf_client_place(core, client);
    hf_client_join_vouched(core, client);
    hf_map_insert(&core->clients->by_id, &client->by_id, id_hash(core, client->id));
    hf_list_add_tail(&core->clients->all, &client->all);
    if (client->protocol == HF_PROTOCOL_NSM)
        hf_list_add_tail(&client->host->monitors, &client->in_host);
    count(core, client, 1);
    return client;

fail:
    free_parts(core, client);
    return NULL;
}

void hf_client_del(struct hf_core *core, struct hf_client *client)
{
    hf_timer_disarm(core, &client->linger);
    hf_outcall_end(core, &client->notice);
    hf_outcall_end(core, &client->status_call);
    hf_outcall_end(core, &client->probe);
    hf_list_remove(&client->all);
    if (core->clients->last == client)
        core->clients->last = NULL;
    hf_client_displace(core, client);
    hf_list_remove(&client->vouched);
    hf_map_remove(&core->clients->by_id, &client->by_id);
    count(core, client, -1);
    /* A client that is still registered is deleted only together with the whole core. */
    if (client->protocol == HF_PROTOCOL_NSM && client->registered)
        client->host->n_registrations--;
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

/* Puts the client's current address first in its record, because a start finds an NLM client by its
 * first address. */
static void lead(struct hf_record_client *out, const struct hf_addr *addr)
{
    unsigned i = 0;

    while (i < out->n_addrs && !hf_addr_same_host(&out->addrs[i], addr))
        i++;
    if (out->protocol != HF_PROTOCOL_NLM || i == out->n_addrs)
        return;
    memmove(&out->addrs[1], &out->addrs[0], i * sizeof(out->addrs[0]));
    out->addrs[0] = *addr;
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
        .lives = client->recorded,
        .my_name = client->my_name,
        .prog = client->prog,
        .vers = client->vers,
        .proc = client->proc,
        .callback_host = client->callback_host,
    };
    memcpy(out->priv, client->m.priv, HF_PRIV_SIZE);
    /* client->aliases begins with the newest address, a record with the oldest. */
    for (const struct hf_alias *a = client->aliases; a; a = a->next)
        out->addrs[--n] = a->addr;
    lead(out, &client->addr);
}

int hf_client_limit_nsm(struct hf_core *core, const struct hf_client *client)
{
    const struct hf_limits *limits = &core->config.limits;
    const struct hf_host *host = client->host;

    if (core->clients->n_nsm >= limits->clients)
        return hf_limit_count(core, HF_LIMIT_MONITORS, &client->callback_host, client->name);
    if (!host->is_local && host->n_registrations >= limits->registrations_per_host)
        return hf_limit_count(core, HF_LIMIT_REGISTRATIONS_PER_HOST, &client->callback_host,
                              client->name);
    return 0;
}

static const struct hf_addr *account_of(const struct hf_peer *peer)
{
    return peer->account.family != HF_ADDR_NONE ? &peer->account : &peer->addr;
}

/* Returns HF_ELIMIT if there are as many NLM clients as may be, in all or of this account. */
static int limit_nlm(struct hf_core *core, const struct hf_peer *peer)
{
    const struct hf_limits *limits = &core->config.limits;
    const struct hf_host *host = hf_host_find(core, account_of(peer));

    if (core->clients->n_nlm >= limits->clients)
        return hf_limit_count(core, HF_LIMIT_CLIENTS, &peer->addr, peer->name);
    if (host && !host->is_local && host->n_clients >= limits->clients_per_host)
        return hf_limit_count(core, HF_LIMIT_CLIENTS_PER_HOST, &peer->addr, peer->name);
    return 0;
}

struct hf_client *hf_client_get_nlm(struct hf_core *core, struct hf_now now,
                                    const struct hf_peer *peer, struct hf_client *found)
{
    struct hf_record_client record;

    if (found) {
        found->refs++;
        found->last_seen_ms = now.wall_ms;
        found->n_requests++;
        return found;
    }
    if (limit_nlm(core, peer) < 0)
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
    return hf_client_new(core, &record, account_of(peer));
}

struct hf_event *hf_client_event(struct hf_core *core, enum hf_event_kind kind,
                                 const struct hf_client *client, int64_t a, int64_t b, int error)
{
    struct hf_event *event = hf_event_add(core, kind, a, b, error);

    if (!event)
        return NULL;
    event->client_id = client->id;
    hf_event_set_host(event,
                      client->protocol == HF_PROTOCOL_NSM ? &client->callback_host : &client->addr,
                      client->name);
    return event;
}
