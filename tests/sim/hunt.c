#include "run.h"

#include <inttypes.h>

#include "tap.h"

enum { FIRST = 50 }; /* this many fresh worlds run before the known seeds */

static bool is_quiet(struct sim_world *world, uint64_t seed, uint64_t *events)
{
    bool quiet = sim_run_seed_unchecked(world, seed);

    *events += world->stats.events;
    if (!quiet)
        tap_result(false, "found at event %" PRIu64 ", seed %" PRIu64 ": %s: %s", *events, seed,
                   world->violation, world->detail);
    sim_world_free(world);
    return quiet;
}

int sim_run_hunt(uint64_t first, uint64_t seeds)
{
    static struct sim_world world;
    uint64_t events = 0;
    bool quiet = is_quiet(&world, first, &events);

    for (uint64_t seed = 1; quiet && seed <= FIRST; seed++)
        quiet = is_quiet(&world, seed, &events);
    for (size_t i = 0; quiet && i < sim_n_known_seeds; i++)
        quiet = is_quiet(&world, sim_known_seeds[i], &events);
    for (uint64_t seed = FIRST + 1; quiet && seed <= seeds; seed++)
        quiet = is_quiet(&world, seed, &events);
    if (quiet)
        tap_result(true, "nothing is found in %" PRIu64 " seeds and %zu known ones", seeds,
                   sim_n_known_seeds);
    return tap_done();
}
