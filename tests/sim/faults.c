#include "run.h"

#include <inttypes.h>

#include "tap.h"

/*
 * Short worlds with something of everything (waiters, a crash of a client and of the server, a
 * reclaim, notices, shares), each run once for every allocation the core makes in it, failing just
 * that one, and once for every commit.
 */
enum { SCENARIOS = 4 };

static struct sim_config scenario(unsigned i)
{
    struct sim_config config;

    config = (struct sim_config){.seed = 4000 + i,
                                 .hosts = 4,
                                 .files = 2,
                                 .layout = (uint8_t)(i % SIM_LAYOUTS),
                                 .busy_ms = 60000,
                                 .think_ms = 4000,
                                 .duplicate_cache = true,
                                 .check_every = 1,
                                 .durable = i != 1,
                                 .conflict_mode = i == 2,
                                 .grace_ms = 10000,
                                 .linger_ms = 3000,
                                 .in_flight = 2,
                                 .max_clients = 100,
                                 .max_locks = 1000,
                                 .max_locks_per_client = 1000,
                                 .max_locks_per_file = 1000,
                                 .max_waiters = 1000,
                                 .delay_ms = 5,
                                 .resend_ms = 1000,
                                 .commit_ms = 10,
                                 .signals = 200,
                                 .shares = 200,
                                 .tests = 50,
                                 .mons = 150,
                                 .server_crash_ms = 25000,
                                 .simu_crash_ms = i == 3 ? 25000 : 0,
                                 .client_crash_ms = 25000};
    return config;
}

/* Runs one with a failure at the n-th allocation or commit; 0: none. */
static bool run_one(struct sim_world *world, unsigned i, uint64_t allocation, uint64_t commit)
{
    struct sim_config config = scenario(i);

    sim_world_init(world, &config, NULL);
    world->heap.fail_at = allocation;
    world->fail_commit = commit;
    return sim_world_run(world);
}

static uint64_t fail_each(unsigned i, uint64_t n, bool allocations)
{
    static struct sim_world world;
    uint64_t failed = 0;

    for (uint64_t k = 1; k <= n; k++) {
        if (!run_one(&world, i, allocations ? k : 0, allocations ? 0 : k) && failed++ < 5)
            printf("# scenario %u, %s %" PRIu64 ", event %" PRIu64 ": %s: %s\n", i,
                   allocations ? "allocation" : "commit", k, world.stats.events, world.violation,
                   world.detail);
        sim_world_free(&world);
    }
    return failed;
}

static void run_scenario(unsigned i)
{
    static struct sim_world world;
    bool good = run_one(&world, i, 0, 0);
    uint64_t allocations = world.heap.count;
    uint64_t commits = world.server.commits;

    tap_result(good, "scenario %u without a failure (%" PRIu64 " events)%s%s", i,
               world.stats.events, good ? "" : ": ", good ? "" : world.violation);
    sim_world_free(&world);
    tap_result(fail_each(i, allocations, true) == 0,
               "scenario %u with each of %" PRIu64 " allocations failing", i, allocations);
    tap_result(fail_each(i, commits, false) == 0,
               "scenario %u with each of %" PRIu64 " store writes failing", i, commits);
}

int sim_run_faults(void)
{
    for (unsigned i = 0; i < SCENARIOS; i++)
        run_scenario(i);
    return tap_done();
}
