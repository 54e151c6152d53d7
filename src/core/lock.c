/*
 * LOCK and NM_LOCK (NLM-02, NLM-03, SPEC section 4). In this order: what is refused in grace; what
 * is a reclaim; what was asked before and still waits or has just been granted; what can be had
 * now; what must wait, or cannot because it would wait for itself.
 */
#include "core/parts.h"

/* A LOCK tells the client's state number; 0 means unknown, never changed (PROTOCOL). */
static bool tells_another_state(const struct hf_client *client, int32_t state)
{
    return state != 0 && client->m.state != 0 && state != client->m.state;
}

static void note_state(struct hf_core *core, struct hf_client *client, int32_t state)
{
    if (!tells_another_state(client, state))
        return;
    core->counters.state_hints++; /* followed only if the client confirms it by SM_NOTIFY */
    if (client->hint_state == state)
        return; /* known, and told */
    client->hint_state = state;
    client->hint_id = core->next_id;
    hf_event_add(core, HF_EVENT_STATE_HINT, client, state, client->m.state, 0);
}

/* How the client talks to us as of this request. */
static struct hf_client_mutable current(const struct hf_client *client, const struct hf_peer *peer,
                                        const struct hf_lock_args *args)
{
    struct hf_client_mutable m = client->m;

    m.local = peer->local;
    m.local.port = 0;
    m.transport = peer->transport;
    if (m.state == 0)
        m.state = args->state;
    return m;
}

static struct hf_answer acquire(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                                const struct hf_lock_args *args, const struct hf_subject *s,
                                const struct hf_want *want)
{
    struct hf_client_mutable m = current(s->client, peer, args);
    struct hf_txn txn;

    if (hf_limit_lock(core, s->file, want) < 0)
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    hf_txn_begin(&txn, core, now, s->file);
    if ((!args->unmonitored &&
         (hf_client_update(&txn, s->client, &m) < 0 || hf_client_register(&txn, s->client) < 0)) ||
        hf_held_set(&txn, want) < 0) {
        hf_txn_abort(&txn);
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    }
    hf_waiters_wake_owner(core, s->owner, s->file);
    return (struct hf_answer){HF_STAT_GRANTED, hf_txn_commit(&txn)};
}

/* What the record of a client will say that is not registered before it is granted something. */
static int introduce(struct hf_core *core, struct hf_now now, struct hf_client *client,
                     struct hf_client_mutable m)
{
    struct hf_txn txn;

    hf_txn_begin(&txn, core, now, NULL);
    if (hf_client_update(&txn, client, &m) < 0) {
        hf_txn_abort(&txn);
        return HF_ENOMEM;
    }
    hf_txn_commit(&txn);
    return 0;
}

static struct hf_answer wait_for_it(struct hf_core *core, struct hf_now now,
                                    const struct hf_peer *peer, const struct hf_lock_args *args,
                                    const struct hf_subject *s, const struct hf_want *want)
{
    if (hf_limit_waiter(core, s->file) < 0 || hf_limit_one(core, s->client, s->file) < 0)
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    if (hf_deadlock_would_close(core, s->file, want)) {
        core->counters.deadlocks++;
        return (struct hf_answer){HF_STAT_DEADLCK, s->file->seq};
    }
    if (!s->client->registered &&
        introduce(core, now, s->client, current(s->client, peer, args)) < 0)
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    if (hf_waiter_add(core, now, peer, args, s->file, want) < 0) {
        core->counters.out_of_memory++;
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    }
    return (struct hf_answer){HF_STAT_BLOCKED};
}

/* The request was made before: it waits still, or its callback is under way. */
static struct hf_answer asked_before(struct hf_core *core, struct hf_waiter *waiter)
{
    struct hf_answer answer = {HF_STAT_BLOCKED};

    if (waiter->granting) {
        /* This answer tells the client. The callback must stop: to a client that no longer waits
         * it is wrong, and a DENIED to it would free a lock in use. */
        answer = (struct hf_answer){HF_STAT_GRANTED, waiter->file->seq};
        hf_waiter_confirm_range(core, waiter->owner, waiter->file, waiter->first, waiter->last);
        return answer;
    }
    /* Clients ask again every 30 s: often enough to look for a cycle that closed by itself. */
    if (!hf_deadlock_is_closed(core, waiter))
        return answer;
    waiter->passes = true;
    if (hf_deadlock_is_of_locks(core, waiter)) {
        core->counters.deadlocks++;
        answer = (struct hf_answer){HF_STAT_DEADLCK, waiter->file->seq};
        hf_waiter_remove(core, waiter);
    } else {
        hf_waiters_wake(core, waiter->file, waiter->first, waiter->last);
    }
    return answer;
}

