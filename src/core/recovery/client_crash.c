/*
 * A client is dead: it has restarted (NSM-05), or cannot be told of our own restart (NOT-03), or
 * says itself that it has nothing any more (FREE_ALL), or the operator says so. Its locks, shares
 * and waiters are released, on every file; a failure on one does not stop the rest (CRS-01). Each
 * lock is released in a transaction of its own; the waiters for them are served afterwards, at the
 * end of the turn.
 *
 * When memory runs out or a commit fails, a FREE_ALL or an operator is refused, and asks again. The
 * locks of a crashed client become a pending release instead, which is retried.
 */
#include "core/clients/clients.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/private.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

int hf_lock_release(struct hf_core *core, struct hf_now now, struct hf_lock *lock, uint64_t *seq)
{
    struct hf_txn txn;

    hf_txn_begin(&txn, core, now, &lock->file->seq);
    if (hf_table_drop(&txn, lock) < 0) {
        hf_txn_abort(&txn);
        return HF_ENOMEM;
    }
    hf_waiter_confirm_range(core, lock->owner, lock->file, lock->node.first, lock->node.last);
    *seq = hf_seq_later(*seq, hf_txn_commit(&txn));
    return 1;
}

/*
 * A request from before the restart was granted while the notice was being verified. Its lock is
 * newer than the notice, but goes with it. (After a hint, the lock was marked when it was granted.)
 */
static void mark_late(const struct hf_core *core, const struct hf_waiter *waiter)
{
    struct hf_lock *lock = NULL;

    while (
        (lock = hf_table_own(core, waiter->file, waiter->owner, waiter->first, waiter->last, lock)))
        lock->late = true;
}

/*
 * Releases waiters and shares, which are not durable; returns how many. Those from before_id on
 * stay. If a hint told of the restart, a waiter's own state number decides instead of its id; a
 * share carries none.
 */
static int64_t release_volatile(struct hf_core *core, struct hf_client *client, uint64_t before_id,
                                bool hinted)
{
    int64_t n = 0;

    if (!HF_MUTANT(CRASH_KEEPS_WAITERS)) {
        hf_list_foreach_safe (node, &client->waiters) {
            struct hf_waiter *waiter = hf_list_entry(node, struct hf_waiter, in_client);
            core->table->work++;
            if (hinted ? !hf_waiter_is_former(waiter) : waiter->id >= before_id)
                continue;
            if (waiter->granting && !hinted)
                mark_late(core, waiter);
            hf_waiter_remove(core, waiter);
            n++;
        }
    }
    hf_list_foreach_safe (node, &client->shares) {
        struct hf_share *share = hf_list_entry(node, struct hf_share, in_client);
        core->table->work++;
        if (share->id >= before_id)
            continue;
        hf_share_drop(core, share);
        n++;
    }
    return n;
}

int64_t hf_client_release_before(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                 uint64_t before_id, uint64_t *seq)
{
    const struct hf_pending_release all = {.before_id = before_id, .late_id = core->next_id};
    bool left = false;
    int64_t n;

    client->refs++;
    n = release_volatile(core, client, all.before_id, false);
    n += hf_pending_release_locks(core, now, client, &all, seq, &left);
    hf_client_bar_reclaim(core, client);
    hf_client_event(core, HF_EVENT_CLIENT_RELEASED, client, 0, n, 0);
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
    return left ? HF_ENOMEM : n;
}

int64_t hf_client_release_all(struct hf_core *core, struct hf_now now, struct hf_client *client,
                              uint64_t *seq)
{
    return hf_client_release_before(core, now, client, UINT64_MAX, seq);
}

void hf_client_crashed(struct hf_core *core, struct hf_now now, struct hf_client *client,
                       int32_t state, uint64_t before_id, uint64_t *seq)
{
    /* It restarted before the first LOCK that carried this state. */
    bool hinted = client->hint_id != 0 && client->hint_state == state;
    int64_t n;

    if (hinted && client->hint_id < before_id)
        before_id = client->hint_id;

    client->refs++;
    release_volatile(core, client, before_id, hinted);
    client->hint_state = 0;
    client->hint_id = 0;
    hf_client_bar_reclaim(core, client);
    n = hf_pending_release_add(core, now, client,
                               (struct hf_pending_release){.before_id = before_id, .state = state});
    hf_client_event(core, HF_EVENT_CLIENT_CRASHED, client, state, n, 0);
    if (client->pending_release.seq !=
        UINT64_MAX) /* else it is retried; the answer does not wait */
        *seq = hf_seq_later(*seq, client->pending_release.seq);
    hf_client_unref(core, client);
}

/*
 * Reports what the client is about to lose. Without durable locks, how many is not known.
 */
void hf_client_lost(struct hf_core *core, const struct hf_client *client, enum hf_loss reason)
{
    static const enum hf_event_kind EVENTS[HF_LOSSES] = {
        [HF_LOSS_UNRECLAIMED] = HF_EVENT_CLIENT_UNRECLAIMED,
        [HF_LOSS_UNREACHABLE] = HF_EVENT_CLIENT_UNREACHABLE,
    };

    if (client->n_unclaimed == 0 && (!client->may_reclaim || client->reclaimed))
        return;
    core->counters.locks_lost[reason] += client->n_unclaimed;
    core->counters.clients_lost[reason]++;
    hf_client_event(core, EVENTS[reason], client, client->m.state, client->n_unclaimed, 0);
}

/*
 * Only locks that the client has not reclaimed are released. A client that has reclaimed some, or
 * has locked anew, knows of our restart and is alive, even if its status monitor does not answer.
 */
void hf_client_unreachable(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    if (client->protocol != HF_PROTOCOL_NLM || core->config.on_failure == HF_ON_FAILURE_KEEP)
        return;
    hf_client_lost(core, client, HF_LOSS_UNREACHABLE);
    if (!client->reclaimed)
        hf_client_bar_reclaim(core, client);
    hf_pending_release_add(core, now, client, (struct hf_pending_release){.unclaimed_only = true});
}
