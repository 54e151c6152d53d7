#include "run.h"

#include <inttypes.h>

#include "tap.h"

int cl_run_hunt(uint64_t first, uint64_t seeds)
{
    static struct cl_world world;
    uint64_t events = 0;
    bool quiet = true;

    for (uint64_t i = 0; quiet && i <= seeds; i++) {
        uint64_t seed = i == 0 ? first : i;

        quiet = cl_run_seed(&world, seed, NULL);
        events += world.stats.events;
        if (!quiet)
            tap_result(false, "found at event %" PRIu64 ", seed %" PRIu64 ": %s: %s", events, seed,
                       world.violation, world.detail);
        cl_world_free(&world);
    }
    if (quiet)
        tap_result(true, "nothing is found in %" PRIu64 " seeds", seeds);
    return tap_done();
}
