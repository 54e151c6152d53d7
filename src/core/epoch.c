/*
 * Epochs (NSM-06, NSM-07): each start is one, and SM_SIMU_CRASH is one without a start. A new epoch
 * is a new state number, new ids, grace if there is something to reclaim, and a notice to everybody
 * registered. Its record must be durable before anything leaves.
 */
#include "core/parts.h"

enum { SERVER_RECORD_ROOM = 64 };

int32_t hf_core_state(const struct hf_core *core)
{
    uint64_t n = HF_PLANTED(REUSE_STATE_NUMBER) ? (core->epoch + 1) / 2 : core->epoch;

    return (int32_t)(2 * n - 1);
}

bool hf_core_state_is_durable(const struct hf_core *core)
{
    return hf_core_is_durable(core, core->state_seq);
}

static void write_server(struct hf_core *core)
{
    core->server_dirty = true;
    core->wanted = true;
    core->epoch_seq = hf_core_gathering(core)->seq;
}

/* Locks that are not recorded: the clients are what can be asked. */
static void let_clients_reclaim(struct hf_core *core)
{
    hf_list_foreach (node, &core->clients) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, all);
        if (client->protocol == HF_PROTOCOL_NLM && client->registered && !client->may_reclaim) {
            client->may_reclaim = true;
            core->n_unclaimed++;
        }
        client->reclaimed = false;
    }
}

static void begin(struct hf_core *core, struct hf_now now)
{
    core->epoch++;
    core->next_id = hf_record_first_id(core->epoch);
    write_server(core);
    core->state_seq = core->epoch_seq;
    if (!core->config.durable_locks)
        let_clients_reclaim(core);
    hf_grace_begin(core, now);
    hf_notice_begin_all(core);
    hf_list_foreach (node, &core->clients)
        hf_client_idle(core, now, hf_list_entry(node, struct hf_client, all));
}

/*
 * Whether those who asked about a host that restarted had heard of it before we went down is not
 * recorded; so they are told again (NSM-05). The same state number again is no news to them.
 */
static void tell_again(struct hf_core *core)
{
    hf_list_foreach (node, &core->clients) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, all);
        if (client->protocol == HF_PROTOCOL_NSM && client->registered && client->m.state != 0)
            hf_told_begin(core, client, client->seq);
    }
}

int hf_core_start(struct hf_core *core, struct hf_now now)
{
    HF_ASSERT(core->epoch_seq == 0);
    if (!hf_buf_reserve(&hf_core_gathering(core)->buf, SERVER_RECORD_ROOM))
        return HF_ENOMEM;
    begin(core, now);
    tell_again(core);
    hf_core_settle(core, now);
    return 0;
}

uint64_t hf_core_stop(struct hf_core *core, struct hf_now now)
{
    (void)now;
    core->stopped = true;
    write_server(core);
    return core->epoch_seq;
}

/* What a restart forgets: waiters, shares, locks without a record. What it keeps is unclaimed. */
static void forget_volatile(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    uint64_t seq = 0;

    client->refs++;
    hf_list_foreach_safe (node, &client->waiters)
        hf_waiter_remove(core, hf_list_entry(node, struct hf_waiter, in_client));
    hf_list_foreach_safe (node, &client->shares)
        hf_share_drop(core, hf_list_entry(node, struct hf_share, in_client));
    hf_list_foreach_safe (node, &client->locks) {
        struct hf_lock *lock = hf_list_entry(node, struct hf_lock, in_client);
        if (lock->durable)
            hf_lock_set_unclaimed(core, lock, true);
        else
            hf_lock_release(core, now, lock, &seq);
    }
    hf_client_unref(core, client);
}

uint64_t hf_core_simu_crash(struct hf_core *core, struct hf_now now)
{
    hf_list_foreach_safe (node, &core->clients)
        forget_volatile(core, now, hf_list_entry(node, struct hf_client, all));
    begin(core, now);
    hf_core_settle(core, now);
    return hf_core_answer_seq(core, core->epoch_seq);
}
