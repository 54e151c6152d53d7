/*
 * What hf-sim can be asked to do. Each prints TAP to standard output (a line per thing tested, `#`
 * lines for people) and returns how many tests failed.
 */
#ifndef HF_SIM_RUN_H
#define HF_SIM_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "world.h"

/* Runs one seed. The caller reads the world's statistics and frees it. */
bool sim_run_seed(struct sim_world *world, uint64_t seed, FILE *trace);

/* Runs one seed without the core's own checker. */
bool sim_run_seed_unchecked(struct sim_world *world, uint64_t seed);

/* Runs many seeds, and prints a summary. */
int sim_run_seeds(uint64_t from, uint64_t count);

/* The seeds that once found something. */
extern const uint64_t sim_known_seeds[];
extern const size_t sim_n_known_seeds;
int sim_run_known(void);

/* Prints the history of one seed to standard output. */
int sim_run_trace(uint64_t seed);

/* Checks that the same seed gives the same hash twice, and another seed another one. */
int sim_run_same_hash(void);

/* Runs every sequence of operations in small worlds (exhaustive.c). */
int sim_run_exhaustive(unsigned depth);

/* Fails every allocation and every store write of a scenario in turn (faults.c). */
int sim_run_faults(void);

/* Runs the seed `first`, which once found something, then this many seeds and the known ones, up to
 * the first violation (hunt.c). The core's own checker is off: a mutant must be found by what the
 * server does. */
int sim_run_hunt(uint64_t first, uint64_t seeds);

/* Adds stats to sum, for summaries over many worlds. */
void sim_stats_add(struct sim_stats *sum, const struct sim_stats *stats);

/* Prints the command that replays a seed, for people to copy. */
void sim_print_replay(FILE *out, uint64_t seed);

#endif
