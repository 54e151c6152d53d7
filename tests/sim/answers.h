/*
 * Answers on their way out, each remembered for a while in the duplicate request cache, as in
 * src/rpc.
 */
#ifndef HF_SIM_ANSWERS_H
#define HF_SIM_ANSWERS_H

#include "message.h"

struct sim_world;

void sim_answers_send(struct sim_world *world, const struct sim_message *answer);

/* The request will get no answer, so a repeat of it must be executed. */
void sim_answers_forget(struct sim_world *world, const struct sim_message *answer);

/* True if the request was seen before: then it is answered again, or dropped while the first copy
 * is being worked on. */
bool sim_answers_repeat(struct sim_world *world, const struct sim_message *request);

#endif
