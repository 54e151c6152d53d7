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

/* One seed. The world is given back for its statistics; the caller frees it. */
bool sim_run_seed(struct sim_world *world, uint64_t seed, FILE *trace);

/* Without the core's own checker. */
bool sim_run_seed_unchecked(struct sim_world *world, uint64_t seed);

/* Many seeds, with a summary. */
int sim_run_seeds(uint64_t from, uint64_t count);

/* Those that once found something. */
extern const uint64_t sim_known_seeds[];
extern const size_t sim_n_known_seeds;
int sim_run_known(void);

/* One seed with its history on standard output. */
int sim_run_trace(uint64_t seed);

/* The same seed twice gives the same hash; another seed gives another. */
int sim_run_same_hash(void);

/* Small worlds, completely (exhaustive.c). */
int sim_run_exhaustive(unsigned depth);

/* Every allocation and every store write of a scenario fails in turn (faults.c). */
int sim_run_faults(void);

/* The first one, which once found something, then so many seeds and the known ones, up to the first
 * violation (hunt.c). The core's own checker is off: a mutant must be found by what the server
 * does.
 */
int sim_run_hunt(uint64_t first, uint64_t seeds);

/* Adds stats to sum, for summaries over many worlds. */
void sim_stats_add(struct sim_stats *sum, const struct sim_stats *stats);

/* The command that shows what happened, for people to copy. */
void sim_print_replay(FILE *out, uint64_t seed);

#endif
