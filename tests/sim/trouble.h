/*
 * The scheduled faults: when each happens next, and what it does. Everything heals when the world
 * becomes calm.
 */
#ifndef HF_SIM_TROUBLE_H
#define HF_SIM_TROUBLE_H

#include <stdint.h>

struct sim_world;
struct sim_event;

void sim_trouble_init(struct sim_world *world);
void sim_trouble_strikes(struct sim_world *world, const struct sim_event *event);
void sim_trouble_heals(struct sim_world *world, const struct sim_event *event);

/* Ends all faults: partitions are healed, and the store works again. */
void sim_trouble_ends(struct sim_world *world);

/* Restarts the server once more, so that it finds out which hosts are dead. */
void sim_trouble_restarts(struct sim_world *world);

#endif
