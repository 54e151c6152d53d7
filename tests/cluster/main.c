/* hf-cluster: the lease and the core on simulated nodes, over a simulated database. See run.h. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "run.h"
#include "tap.h"

static const char help[] =
    "hf-cluster: the lease and the core of Holdfast on simulated nodes\n"
    "\n"
    "  --seeds N [--from S]  run the worlds of N seeds (from S, default 1) and print a summary\n"
    "  --seed N [--trace]    run one, with its history when --trace is given\n"
    "  --same-hash           check that a seed decides everything\n"
    "  --timing              how long the service is away after a fault of its owner\n"
    "  --hunt N [--from S]   run seed S and then N seeds, up to the first violation; for the "
    "mutants "
    "(tests/mutants)\n"
    "  --help                this text\n";

/* The seed that is in progress, for the handler of a panic in the core. */
static volatile uint64_t running_seed;

static void on_abort(int signal_number)
{
    char text[96];
    int len = snprintf(text, sizeof(text), "# to see it: hf-cluster --seed %" PRIu64 " --trace\n",
                       running_seed);

    (void)!write(STDERR_FILENO, text, (size_t)len);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

bool cl_run_seed(struct cl_world *world, uint64_t seed, FILE *trace)
{
    struct cl_config config;

    running_seed = seed;
    cl_config_draw(&config, seed);
    cl_world_init(world, &config, trace);
    return cl_world_run(world);
}

static void add(struct cl_stats *sum, const struct cl_stats *s)
{
    sum->events += s->events;
    sum->takes += s->takes;
    sum->grants += s->grants;
    sum->reclaims += s->reclaims;
    sum->answers += s->answers;
    sum->in_doubt += s->in_doubt;
    sum->suspended += s->suspended;
    sum->lost += s->lost;
    sum->alarms += s->alarms;
    sum->unknowable += s->unknowable;
    for (unsigned i = 0; i < CL_FAULT_KINDS; i++)
        sum->faults[i] += s->faults[i];
}

static void print_summary(const struct cl_stats *s, uint64_t seeds, uint64_t failed, double seconds)
{
    static const char *const names[CL_FAULT_KINDS] = {
#define X(name, text) text,
        CL_FAULTS(X)
#undef X
    };

    printf("# seeds %" PRIu64 ", events %" PRIu64 ", events/s %.0f, violations %" PRIu64 "\n",
           seeds, s->events, (double)s->events / seconds, failed);
    printf("# takes %" PRIu64 ", leases that ran out and came back %" PRIu64
           ", transactions given up %" PRIu64 "\n",
           s->takes, s->suspended, s->in_doubt);
    printf("# packets sent %" PRIu64 ", grants %" PRIu64 ", reclaims %" PRIu64 "\n", s->answers,
           s->grants, s->reclaims);
    printf("# failovers that lost acknowledged commits %" PRIu64
           ", known to no living process %" PRIu64 ", alarms %" PRIu64 "\n",
           s->lost, s->unknowable, s->alarms);
    for (unsigned i = 0; i < CL_FAULT_KINDS; i++)
        printf("#   %-44s %10" PRIu64 "\n", names[i], s->faults[i]);
}

/* Returns the machine's clock, for the rate in the summary only; no simulated world ever sees it.
 */
static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int cl_run_seeds(uint64_t from, uint64_t count)
{
    enum { SHOWN_MAX = 10, LOST_PERCENT = 5, FEWEST_SEEDS = 100 };
    static struct cl_world world;
    struct cl_stats sum = {0};
    struct sim_trace all = {0};
    uint64_t failed = 0;
    double start = seconds_now();

    for (uint64_t seed = from; seed < from + count; seed++) {
        if (!cl_run_seed(&world, seed, NULL) && ++failed <= SHOWN_MAX) {
            tap_result(false, "seed %" PRIu64 " event %" PRIu64 ": %s: %s", seed,
                       world.stats.events, world.violation, world.detail);
            printf("# to see it: hf-cluster --seed %" PRIu64 " --trace\n", seed);
        }
        add(&sum, &world.stats);
        sim_trace_mix(&all, world.trace.hash, seed, world.stats.events);
        cl_world_free(&world);
    }
    print_summary(&sum, count, failed, seconds_now() - start);
    printf("# hash of all steps %016" PRIx64 "\n", all.hash);
    /* After a failover that lost acknowledged commits, most checks are off for the rest of the
     * world. */
    tap_result(sum.lost * 100 <= count * LOST_PERCENT || count < FEWEST_SEEDS,
               "at most %d of 100 worlds lose acknowledged commits: %" PRIu64 " of %" PRIu64,
               LOST_PERCENT, sum.lost, count);
    tap_result(!failed, "seeds %" PRIu64 " to %" PRIu64 " without a violation", from,
               from + count - 1);
    return tap_done();
}

int cl_run_trace(uint64_t seed)
{
    static struct cl_world world;
    bool good = cl_run_seed(&world, seed, stdout);

    printf("# seed %" PRIu64 ": events %" PRIu64 ", hash %016" PRIx64 "\n", seed,
           world.stats.events, world.trace.hash);
    if (!good)
        printf("# %s: %s\n", world.violation, world.detail);
    cl_world_free(&world);
    return !good;
}

int cl_run_same_hash(void)
{
    enum { SEEDS = 20 };
    static struct cl_world world;
    uint64_t last = 0;
    unsigned differ = 0;
    unsigned same_as_last = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t first;

        cl_run_seed(&world, seed, NULL);
        first = world.trace.hash;
        cl_world_free(&world);
        cl_run_seed(&world, seed, NULL);
        differ += world.trace.hash != first;
        same_as_last += first == last;
        last = first;
        cl_world_free(&world);
    }
    tap_result(!differ, "%d seeds run twice have the same history", SEEDS);
    tap_result(!same_as_last, "different seeds have different histories");
    return tap_done();
}

