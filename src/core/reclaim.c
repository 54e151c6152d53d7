/*
 * Reclaims (GRC-01, GRC-02): after our restart a client asks again, with reclaim set, for what it
 * held. With durable locks each is checked against the lock itself, which is held as unclaimed from
 * the first moment: all of the range must be held by that very owner, in that mode or a stronger
 * one. A reclaim may cover a part of a lock, all of it, or several. Without durable locks the
 * client must have been registered before the restart, and nobody else may hold what it asks for.
 *
 * Outside grace a reclaim is only a question: does the owner still hold it?
 */
#include "core/parts.h"

static bool may_have(const struct hf_core *core, const struct hf_file *file,
                     const struct hf_want *want)
{
    if (HF_PLANTED(RECLAIM_UNCHECKED))
        return true;
    if (core->config.durable_locks)
        return hf_held_covers(file, want, false);
    return want->owner->client->may_reclaim && !hf_held_conflict(file, want);
}

/* The whole of each lock in the range is reclaimed, as it was: no record need change. */
static bool as_recorded(const struct hf_file *file, const struct hf_want *want)
{
    struct hf_lock *lock = NULL;

    while ((lock = hf_held_own(file, want->owner, want->first, want->last, lock)) != NULL) {
        if (lock->exclusive != want->exclusive || lock->node.first < want->first ||
            lock->node.last > want->last)
            return false;
    }
    return hf_held_covers(file, want, true);
}

static int claim(struct hf_txn *txn, const struct hf_want *want)
{
    struct hf_lock *lock = NULL;

    while ((lock = hf_held_own(txn->file, want->owner, want->first, want->last, lock)) != NULL) {
        if (!lock->unclaimed)
            continue;
        if (hf_undo_reserve(txn->core) < 0)
            return HF_ENOMEM;
        hf_lock_set_unclaimed(txn->core, lock, false);
        hf_undo_push(txn->core, (struct hf_undo){HF_UNDO_LOCK_CLAIMED, .lock = lock});
    }
    return 0;
}

/* Granted since the restart: newer than anything a reclaim can know of, and not to be weakened. */
static bool is_newer(const struct hf_file *file, const struct hf_want *want)
{
    struct hf_lock *lock = NULL;

    while ((lock = hf_held_own(file, want->owner, want->first, want->last, lock)) != NULL) {
        if (lock->unclaimed)
            return false;
    }
    return hf_held_covers(file, want, false);
}

static int take_again(struct hf_txn *txn, const struct hf_want *want)
{
    if (is_newer(txn->file, want))
        return 0;
    if (as_recorded(txn->file, want))
        return claim(txn, want);
    if (!txn->core->config.durable_locks && hf_client_register(txn, want->owner->client) < 0)
        return HF_ENOMEM;
    return hf_held_set(txn, want);
}

static uint32_t count_unclaimed(const struct hf_file *file, const struct hf_want *want)
{
    struct hf_lock *lock = NULL;
    uint32_t n = 0;

    while ((lock = hf_held_own(file, want->owner, want->first, want->last, lock)) != NULL)
        n += lock->unclaimed;
    return n;
}

/* A repeat finds nothing unclaimed, changes nothing, and is not counted. */
static int take_and_count(struct hf_txn *txn, const struct hf_want *want)
{
    struct hf_core *core = txn->core;
    uint32_t n = count_unclaimed(txn->file, want);

    if (take_again(txn, want) < 0)
        return HF_ENOMEM;
    if (core->undos[core->gathering].n == txn->begin.undo_n)
        return 0;
    if (hf_undo_reserve(core) < 0)
        return HF_ENOMEM;
    if (n == 0)
        n = 1; /* locks that are not recorded come back one by one */
    hf_undo_push(core,
                 (struct hf_undo){HF_UNDO_RECLAIMED, .reclaimed = {(uint32_t)core->epoch, n}});
    core->grace.reclaimed += n;
    return 0;
}

static struct hf_answer outside_grace(const struct hf_core *core, const struct hf_file *file,
                                      const struct hf_want *want)
{
    if (hf_held_covers(file, want, true))
        return (struct hf_answer){HF_STAT_GRANTED, file->seq};
    if (HF_PLANTED(RECLAIM_AFTER_GRACE) && !hf_held_conflict(file, want))
        return (struct hf_answer){HF_STAT_GRANTED, core->durable};
    return (struct hf_answer){HF_STAT_DENIED_GRACE_PERIOD, file->seq};
}

static struct hf_answer reclaim(struct hf_core *core, struct hf_now now, struct hf_file *file,
                                const struct hf_want *want)
{
    struct hf_txn txn;

    if (!core->grace.active)
        return outside_grace(core, file, want);
    if (!may_have(core, file, want))
        return (struct hf_answer){HF_STAT_DENIED, file->seq};
    /* With durable locks it is held, and counted, already. */
    if (!core->config.durable_locks && hf_limit_reclaim(core, file, want) < 0)
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    hf_txn_begin(&txn, core, now, file);
    if (take_and_count(&txn, want) < 0) {
        hf_txn_abort(&txn);
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    }
    want->owner->client->reclaimed = true;
    return (struct hf_answer){HF_STAT_GRANTED, hf_txn_commit(&txn)};
}

struct hf_answer hf_reclaim(struct hf_core *core, struct hf_now now, struct hf_file *file,
                            const struct hf_want *want)
{
    struct hf_answer answer = reclaim(core, now, file, want);

    if (answer.stat != HF_STAT_GRANTED) {
        core->counters.reclaims_denied++;
        return answer;
    }
    core->counters.reclaims_granted++;
    /* It may have changed what a callback under way would tell; the client will ask again. */
    hf_waiter_confirm_range(core, want->owner, file, want->first, want->last);
    return answer;
}
