#include "config.h"

static bool one_in(struct sim_rng *rng, uint32_t n)
{
    return sim_rng_one_in(rng, n);
}

/* Draws clocks that differ by up to 10 % from each other. */
static void draw_clocks(struct cl_config *c, struct sim_rng *rng)
{
    bool drift = !one_in(rng, 3);

    for (unsigned i = 0; i < CL_NODES; i++)
        c->rate[i] = (uint16_t)(drift ? one_in(rng, 3) ? one_in(rng, 2) ? 1000 : 1100
                                                       : sim_rng_range(rng, 1000, 1100)
                                      : 1000);
}

static void draw_database(struct cl_config *c, struct sim_rng *rng)
{
    c->db_ms = one_in(rng, 2) ? sim_rng_range(rng, 1, 60) : 1;
    c->db_loss = (uint16_t)(one_in(rng, 3) ? sim_rng_range(rng, 1, 60) : 0);
    c->commit_ms = one_in(rng, 3) ? sim_rng_range(rng, 1, 40) : 2;
    c->synchronous = !one_in(rng, 5);
    c->lag_ms = sim_rng_range(rng, 1, 2000);
    c->timeout_ms = sim_rng_range(rng, 250, 400);
}

static void draw_faults(struct cl_config *c, struct sim_rng *rng)
{
    for (unsigned i = 0; i < CL_FAULT_KINDS; i++)
        c->every_ms[i] = one_in(rng, 4) ? sim_rng_range(rng, 3000, 60000) : 0;
    if (c->every_ms[CL_FAULT_CUT_TO_CLIENTS] > 0)
        c->every_ms[CL_FAULT_CUT_TO_CLIENTS] += 10000;
    if (c->every_ms[CL_FAULT_CUT_FROM_CLIENTS] > 0)
        c->every_ms[CL_FAULT_CUT_FROM_CLIENTS] += 10000;
}

void cl_config_draw(struct cl_config *config, uint64_t seed)
{
    struct sim_rng rng;

    *config = (struct cl_config){.seed = seed};
    /* The configuration draws from a stream of its own. */
    sim_rng_init(&rng, seed ^ 0x636c7573746572u);
    config->nodes = (uint8_t)sim_rng_range(&rng, 2, CL_NODES);
    config->busy_ms = sim_rng_range(&rng, 20000, 150000);
    config->think_ms = sim_rng_range(&rng, 50, 3000);
    config->grace_ms = sim_rng_range(&rng, 20000, 45000);
    config->load_ms = one_in(&rng, 3) ? 2500 : 100;
    config->conflict_mode = !one_in(&rng, 3);
    config->net_ms = sim_rng_range(&rng, 1, 30);
    config->net_loss = (uint16_t)(one_in(&rng, 3) ? sim_rng_range(&rng, 1, 100) : 0);
    config->hook_ms = sim_rng_range(&rng, 1, 20);
    draw_clocks(config, &rng);
    draw_database(config, &rng);
    draw_faults(config, &rng);
    config->durable_locks = config->conflict_mode || !one_in(&rng, 2);
    config->continues = config->durable_locks && one_in(&rng, 2);
}

void cl_config_single(struct cl_config *config, uint64_t seed, enum cl_fault fault)
{
    struct sim_rng rng;

    cl_config_draw(config, seed);
    sim_rng_init(&rng, seed);
    config->net_loss = config->db_loss = 0;
    config->synchronous = true;
    config->net_ms = config->db_ms = config->commit_ms = 5;
    config->timeout_ms = 400;
    /* HA-05: the time to load 100,000 locks, or as many as fit into a planned move. */
    config->load_ms = fault == CL_FAULT_MOVE || fault == CL_FAULT_RELEASE ? 100 : 300;
    config->busy_ms = 30000;
    for (unsigned i = 0; i < CL_FAULT_KINDS; i++)
        config->every_ms[i] = 0;
    config->is_single = true;
    config->single = fault;
    config->single_at_ms = sim_rng_range(&rng, 10000, 12000);
}