static uint64_t number(const char *text)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || *end || end == text) {
        fprintf(stderr, "hf-cluster: '%s' is not a number\n", text);
        exit(2);
    }
    return value;
}

enum { OPT_SEEDS = 256, OPT_FROM, OPT_SEED, OPT_TRACE, OPT_SAME, OPT_TIMING, OPT_HUNT, OPT_HELP };

static const struct option options[] = {
    {"seeds", required_argument, NULL, OPT_SEEDS},
    {"from", required_argument, NULL, OPT_FROM},
    {"seed", required_argument, NULL, OPT_SEED},
    {"trace", no_argument, NULL, OPT_TRACE},
    {"same-hash", no_argument, NULL, OPT_SAME},
    {"timing", no_argument, NULL, OPT_TIMING},
    {"hunt", required_argument, NULL, OPT_HUNT},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

struct request {
    int what;
    uint64_t from, count;
    bool trace;
};

static struct request parse(int argc, char **argv)
{
    struct request r = {.what = OPT_HELP, .from = 1};
    int opt;

    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (opt == '?')
            exit(2);
        if (opt == OPT_FROM)
            r.from = number(optarg);
        else if (opt == OPT_TRACE)
            r.trace = true;
        else
            r.what = opt;
        if (opt == OPT_SEEDS || opt == OPT_HUNT)
            r.count = number(optarg);
        if (opt == OPT_SEED)
            r.from = number(optarg), r.count = 1;
    }
    return r;
}

int main(int argc, char **argv)
{
    struct request r = parse(argc, argv);

    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGABRT, on_abort);
    switch (r.what) {
    case OPT_SEED:
    case OPT_SEEDS:
        return r.trace ? cl_run_trace(r.from) : cl_run_seeds(r.from, r.count) != 0;
    case OPT_SAME:
        return cl_run_same_hash() != 0;
    case OPT_TIMING:
        return cl_run_timing() != 0;
    case OPT_HUNT:
        return cl_run_hunt(r.from, r.count) != 0;
    default:
        fputs(help, stdout);
        return 0;
    }
}
