/*
 * Epochs (NSM-06, NSM-07): each start begins one, and so does SM_SIMU_CRASH. A new epoch brings new
 * ids; unless the start keeps the state number (start.c), a new state number and a notice to every
 * registered host; and a grace period if there is something to reclaim. The server's record of the
 * epoch must be durable before any answer or call leaves.
 */
#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/private.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

enum { SERVER_RECORD_ROOM = 96 };

int32_t hf_epoch_state(const struct hf_core *core)
{
    return (int32_t)(2 * core->recovery->number_epoch - 1);
}

/* Lets registered clients reclaim. Not all locks are recorded, so a reclaim can only be checked
 * against the list of registered clients. */
static void let_clients_reclaim(struct hf_core *core)
{
    hf_list_foreach (node, &core->clients->all) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, all);
        if (client->protocol == HF_PROTOCOL_NLM && client->registered && !client->may_reclaim) {
            client->may_reclaim = true;
            core->clients->n_unclaimed++;
        }
        client->reclaimed = false;
    }
}

static void begin(struct hf_core *core, struct hf_now now, enum hf_start_number number)
{
    core->epoch++;
    core->next_id = hf_record_first_id(core->epoch);
    if (number == HF_START_NEW_NUMBER)
        core->recovery->number_epoch = core->epoch;
    hf_durable_write_server(core);
    core->recovery->state_seq = core->durable->epoch_seq;
    hf_pending_release_keep_unclaimed(core);
    if (!core->config.durable_locks || core->recovery->locks_unknown)
        let_clients_reclaim(core);
    hf_grace_begin(core, now);
    hf_claims_set_unknown(core, core->recovery->grace.active &&
                                    (!core->config.durable_locks || core->recovery->locks_unknown));
    hf_notice_begin_all(core, false); /* a client's linger time begins when its notice has ended */
}

/*
 * Repeats `status` callbacks. No record tells whether a monitor heard of a host's restart before we
 * went down, so each is told again (NSM-05); a monitor ignores a state number that it knows.
 */
static void repeat_status_calls(struct hf_core *core)
{
    hf_list_foreach (node, &core->clients->all) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, all);
        if (client->protocol == HF_PROTOCOL_NSM && client->registered && client->m.state != 0)
            hf_status_call_begin(core, client, client->seq);
    }
}

static void forget_volatile(struct hf_core *core, struct hf_now now, struct hf_client *client);

/* The server's record says that this start continues, but loading has shown that it cannot: forgets
 * what only a start that continues would keep. */
static void take_back_continuing(struct hf_core *core, struct hf_now now)
{
    hf_list_foreach_safe (node, &core->clients->all)
        forget_volatile(core, now, hf_list_entry(node, struct hf_client, all));
}

/* Goes on as before the restart: waiters wait again, and the linger time begins for clients that
 * have nothing. */
static void go_on(struct hf_core *core, struct hf_now now)
{
    hf_waiters_resume(core);
    hf_list_foreach (node, &core->clients->all)
        hf_client_idle(core, now, hf_list_entry(node, struct hf_client, all));
}

int hf_epoch_start(struct hf_core *core, struct hf_now now)
{
    struct hf_recovery *recovery = core->recovery;
    bool continued = recovery->start.recovers == HF_RECOVERS_NOT;

    HF_ASSERT(core->durable->epoch_seq == 0);
    if (!hf_buf_reserve(&hf_durable_gathering(core)->buf, SERVER_RECORD_ROOM))
        return HF_ENOMEM;
    recovery->start = hf_start_decide(core);
    if (continued && recovery->start.recovers != HF_RECOVERS_NOT)
        take_back_continuing(core, now);
    recovery->number_epoch =
        recovery->before.number_epoch ? recovery->before.number_epoch : recovery->before.epoch;
    recovery->locks_unknown = recovery->start.unknown != HF_UNKNOWN_NONE;
    begin(core, now, recovery->start.number);
    if (recovery->start.recovers == HF_RECOVERS_NOT)
        go_on(core, now);
    repeat_status_calls(core);
    return 0;
}

enum hf_recovers hf_core_recovers(const struct hf_core *core)
{
    return core->recovery->start.recovers;
}

/* True if the next start could continue: no client has anything to do, and the records tell
 * everything. Locks that are being released because they were not reclaimed must not be held again
 * then. A lock whose record does not tell its life would survive that life's crash notice
 * (REC-04a). */
static bool is_complete(const struct hf_core *core)
{
    const struct hf_recovery *recovery = core->recovery;

    return !recovery->grace.active && recovery->hold_end_ms == 0 &&
           core->clients->n_unclaimed == 0 && core->wait->n_unclaimed == 0 &&
           core->table->n_ambiguous == 0 && core->wait->n_ambiguous == 0;
}

void hf_epoch_review(struct hf_core *core)
{
    if (!core->config.continues || core->recovery->complete == is_complete(core))
        return;
    core->recovery->complete = is_complete(core);
    hf_durable_write_server(core);
}

enum hf_continuity hf_epoch_continuity(const struct hf_core *core)
{
    if (!core->config.continues || !core->config.durable_locks)
        return HF_CONTINUITY_NONE;
    return core->recovery->complete ? HF_CONTINUITY_COMPLETE : HF_CONTINUITY_BROKEN;
}

/* Forgets what a restart forgets of the client: waiters, shares and locks without a record; all
 * other locks become unclaimed. */
static void forget_volatile(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    struct hf_lock *lock, *next;
    uint64_t seq = 0;

    client->refs++;
    hf_list_foreach_safe (node, &client->waiters)
        hf_waiter_end(core, hf_list_entry(node, struct hf_waiter, in_client), HF_END_RESTART);
    hf_list_foreach_safe (node, &client->shares)
        hf_share_drop(core, hf_list_entry(node, struct hf_share, in_client));
    for (lock = hf_client_next_lock(core, client, NULL); lock; lock = next) {
        next = hf_client_next_lock(core, client, lock);
        if (lock->durable)
            hf_lock_set_unclaimed(core, lock, true);
        else
            hf_lock_release(core, now, lock, HF_END_RESTART, &seq);
    }
    hf_client_unref(core, client);
}

void hf_epoch_simulate_crash(struct hf_core *core, struct hf_now now)
{
    hf_list_foreach_safe (node, &core->clients->all)
        forget_volatile(core, now, hf_list_entry(node, struct hf_client, all));
    hf_table_unclaim_removed(core);
    begin(core, now, HF_START_NEW_NUMBER);
}
