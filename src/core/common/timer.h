/*
 * Timers, in a tree ordered by the moment they are due; timers for the same moment fire in the
 * order in which they were armed. A timer is a field of the object that it serves, and calls its
 * fire function once. The core has no clock: hf_core_tick() brings the time.
 */
#ifndef HF_CORE_COMMON_TIMER_H
#define HF_CORE_COMMON_TIMER_H

#include <stdbool.h>

#include "base/itree.h"
#include "core/config.h"

struct hf_core;

/* The pause before the core retries a change that the store or the heap refused. */
enum { HF_RETRY_PAUSE_MS = 1000 };

struct hf_timer {
    /* Both ends of this node are the time at which the timer is due, in mono_ms. */
    struct hf_itree_node node;
    bool armed;
    void (*fire)(struct hf_core *core, struct hf_now now, struct hf_timer *timer);
};

struct hf_timers {
    struct hf_itree tree;
    /* When to retry what the store or the heap refused; UINT64_MAX: nothing to retry. */
    uint64_t retry_ms;
};

void hf_timers_init(struct hf_core *core);
void hf_timer_arm(struct hf_core *core, struct hf_timer *timer, uint64_t at_ms);
void hf_timer_disarm(struct hf_core *core, struct hf_timer *timer);
void hf_timers_fire_due(struct hf_core *core, struct hf_now now);

/* Returns the earliest moment at which a timer or a retry is due; UINT64_MAX: none is. */
uint64_t hf_timers_deadline(const struct hf_core *core);

/* Asks for a tick in a second, to retry a change that the store or the heap refused. */
void hf_retry_later(struct hf_core *core, struct hf_now now);

#endif
