#include "run.h"

#ifdef HF_PLANT

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "core/plant.h"
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
                                    HF_PLANTS(X)
#undef X
};

static const char *const texts[] = {"",
#define X(name, text) text,
                                    HF_PLANTS(X)
#undef X
};

static void search(struct hunt *hunt, enum hf_plant plant, uint64_t seeds)
{
    hf_planted = plant;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
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

/* The first line the child wrote to standard error before it died. */
static void read_last_words(int fd, char *text, size_t size)
{
    ssize_t n = pread(fd, text, size - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static void hunt_for(struct hunt *hunt, enum hf_plant plant)
{
    int words = memfd_create("stderr", 0);
    char text[200];
    int status = 0;
    pid_t child;

    memset(hunt, 0, sizeof(*hunt));
    fflush(stdout);
    child = fork();
    HF_ASSERT(child >= 0 && words >= 0);
    if (child == 0) {
        dup2(words, STDERR_FILENO);
        search(hunt, plant, SEEDS);
        _exit(0);
    }
    waitpid(child, &status, 0);
    read_last_words(words, text, sizeof(text));
    close(words);
    if (status != 0)
        tap_result(true, "%s: the core itself stopped at event %" PRIu64 ", seed %" PRIu64 ": %s",
                   names[plant], hunt->events + hunt->world.stats.events, hunt->seeds, text);
    else
        tap_result(hunt->caught, "%s (%s) %s at event %" PRIu64 ", seed %" PRIu64 ": %s: %s",
                   names[plant], texts[plant], hunt->caught ? "is caught" : "is NOT caught",
                   hunt->events + hunt->world.stats.events, hunt->seeds,
                   hunt->caught ? hunt->world.violation : "", hunt->world.detail);
}

bool sim_plant(const char *name)
{
    for (int plant = HF_PLANT_NONE; plant < HF_PLANT_COUNT; plant++) {
        if (strcmp(names[plant], name) == 0) {
            hf_planted = (enum hf_plant)plant;
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
    search(hunt, HF_PLANT_NONE, CONTROL_SEEDS);
    tap_result(!hunt->caught, "without a planted bug nothing is found in %d seeds", CONTROL_SEEDS);
}

int sim_run_planted(void)
{
    struct hunt *hunt =
        mmap(NULL, sizeof(*hunt), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    HF_ASSERT(hunt != MAP_FAILED);
    control(hunt);
    for (int plant = HF_PLANT_NONE + 1; plant < HF_PLANT_COUNT; plant++)
        hunt_for(hunt, (enum hf_plant)plant);
    munmap(hunt, sizeof(*hunt));
    return tap_done();
}

#else

bool sim_plant(const char *name)
{
    (void)name;
    return false;
}

#endif
