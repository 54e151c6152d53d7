/* What hf-cluster can be asked to do. Each prints TAP and returns how many tests failed. */
#ifndef HF_CLUSTER_RUN_H
#define HF_CLUSTER_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "world.h"

bool cl_run_seed(struct cl_world *world, uint64_t seed, FILE *trace);
int cl_run_seeds(uint64_t from, uint64_t count);
int cl_run_trace(uint64_t seed);

/* Checks that the same seed gives the same history twice, and another seed another one. */
int cl_run_same_hash(void);

/* Measures how long the service is away after each kind of fault of its owner (timing.c). */
int cl_run_timing(void);

/* Runs the seed `first`, which once found something, and then this many seeds, up to the first
 * violation (hunt.c). */
int cl_run_hunt(uint64_t first, uint64_t seeds);

#endif
