/* Faults: when they strike, how long they last, and their end. */
#ifndef HF_CLUSTER_TROUBLE_H
#define HF_CLUSTER_TROUBLE_H

#include <stdbool.h>

struct cl_world;

void cl_trouble_begin(struct cl_world *world);
/* Makes a fault strike. on_owner: it strikes the node that has the service, and lasts long;
 * otherwise any node. */
void cl_trouble_strikes(struct cl_world *world, unsigned fault, bool on_owner);
/* A packet has passed the gate: a process may be stopped now, before the packet leaves. */
void cl_trouble_in_turn(struct cl_world *world, unsigned node);
void cl_trouble_heals(struct cl_world *world, unsigned fault);

/* Ends all faults, and sets up the checks at the end. */
void cl_trouble_ends(struct cl_world *world);
void cl_trouble_accept(struct cl_world *world);

#endif
