/* The calls that the core wants made (call.h of the core): each attempt becomes a message to a
 * client, and ends with its answer, a timeout or a refused connection. */
#ifndef HF_SIM_CALLS_H
#define HF_SIM_CALLS_H

#include "message.h"

struct sim_world;

/* Starts every attempt that the core has ready. */
void sim_calls_begin(struct sim_world *world);

/* A client's answer: to a call of its own, or GRANTED_RES to a GRANTED_MSG. */
void sim_calls_on_answer(struct sim_world *world, const struct sim_message *answer);
void sim_calls_on_timeout(struct sim_world *world, unsigned index, uint64_t cookie);

#endif
