#include "run.h"

#include <inttypes.h>

#include "tap.h"

/* Runs short worlds with something of everything (waiters, a crash of a client and of the server, a
 * reclaim, notices, shares): once for every allocation that the core makes, failing just that one,
 * and once for every commit; then again with several failures in a row. */
enum { SCENARIOS = 5 };

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
                                 .process = i == 4,
                                 .host_crash_ms = i == 4 ? 20000 : 0,
                                 .conflict_mode = i == 2,
                                 .grace_ms = 10000,
                                 .linger_ms = 3000,
                                 .in_flight = 2,
                                 .max_clients = 100,
                                 .max_locks = 1000,
                                 .max_locks_per_client = 1000,
                                 .max_locks_per_file = 1000,
                                 .max_locks_per_host = 1000,
                                 .serve_budget = 4000,
                                 .release_budget = 8000,
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

/* What fails: n allocations or commits in a row, from number `at` on. */
struct failure {
    bool allocations;
    uint64_t at; /* 0: nothing */
    uint64_t n;
};

static bool run_one(struct sim_world *world, unsigned i, struct failure failure)
{
    struct sim_config config = scenario(i);

    sim_world_init(world, &config, NULL);
    if (failure.allocations) {
        world->heap.after = (long)failure.at - 1;
        world->heap.fail_n = failure.n;
    } else {
        world->fail_commit = failure.at;
        world->fail_commits = failure.n;
    }
    return sim_world_run(world);
}

/* Runs the scenario `count` times: in each run, n allocations or commits in a row fail, beginning
 * with the next one. */
static void fail_each(unsigned i, bool allocations, uint64_t count, uint64_t n)
{
    static struct sim_world world;
    uint64_t failed = 0;

    for (uint64_t at = 1; at <= count; at++) {
        if (!run_one(&world, i, (struct failure){allocations, at, n}) && failed++ < 5)
            printf("# scenario %u, %s %" PRIu64 ", event %" PRIu64 ": %s: %s\n", i,
                   allocations ? "allocation" : "commit", at, world.stats.events, world.violation,
                   world.detail);
        sim_world_free(&world);
    }
    tap_result(failed == 0, "scenario %u with each of %" PRIu64 " %s failing, %" PRIu64 " in a row",
               i, count, allocations ? "allocations" : "store writes", n);
}

static void run_scenario(unsigned i)
{
    static struct sim_world world;
    bool good = run_one(&world, i, (struct failure){0});
    uint64_t allocations = world.heap.count;
    uint64_t commits = world.server.commits;

    tap_result(good, "scenario %u without a failure (%" PRIu64 " events)%s%s", i,
               world.stats.events, good ? "" : ": ", good ? "" : world.violation);
    sim_world_free(&world);
    fail_each(i, true, allocations, 1);
    fail_each(i, true, allocations, 3);
    fail_each(i, false, commits, 1);
    fail_each(i, false, commits, 4);
}

int sim_run_faults(void)
{
    for (unsigned i = 0; i < SCENARIOS; i++)
        run_scenario(i);
    return tap_done();
}
