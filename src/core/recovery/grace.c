/*
 * The grace period (GRC-01, GRC-03). It begins at a restart if there are locks to reclaim. It ends
 * when its time is over, when the operator ends it, or as soon as nothing is left to reclaim,
 * because each lock was reclaimed or released, or its client is known to be dead. Locks that are
 * not reclaimed when it ends are released.
 */
#include "core/clients/clients.h"
#include "core/common/event.h"
#include "core/common/timer.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/private.h"
#include "core/table/table.h"

void hf_grace_begin(struct hf_core *core, struct hf_now now)
{
    /* After SM_SIMU_CRASH, locks that are being released come back if their batch fails. Until it
     * is durable there is something to lose; hf_grace_review() then ends grace at once. */
    bool undecided = hf_durable_n_undo(core) > 0;

    core->recovery->grace = (struct hf_grace){.end_ms = now.mono_ms + core->config.grace_ms};
    if (core->clients->n_unclaimed == 0 && !undecided)
        return;
    core->recovery->grace.active = true;
    hf_event_add(core, HF_EVENT_GRACE_BEGAN, (int64_t)core->config.grace_ms,
                 (int64_t)core->clients->n_unclaimed, 0);
}

bool hf_grace_is_strict(const struct hf_core *core)
{
    return core->recovery->grace.active && core->config.grace_mode == HF_GRACE_STRICT;
}

/* A loss is reported once, with all locks that are to be released, however many attempts it takes.
 */
static void release_of_client(struct hf_core *core, struct hf_now now, struct hf_client *client,
                              uint64_t *seq, bool again)
{
    struct hf_lock *lock = hf_client_next_lock(core, client, NULL);
    struct hf_lock *next;

    if (!again)
        hf_client_lost(core, client, HF_LOSS_UNRECLAIMED);
    hf_client_bar_reclaim(core, client);
    for (; lock; lock = next) {
        next = hf_client_next_lock(core, client, lock);
        if (!lock->unclaimed)
            continue;
        if (hf_lock_release(core, now, lock, seq) < 0)
            hf_retry_later(core, now);
    }
    hf_client_idle(core, now, client);
}

static void release_unclaimed(struct hf_core *core, struct hf_now now, uint64_t *seq, bool again)
{
    if (core->clients->n_unclaimed == 0)
        return;
    hf_list_foreach_safe (node, &core->clients->all)
        release_of_client(core, now, hf_list_entry(node, struct hf_client, all), seq, again);
}

uint64_t hf_grace_end(struct hf_core *core, struct hf_now now)
{
    uint64_t seq = 0;
    int64_t released;

    if (!core->recovery->grace.active)
        return 0;
    core->recovery->grace.active = false;
    released = (int64_t)core->clients->n_unclaimed; /* those that fail now are released later */
    release_unclaimed(core, now, &seq, false);
    hf_event_add(core, HF_EVENT_GRACE_ENDED, (int64_t)core->recovery->grace.reclaimed, released, 0);
    return seq;
}

/*
 * The reclaim or release that left nothing to reclaim may be undone with its batch, and then grace
 * must still be active. So grace ends only when that batch is durable.
 */
void hf_grace_review(struct hf_core *core, struct hf_now now)
{
    struct hf_grace *grace = &core->recovery->grace;

    if (!grace->active)
        return;
    if (HF_MUTANT(GRACE_ENDS_EARLY) && grace->reclaimed > 0) {
        hf_grace_end(core, now);
        return;
    }
    if (core->clients->n_unclaimed > 0) {
        grace->drained_seq = 0;
        return;
    }
    if (grace->drained_seq == 0)
        grace->drained_seq = hf_durable_last_change(core);
    if (hf_durable_has(core, grace->drained_seq))
        hf_grace_end(core, now);
}

/* The release at the end of grace failed with its batch. */
void hf_grace_retry(struct hf_core *core, struct hf_now now)
{
    uint64_t seq = 0;

    if (!core->recovery->grace.active)
        release_unclaimed(core, now, &seq, true);
}
