/* hf-sim: runs the real core in simulated worlds, and says what did not hold. See run.h. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

static const char help[] =
    "hf-sim: the core of Holdfast in simulated worlds\n"
    "\n"
    "  --seeds N [--from S]  run the worlds of N seeds (from S, default 1) and print a summary\n"
    "  --seed N [--trace]    run one, with its history when --trace is given\n"
    "  --known               run the seeds that once found something\n"
    "  --same-hash           check that a seed decides everything\n"
    "  --exhaustive [--depth D]  2 clients, 1 file, 3 ranges: every sequence of D operations "
    "(6)\n"
    "  --faults              fail every allocation and every store write of a scenario in turn\n"
    "  --hunt N [--from S]   run seed S, N seeds and the known ones without the core's own "
    "checker, "
    "up\n"
    "                        to the first violation; for the mutants (tests/mutants)\n"
    "  --help                this text\n";

enum {
    OPT_SEEDS = 256,
    OPT_FROM,
    OPT_SEED,
    OPT_TRACE,
    OPT_KNOWN,
    OPT_SAME,
    OPT_EXHAUSTIVE,
    OPT_DEPTH,
    OPT_FAULTS,
    OPT_HUNT,
    OPT_HELP
};

static const struct option options[] = {
    {"seeds", required_argument, NULL, OPT_SEEDS},
    {"from", required_argument, NULL, OPT_FROM},
    {"seed", required_argument, NULL, OPT_SEED},
    {"trace", no_argument, NULL, OPT_TRACE},
    {"known", no_argument, NULL, OPT_KNOWN},
    {"same-hash", no_argument, NULL, OPT_SAME},
    {"exhaustive", no_argument, NULL, OPT_EXHAUSTIVE},
    {"depth", required_argument, NULL, OPT_DEPTH},
    {"faults", no_argument, NULL, OPT_FAULTS},
    {"hunt", required_argument, NULL, OPT_HUNT},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

struct request {
    int what;
    uint64_t from, count, seed;
    unsigned depth;
    bool trace;
};

static uint64_t number(const char *text)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || *end || end == text) {
        fprintf(stderr, "hf-sim: '%s' is not a number\n", text);
        exit(2);
    }
    return value;
}

static struct request parse(int argc, char **argv)
{
    struct request r = {.what = OPT_HELP, .from = 1, .depth = 6};
    int opt;

    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case OPT_FROM:
            r.from = number(optarg);
            break;
        case OPT_DEPTH:
            r.depth = (unsigned)number(optarg);
            break;
        case OPT_TRACE:
            r.trace = true;
            break;
        case OPT_HUNT:
        case OPT_SEEDS:
            r.count = number(optarg);
            r.what = opt;
            break;
        case OPT_SEED:
            r.seed = number(optarg);
            r.what = opt;
            break;
        case '?':
            exit(2);
        default:
            r.what = opt;
            break;
        }
    }
    return r;
}

static int run(const struct request *r)
{
    switch (r->what) {
    case OPT_SEEDS:
        return sim_run_seeds(r->from, r->count);
    case OPT_SEED:
        return r->trace ? sim_run_trace(r->seed) : sim_run_seeds(r->seed, 1);
    case OPT_KNOWN:
        return sim_run_known();
    case OPT_SAME:
        return sim_run_same_hash();
    case OPT_EXHAUSTIVE:
        return sim_run_exhaustive(r->depth);
    case OPT_FAULTS:
        return sim_run_faults();
    case OPT_HUNT:
        return sim_run_hunt(r->from, r->count);
    default:
        fputs(help, stdout);
        return 0;
    }
}

int main(int argc, char **argv)
{
    struct request r = parse(argc, argv);

    setvbuf(stdout, NULL, _IOLBF, 0);
    return run(&r) ? 1 : 0;
}
