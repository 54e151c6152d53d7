#include "run.h"

#ifdef HF_WITH_MUTANTS

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "core/mutant.h"
#include "tap.h"

/*
 * Each bug is hunted in a child process, because the core may notice it first and stop (its own
 * assertions stay in production). The world lies in memory that both share, so the parent can read
 * how far it came. The core's checker is off at first: the simulator must find the bug by what the
 * server does, not by how it feels inside.
 */
enum { SEEDS = 2000 };

struct hunt {
    struct sim_world world;
    uint64_t seeds;
    uint64_t events; /* of the worlds before this one */
    bool caught;
};

static const char *const names[] = {"none",
#define X(name, text) #name,
                                    HF_MUTANTS(X)
#undef X
};

static const char *const texts[] = {"",
#define X(name, text) text,
                                    HF_MUTANTS(X)
#undef X
};

static void search(struct hunt *hunt, enum hf_mutant mutant, uint64_t seeds)
{
    hf_mutant_active = mutant;
    for (uint64_t i = 0; i < seeds + sim_n_known_seeds; i++) {
        uint64_t seed = i < seeds ? i + 1 : sim_known_seeds[i - seeds];
        struct sim_config config;

        sim_config_draw(&config, seed);
        config.check_every = 0;
        sim_world_init(&hunt->world, &config, NULL);
        hunt->seeds = seed;
        if (!sim_world_run(&hunt->world)) {
            hunt->caught = true;
            return;
        }
        hunt->events += hunt->world.stats.events;
        sim_world_free(&hunt->world);
        memset(&hunt->world.stats, 0, sizeof(hunt->world.stats));
    }
}

static void hunt_for(struct hunt *hunt, enum hf_mutant mutant)
{
    struct tap_child child;

    memset(hunt, 0, sizeof(*hunt));
    if (tap_fork(&child)) {
        search(hunt, mutant, SEEDS);
        _exit(0);
    }
    if (!tap_wait(&child))
        tap_result(child.stopped_itself,
                   "%s: the core itself stopped at event %" PRIu64 ", seed %" PRIu64 ": %s",
                   names[mutant], hunt->events + hunt->world.stats.events, hunt->seeds,
                   child.words);
    else
        tap_result(hunt->caught, "%s (%s) %s at event %" PRIu64 ", seed %" PRIu64 ": %s: %s",
                   names[mutant], texts[mutant], hunt->caught ? "is caught" : "is NOT caught",
                   hunt->events + hunt->world.stats.events, hunt->seeds,
                   hunt->caught ? hunt->world.violation : "", hunt->world.detail);
}

bool sim_mutant(const char *name)
{
    for (int mutant = HF_MUTANT_NONE; mutant < HF_MUTANT_COUNT; mutant++) {
        if (strcmp(names[mutant], name) == 0) {
            hf_mutant_active = (enum hf_mutant)mutant;
            return true;
        }
    }
    return false;
}

/* Without a bug the same worlds are quiet; else the others prove nothing. */
static void control(struct hunt *hunt)
{
    enum { CONTROL_SEEDS = 100 };

    memset(hunt, 0, sizeof(*hunt));
    search(hunt, HF_MUTANT_NONE, CONTROL_SEEDS);
    tap_result(!hunt->caught, "without a mutant nothing is found in %d seeds", CONTROL_SEEDS);
}

int sim_run_mutants(void)
{
    struct hunt *hunt =
        mmap(NULL, sizeof(*hunt), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    HF_ASSERT(hunt != MAP_FAILED);
    control(hunt);
    for (int mutant = HF_MUTANT_NONE + 1; mutant < HF_MUTANT_COUNT; mutant++)
        hunt_for(hunt, (enum hf_mutant)mutant);
    munmap(hunt, sizeof(*hunt));
    return tap_done();
}

#else

bool sim_mutant(const char *name)
{
    (void)name;
    return false;
}

#endif
