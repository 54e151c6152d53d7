#include "run.h"

#ifdef HF_WITH_MUTANTS

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "core/mutant.h"
#include "mutant.h"
#include "tap.h"

/* Each bug is hunted in a child process, because the core may notice it first and stop. */
enum { SEEDS = 3000, CONTROL_SEEDS = 50 };

enum cl_mutant cl_mutant_active;

struct bug {
    const char *name;
    const char *text;
    enum hf_mutant of_core;
    enum cl_mutant of_driver;
};

static const struct bug bugs[] = {
#define X(name, text) {#name, text, HF_MUTANT_##name, CL_MUTANT_NONE},
    HF_LEASE_MUTANTS(X) X(REUSE_STATE_NUMBER, "a restart does not change the state number")
#undef X
#define X(name, text) {#name, text, HF_MUTANT_NONE, CL_MUTANT_##name},
        CL_MUTANTS(X)
#undef X
};
enum { N_BUGS = sizeof(bugs) / sizeof(bugs[0]) };

/* Where each was last found first, so that the hunt is short; if worlds change, it goes on from 1.
 */
static const uint64_t hints[] = {1,  2,  7,  8,  9,  16,  20,  31,  37, 44,
                                 49, 51, 58, 76, 90, 126, 137, 209, 239};
enum { N_HINTS = sizeof(hints) / sizeof(hints[0]) };

struct hunt {
    uint64_t seed;
    uint64_t events;
    bool caught;
    const char *violation;
    char detail[256];
};

static struct cl_world world;

static void switch_on(const struct bug *bug)
{
    hf_mutant_active = bug ? bug->of_core : HF_MUTANT_NONE;
    cl_mutant_active = bug ? bug->of_driver : CL_MUTANT_NONE;
}

bool cl_mutant(const char *name)
{
    for (unsigned i = 0; i < N_BUGS; i++) {
        if (strcmp(bugs[i].name, name) == 0) {
            switch_on(&bugs[i]);
            return true;
        }
    }
    return false;
}

static void search(struct hunt *hunt, const struct bug *bug, uint64_t seeds)
{
    switch_on(bug);
    for (uint64_t i = 0; i < seeds + N_HINTS && !hunt->caught; i++) {
        hunt->seed = i < N_HINTS ? hints[i] : i - N_HINTS + 1;
        hunt->caught = !cl_run_seed(&world, hunt->seed, NULL);
        hunt->events += world.stats.events;
        hunt->violation = world.violation; /* a literal: the same in the parent */
        memcpy(hunt->detail, world.detail, sizeof(hunt->detail));
        cl_world_free(&world);
    }
}

static void hunt_for(struct hunt *hunt, const struct bug *bug)
{
    struct tap_child child;

    memset(hunt, 0, sizeof(*hunt));
    if (tap_fork(&child)) {
        search(hunt, bug, SEEDS);
        _exit(0);
    }
    if (!tap_wait(&child))
        tap_result(child.stopped_itself, "%s (%s): the core itself stopped, seed %" PRIu64 ": %s",
                   bug->name, bug->text, hunt->seed, child.words);
    else
        tap_result(hunt->caught, "%s (%s) %s at event %" PRIu64 ", seed %" PRIu64 ": %s: %s",
                   bug->name, bug->text, hunt->caught ? "is caught" : "is NOT caught", hunt->events,
                   hunt->seed, hunt->caught ? hunt->violation : "", hunt->detail);
}

int cl_run_mutants(void)
{
    struct hunt *hunt =
        mmap(NULL, sizeof(*hunt), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    HF_ASSERT(hunt != MAP_FAILED);
    search(hunt, NULL, CONTROL_SEEDS);
    tap_result(!hunt->caught, "without a mutant nothing is found in %d seeds", CONTROL_SEEDS);
    for (unsigned i = 0; i < N_BUGS; i++)
        hunt_for(hunt, &bugs[i]);
    munmap(hunt, sizeof(*hunt));
    return tap_done();
}

#else

int cl_run_mutants(void)
{
    fputs("hf-cluster: the mutants are in hf-cluster-mutants\n", stderr);
    return 2;
}

bool cl_mutant(const char *name)
{
    (void)name;
    return false;
}

#endif
