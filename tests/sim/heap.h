/*
 * The core's memory: counted, checked for leaks when the core is deleted, and failing once at a
 * chosen allocation. Only the core's memory fails, never the simulator's own.
 */
#ifndef HF_SIM_HEAP_H
#define HF_SIM_HEAP_H

#include "base/alloc.h"

struct sim_world;

struct hf_alloc sim_heap_alloc(struct sim_world *world);

#endif
