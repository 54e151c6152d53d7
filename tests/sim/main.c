/* hf-sim: runs the real core in simulated worlds, and says what did not hold. See run.h. */
#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    "  --mutants             check that every mutant is caught\n"
    "  --mutant NAME         switch a mutant on (hf-sim-mutants only), for the other modes\n"
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
    OPT_MUTANTS,
    OPT_MUTANT,
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
    {"mutants", no_argument, NULL, OPT_MUTANTS},
    {"mutant", required_argument, NULL, OPT_MUTANT},
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
        case OPT_MUTANT:
            if (!sim_mutant(optarg)) {
                fprintf(stderr, "hf-sim: no mutant '%s' in this program\n", optarg);
                exit(2);
            }
            break;
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

#ifndef HF_WITH_MUTANTS
/* The mutants are in a program of their own, beside this one, so that this one tests the
 * library that ships. */
static int exec_mutants(void)
{
    char path[PATH_MAX];
    char other[PATH_MAX + 32];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (len < 0)
        return 2;
    path[len] = '\0';
    snprintf(other, sizeof(other), "%s/hf-sim-mutants", dirname(path));
    execl(other, other, "--mutants", (char *)NULL);
    perror(other);
    return 2;
}
#endif

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
    case OPT_MUTANTS:
#ifdef HF_WITH_MUTANTS
        return sim_run_mutants();
#else
        return exec_mutants();
#endif
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
