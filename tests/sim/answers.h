/*
 * Answers on their way out: each waits until its batch is durable, becomes a refusal when that
 * fails, and is remembered for a while in the duplicate request cache, as in src/rpc.
 */
#ifndef HF_SIM_ANSWERS_H
#define HF_SIM_ANSWERS_H

#include "message.h"

struct sim_world;

/* Sends an answer when its batch is durable; at once if it waits for none. */
void sim_answers_send(struct sim_world *world, const struct sim_message *answer, uint64_t seq);

/* After a commit: those whose batch is durable leave; when it failed, the others are void. */
void sim_answers_settle(struct sim_world *world, uint64_t failed_seq);

/* True if the request was seen before: answered again, or dropped while it is being worked on. */
bool sim_answers_repeat(struct sim_world *world, const struct sim_message *request);

#endif
