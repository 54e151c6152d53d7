/*
 * Simulated time: a heap of events, ordered by moment and, within one millisecond, by the order in
 * which they were put in. There is no other clock; time passes by taking the next event.
 *
 * Events are small values, copied in and out. An event that is no longer wanted is not searched for
 * and removed: it carries a generation number that its receiver compares.
 */
#ifndef HF_SIM_QUEUE_H
#define HF_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_event {
    uint64_t at_ms;
    uint64_t order; /* set by sim_queue_push() */
    uint16_t kind;  /* enum sim_event_kind, in world.h */
    uint16_t who;
    uint32_t what;
    uint64_t generation;
};

struct sim_queue {
    struct sim_event *heap;
    size_t count;
    size_t size;
    uint64_t pushed;
};

void sim_queue_init(struct sim_queue *queue);
void sim_queue_free(struct sim_queue *queue);
void sim_queue_push(struct sim_queue *queue, struct sim_event event);

/* Takes the next event; false when none is left. */
bool sim_queue_pop(struct sim_queue *queue, struct sim_event *out);

#endif
