/* Faults: when they strike, how long they last, and their end. */
#ifndef HF_CLUSTER_TROUBLE_H
#define HF_CLUSTER_TROUBLE_H

#include <stdbool.h>

struct cl_world;

void cl_trouble_begin(struct cl_world *world);
/* on_owner: strikes the node that has the service, for long; else any node. */
void cl_trouble_strikes(struct cl_world *world, unsigned fault, bool on_owner);
/* A packet has passed the gate: now a process may be stopped before it leaves. */
void cl_trouble_in_turn(struct cl_world *world, unsigned node);
void cl_trouble_heals(struct cl_world *world, unsigned fault);

/* Everything heals; the checks of the end are set up. */
void cl_trouble_ends(struct cl_world *world);
void cl_trouble_accept(struct cl_world *world);

#endif
