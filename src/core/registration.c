/*
 * Registrations: the durable half of a client. A client is registered in the same batch as its
 * first monitored lock (SPEC section 2), or by SM_MON; its record follows how it talks to us; and
 * it goes when the linger time after its last lock is over (section 4; its own reconnect window, if
 * it has one), or by SM_UNMON.
 */
#include "core/parts.h"

static int put_record(struct hf_txn *txn, struct hf_client *client)
{
    struct hf_batch *batch = hf_core_gathering(txn->core);
    struct hf_record_client record;

    hf_client_record(client, &record);
    client->seq = batch->seq;
    return hf_batch_put_client(batch, &record);
}

void hf_client_set_registered(struct hf_core *core, struct hf_client *client, bool registered)
{
    HF_ASSERT(client->registered != registered);
    client->registered = registered;
    if (client->protocol == HF_PROTOCOL_NSM)
        core->n_nsm_clients += registered ? 1 : UINT32_MAX;
    if (registered) {
        client->refs++;
        return;
    }
    hf_timer_disarm(core, &client->linger);
    hf_errand_end(core, &client->notice);
    hf_errand_end(core, &client->told);
    client->notice_status = HF_NOTICE_NONE;
    hf_client_bar_reclaim(core, client);
    hf_client_unref(core, client); /* somebody who undoes or unregisters holds another one */
}

/* Keeps aside what a failed commit must bring back. */
static int save(struct hf_txn *txn, struct hf_client *client)
{
    struct hf_core *core = txn->core;
    struct hf_client_saved *saved;

    if (hf_undo_reserve(core) < 0)
        return HF_ENOMEM;
    saved = hf_malloc(core->alloc, sizeof(*saved));
    if (!saved)
        return HF_ENOMEM;
    *saved = (struct hf_client_saved){client, client->m, client->registered_at_ms, client->epoch};
    client->refs++;
    hf_undo_push(core, (struct hf_undo){HF_UNDO_CLIENT_CHANGED, .saved = saved});
    return 0;
}

/*
 * Not registered, but the disk may still say so, because that is not durable yet: if it is undone,
 * the client must be as the disk has it.
 */
static bool is_leaving(const struct hf_core *core, const struct hf_client *client)
{
    return !client->registered && !hf_core_is_durable(core, client->seq);
}

int hf_client_register(struct hf_txn *txn, struct hf_client *client)
{
    struct hf_core *core = txn->core;

    if (client->registered) {
        if (!hf_core_is_durable(core, client->seq))
            txn->depends = true; /* a lock is worth nothing before its client is on disk */
        return 0;
    }
    if (is_leaving(core, client) && save(txn, client) < 0)
        return HF_ENOMEM;
    if (hf_undo_reserve(core) < 0)
        return HF_ENOMEM;
    client->registered_at_ms = txn->now.wall_ms;
    client->epoch = core->epoch;
    hf_client_set_registered(core, client, true);
    client->refs++;
    hf_undo_push(core, (struct hf_undo){HF_UNDO_CLIENT_REGISTERED, .client = client});
    hf_event_add(core, HF_EVENT_CLIENT_REGISTERED, client, 0, 0, 0);
    return put_record(txn, client);
}

int hf_client_unregister(struct hf_txn *txn, struct hf_client *client)
{
    struct hf_core *core = txn->core;

    HF_ASSERT(client->registered && client->n_locks == 0);
    if (hf_undo_reserve(core) < 0 ||
        hf_batch_delete(hf_core_gathering(core), HF_RECORD_CLIENT, client->id) < 0)
        return HF_ENOMEM;
    client->seq = hf_core_gathering(core)->seq;
    client->refs++;
    hf_undo_push(core, (struct hf_undo){HF_UNDO_CLIENT_UNREGISTERED, .client = client});
    hf_client_set_registered(core, client, false);
    return 0;
}

static bool mutable_equal(const struct hf_client_mutable *a, const struct hf_client_mutable *b)
{
    return a->state == b->state && a->transport == b->transport &&
           hf_addr_same_host(&a->local, &b->local) && memcmp(a->priv, b->priv, HF_PRIV_SIZE) == 0;
}

