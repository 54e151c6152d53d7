/*
 * Clients whose address changes (TRK-02): a lease of DHCP, a pod that runs elsewhere, several
 * paths. The operator vouches that the requests with a name from some networks are of one client
 * (config.vouches). A client that moves keeps its id, its locks and its lives, and is found by its
 * new address. Its former addresses stay known, up to HF_CLIENT_ADDRS_MAX: notices go there, and
 * may come from there. Whether a client has moved is decided elsewhere (recovery/arrival.c).
 */
#include "core/clients/private.h"
#include "core/common/names.h"
#include "core/core.h"
#include "core/durable/durable.h"
#include "core/internal.h"

static bool covers(const struct hf_vouch *vouch, const struct hf_addr *addr)
{
    for (unsigned i = 0; i < vouch->n_networks; i++) {
        if (hf_network_contains(&vouch->networks[i], addr))
            return true;
    }
    return false;
}

static const struct hf_vouch *by_name(const struct hf_core *core, struct hf_bytes name)
{
    for (unsigned i = 0; i < core->config.n_vouches; i++) {
        if (hf_name_equal(core->config.vouches[i].name, name))
            return &core->config.vouches[i];
    }
    return NULL;
}

const struct hf_vouch *hf_vouch_of(const struct hf_core *core, struct hf_bytes name,
                                   const struct hf_addr *addr)
{
    const struct hf_vouch *vouch = by_name(core, name);

    return vouch && covers(vouch, addr) ? vouch : NULL;
}

bool hf_vouch_is_at_once(struct hf_core *core, const struct hf_vouch *vouch,
                         const struct hf_addr *addr)
{
    struct hf_alias *alias = NULL;

    if (vouch && vouch->at_once && covers(vouch, addr))
        alias = hf_alias_find(core, addr);
    while (alias && !(alias->client->protocol == HF_PROTOCOL_NLM &&
                      hf_name_equal(alias->client->name, vouch->name)))
        alias = hf_alias_find_next(alias);
    return alias != NULL;
}

void hf_client_join_vouched(struct hf_core *core, struct hf_client *client)
{
    const struct hf_vouch *vouch =
        client->protocol == HF_PROTOCOL_NLM ? by_name(core, client->name) : NULL;

    if (vouch)
        hf_list_add_tail(&core->clients->vouched[vouch - core->config.vouches], &client->vouched);
}

struct hf_client *hf_vouched_next(struct hf_core *core, const struct hf_vouch *vouch,
                                  const struct hf_client *after)
{
    struct hf_list *list = &core->clients->vouched[vouch - core->config.vouches];

    for (struct hf_list *node = after ? after->vouched.next : list->next; node != list;
         node = node->next) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, vouched);
        if (covers(vouch, &client->addr))
            return client;
    }
    return NULL;
}

struct hf_client *hf_client_find_moved(struct hf_core *core, const struct hf_peer *peer)
{
    const struct hf_vouch *vouch = hf_vouch_of(core, peer->name, &peer->addr);
    struct hf_client *client = NULL;
    struct hf_client *last = NULL;

    while (vouch && (client = hf_vouched_next(core, vouch, client))) {
        if (client->m.transport == peer->transport &&
            hf_addr_same_host(&client->m.local, &peer->local) &&
            (!last || client->last_seen_ms > last->last_seen_ms))
            last = client;
    }
    return last;
}

/* Changes the address by which look-ups find the client. */
static void relocate(struct hf_core *core, struct hf_client *client, const struct hf_addr *addr)
{
    hf_client_displace(core, client);
    client->addr = hf_addr_host(addr);
    hf_client_place(core, client);
}

/* Charges what the client uses to `host` from now on; takes over the caller's reference to that
 * host. */
static void change_account(struct hf_core *core, struct hf_client *client, struct hf_host *host)
{
    uint32_t held = client->n_locks + client->n_shares + client->n_waiters;

    client->host->n_clients--;
    client->host->n_held -= held;
    client->host->n_waiters -= client->n_waiters;
    hf_host_unref(core, client->host);
    client->host = host;
    host->n_clients++;
    host->n_held += held;
    host->n_waiters += client->n_waiters;
}

/* One recorded move of a client, kept for undo. */
struct move {
    struct hf_client *client; /* the undo entry holds a reference to this client */
    struct hf_addr from, to;
    struct hf_alias *alias; /* the alias of the new address; NULL: the client had it already */
    struct hf_addr before;  /* the alias's former address; family NONE: the alias is new */
};

static void keep_move(struct hf_core *core, const struct hf_undo *entry)
{
    struct move *move = entry->object;

    hf_client_unref(core, move->client);
    hf_free(core->alloc, move);
}

/* True if another client with this name, our address and transport is already at this address. */
static bool is_taken(const struct hf_core *core, const struct hf_client *client,
                     const struct hf_addr *addr)
{
    const struct hf_peer peer = {.name = client->name,
                                 .addr = *addr,
                                 .local = client->m.local,
                                 .transport = client->m.transport};
    const struct hf_client *there = hf_client_find_nlm(core, &peer);

    return there && there != client;
}

