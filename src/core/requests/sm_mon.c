/*
 * SM_STAT, SM_MON, SM_UNMON and SM_UNMON_ALL (NSM-02..04). Each registration has a client record of
 * its own; none of these requests touches a lock. The count of registrations follows the flag
 * `registered`, so it is exact even after an undo.
 */
#include <string.h>

#include "core/clients/clients.h"
#include "core/common/names.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"
#include "core/table/table.h"

static struct hf_sm_answer answer(struct hf_core *core, struct hf_now now, bool ok, uint64_t seq)
{
    HF_ASSERT(!core->recovery->stopped);
    hf_turn_end(core, now);
    return (struct hf_sm_answer){ok, hf_epoch_state(core), {hf_durable_answer_seq(core, seq)}};
}

bool hf_core_is_our_name(const struct hf_core *core, struct hf_bytes name,
                         const struct hf_addr *local)
{
    return hf_name_is_ours(core, name, local);
}

bool hf_core_state_is_durable(const struct hf_core *core)
{
    return hf_durable_has(core, core->recovery->state_seq);
}

struct hf_sm_answer hf_core_sm_stat(struct hf_core *core)
{
    return (struct hf_sm_answer){true, hf_epoch_state(core), {hf_durable_answer_seq(core, 0)}};
}

static bool is_valid(const struct hf_mon_args *args)
{
    return args->mon_name.len > 0 && args->mon_name.len <= HF_NAME_MAX &&
           args->my_name.len <= HF_NAME_MAX;
}

/* Returns, with a reference, the client of the registration, which is made if there is none. */
static struct hf_client *get(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                             const struct hf_mon_args *args)
{
    struct hf_client *client = hf_client_find_nsm(core, args, &peer->addr);
    struct hf_record_client record = {
        .protocol = HF_PROTOCOL_NSM,
        .transport = peer->transport,
        .name = args->mon_name,
        .local = peer->local,
        .registered_at_ms = now.wall_ms,
        .my_name = args->my_name,
        .prog = args->prog,
        .vers = args->vers,
        .proc = args->proc,
        .callback_host = peer->addr,
    };

    if (client) {
        client->refs++;
        client->last_seen_ms = now.wall_ms;
        return client;
    }
    record.id = hf_core_new_id(core);
    record.n_addrs = hf_name_is_addr(args->mon_name, &record.addrs[0]) ? 1 : 0;
    return hf_client_new(core, &record, NULL);
}

static struct hf_client_mutable wanted(const struct hf_client *client, const struct hf_peer *peer,
                                       const struct hf_mon_args *args)
{
    struct hf_client_mutable m = {client->m.state, peer->transport, peer->local, {0}};

    m.local.port = 0;
    memcpy(m.priv, args->priv, HF_PRIV_SIZE);
    return m;
}

struct hf_sm_answer hf_core_sm_mon(struct hf_core *core, struct hf_now now,
                                   const struct hf_peer *peer, const struct hf_mon_args *args)
{
    struct hf_client_mutable m;
    struct hf_client *client;
    struct hf_txn txn;
    uint64_t seq;

    if (!is_valid(args))
        return answer(core, now, false, 0);
    client = get(core, now, peer, args);
    if (!client) {
        core->counters.out_of_memory++;
        return answer(core, now, false, 0);
    }
    if (!client->registered && hf_client_limit_nsm(core, client) < 0) {
        hf_client_unref(core, client);
        return answer(core, now, false, 0);
    }
    m = wanted(client, peer, args);
    hf_txn_begin(&txn, core, now, NULL);
    if (hf_client_update(&txn, client, &m) < 0 || hf_client_register(&txn, client) < 0) {
        hf_txn_abort(&txn);
        hf_client_unref(core, client);
        return answer(core, now, false, 0);
    }
    hf_txn_commit(&txn);
    seq = client->seq; /* a repeated SM_MON waits for the batch of the first one */
    hf_client_unref(core, client);
    return answer(core, now, true, seq);
}

static int unregister(struct hf_core *core, struct hf_now now, struct hf_client *client,
                      uint64_t *seq)
{
    struct hf_txn txn;

    hf_txn_begin(&txn, core, now, NULL);
    if (hf_client_unregister(&txn, client) < 0) {
        hf_txn_abort(&txn);
        return HF_ENOMEM;
    }
    *seq = hf_txn_commit(&txn);
    return 0;
}

struct hf_sm_answer hf_core_sm_unmon(struct hf_core *core, struct hf_now now,
                                     const struct hf_peer *peer, const struct hf_mon_args *args)
{
    struct hf_client *client = NULL;
    uint64_t seq = 0;
    bool ok = true;

    if (is_valid(args))
        client = hf_client_find_nsm(core, args, &peer->addr);
    if (client && client->registered)
        ok = unregister(core, now, client, &seq) == 0;
    else if (client)
        seq = client->seq; /* the client is unregistered already, which may not be durable yet */
    return answer(core, now, ok, seq);
}

static bool is_my_id(const struct hf_client *client, const struct hf_mon_args *args)
{
    return client->prog == args->prog && client->vers == args->vers && client->proc == args->proc &&
           hf_name_equal(client->my_name, args->my_name);
}

struct hf_sm_answer hf_core_sm_unmon_all(struct hf_core *core, struct hf_now now,
                                         const struct hf_peer *peer, const struct hf_mon_args *args)
{
    struct hf_host *host = hf_host_find(core, &peer->addr);
    uint64_t seq = 0;
    bool ok = true;

    if (!host)
        return answer(core, now, ok, seq);
    hf_list_foreach_safe (node, &host->monitors) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, in_host);
        core->table->work++;
        if (!is_my_id(client, args))
            continue;
        if (!client->registered)
            seq = hf_seq_later(seq, client->seq);
        else if (unregister(core, now, client, &seq) < 0)
            ok = false;
    }
    return answer(core, now, ok, seq);
}

int hf_core_client_learn(struct hf_core *core, struct hf_now now, uint64_t client_id,
                         const struct hf_addr *addr)
{
    struct hf_client *client = hf_client_find_id(core, client_id);

    if (!client || !client->registered || client->protocol != HF_PROTOCOL_NSM)
        return HF_ENOENT;
    return hf_client_learn_addr(core, now, client, addr);
}