int hf_client_update(struct hf_txn *txn, struct hf_client *client,
                     const struct hf_client_mutable *to)
{
    if (mutable_equal(&client->m, to))
        return 0;
    if (!client->registered && !is_leaving(txn->core, client)) {
        client->m = *to; /* there is no record of it */
        return 0;
    }
    if (save(txn, client) < 0)
        return HF_ENOMEM;
    client->m = *to;
    if (client->registered)
        return put_record(txn, client);
    txn->depends = true;
    return 0;
}

int hf_core_client_learn(struct hf_core *core, struct hf_now now, uint64_t client_id,
                         const struct hf_addr *addr)
{
    struct hf_client *client = hf_client_find_id(core, client_id);
    struct hf_txn txn;

    if (!client || !client->registered || client->protocol != HF_PROTOCOL_NSM)
        return HF_ENOENT;
    for (const struct hf_alias *a = client->aliases; a; a = a->next) {
        if (hf_addr_same_host(&a->addr, addr))
            return 0;
    }
    if (client->n_addrs == HF_CLIENT_ADDRS_MAX)
        return HF_ELIMIT;
    hf_txn_begin(&txn, core, now, NULL);
    if (hf_undo_reserve(core) < 0 || hf_client_add_alias(core, client, addr) < 0)
        return HF_ENOMEM;
    client->refs++;
    hf_undo_push(core, (struct hf_undo){HF_UNDO_CLIENT_ALIAS, .alias = client->aliases});
    if (put_record(&txn, client) < 0) {
        hf_txn_abort(&txn);
        return HF_ENOMEM;
    }
    hf_txn_commit(&txn);
    return 0;
}

static bool has_something(const struct hf_client *client)
{
    return client->n_locks > 0 || client->n_shares > 0 || !hf_list_empty(&client->waiters);
}

/*
 * How long it may stay away after its last lock before it is forgotten: its own reconnect window
 * (TRK-01), or, where its protocol knows none (NLM and NSM do not), the linger time. A record may
 * hold any number; a year is for ever.
 */
static uint64_t window_ms(const struct hf_core *core, const struct hf_client *client)
{
    const uint64_t year_ms = 366ULL * 24 * 3600 * 1000;

    if (client->ttl_ms == 0)
        return core->config.linger_ms;
    return client->ttl_ms < year_ms ? client->ttl_ms : year_ms;
}

/*
 * The timer is not moved at each lock and unlock, which would cost more than the lock: it is left
 * alone while the client is busy, and looks, when it fires, since when the client is idle.
 */
void hf_client_idle(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    if (client->protocol != HF_PROTOCOL_NLM || !client->registered || has_something(client))
        return;
    client->idle_since_ms = now.mono_ms;
    if (!client->linger.armed)
        hf_timer_arm(core, &client->linger, now.mono_ms + window_ms(core, client));
}

void hf_client_linger_over(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    uint64_t due_ms = client->idle_since_ms + window_ms(core, client);
    struct hf_txn txn;

    if (has_something(client))
        return; /* armed again when it has nothing left */
    /* It still has to hear of our restart, or may reclaim what we do not know of. */
    if (client->notice.state != HF_ERRAND_IDLE || client->may_reclaim)
        due_ms = now.mono_ms + core->config.linger_ms;
    if (due_ms > now.mono_ms) {
        hf_timer_arm(core, &client->linger, due_ms);
        return;
    }
    hf_txn_begin(&txn, core, now, NULL);
    if (hf_client_unregister(&txn, client) < 0) {
        hf_txn_abort(&txn);
        hf_timer_arm(core, &client->linger, now.mono_ms + core->config.linger_ms);
        return;
    }
    hf_event_add(core, HF_EVENT_CLIENT_UNREGISTERED, client, 0, 0, 0);
    hf_txn_commit(&txn);
}

void hf_client_bar_reclaim(struct hf_core *core, struct hf_client *client)
{
    if (!client->may_reclaim)
        return;
    client->may_reclaim = false;
    HF_ASSERT(core->n_unclaimed > 0);
    core->n_unclaimed--;
}
