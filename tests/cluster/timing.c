#include <stdlib.h>

#include "run.h"
#include "tap.h"

/*
 * HA-05: how long the service is away. The design allows the sum of these times of the
 * configuration: a heartbeat that a standby sees up to one poll after it was made, take_ms of its
 * clock, the take, loading, the first commit, the hook. A planned move waits only for a poll. The
 * figures are simulated: they test the design and its constants, not the speed of a machine.
 */
enum { WORLDS = 100 };

static const struct {
    enum cl_fault fault;
    const char *what;
    uint64_t limit_ms;
} cases[] = {
    {CL_FAULT_KILL, "kill -9 of the owner", 2000},
    {CL_FAULT_STOP_PROCESS, "SIGSTOP of the owner", 2000},
    {CL_FAULT_STOP_HOST, "the owner's host stands still", 2000},
    {CL_FAULT_STOP_CLOCK, "the owner's virtual machine is paused", 2000},
    {CL_FAULT_CUT_TO_DB, "the owner cannot reach the database", 2000},
    /* Two transactions still reach the database: the one that the owner sent before the cut, and
       the one that it sends after its timeout. Each renews the lease there, and the owner learns of
       neither. */
    {CL_FAULT_CUT_FROM_DB, "the database cannot reach the owner", 2400},
    {CL_FAULT_MOVE, "planned move", 500},
    {CL_FAULT_RELEASE, "release by an outside manager", 500},
};

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Returns what the new owner tells of the silence before its take: none if the former owner has
 * released the lease. */
static uint64_t silence_told(const struct cl_world *world)
{
    for (unsigned n = 0; n < world->config.nodes; n++) {
        const struct hf_cluster *cluster = &world->nodes[n].cluster;

        if (world->nodes[n].up && hf_lease_is_owner(&cluster->lease))
            return cluster->view.last_silence_ms;
    }
    return 0;
}

static void measure(unsigned i)
{
    static struct cl_world world;
    static uint64_t away_ms[WORLDS];
    const char *violation = NULL;
    bool is_told = cases[i].fault == CL_FAULT_MOVE || cases[i].fault == CL_FAULT_RELEASE;
    unsigned unserved = 0;
    unsigned mistold = 0;

    for (unsigned n = 0; n < WORLDS; n++) {
        struct cl_config config;

        cl_config_single(&config, n + 1, cases[i].fault);
        cl_world_init(&world, &config, NULL);
        if (!cl_world_run(&world))
            violation = world.violation;
        unserved += world.served_ms == 0;
        away_ms[n] = world.served_ms - world.struck_ms;
        mistold += silence_told(&world) == 0 ? !is_told : is_told;
        cl_world_free(&world);
    }
    qsort(away_ms, WORLDS, sizeof(away_ms[0]), compare);
    tap_result(
        !violation && unserved == 0 && mistold == 0 && away_ms[WORLDS - 1] < cases[i].limit_ms,
        "%s: away for %llu ms (median), %llu ms (p99), %llu ms (maximum); limit %llu ms%s%s",
        cases[i].what, (unsigned long long)away_ms[WORLDS / 2],
        (unsigned long long)away_ms[WORLDS * 99 / 100], (unsigned long long)away_ms[WORLDS - 1],
        (unsigned long long)cases[i].limit_ms, violation ? ": " : "", violation ? violation : "");
}

int cl_run_timing(void)
{
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        measure(i);
    return tap_done();
}