/*
 * Undoes a move that the store did not record. The client goes back, and moves again with its next
 * request. If another client took the old address meanwhile, the client stays where it is, because
 * two clients could not be told apart there; its next grant records the new address.
 */
static void revert_move(struct hf_core *core, const struct hf_undo *entry)
{
    struct move *move = entry->object;
    struct hf_client *client = move->client;
    bool leads = hf_addr_same_host(&client->addr, &move->to);
    struct hf_host *host;

    if (leads && is_taken(core, client, &move->from)) {
        client->misplaced = true;
        keep_move(core, entry);
        return;
    }
    if (move->alias && move->before.family != HF_ADDR_NONE)
        hf_alias_set_addr(core, move->alias, &move->before);
    else if (move->alias)
        hf_client_drop_alias(core, move->alias);
    if (leads) {
        relocate(core, client, &move->from);
        /* Without memory the account stays that of the new address, until the next move. */
        host = hf_host_get(core, &move->from);
        if (host)
            change_account(core, client, host);
    }
    keep_move(core, entry);
}

static const struct hf_undo_ops move_undo = {revert_move, keep_move};

static struct hf_alias *alias_of(const struct hf_client *client, const struct hf_addr *addr)
{
    struct hf_alias *alias = client->aliases;

    while (alias && !hf_addr_same_host(&alias->addr, addr))
        alias = alias->next;
    return alias;
}

bool hf_client_is_known_at(const struct hf_client *client, const struct hf_addr *addr)
{
    return alias_of(client, addr) != NULL;
}

bool hf_client_may_be_at(const struct hf_core *core, const struct hf_client *client,
                         const struct hf_addr *addr)
{
    const struct hf_vouch *vouch;

    if (hf_addr_same_host(&client->addr, addr))
        return true;
    vouch = hf_vouch_of(core, client->name, addr);
    return vouch && vouch->at_once && hf_client_is_known_at(client, addr);
}

/* Returns the oldest of the client's addresses, not counting the one by which it is found. */
static struct hf_alias *oldest_of(const struct hf_client *client)
{
    struct hf_alias *oldest = NULL;

    for (struct hf_alias *alias = client->aliases; alias; alias = alias->next) {
        if (!hf_addr_same_host(&alias->addr, &client->addr))
            oldest = alias;
    }
    return oldest;
}

/* Logs the move for undo and adds the new address; if the client has too many, the oldest goes. */
static int note(struct hf_txn *txn, struct hf_client *client, const struct hf_addr *addr)
{
    struct hf_core *core = txn->core;
    struct move *move;

    if (hf_undo_reserve(core) < 0)
        return HF_ENOMEM;
    move = hf_malloc(core->alloc, sizeof(*move));
    if (!move)
        return HF_ENOMEM;
    *move = (struct move){.client = client, .from = client->addr, .to = hf_addr_host(addr)};
    if (alias_of(client, addr)) {
        move->alias = NULL;
    } else if (client->n_addrs == HF_CLIENT_ADDRS_MAX) {
        move->alias = oldest_of(client);
        move->before = move->alias->addr;
        hf_alias_set_addr(core, move->alias, addr);
    } else if (hf_client_add_alias(core, client, addr) < 0) {
        hf_free(core->alloc, move);
        return HF_ENOMEM;
    } else {
        move->alias = client->aliases;
    }
    client->refs++;
    hf_undo_push(core, (struct hf_undo){&move_undo, .object = move});
    return 0;
}

/* Moves the client and records its new address; a client without a record only gets the alias. */
static int record(struct hf_core *core, struct hf_now now, struct hf_client *client,
                  const struct hf_addr *addr)
{
    struct hf_addr before = client->addr;
    struct hf_txn txn;

    hf_txn_begin(&txn, core, now, NULL);
    if (note(&txn, client, addr) < 0 || (client->registered && hf_client_save(&txn, client) < 0))
        goto no_memory;
    relocate(core, client, addr);
    if (client->registered && hf_client_put_record(&txn, client) < 0)
        goto no_memory;
    hf_txn_commit(&txn);
    return 0;

no_memory:
    if (!hf_addr_same_host(&client->addr, &before))
        relocate(core, client, &before);
    hf_txn_abort(&txn);
    return HF_ENOMEM;
}

int hf_client_move(struct hf_core *core, struct hf_now now, struct hf_client *client,
                   const struct hf_addr *addr, bool silently)
{
    struct hf_host *host = hf_host_get(core, addr);
    int rv = 0;

    if (!host)
        return HF_ENOMEM;
    if (silently && alias_of(client, addr))
        relocate(core, client, addr);
    else
        rv = record(core, now, client, addr);
    if (rv < 0)
        hf_host_unref(core, host);
    else
        change_account(core, client, host);
    return rv;
}
