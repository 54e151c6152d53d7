/*
 * Reclaims (GRC-01, GRC-02): after our restart a client requests the locks it held once more, with
 * the reclaim flag. With durable locks, each reclaim is checked against the recorded lock, which is
 * held as unclaimed from the start: its owner must hold all of the range, in the same mode or a
 * stronger one. A reclaim may cover a part of a lock, all of it, or several. Without durable locks,
 * the client must have been registered before the restart, and no other owner may hold a
 * conflicting lock. After a crash of the host that may have cost us the newest records (DUR-02),
 * this is also how a lock without a record is reclaimed; recorded locks are held, so they may
 * conflict.
 *
 * Outside grace, a reclaim is granted only if the owner still holds the lock, in that mode or a
 * stronger one: a repeated reclaim must get the answer that it had before grace ended.
 */
#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

static bool may_have(const struct hf_core *core, const struct hf_file *file,
                     const struct hf_want *want)
{
    if (core->config.durable_locks && hf_table_covers(core, file, want, false))
        return true;
    return want->owner->client->may_reclaim && !hf_table_conflict(core, file, want);
}

/* True if the reclaim covers each lock in the range completely, in its mode and life, so that no
 * record changes. */
static bool as_recorded(const struct hf_core *core, const struct hf_file *file,
                        const struct hf_want *want)
{
    struct hf_lock *lock = NULL;

    while ((lock = hf_table_own(core, file, want->owner, want->first, want->last, lock)) != NULL) {
        if (lock->exclusive != want->exclusive || lock->node.first < want->first ||
            lock->node.last > want->last || lock->life < want->life)
            return false;
    }
    return hf_table_covers(core, file, want, true);
}

static int claim(struct hf_txn *txn, const struct hf_file *file, const struct hf_want *want)
{
    const struct hf_core *core = txn->core;
    struct hf_lock *lock = NULL;

    while ((lock = hf_table_own(core, file, want->owner, want->first, want->last, lock)) != NULL) {
        if (lock->unclaimed && hf_lock_claim(txn, lock) < 0)
            return HF_ENOMEM;
    }
    return 0;
}

/* True unless the owner has a lock in the range without a record, and the request wants it
 * recorded. */
static bool is_recorded(const struct hf_core *core, const struct hf_file *file,
                        const struct hf_want *want)
{
    struct hf_lock *lock = NULL;

    while ((lock = hf_table_own(core, file, want->owner, want->first, want->last, lock)) != NULL) {
        if (lock->durable < want->durable)
            return false;
    }
    return true;
}

/* True if all of the range was granted or reclaimed after the restart, so that this reclaim changes
 * nothing. */
static bool is_newer(const struct hf_core *core, const struct hf_file *file,
                     const struct hf_want *want)
{
    struct hf_lock *lock = NULL;

    while ((lock = hf_table_own(core, file, want->owner, want->first, want->last, lock)) != NULL) {
        if (lock->unclaimed)
            return false;
    }
    return hf_table_covers(core, file, want, false) && is_recorded(core, file, want);
}

static int take_part(struct hf_txn *txn, struct hf_file *file, const struct hf_want *want)
{
    if (as_recorded(txn->core, file, want))
        return claim(txn, file, want);
    if (want->owner->client->may_reclaim && hf_client_register(txn, want->owner->client) < 0)
        return HF_ENOMEM;
    return hf_table_set(txn, file, want);
}

/* Returns the first exclusive lock of the owner in the range that was granted after the restart and
 * that a shared reclaim would weaken; NULL: there is none. */
static struct hf_lock *first_stronger(const struct hf_core *core, const struct hf_file *file,
                                      const struct hf_want *want)
{
    struct hf_lock *lock = NULL;

    while ((lock = hf_table_own(core, file, want->owner, want->first, want->last, lock)) != NULL) {
        if (!lock->unclaimed && lock->exclusive && !want->exclusive)
            return lock;
    }
    return NULL;
}

/* Reclaims the range, except for locks that were upgraded after the restart: the client made its
 * list of reclaims before that upgrade was granted. */
static int take_again(struct hf_txn *txn, struct hf_file *file, const struct hf_want *want)
{
    struct hf_want rest = *want;
    const struct hf_lock *stronger;

    if (is_newer(txn->core, file, want))
        return 0;
    while ((stronger = first_stronger(txn->core, file, &rest)) != NULL) {
        struct hf_want part = rest;
        uint64_t last = stronger->node.last;

        part.last = stronger->node.first - 1;
        if (stronger->node.first > rest.first && take_part(txn, file, &part) < 0)
            return HF_ENOMEM;
        if (last >= rest.last)
            return 0;
        rest.first = last + 1;
    }
    return take_part(txn, file, &rest);
}

static uint32_t count_unclaimed(const struct hf_core *core, const struct hf_file *file,
                                const struct hf_want *want)
{
    struct hf_lock *lock = NULL;
    uint32_t n = 0;

    while ((lock = hf_table_own(core, file, want->owner, want->first, want->last, lock)) != NULL)
        n += lock->unclaimed;
    return n;
}

/* Takes back the count of a reclaim. The entry has the epoch in which locks were reclaimed, and how
 * many. */
