/* hf-coherence [--seeds N] [--from N] [--seed N [--trace]]: worlds from seeds (world.h). */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"
#include "world.h"

static struct world world;

static void on_abort(int number)
{
    char text[80];
    int len = snprintf(text, sizeof(text), "# to see it: hf-coherence --seed %" PRIu64 " --trace\n",
                       world.seed);

    (void)!write(STDERR_FILENO, text, (size_t)len);
    signal(number, SIG_DFL);
    raise(number);
}

static bool run(uint64_t seed, FILE *trace)
{
    bool good = world_run(&world, seed, trace);

    world_free(&world);
    return good && !world.violation;
}

static int run_seeds(uint64_t from, uint64_t count)
{
    uint64_t ghosts = 0, repeats = 0, simulated = 0, coarse = 0;
    uint64_t grants = 0, outside = 0, refusals = 0, losses = 0, waits = 0, crashes = 0, failed = 0;

    for (uint64_t seed = from; seed < from + count; seed++) {
        if (!run(seed, NULL) && ++failed <= 10)
            tap_result(false, "seed %" PRIu64 " step %" PRIu64 ": %s: %s", seed, world.step,
                       world.violation, world.detail);
        grants += world.grants;
        outside += world.outside_grants;
        refusals += world.refusals;
        losses += world.losses;
        waits += world.waits_made;
        crashes += world.crashes_made;
        ghosts += world.ghosts_made;
        repeats += world.repeats;
        simulated += world.simulated_made;
        coarse += world.coarse_made;
    }
    printf("# grants %" PRIu64 ", of outsiders %" PRIu64 ", claims refused %" PRIu64
           ", waits made %" PRIu64 ", locks lost outside %" PRIu64 ", crashes %" PRIu64 "\n",
           grants, outside, refusals, waits, losses, crashes);
    printf("# requests of former lives %" PRIu64 ", repeated UNLOCKs %" PRIu64
           ", simulated crashes %" PRIu64 ", steps with more held than locked %" PRIu64 "\n",
           ghosts, repeats, simulated, coarse);
    tap_result(grants > 0 && outside > 0 && refusals > 0 && waits > 0 && losses > 0 &&
                   crashes > 0 && ghosts > 0 && repeats > 0 && simulated > 0 && coarse > 0,
               "everything that can happen did");
    tap_result(failed == 0, "seeds %" PRIu64 " to %" PRIu64 " without a violation", from,
               from + count - 1);
    return tap_done();
}

int main(int argc, char **argv)
{
    uint64_t from = 1, count = 300, seed = 0;
    FILE *trace = NULL;

    signal(SIGABRT, on_abort);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0)
            trace = stdout;
        else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0)
            count = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--from") == 0)
            from = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[++i], NULL, 10);
        else
            return 2;
    }
    if (seed == 0)
        return run_seeds(from, count);
    tap_result(run(seed, trace), "seed %" PRIu64 ": %s %s", seed,
               world.violation ? world.violation : "good", world.detail);
    return tap_done();
}
