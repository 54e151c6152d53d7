/*
 * One process on a simulated client: what it asks for next, and how the kernel's lock call behaves
 * for it until that ends. The order of the tests follows Linux's nlmclnt_lock(), which decides what
 * happens when GRANTED, BLOCKED, a signal and a server's restart cross each other.
 */
#ifndef HF_SIM_PROCESS_H
#define HF_SIM_PROCESS_H

#include "client.h"

void sim_process_start(struct sim_world *world, unsigned host, unsigned proc);
void sim_process_stop(struct sim_process *process);

/* The client got the answer to the call in the process's slot. */
void sim_process_answered(struct sim_world *world, unsigned host, unsigned proc,
                          const struct sim_message *answer);

/* The server's GRANTED call; returns the answer to give. */
uint8_t sim_process_granted(struct sim_world *world, const struct sim_message *call);

/* The operator has released a range of this owner. */
void sim_process_released(struct sim_world *world, unsigned owner, struct sim_range range);

/* The server restarted and the reclaims are done: the process asks again for the lock it waits for.
 */
void sim_process_repeat(struct sim_world *world, unsigned host, unsigned proc);

/* Provided by client.c: sends a call and repeats it until it is answered. */
void sim_client_call(struct sim_world *world, unsigned host, unsigned slot,
                     struct sim_message call);

#endif
