/*
 * A client is dead: it has restarted (NSM-05), or cannot be told of our own restart (NOT-03), or
 * says itself that it has nothing any more (FREE_ALL), or the operator says so. Its locks, shares
 * and waiters go, on every file; a failure on one does not stop the rest (CRS-01).
 *
 * Each lock goes in a transaction of its own, and those who waited are served afterwards, in
 * hf_core_settle(). The release of a dead client's locks must not be lost because a commit failed:
 * the client stays doomed, and the release is tried again, until it is durable. (A FREE_ALL or an
 * operator is refused instead, and asks again.)
 */
#include "core/parts.h"

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

int hf_lock_release(struct hf_core *core, struct hf_now now, struct hf_lock *lock, uint64_t *seq)
{
    struct hf_txn txn;

    hf_txn_begin(&txn, core, now, lock->file);
    if (hf_held_drop(&txn, lock) < 0) {
        hf_txn_abort(&txn);
        return HF_ENOMEM;
    }
    hf_waiter_confirm_range(core, lock->owner, lock->file, lock->node.first, lock->node.last);
    *seq = later(*seq, hf_txn_commit(&txn));
    return 1;
}

/* Waiters and shares: nothing durable about them. */
static int64_t strip_volatile(struct hf_core *core, struct hf_client *client, uint64_t before_id)
{
    int64_t n = 0;

    if (!HF_PLANTED(CRASH_KEEPS_WAITERS)) {
        hf_list_foreach_safe (node, &client->waiters) {
            struct hf_waiter *waiter = hf_list_entry(node, struct hf_waiter, in_client);
            if (waiter->id >= before_id)
                continue;
            hf_waiter_remove(core, waiter);
            n++;
        }
    }
    hf_list_foreach_safe (node, &client->shares) {
        struct hf_share *share = hf_list_entry(node, struct hf_share, in_client);
        if (share->id >= before_id)
            continue;
        hf_share_drop(core, share);
        n++;
    }
    return n;
}

/* Returns how many went; *left is set if memory ran out on some. */
static int64_t strip_locks(struct hf_core *core, struct hf_now now, struct hf_client *client,
                           const struct hf_doom *doom, uint64_t *seq, bool *left)
{
    int64_t n = 0;

    hf_list_foreach_safe (node, &client->locks) {
        struct hf_lock *lock = hf_list_entry(node, struct hf_lock, in_client);
        if (lock->id >= doom->before_id || (doom->unclaimed_only && !lock->unclaimed))
            continue;
        if (hf_lock_release(core, now, lock, seq) < 0)
            *left = true;
        else
            n++;
    }
    return n;
}

int64_t hf_client_strip(struct hf_core *core, struct hf_now now, struct hf_client *client,
                        uint64_t *seq)
{
    const struct hf_doom all = {.before_id = UINT64_MAX};
    bool left = false;
    int64_t n;

    client->refs++;
    n = strip_volatile(core, client, all.before_id);
    n += strip_locks(core, now, client, &all, seq, &left);
    hf_client_bar_reclaim(core, client);
    hf_event_add(core, HF_EVENT_CLIENT_RELEASED, client, 0, n, 0);
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
    return left ? HF_ENOMEM : n;
}

/* Its record learns the new state number, so the same notice again changes nothing. */
static int set_state(struct hf_core *core, struct hf_now now, struct hf_client *client,
                     int32_t state, uint64_t *seq)
{
    struct hf_client_mutable to = client->m;
    struct hf_txn txn;

    if (state == 0)
        return 0;
    to.state = state;
    hf_txn_begin(&txn, core, now, NULL);
    if (hf_client_update(&txn, client, &to) < 0) {
        hf_txn_abort(&txn);
        return HF_ENOMEM;
    }
    *seq = later(*seq, hf_txn_commit(&txn));
    return 0;
}