/* blocker is NULL where only those are in the way who wait already. */
static struct hf_answer denied(const struct hf_core *core, const struct hf_file *file,
                               const struct hf_lock *blocker)
{
    if (blocker && blocker->unclaimed && core->grace.active)
        return (struct hf_answer){HF_STAT_DENIED_GRACE_PERIOD, file->seq}; /* conflict mode */
    return (struct hf_answer){HF_STAT_DENIED, file->seq};
}

static struct hf_answer decide(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                               const struct hf_lock_args *args, const struct hf_subject *s,
                               const struct hf_want *want)
{
    struct hf_waiter *before = hf_waiter_find(s->file, want);
    const struct hf_lock *blocker;

    if (before && !before->granting && hf_held_covers(s->file, want, true)) {
        /* It has got it meanwhile, as part of another grant: no need to wait for its own. */
        hf_waiter_remove(core, before);
        before = NULL;
    }
    if (before && (args->block || before->granting))
        return asked_before(core, before);
    /* A process that waits asks for nothing else: it knows of an earlier grant, so that one's
     * callback must stop. Clients compare the range but not the mode, and a DENIED would free a
     * lock in use. */
    hf_waiter_confirm_range(core, s->owner, s->file, want->first, want->last);
    blocker = hf_held_conflict(s->file, want);
    /* Who waits for just this, and now asks without waiting, has its place in the queue. */
    if (!blocker && !hf_waiter_ahead(s->file, want, before ? before->id : UINT64_MAX, NULL))
        return acquire(core, now, peer, args, s, want);
    if (args->block)
        return wait_for_it(core, now, peer, args, s, want);
    return denied(core, s->file, blocker);
}

/*
 * A client that has nothing, and asks again and again for what another holds: it is told so without
 * being remembered in between. False: something else must be looked at.
 */
static bool denied_to_stranger(const struct hf_core *core, const struct hf_lock_args *args,
                               const struct hf_range *range, struct hf_answer *answer)
{
    struct hf_want want = {NULL, range->first, range->last, args->exclusive, false};
    const struct hf_file *file = args->block || args->reclaim ? NULL : hf_file_find(core, args->fh);
    const struct hf_lock *blocker = file ? hf_held_conflict(file, &want) : NULL;

    if (blocker)
        *answer = denied(core, file, blocker);
    return blocker != NULL;
}

/*
 * Nothing new (GRC-01). But a LOCK whose answer was lost with us is repeated as it was, not as a
 * reclaim, and its owner holds just that: it is as good as reclaimed, and grace need not wait for
 * it.
 */
static struct hf_answer in_strict_grace(struct hf_core *core, struct hf_now now,
                                        const struct hf_peer *peer, const struct hf_lock_args *args,
                                        const struct hf_range *range)
{
    struct hf_answer answer = {HF_STAT_DENIED_GRACE_PERIOD};
    struct hf_subject s;

    if (!core->config.durable_locks || args->unmonitored ||
        hf_subject_find(core, now, peer, args, &s) < 0)
        return answer;
    struct hf_want want = {s.owner, range->first, range->last, args->exclusive, true};
    if (hf_held_covers(s.file, &want, true) && !tells_another_state(s.client, args->state))
        answer = hf_reclaim(core, now, s.file, &want);
    hf_subject_put(core, now, &s);
    return answer;
}

struct hf_answer hf_core_lock(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                              const struct hf_lock_args *args)
{
    struct hf_answer answer = {HF_STAT_DENIED_NOLOCKS};
    struct hf_client *client;
    struct hf_subject s;
    struct hf_range range;

    answer.stat = hf_request_check(peer, args, &range);
    if (answer.stat != HF_STAT_GRANTED)
        return hf_request_answer(core, now, answer);
    if (!args->reclaim && core->grace.active && core->config.grace_mode == HF_GRACE_STRICT)
        return hf_request_answer(core, now, in_strict_grace(core, now, peer, args, &range));
    client = hf_client_find_nlm(core, peer);
    if (!client && denied_to_stranger(core, args, &range, &answer))
        return hf_request_answer(core, now, answer);
    if (hf_subject_get(core, now, peer, args, client, &s) < 0) {
        answer.stat = HF_STAT_DENIED_NOLOCKS;
        return hf_request_answer(core, now, answer);
    }
    struct hf_want want = {s.owner, range.first, range.last, args->exclusive,
                           !args->unmonitored && core->config.durable_locks};
    note_state(core, s.client, args->state);
    answer = args->reclaim ? hf_reclaim(core, now, s.file, &want)
                           : decide(core, now, peer, args, &s, &want);
    hf_subject_put(core, now, &s);
    return hf_request_answer(core, now, answer);
}
