/*
 * SM_STAT, SM_MON, SM_UNMON, SM_UNMON_ALL (NSM-02..04). A registration is a client record of its
 * own; none of these ever touches a lock. The count of registrations is exact: it follows the
 * registered flag, and an undone one counts no more.
 */
#include "core/parts.h"

static struct hf_sm_answer answer(struct hf_core *core, struct hf_now now, bool ok, uint64_t seq)
{
    HF_ASSERT(!core->stopped);
    hf_core_settle(core, now);
    return (struct hf_sm_answer){ok, hf_core_state(core), hf_core_answer_seq(core, seq)};
}

struct hf_sm_answer hf_core_sm_stat(struct hf_core *core)
{
    return (struct hf_sm_answer){true, hf_core_state(core), hf_core_answer_seq(core, 0)};
}

static bool makes_sense(const struct hf_mon_args *args)
{
    return args->mon_name.len > 0 && args->mon_name.len <= HF_NAME_MAX &&
           args->my_name.len <= HF_NAME_MAX;
}

/* A reference to the registration's object, made if it is not there. */
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
    return hf_client_new(core, &record);
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

    if (!makes_sense(args))
        return answer(core, now, false, 0);
    client = get(core, now, peer, args);
    if (!client) {
        core->counters.out_of_memory++;
        return answer(core, now, false, 0);
    }
    if (!client->registered && hf_limit_monitor(core) < 0) {
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
    seq = client->seq; /* the same registration once more waits for the first */
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

    if (makes_sense(args))
        client = hf_client_find_nsm(core, args, &peer->addr);
    if (client && client->registered)
        ok = unregister(core, now, client, &seq) == 0;
    else if (client)
        seq = client->seq; /* on its way out already */
    return answer(core, now, ok, seq);
}

static bool is_my_id(const struct hf_client *client, const struct hf_peer *peer,
                     const struct hf_mon_args *args)
{
    return client->protocol == HF_PROTOCOL_NSM && client->prog == args->prog &&
           client->vers == args->vers && client->proc == args->proc &&
           hf_name_equal(client->my_name, args->my_name) &&
           hf_addr_same_host(&client->callback_host, &peer->addr);
}

struct hf_sm_answer hf_core_sm_unmon_all(struct hf_core *core, struct hf_now now,
                                         const struct hf_peer *peer, const struct hf_mon_args *args)
{
    uint64_t seq = 0;
    bool ok = true;

    hf_list_foreach_safe (node, &core->clients) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, all);
        if (!is_my_id(client, peer, args))
            continue;
        if (!client->registered)
            seq = seq > client->seq ? seq : client->seq;
        else if (unregister(core, now, client, &seq) < 0)
            ok = false;
    }
    return answer(core, now, ok, seq);
}
