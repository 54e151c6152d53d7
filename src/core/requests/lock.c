/*
 * LOCK and NM_LOCK (NLM-02, NLM-03, SPEC section 4). The core looks at a request in this order:
 * strict grace refuses it; it is a reclaim; it repeats one that waits or was just granted; it is
 * granted now; it must wait, unless that would be a deadlock.
 */
#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

/*
 * True if the LOCK has another state number than the client's record. State 0 means unknown, which
 * is no change: Linux sends 0 in reclaims (docs/internals/PROTOCOL-NOTES.md). The state of a
 * release in progress is no change either, because the release records it when it ends.
 */
static bool carries_other_state(const struct hf_client *client, int32_t state)
{
    return state != 0 && client->m.state != 0 && state != client->m.state &&
           !hf_pending_release_is_for(client, state);
}

/* Returns what the client's record will say when the client is registered. */
static struct hf_client_mutable current(const struct hf_client *client)
{
    struct hf_client_mutable m = client->m;

    if (m.state == 0)
        m.state = hf_client_oldest_state(client);
    return m;
}

static struct hf_answer acquire(struct hf_core *core, struct hf_now now,
                                const struct hf_lock_args *args, const struct hf_subject *s,
                                const struct hf_want *want)
{
    struct hf_client_mutable m = current(s->client);
    struct hf_txn txn;

    if (hf_limit_lock(core, s->file, want) < 0)
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    hf_txn_begin_giving(&txn, core, now, &s->file->seq);
    if ((hf_wants_record(core, args) &&
         (hf_client_update(&txn, s->client, &m) < 0 || hf_client_register(&txn, s->client) < 0)) ||
        hf_table_set(&txn, s->file, want) < 0) {
        hf_txn_abort(&txn);
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    }
    hf_owner_wake(core, s->owner, s->file);
    return (struct hf_answer){HF_STAT_GRANTED, .ticket.seq = hf_txn_commit(&txn)};
}

