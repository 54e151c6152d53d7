/*
 * Registrations: the durable half of a client, which outlives its last lock by the linger time.
 */
#include <string.h>

#include "core/clients/private.h"
#include "core/common/timer.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"

/* Writes the client's record; the caller has saved the former content, if there was a record. */
int hf_client_put_record(struct hf_txn *txn, struct hf_client *client)
{
    struct hf_batch *batch = hf_durable_gathering(txn->core);
    struct hf_record_client record;

    client->recorded = hf_lives_record(client);
    client->recorded_life = client->lives.now;
    client->misplaced = false;
    hf_client_record(client, &record);
    client->seq = batch->seq;
    return hf_batch_put_client(batch, &record);
}

void hf_client_set_registered(struct hf_core *core, struct hf_client *client, bool registered)
{
    HF_ASSERT(client->registered != registered);
    client->registered = registered;
    if (client->protocol == HF_PROTOCOL_NSM) {
        core->clients->n_nsm += registered ? 1 : UINT32_MAX;
        client->host->n_registrations += registered ? 1 : UINT32_MAX;
    }
    if (registered) {
        client->refs++;
        return;
    }
    hf_timer_disarm(core, &client->linger);
    hf_outcall_end(core, &client->notice);
    hf_outcall_end(core, &client->status_call);
    client->notice_status = HF_NOTICE_NONE;
    hf_client_bar_reclaim(core, client);
    hf_client_unref(core, client); /* the caller still has another reference to the client */
}

/* The changeable part of a client as it was before a change, kept for undo. */
struct saved {
    struct hf_client *client; /* the undo entry holds a reference to this client */
    struct hf_client_mutable m;
    struct hf_record_lives recorded;
    uint32_t recorded_life;
    int64_t registered_at_ms;
    uint64_t epoch;
    bool misplaced;
};

static void forget_saved(struct hf_core *core, struct saved *saved)
{
    hf_client_unref(core, saved->client);
    hf_free(core->alloc, saved);
}

static void revert_change(struct hf_core *core, const struct hf_undo *entry)
{
    struct saved *saved = entry->object;
    struct hf_client *client = saved->client;

    /* The pending `status` callback tells of a restart that is being undone. */
    if (!hf_durable_has(core, client->status_call.seq))
        hf_outcall_end(core, &client->status_call);
    client->m = saved->m;
    client->recorded = saved->recorded;
    client->recorded_life = saved->recorded_life;
    client->registered_at_ms = saved->registered_at_ms;
    client->epoch = saved->epoch;
    client->misplaced |= saved->misplaced;
    forget_saved(core, saved);
}

static void keep_change(struct hf_core *core, const struct hf_undo *entry)
{
    forget_saved(core, entry->object);
}

static void revert_register(struct hf_core *core, const struct hf_undo *entry)
{
    hf_client_set_registered(core, entry->object, false);
    hf_client_unref(core, entry->object);
}

/* Undoes the end of a registration. It ends again after another linger time if the client has
 * nothing then. */
static void revert_unregister(struct hf_core *core, const struct hf_undo *entry)
{
    struct hf_client *client = entry->object;

    hf_client_set_registered(core, client, true);
    if (client->protocol == HF_PROTOCOL_NLM)
        hf_timer_arm(core, &client->linger, client->idle_since_ms + core->config.linger_ms);
    hf_client_unref(core, entry->object);
}

static void keep_registration(struct hf_core *core, const struct hf_undo *entry)
{
    hf_client_unref(core, entry->object);
}

static void revert_alias(struct hf_core *core, const struct hf_undo *entry)
{
    struct hf_alias *alias = entry->object;
    struct hf_client *client = alias->client;

    hf_client_drop_alias(core, alias);
    hf_client_unref(core, client);
}

static void keep_alias(struct hf_core *core, const struct hf_undo *entry)
{
    hf_client_unref(core, ((struct hf_alias *)entry->object)->client);
}

static const struct hf_undo_ops change_undo = {revert_change, keep_change};
static const struct hf_undo_ops register_undo = {revert_register, keep_registration};
static const struct hf_undo_ops unregister_undo = {revert_unregister, keep_registration};
static const struct hf_undo_ops alias_undo = {revert_alias, keep_alias};

/* Saves the client's fields that a failed commit must restore. */
int hf_client_save(struct hf_txn *txn, struct hf_client *client)
{
    struct hf_core *core = txn->core;
    struct saved *saved;

    if (hf_undo_reserve(core) < 0)
        return HF_ENOMEM;
    saved = hf_malloc(core->alloc, sizeof(*saved));
    if (!saved)
        return HF_ENOMEM;
    *saved = (struct saved){client,
                            client->m,
                            client->recorded,
                            client->recorded_life,
                            client->registered_at_ms,
                            client->epoch,
                            client->misplaced};
    client->refs++;
    hf_undo_push(core, (struct hf_undo){&change_undo, .object = saved});
    return 0;
}

/* True if the client was unregistered and that is not durable yet. An undo would bring back its
 * record, so its fields must then be as the store has them. */
static bool is_leaving(const struct hf_core *core, const struct hf_client *client)
{
    return !client->registered && !hf_durable_has(core, client->seq);
}

