#include "core/common/timer.h"

#include "base/list.h"
#include "core/internal.h"

/* How many timers one tick fires at most. Thousands can be due at once; those left over fire at the
 * next tick, which is due at once, so that requests are served in between. */
enum { FIRED_MAX = 500 };

void hf_timers_init(struct hf_core *core)
{
    core->timers->retry_ms = UINT64_MAX;
}

void hf_timer_arm(struct hf_core *core, struct hf_timer *timer, uint64_t at_ms)
{
    HF_ASSERT(!timer->armed);
    timer->armed = true;
    timer->node.first = timer->node.last = at_ms;
    hf_itree_insert(&core->timers->tree, &timer->node);
}

void hf_timer_disarm(struct hf_core *core, struct hf_timer *timer)
{
    if (!timer->armed)
        return;
    timer->armed = false;
    hf_itree_remove(&core->timers->tree, &timer->node);
}

void hf_timers_fire_due(struct hf_core *core, struct hf_now now)
{
    struct hf_itree_node *node;

    for (int n = 0; n < FIRED_MAX && (node = hf_itree_min(&core->timers->tree)) != NULL &&
                    node->first <= now.mono_ms;
         n++) {
        struct hf_timer *timer = hf_container_of(node, struct hf_timer, node);
        hf_timer_disarm(core, timer);
        timer->fire(core, now, timer);
    }
}

uint64_t hf_timers_deadline(const struct hf_core *core)
{
    const struct hf_itree_node *first = hf_itree_min(&core->timers->tree);

    return first && first->first < core->timers->retry_ms ? first->first : core->timers->retry_ms;
}

void hf_retry_later(struct hf_core *core, struct hf_now now)
{
    if (core->timers->retry_ms == UINT64_MAX)
        core->timers->retry_ms = now.mono_ms + HF_RETRY_PAUSE_MS;
}
