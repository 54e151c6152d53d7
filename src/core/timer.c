/*
 * Moments the core wants to be woken at: an ordered tree of timers, the end of grace, and a try of
 * what the store or the heap refused. Time itself is the caller's.
 */
#include "core/parts.h"

enum { REDO_PAUSE_MS = 1000 };

void hf_timer_arm(struct hf_core *core, struct hf_timer *timer, uint64_t at_ms)
{
    HF_ASSERT(!timer->armed);
    timer->armed = true;
    timer->node.first = timer->node.last = at_ms;
    hf_itree_insert(&core->timers, &timer->node);
}

void hf_timer_disarm(struct hf_core *core, struct hf_timer *timer)
{
    if (!timer->armed)
        return;
    timer->armed = false;
    hf_itree_remove(&core->timers, &timer->node);
}

void hf_redo_later(struct hf_core *core, struct hf_now now)
{
    if (core->redo_ms == UINT64_MAX)
        core->redo_ms = now.mono_ms + REDO_PAUSE_MS;
}

uint64_t hf_core_deadline(const struct hf_core *core)
{
    const struct hf_itree_node *timer = hf_itree_min(&core->timers);
    uint64_t at_ms = core->redo_ms;

    if (timer && timer->first < at_ms)
        at_ms = timer->first;
    if (core->grace.active && core->grace.end_ms < at_ms)
        at_ms = core->grace.end_ms;
    return at_ms;
}

static void fire(struct hf_core *core, struct hf_now now, struct hf_timer *timer)
{
    hf_timer_disarm(core, timer);
    switch (timer->kind) {
    case HF_TIMER_LINGER:
        hf_client_linger_over(core, now, hf_container_of(timer, struct hf_client, linger));
        break;
    case HF_TIMER_ERRAND:
        hf_errand_due(core, now, hf_container_of(timer, struct hf_errand, timer));
        break;
    }
}

static void redo(struct hf_core *core, struct hf_now now)
{
    core->redo_ms = UINT64_MAX;
    if (core->server_dirty)
        core->wanted = true;
    hf_doom_redo(core, now);
    hf_grace_redo(core, now);
}

void hf_core_tick(struct hf_core *core, struct hf_now now)
{
    struct hf_itree_node *node;

    while ((node = hf_itree_min(&core->timers)) != NULL && node->first <= now.mono_ms)
        fire(core, now, hf_container_of(node, struct hf_timer, node));
    if (core->grace.active && core->grace.end_ms <= now.mono_ms)
        hf_core_grace_end(core, now);
    if (core->redo_ms <= now.mono_ms)
        redo(core, now);
    hf_core_settle(core, now);
}