int hf_client_register(struct hf_txn *txn, struct hf_client *client)
{
    struct hf_core *core = txn->core;

    if (client->registered && (client->recorded_life != client->lives.now || client->misplaced))
        return hf_client_save(txn, client) < 0 ? HF_ENOMEM : hf_client_put_record(txn, client);
    if (client->registered) {
        if (!hf_durable_has(core, client->seq))
            txn->depends = true; /* no lock may become durable before its client's record */
        return 0;
    }
    if (is_leaving(core, client) && hf_client_save(txn, client) < 0)
        return HF_ENOMEM;
    if (hf_undo_reserve(core) < 0)
        return HF_ENOMEM;
    client->registered_at_ms = txn->now.wall_ms;
    client->epoch = core->epoch;
    hf_client_set_registered(core, client, true);
    client->refs++;
    hf_undo_push(core, (struct hf_undo){&register_undo, .object = client});
    hf_client_event(core, HF_EVENT_CLIENT_REGISTERED, client, 0, 0, 0);
    return hf_client_put_record(txn, client);
}

/* Registers a client whose record is written behind: the time of registration is when the client
 * was last seen. */
int hf_client_register_behind(struct hf_txn *txn, struct hf_client *client)
{
    txn->now.wall_ms = client->last_seen_ms;
    return hf_client_register(txn, client);
}

int hf_client_unregister(struct hf_txn *txn, struct hf_client *client)
{
    struct hf_core *core = txn->core;

    HF_ASSERT(client->registered && client->n_locks == 0);
    if (hf_undo_reserve(core) < 0 ||
        hf_batch_delete(hf_durable_gathering(core), HF_RECORD_CLIENT, client->id) < 0)
        return HF_ENOMEM;
    client->seq = hf_durable_gathering(core)->seq;
    client->refs++;
    hf_undo_push(core, (struct hf_undo){&unregister_undo, .object = client});
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
        client->m = *to; /* the client has no record to change */
        return 0;
    }
    if (hf_client_save(txn, client) < 0)
        return HF_ENOMEM;
    client->m = *to;
    if (client->registered)
        return hf_client_put_record(txn, client);
    txn->depends = true;
    return 0;
}

int hf_client_told(struct hf_txn *txn, struct hf_client *client)
{
    if (hf_client_save(txn, client) < 0)
        return HF_ENOMEM;
    client->epoch = txn->core->epoch;
    return hf_client_put_record(txn, client);
}

int hf_client_learn_addr(struct hf_core *core, struct hf_now now, struct hf_client *client,
                         const struct hf_addr *addr)
{
    struct hf_txn txn;

    for (const struct hf_alias *a = client->aliases; a; a = a->next) {
        if (hf_addr_same_host(&a->addr, addr))
            return 0;
    }
    if (client->n_addrs == HF_CLIENT_ADDRS_MAX)
        return HF_ELIMIT;
    hf_txn_begin(&txn, core, now, NULL);
    if (hf_client_save(&txn, client) < 0 || hf_undo_reserve(core) < 0 ||
        hf_client_add_alias(core, client, addr) < 0) {
        hf_txn_abort(&txn);
        return HF_ENOMEM;
    }
    client->refs++;
    hf_undo_push(core, (struct hf_undo){&alias_undo, .object = client->aliases});
    if (hf_client_put_record(&txn, client) < 0) {
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
 * Returns how long a registration outlives the client's last lock: the client's own reconnect
 * window (TRK-01) or, for NLM and NSM, which have none, the linger time. A record may hold any
 * number, so a year is the most.
 */
static uint64_t window_ms(const struct hf_core *core, const struct hf_client *client)
{
    const uint64_t year_ms = 366ULL * 24 * 3600 * 1000;

    if (client->ttl_ms == 0)
        return core->config.linger_ms;
    return client->ttl_ms < year_ms ? client->ttl_ms : year_ms;
}

/*
 * Starts the linger time. Moving the timer at each lock and unlock would cost more than the lock,
 * so an armed timer stays armed; when it fires, idle_since_ms tells whether the time is over. The
 * timer is armed as well for a client that has something which an undo may still take away.
 */
void hf_client_idle(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    if (client->protocol != HF_PROTOCOL_NLM || !client->registered ||
        (has_something(client) && hf_durable_n_undo(core) == 0))
        return;
    client->idle_since_ms = now.mono_ms;
    if (!client->linger.armed)
        hf_timer_arm(core, &client->linger, now.mono_ms + window_ms(core, client));
}

void hf_client_linger_over(struct hf_core *core, struct hf_now now, struct hf_timer *timer)
{
    struct hf_client *client = hf_container_of(timer, struct hf_client, linger);
    uint64_t due_ms = client->idle_since_ms + window_ms(core, client);
    struct hf_txn txn;

    if (has_something(client)) {
        if (hf_durable_n_undo(core) > 0) /* an undo may still take away what the client has */
            hf_timer_arm(core, timer, now.mono_ms + window_ms(core, client));
        return; /* otherwise hf_client_idle() arms the timer again */
    }
    /* Keeps the registration: the client must still hear of our restart, or may still reclaim locks
     * that are not recorded. */
    if (client->notice.state != HF_OUTCALL_IDLE || client->may_reclaim)
        due_ms = now.mono_ms + core->config.linger_ms;
    if (due_ms > now.mono_ms) {
        hf_timer_arm(core, &client->linger, due_ms);
        return;
    }
    /* If the client cannot be unregistered now, the linger time begins anew. */
    client->idle_since_ms = now.mono_ms;
    hf_txn_begin(&txn, core, now, NULL);
    if (hf_client_unregister(&txn, client) < 0) {
        hf_txn_abort(&txn);
        hf_timer_arm(core, &client->linger, now.mono_ms + core->config.linger_ms);
        return;
    }
    hf_client_event(core, HF_EVENT_CLIENT_UNREGISTERED, client, 0, 0, 0);
    hf_txn_commit(&txn);
}

void hf_client_bar_reclaim(struct hf_core *core, struct hf_client *client)
{
    if (!client->may_reclaim)
        return;
    client->may_reclaim = false;
    HF_ASSERT(core->clients->n_unclaimed > 0);
    core->clients->n_unclaimed--;
}
