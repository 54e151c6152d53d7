/*
 * Cycles of waiting owners that a place in the queue is part of (NLM-03). The core lets a waiter
 * pass whose place closes such a cycle; the model notes which waiters may pass, and when.
 */
#ifndef HF_SIM_CYCLES_H
#define HF_SIM_CYCLES_H

#include "model.h"

/* True if this waiter's place became part of a cycle because other waiters were granted or locks
 * were lost in the same event (seed 24550). Looks at the model as if that had happened and only
 * this waiter were still waiting. */
bool sim_cycles_since(const struct sim_model *model, unsigned place, const struct sim_seen *now);

/* From now on the waiters whose places close a cycle may pass; the core chooses which of them. */
void sim_cycles_note(struct sim_model *model);

/* A waiter that waits again after a restart, because its grant was not recorded, may still pass.
 * The first function says whether the waiter with this id was ever part of a cycle; the second
 * notes that it was. */
bool sim_cycles_had(const struct sim_model *model, uint64_t id);
void sim_cycles_remember(struct sim_model *model, const struct sim_waiter *waiter);

/* A grant can close a cycle that the next grant of the same event opens again (seed 80018261). The
 * core lets a waiter pass in between, and that waiter may still wait when the event is over. So
 * this function repeats the event's grants one by one and notes the cycles after each. */
void sim_cycles_note_between(struct sim_model *model, const struct sim_seen *now);

/*
 * Reports a place in a queue that is part of a lasting cycle, and a waiter that passes without a
 * reason. The core looks for cycles in slices; deadline 0 means that the next slice is due.
 */
void sim_cycles_check(struct sim_world *world);

#endif
