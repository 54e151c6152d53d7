/*
 * What an operator does at any moment (ADM-01): ends grace, sends notices again,
 * releases a client, a lock or a file; and the local status monitor's word that a host restarted
 * (NLM procedure 16). Clients are not told of what is taken from them, so their grants lapse.
 */
#ifndef HF_SIM_OPERATOR_H
#define HF_SIM_OPERATOR_H

struct sim_world;

void sim_operator_acts(struct sim_world *world);

#endif