/* Does what a doom says, as far as memory allows; the doom is over when that is durable. */
static int64_t enforce(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    struct hf_doom *doom = &client->doom;
    bool left = false;
    int64_t n;

    client->refs++;
    doom->seq = 0;
    n = strip_locks(core, now, client, doom, &doom->seq, &left);
    core->counters.locks_cleaned += (uint64_t)n;
    if (set_state(core, now, client, doom->state, &doom->seq) < 0)
        left = true;
    if (left) {
        doom->seq = UINT64_MAX;
        hf_redo_later(core, now);
    }
    if (hf_core_is_durable(core, doom->seq))
        hf_list_remove(&doom->link);
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
    return n;
}

static int64_t condemn(struct hf_core *core, struct hf_now now, struct hf_client *client,
                       struct hf_doom doom)
{
    hf_list_remove(&client->doom.link);
    if (doom.before_id == 0)
        doom.before_id = core->next_id;
    client->doom = doom;
    hf_list_add_tail(&core->doomed, &client->doom.link);
    core->counters.crashes_detected++;
    core->counters.crash_cleanups++;
    return enforce(core, now, client);
}

void hf_client_crashed(struct hf_core *core, struct hf_now now, struct hf_client *client,
                       int32_t state, uint64_t *seq)
{
    /* Where its new life began: with the first LOCK that told this state, or just now. */
    bool hinted = client->hint_id != 0 && client->hint_state == state;
    uint64_t before_id = hinted ? client->hint_id : core->next_id;
    int64_t n;

    client->refs++;
    client->hint_state = 0;
    client->hint_id = 0;
    strip_volatile(core, client, before_id);
    hf_client_bar_reclaim(core, client);
    n = condemn(core, now, client, (struct hf_doom){.before_id = before_id, .state = state});
    hf_event_add(core, HF_EVENT_CLIENT_CRASHED, client, state, n, 0);
    if (client->doom.seq != UINT64_MAX) /* else it is tried again, whoever waits for it or not */
        *seq = later(*seq, client->doom.seq);
    hf_client_unref(core, client);
}

/*
 * Only what it has not reclaimed goes: a client that has reclaimed something, or locked anew, knows
 * of our restart and lives, however deaf its status monitor is.
 */
void hf_client_unreachable(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    int64_t n;

    if (client->protocol != HF_PROTOCOL_NLM || core->config.on_failure == HF_ON_FAILURE_KEEP)
        return;
    if (!client->reclaimed)
        hf_client_bar_reclaim(core, client);
    n = condemn(core, now, client, (struct hf_doom){.unclaimed_only = true});
    hf_event_add(core, HF_EVENT_CLIENT_UNREACHABLE, client, client->m.state, n, 0);
}

void hf_doom_redo(struct hf_core *core, struct hf_now now)
{
    hf_list_foreach_safe (node, &core->doomed) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, doom.link);
        enforce(core, now, client);
    }
}

void hf_doom_durable(struct hf_core *core)
{
    hf_list_foreach_safe (node, &core->doomed) {
        if (hf_core_is_durable(core, hf_list_entry(node, struct hf_client, doom.link)->doom.seq))
            hf_list_remove(node);
    }
}

void hf_doom_undone(struct hf_core *core)
{
    hf_list_foreach (node, &core->doomed)
        hf_list_entry(node, struct hf_client, doom.link)->doom.seq = UINT64_MAX;
}

struct hf_answer hf_core_free_all(struct hf_core *core, struct hf_now now,
                                  const struct hf_peer *peer)
{
    struct hf_answer answer = {HF_STAT_GRANTED};
    struct hf_alias *next;

    /* Its own, only (NLM-05); by whichever of our addresses it got them. */
    for (struct hf_alias *alias = hf_alias_find(core, &peer->addr); alias; alias = next) {
        struct hf_client *client = alias->client;
        uint64_t seq = 0;
        next = hf_alias_find_next(alias); /* a client without registration may go now */
        if (client->protocol != HF_PROTOCOL_NLM || !hf_name_equal(client->name, peer->name))
            continue;
        if (hf_client_strip(core, now, client, &seq) < 0)
            answer.stat = HF_STAT_DENIED_NOLOCKS;
        answer.seq = later(answer.seq, seq);
    }
    return hf_request_answer(core, now, answer);
}
