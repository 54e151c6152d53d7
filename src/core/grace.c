/*
 * The grace period (GRC-01, GRC-03). It begins when a restart had something to lose, and ends when
 * its time is over, when the operator says so, or as soon as nothing is left to reclaim: everything
 * was reclaimed, released, or its client is known to be dead. What is left at the end is released.
 */
#include "core/parts.h"

void hf_grace_begin(struct hf_core *core, struct hf_now now)
{
    /* After SM_SIMU_CRASH, what is being released may come back when its batch fails: until that is
     * settled there is something to lose (hf_grace_review() then ends it at once). */
    bool unsettled = core->undos[0].n > 0 || core->undos[1].n > 0;

    core->grace = (struct hf_grace){.end_ms = now.mono_ms + core->config.grace_ms};
    if (core->n_unclaimed == 0 && !unsettled)
        return;
    core->grace.active = true;
    hf_event_add(core, HF_EVENT_GRACE_BEGAN, NULL, (int64_t)core->config.grace_ms,
                 (int64_t)core->n_unclaimed, 0);
}

static int64_t release_of_client(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                 uint64_t *seq)
{
    int64_t n = 0;

    hf_client_bar_reclaim(core, client);
    hf_list_foreach_safe (node, &client->locks) {
        struct hf_lock *lock = hf_list_entry(node, struct hf_lock, in_client);
        if (!lock->unclaimed)
            continue;
        if (hf_lock_release(core, now, lock, seq) < 0)
            hf_redo_later(core, now);
        else
            n++;
    }
    hf_client_idle(core, now, client);
    return n;
}

static int64_t release_unclaimed(struct hf_core *core, struct hf_now now, uint64_t *seq)
{
    int64_t n = 0;

    if (core->n_unclaimed == 0)
        return 0;
    hf_list_foreach_safe (node, &core->clients)
        n += release_of_client(core, now, hf_list_entry(node, struct hf_client, all), seq);
    return n;
}

static uint64_t finish(struct hf_core *core, struct hf_now now)
{
    uint64_t seq = 0;
    int64_t released;

    core->grace.active = false;
    released = release_unclaimed(core, now, &seq);
    hf_event_add(core, HF_EVENT_GRACE_ENDED, NULL, (int64_t)core->grace.reclaimed, released, 0);
    return seq;
}

uint64_t hf_core_grace_end(struct hf_core *core, struct hf_now now)
{
    uint64_t seq = core->grace.active ? finish(core, now) : 0;

    hf_core_settle(core, now);
    return hf_core_answer_seq(core, seq);
}

/*
 * What emptied the list of the unclaimed may be undone with its batch, and then grace must still
 * be there; so it ends only when that batch is durable.
 */
void hf_grace_review(struct hf_core *core, struct hf_now now)
{
    struct hf_grace *grace = &core->grace;

    if (!grace->active)
        return;
    if (HF_PLANTED(GRACE_ENDS_EARLY) && grace->reclaimed > 0) {
        finish(core, now);
        return;
    }
    if (core->n_unclaimed > 0) {
        grace->drained_seq = 0;
        return;
    }
    if (grace->drained_seq == 0) {
        bool gathering = core->wanted || core->undos[core->gathering].n > 0;
        uint64_t seq = hf_core_gathering(core)->seq;
        grace->drained_seq = gathering ? seq : core->in_flight ? seq - 1 : core->durable;
    }
    if (hf_core_is_durable(core, grace->drained_seq))
        finish(core, now);
}

/* The release at the end of grace failed with its batch. */
void hf_grace_redo(struct hf_core *core, struct hf_now now)
{
    uint64_t seq = 0;

    if (!core->grace.active)
        release_unclaimed(core, now, &seq);
}