static void revert_count(struct hf_core *core, const struct hf_undo *entry)
{
    /* After SM_SIMU_CRASH a new count has begun, from which nothing is taken back. */
    if (entry->numbers[0] == core->epoch)
        core->recovery->grace.reclaimed -= entry->numbers[1];
}

static const struct hf_undo_ops count_undo = {revert_count, NULL};

/* Reclaims the range and counts that. A repeated reclaim finds nothing unclaimed, changes nothing,
 * and is not counted. */
static int take_and_count(struct hf_txn *txn, struct hf_file *file, const struct hf_want *want)
{
    struct hf_core *core = txn->core;
    uint32_t n = count_unclaimed(core, file, want);

    if (take_again(txn, file, want) < 0)
        return HF_ENOMEM;
    if (!hf_txn_has_changes(txn))
        return 0;
    if (hf_undo_reserve(core) < 0)
        return HF_ENOMEM;
    if (n == 0)
        n = 1; /* a reclaim without a recorded lock counts as one */
    hf_undo_push(core, (struct hf_undo){&count_undo, .numbers = {(uint32_t)core->epoch, n}});
    core->recovery->grace.reclaimed += n;
    return 0;
}

/*
 * Makes sure that the kernel holds what is reclaimed, as it does already for a recorded lock. If it
 * does not, returns false and the answer. While the kernel cannot be asked the request stays
 * unanswered, because a Linux client gives up a lock whose reclaim is refused.
 */
static bool claimed(struct hf_core *core, struct hf_file *file, const struct hf_want *want,
                    struct hf_answer *answer)
{
    struct hf_claim_said said = hf_claim_want(core, file, want, HF_CLAIM_RAISE);

    switch (said.say) {
    case HF_SAYS_YES:
        return true;
    case HF_SAYS_WAIT:
        *answer = (struct hf_answer){.stat = HF_STAT_DENIED_GRACE_PERIOD,
                                     .claim = hf_claim_park(core, file)};
        return false;
    case HF_SAYS_HELD:
        core->counters.outside_conflicts++;
        *answer = (struct hf_answer){HF_STAT_DENIED, .ticket.seq = file->seq};
        return false;
    default:
        *answer = (struct hf_answer){said.stat, said.stat == HF_STAT_DENIED_GRACE_PERIOD};
        return false;
    }
}

/* Records a lock that the owner holds by NM_LOCK, because after a reclaim its client counts on
 * keeping it over a restart. */
static struct hf_answer record(struct hf_core *core, struct hf_now now, struct hf_file *file,
                               const struct hf_want *want)
{
    struct hf_txn txn;

    hf_txn_begin_giving(&txn, core, now, &file->seq);
    if (hf_client_register(&txn, want->owner->client) < 0 || hf_table_add(&txn, file, want) < 0) {
        hf_txn_abort(&txn);
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    }
    return (struct hf_answer){HF_STAT_GRANTED, .ticket.seq = hf_txn_commit(&txn)};
}

static struct hf_answer outside_grace(struct hf_core *core, struct hf_now now, struct hf_file *file,
                                      const struct hf_want *want)
{
    if (hf_table_covers(core, file, want, false))
        return is_recorded(core, file, want)
                   ? (struct hf_answer){HF_STAT_GRANTED, .ticket.seq = file->seq}
                   : record(core, now, file, want);
    return (struct hf_answer){HF_STAT_DENIED_GRACE_PERIOD, .ticket.seq = file->seq};
}

static struct hf_answer reclaim(struct hf_core *core, struct hf_now now, struct hf_file *file,
                                const struct hf_want *want)
{
    struct hf_answer answer;
    struct hf_txn txn;

    if (!core->recovery->grace.active)
        return outside_grace(core, now, file, want);
    if (!may_have(core, file, want))
        return (struct hf_answer){HF_STAT_DENIED, .ticket.seq = file->seq};
    if (core->config.coherent && !claimed(core, file, want, &answer))
        return answer;
    /* Limits apply only to locks without a record: a recorded lock is held and counted already. */
    if (want->owner->client->may_reclaim && hf_limit_reclaim(core, file, want) < 0)
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    hf_txn_begin_giving(&txn, core, now, &file->seq);
    if (take_and_count(&txn, file, want) < 0) {
        hf_txn_abort(&txn);
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    }
    want->owner->client->reclaimed = true;
    return (struct hf_answer){HF_STAT_GRANTED, .ticket.seq = hf_txn_commit(&txn)};
}

struct hf_answer hf_reclaim(struct hf_core *core, struct hf_now now, struct hf_file *file,
                            const struct hf_want *want)
{
    struct hf_answer answer = reclaim(core, now, file, want);

    if (answer.stat != HF_STAT_GRANTED) {
        core->counters.reclaims_denied += answer.claim == 0 && !answer.silent;
        return answer;
    }
    core->counters.reclaims_granted++;
    /* Ends a callback in flight that may tell of the wrong mode now; the client repeats its
     * LOCK. */
    hf_waiter_confirm_range(core, want->owner, file, want->first, want->last, false);
    return answer;
}
