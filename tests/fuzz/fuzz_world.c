/*
 * A whole simulated world (tests/sim): requests of several hosts through the handlers and codecs to
 * the core, crashes, failed commits, lost messages. The input decides instead of chance: its first
 * bytes choose the world's configuration, and each decision after that takes the next byte. All
 * rules of the simulator are the oracle, the naive model included.
 */
#include "fuzz.h"

#include <stdio.h>

#include "world.h"

enum { CONFIG_BYTES = 4, BUSY_MS = 40000 };

static void choose_config(const uint8_t *data, struct sim_config *config)
{
    sim_config_draw(config, (uint64_t)data[0] | (uint64_t)data[1] << 8);
    config->busy_ms = 1000 + (uint32_t)data[2] * (BUSY_MS / 256);
    config->think_ms = 50 + (uint32_t)(data[3] & 0x7f) * 20;
    if (data[3] & 0x80)
        config->check_every = 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sim_world world;
    struct sim_config config;

    if (size < CONFIG_BYTES)
        return 0;
    choose_config(data, &config);
    sim_world_init(&world, &config, getenv("TRACE") ? stdout : NULL);
    world.rng.tape = data + CONFIG_BYTES;
    world.rng.tape_left = size - CONFIG_BYTES;
    if (!sim_world_run(&world)) {
        fprintf(stderr, "%s: %s\n", world.violation, world.detail);
        if (getenv("TRACE"))
            sim_model_print(&world, stderr);
        abort();
    }
    sim_world_free(&world);
    return 0;
}