/* Notes what the record of a client that waits and is not registered yet will say. */
static int note_client(struct hf_core *core, struct hf_now now, struct hf_client *client,
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

/* Makes the request wait. blocker: a held lock in its way; NULL: it only waits for its turn, which
 * closes no cycle of locks. weaker: the owner's shared waiter for this range, which becomes
 * exclusive; NULL: none. */
static struct hf_answer begin_to_wait(struct hf_core *core, struct hf_now now,
                                      const struct hf_peer *peer, const struct hf_lock_args *args,
                                      const struct hf_subject *s, const struct hf_want *want,
                                      const struct hf_lock *blocker, struct hf_waiter *weaker)
{
    struct hf_txn txn;

    if (!weaker && hf_limit_wait(core, s->file, want) < 0)
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    if (blocker && hf_deadlock_of_locks(core, s->file, want)) {
        core->counters.deadlocks++;
        return (struct hf_answer){HF_STAT_DEADLCK, .ticket.seq = s->file->seq};
    }
    if (!s->client->registered && note_client(core, now, s->client, current(s->client)) < 0)
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    if (weaker) {
        hf_waiter_repeated(core, weaker, peer, args, want->life);
        hf_waiter_strengthen(core, weaker);
        hf_owner_review_later(core, s->owner);
        return (struct hf_answer){
            HF_STAT_BLOCKED, .ticket.seq = hf_seq_later(weaker->seq, hf_durable_behind_seq(core))};
    }
    hf_txn_begin_giving(&txn, core, now, NULL);
    /* With config.continues, BLOCKED waits for the waiter's record. */
    txn.depends |= core->config.continues;
    if (hf_waiter_add(&txn, peer, args, s->file, want) < 0) {
        hf_txn_abort(&txn);
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    }
    if (blocker)
        hf_owner_review_later(core, s->owner);
    return (struct hf_answer){HF_STAT_BLOCKED, .ticket.seq = hf_txn_commit(&txn)};
}

/* Answers a blocking request whose owner already waits for the range, in this mode or a stronger
 * one. */
static struct hf_answer repeated(struct hf_core *core, const struct hf_peer *peer,
                                 const struct hf_lock_args *args, const struct hf_want *want,
                                 struct hf_waiter *waiter)
{
    struct hf_answer answer = {HF_STAT_BLOCKED, .ticket.seq = waiter->seq};

    hf_waiter_repeated(core, waiter, peer, args, want->life);
    if (hf_behind_is_busy(&waiter->behind))
        answer.ticket.seq = hf_seq_later(answer.ticket.seq, hf_durable_behind_seq(core));
    /*
     * A cycle of locks can close after its requests were looked at: a failed commit gave a lock
     * back, or another thread of a waiting process got one. So a repeat, which clients send every
     * 30 s, is searched again, also for a cycle that a search which was cut short has missed.
     */
    if (hf_deadlock_of_locks(core, waiter->file, want)) {
        core->counters.deadlocks++;
        answer = (struct hf_answer){HF_STAT_DEADLCK, .ticket.seq = waiter->file->seq};
        hf_waiter_end(core, waiter, HF_END_DEADLOCK);
    } else {
        hf_owner_review_later(core, waiter->owner);
    }
    return answer;
}

static struct hf_answer denied(const struct hf_core *core, const struct hf_file *file,
                               const struct hf_lock *blocker)
{
    /* Grace in conflict mode: the holder may still reclaim. */
    if (blocker->unclaimed && core->recovery->grace.active)
        return (struct hf_answer){HF_STAT_DENIED_GRACE_PERIOD, .ticket.seq = file->seq};
    return (struct hf_answer){HF_STAT_DENIED, .ticket.seq = file->seq};
}

/* Ends callbacks for earlier grants in this range, because the request shows that its process knows
 * of them (see decide()). */
static void confirm(struct hf_core *core, const struct hf_subject *s, const struct hf_want *want,
                    bool block)
{
    hf_waiter_confirm_range(core, s->owner, s->file, want->first, want->last, block);
}

/*
 * Grants a request that no lock of ours conflicts with, once the kernel holds the range (COH-10).
 * Behind a holder outside NLM a blocking request waits; its waiter asks the kernel again when it is
 * served.
 */
static struct hf_answer claim_and_acquire(struct hf_core *core, struct hf_now now,
                                          const struct hf_peer *peer,
                                          const struct hf_lock_args *args,
                                          const struct hf_subject *s, const struct hf_want *want,
                                          struct hf_waiter *before)
{
    struct hf_claim_said said = hf_claim_want(core, s->file, want, HF_CLAIM_RAISE);
    struct hf_answer answer;

    switch (said.say) {
    case HF_SAYS_YES:
        confirm(core, s, want, args->block);
        return acquire(core, now, args, s, want);
    case HF_SAYS_WAIT:
        return (struct hf_answer){.stat = HF_STAT_DENIED_GRACE_PERIOD,
                                  .claim = hf_claim_park(core, s->file)};
    case HF_SAYS_HELD:
    case HF_SAYS_LATER:
        break;
    default:
        return (struct hf_answer){said.stat};
    }
    core->counters.outside_conflicts += said.say == HF_SAYS_HELD;
    if (!args->block)
        return (struct hf_answer){said.say == HF_SAYS_HELD ? HF_STAT_DENIED : said.stat,
                                  .ticket.seq = s->file->seq};
    confirm(core, s, want, true);
    if (before && before->exclusive)
        return repeated(core, peer, args, want, before);
    answer = begin_to_wait(core, now, peer, args, s, want, NULL, before);
    hf_file_wake(core, s->file, want->first, want->last);
    return answer;
}

/* True if the request need not wait for its turn in the queue; the caller has found no conflicting
 * lock. */
static bool may_have_now(struct hf_core *core, const struct hf_lock_args *args,
                         const struct hf_file *file, const struct hf_want *want)
{
    if (!args->block || !hf_waiter_ahead(core, file, want, UINT64_MAX, NULL))
        return true;
    return hf_deadlock_by_queueing(core, file, want);
}

static struct hf_answer decide(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                               const struct hf_lock_args *args, const struct hf_subject *s,
                               const struct hf_want *want)
{
    struct hf_waiter *before = hf_waiter_find(core, s->file, want);
    const struct hf_lock *blocker;

    if (before && before->exclusive == want->exclusive) {
        if (hf_table_covers(core, s->file, want, true)) {
            /*
             * Another grant has given the owner this lock meanwhile: it need not wait any more.
             */
            hf_waiter_end(core, before, HF_END_GRANTED);
            before = NULL;
        } else if (args->block) {
            return repeated(core, peer, args, want, before);
        }
    }
    blocker = hf_table_conflict(core, s->file, want);
    if (blocker && !args->block)
        return denied(core, s->file, blocker); /* an earlier wait of the owner goes on */
    if (core->config.coherent && !blocker && may_have_now(core, args, s->file, want))
        return claim_and_acquire(core, now, peer, args, s, want, before);
    /* A process that waits makes no other request. So its request shows that it knows of an earlier
     * grant in this range, and the callback for that grant must end: clients compare the range but
     * not the mode, and their DENIED would free a lock in use. If this request repeats the granted
     * one, its answer tells the client of the grant. */
    hf_waiter_confirm_range(core, s->owner, s->file, want->first, want->last, args->block);
    if (!blocker && may_have_now(core, args, s->file, want))
        return acquire(core, now, args, s, want);
    if (before && before->exclusive)
        return repeated(core, peer, args, want, before);
    return begin_to_wait(core, now, peer, args, s, want, blocker, before);
}

/* Answers DENIED to a client without any lock that asks again and again for what another client
 * holds, so that no client object is made and deleted each time. Returns false if the request must
 * be looked at. */
static bool denied_to_stranger(const struct hf_core *core, const struct hf_lock_args *args,
                               const struct hf_range *range, struct hf_answer *answer)
{
    struct hf_want want = {NULL, range->first, range->last, args->exclusive, false};
    const struct hf_file *file = args->block || args->reclaim ? NULL : hf_file_find(core, args->fh);
    const struct hf_lock *blocker = file ? hf_table_conflict(core, file, &want) : NULL;

    if (blocker)
        *answer = denied(core, file, blocker);
    return blocker != NULL;
}

/* True if the owner has a lock in the range from a former life of its client, before a reboot: the
 * client's crash notice will release that lock. */
static bool is_of_former_life(const struct hf_core *core, const struct hf_file *file,
                              const struct hf_want *want)
{
    struct hf_lock *lock = NULL;

    while ((lock = hf_table_own(core, file, want->owner, want->first, want->last, lock)) != NULL) {
        if (lock->life < want->life)
            return true;
    }
    return false;
}

static bool is_of_this_life(const struct hf_client *client, int32_t state)
{
    return state == 0 || client->lives.states[0] == 0 || state == client->lives.states[0];
}

/*
 * Answers a LOCK in strict grace, which refuses new locks (GRC-01). But a client whose LOCK was
 * granted just before our restart, and whose answer was lost, repeats it without the reclaim flag.
 * If the owner holds exactly that lock, and has held it since the client started, the request
 * counts as a reclaim.
 */
static struct hf_answer in_strict_grace(struct hf_core *core, struct hf_now now,
                                        const struct hf_peer *peer, const struct hf_lock_args *args,
                                        const struct hf_range *range)
{
    struct hf_answer answer = {HF_STAT_DENIED_GRACE_PERIOD};
    struct hf_subject s;

    if (!core->config.durable_locks || !hf_wants_record(core, args) ||
        hf_subject_find(core, now, peer, args, &s) < 0)
        return answer;
    struct hf_want want = {s.owner,         range->first, range->last,
                           args->exclusive, true,         s.client->lives.now};
    if (hf_table_covers(core, s.file, &want, true) && is_of_this_life(s.client, args->state) &&
        !is_of_former_life(core, s.file, &want))
        answer = hf_reclaim(core, now, s.file, &want);
    hf_subject_put(core, now, &s);
    answer.silent = false;
    return answer;
}

/*
 * True if the client's newest life began before our restart: then its record tells the life of each
 * lock that it reclaims. Otherwise a reclaim belongs to the newest life, so that the notice of that
 * life, which may be forged, takes nothing that came later.
 */
static bool began_before(const struct hf_core *core, const struct hf_client *client)
{
    return hf_record_epoch_of(client->lives.first_ids[0]) <= core->recovery->before.epoch;
}

struct hf_answer hf_core_lock(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                              const struct hf_lock_args *args)
{
    struct hf_answer answer = {HF_STAT_DENIED_NOLOCKS};
    struct hf_client *client;
    struct hf_subject s;
    struct hf_range range;
    bool pending;

    answer.stat = hf_request_check(peer, args, &range);
    if (answer.stat != HF_STAT_GRANTED)
        return hf_request_answer(core, now, answer);
    if (core->config.coherent &&
        hf_request_waits(core, peer, args, &range, HF_CLAIM_RAISE, &answer))
        return hf_request_answer(core, now, answer);
    if (!args->reclaim && hf_grace_is_strict(core))
        return hf_request_answer(core, now, in_strict_grace(core, now, peer, args, &range));
    client = hf_request_client(core, now, peer, &pending);
    /* A reclaim stays unanswered: if it were refused, the client would give up its lock. */
    if (pending) {
        answer = (struct hf_answer){HF_STAT_DENIED_GRACE_PERIOD, .silent = args->reclaim};
        return hf_request_answer(core, now, answer);
    }
    if (!client && denied_to_stranger(core, args, &range, &answer))
        return hf_request_answer(core, now, answer);
    if (hf_subject_get(core, now, peer, args, client, &s) < 0) {
        answer.stat = HF_STAT_DENIED_NOLOCKS;
        return hf_request_answer(core, now, answer);
    }
    struct hf_want want = {s.owner, range.first, range.last, args->exclusive,
                           hf_wants_record(core, args) && core->config.durable_locks};
    core->counters.state_hints += carries_other_state(s.client, args->state);
    want.life = hf_client_life(core, s.client, args->state);
    if (args->reclaim && args->state == 0 && began_before(core, s.client))
        want.life = 0;
    answer = args->reclaim ? hf_reclaim(core, now, s.file, &want)
                           : decide(core, now, peer, args, &s, &want);
    hf_subject_put(core, now, &s);
    return hf_request_answer(core, now, answer);
}
