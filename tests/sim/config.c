#include "config.h"

#include "oracle.h"

/* Returns 0 in most draws, otherwise a number of the range, so that worlds differ in kind and not
 * only in degree. */
static uint32_t mostly_none(struct sim_rng *rng, uint32_t one_in, uint32_t low, uint32_t high)
{
    return sim_rng_one_in(rng, one_in) ? sim_rng_range(rng, low, high) : 0;
}

static void draw_server(struct sim_config *c, struct sim_rng *rng)
{
    c->durable = !sim_rng_one_in(rng, 4);
    c->conflict_mode = c->durable && sim_rng_one_in(rng, 3);
    c->keep_on_failure = sim_rng_one_in(rng, 3);
    c->grace_ms = sim_rng_one_in(rng, 3) ? 90000 : sim_rng_range(rng, 5000, 40000);
    c->linger_ms = sim_rng_one_in(rng, 2) ? 300000 : sim_rng_range(rng, 100, 20000);
    c->in_flight = sim_rng_one_in(rng, 3) ? sim_rng_range(rng, 1, 3) : 2048;
    c->drift = (int8_t)(sim_rng_one_in(rng, 3) ? (int)sim_rng_range(rng, 0, 100) - 50 : 0);
    c->max_clients = sim_rng_one_in(rng, 8) ? sim_rng_range(rng, 1, 4) : 100;
    c->max_locks = sim_rng_one_in(rng, 8) ? sim_rng_range(rng, 2, 12) : 1000;
    c->max_locks_per_client = sim_rng_one_in(rng, 8) ? sim_rng_range(rng, 1, 6) : 1000;
    c->max_locks_per_file = sim_rng_one_in(rng, 8) ? sim_rng_range(rng, 1, 6) : 1000;
    c->max_locks_per_host = sim_rng_one_in(rng, 8) ? sim_rng_range(rng, 2, 8) : 60;
    c->max_waiters = sim_rng_one_in(rng, 8) ? sim_rng_range(rng, 1, 3) : 1000;
    c->serve_budget = sim_rng_one_in(rng, 3) ? sim_rng_range(rng, 1, 12) : 4000;
    c->release_budget = sim_rng_one_in(rng, 2) ? sim_rng_range(rng, 1, 6) : 1000;
    c->verify = !sim_rng_one_in(rng, 6);
}

static void draw_network(struct sim_config *c, struct sim_rng *rng)
{
    c->duplicate_cache = !sim_rng_one_in(rng, 4);
    c->ordered = !c->duplicate_cache || sim_rng_one_in(rng, 4);
    c->loss = (uint16_t)(sim_rng_one_in(rng, 2) ? sim_rng_range(rng, 1, 150) : 0);
    c->duplicate = (uint16_t)(sim_rng_one_in(rng, 2) ? sim_rng_range(rng, 1, 150) : 0);
    c->delay_ms = sim_rng_one_in(rng, 2) ? sim_rng_range(rng, 1, 400) : 2;
    c->late_ms = mostly_none(rng, 3, 500, 8000);
    c->resend_ms = sim_rng_range(rng, 300, 3000);
}

static void draw_store(struct sim_config *c, struct sim_rng *rng)
{
    c->commit_ms = sim_rng_one_in(rng, 2) ? sim_rng_range(rng, 1, 60) : 1;
    c->commit_slow = (uint16_t)mostly_none(rng, 3, 10, 200);
    c->commit_fails = (uint16_t)mostly_none(rng, 4, 5, 150);
    c->commit_unknown = (uint16_t)mostly_none(rng, 4, 5, 100);
}

static void draw_faults(struct sim_config *c, struct sim_rng *rng)
{
    c->server_crash_ms = sim_rng_one_in(rng, 2) ? sim_rng_range(rng, 10000, 150000) : 0;
    c->server_stop_ms = mostly_none(rng, 5, 30000, 200000);
    c->simu_crash_ms = mostly_none(rng, 8, 30000, 200000);
    c->client_crash_ms = sim_rng_one_in(rng, 2) ? sim_rng_range(rng, 10000, 150000) : 0;
    c->partition_ms = mostly_none(rng, 3, 10000, 100000);
    c->store_outage_ms = mostly_none(rng, 5, 10000, 100000);
    c->wall_jump_ms = mostly_none(rng, 4, 10000, 100000);
    c->operator_ms = mostly_none(rng, 6, 10000, 100000);
    c->dead_for_good = (uint8_t)mostly_none(rng, 3, 1, 4);
}

static void draw_clients(struct sim_config *c, struct sim_rng *rng)
{
    c->signals = (uint16_t)mostly_none(rng, 2, 20, 300);
    c->nm_locks = (uint16_t)mostly_none(rng, 5, 20, 200);
    c->shares = (uint16_t)mostly_none(rng, 5, 20, 200);
    c->tests = (uint16_t)sim_rng_range(rng, 20, 150);
    c->mons = (uint16_t)mostly_none(rng, 4, 20, 150);
    c->lies = (uint16_t)mostly_none(rng, 4, 20, 150);
    c->free_alls = (uint16_t)mostly_none(rng, 6, 5, 30);
}

/* These settings are drawn last, so that older seeds still make the same worlds. */
static void draw_process(struct sim_config *c, struct sim_rng *rng)
{
    c->process = c->durable && sim_rng_one_in(rng, 3);
    c->host_crash_ms = c->process && !sim_rng_one_in(rng, 3) ? sim_rng_range(rng, 5000, 80000) : 0;
}

static uint32_t limit(struct sim_rng *rng)
{
    return sim_rng_one_in(rng, 2) ? sim_rng_range(rng, 1, 4) : 1000;
}

void sim_config_new_limits(struct sim_config *c, struct sim_rng *rng)
{
    c->max_locks = limit(rng);
    c->max_locks_per_client = limit(rng);
    c->max_locks_per_file = limit(rng);
    c->max_locks_per_host = limit(rng);
}

/* Limits stay as they are where locks are not recorded: such locks must be reclaimed, and a limit
 * could refuse the reclaim. */
static void draw_new_limits(struct sim_config *c, struct sim_rng *rng)
{
    c->new_limits = c->durable && !c->process && sim_rng_one_in(rng, 4);
    if (c->new_limits)
        c->max_locks = c->max_locks_per_client = c->max_locks_per_file = c->max_locks_per_host =
            1000;
}

/* Starts with other settings exclude lowered limits, which could refuse the reclaim of a lock that
 * is not recorded. */
static void draw_starts(struct sim_config *c, struct sim_rng *rng)
{
    c->reconfigures = c->host_crash_ms == 0 && !c->new_limits && sim_rng_one_in(rng, 3);
    c->late_ms_max = mostly_none(rng, 3, 1000, 30000);
}

/* Lets notices come late, so that clients lock in grace without knowing of the restart. */
static void draw_unaware(struct sim_config *c, struct sim_rng *rng)
{
    if (!c->conflict_mode || c->server_crash_ms == 0 || !sim_rng_one_in(rng, 3))
        return;
    c->late_ms_max = 60000;
    c->grace_ms = 90000;
    c->server_crash_ms = sim_rng_range(rng, 20000, 80000);
}

/* A host now and then runs our daemon in the place of rpc.statd, and is booted. */
static void draw_roles(struct sim_config *c, struct sim_rng *rng)
{
    c->roles = c->durable && !c->reconfigures && !c->new_limits && sim_rng_one_in(rng, 6);
    if (!c->roles)
        return;
    c->mons = (uint16_t)sim_rng_range(rng, 50, 200);
    c->server_crash_ms = sim_rng_range(rng, 10000, 60000);
    if (sim_rng_one_in(rng, 2))
        c->host_crash_ms = sim_rng_range(rng, 20000, 100000);
}

/* Machines with two mounts exclude some faults: the model counts limits, lies and registrations per
 * host and not per machine. */
static void draw_twins(struct sim_config *c, struct sim_rng *rng)
{
    if (!sim_rng_one_in(rng, 5))
        return;
    c->twins = (enum sim_twins)sim_rng_range(rng, 1, SIM_TWINS_KINDS - 1);
    c->lies = c->free_alls = c->mons = 0;
    c->roles = c->new_limits = false;
    c->max_clients = 100;
    c->max_locks = c->max_locks_per_client = c->max_locks_per_file = c->max_locks_per_host =
        c->max_waiters = 1000;
}

void sim_config_draw(struct sim_config *config, uint64_t seed)
{
    struct sim_rng rng;

    *config = (struct sim_config){.seed = seed};
    sim_rng_init(&rng, seed ^ 0x686f6c6466617374u); /* the run itself draws from another stream */
    config->hosts = (uint8_t)sim_rng_range(&rng, 2, SIM_HOSTS);
    config->files = (uint8_t)sim_rng_range(&rng, 1, SIM_FILES);
    config->layout = (uint8_t)sim_rng_below(&rng, SIM_LAYOUTS);
    config->busy_ms = sim_rng_range(&rng, 20000, 300000);
    config->think_ms = sim_rng_range(&rng, 200, 6000);
    config->check_every = (uint8_t)(sim_rng_one_in(&rng, 4) ? 1 : 16);
    draw_server(config, &rng);
    draw_network(config, &rng);
    draw_store(config, &rng);
    draw_faults(config, &rng);
    draw_clients(config, &rng);
    draw_process(config, &rng);
    draw_new_limits(config, &rng);
    draw_starts(config, &rng);
    config->stateless = sim_rng_one_in(&rng, 5);
    config->mixed = (uint16_t)mostly_none(&rng, 4, 50, 500);
    config->threads = sim_rng_one_in(&rng, 4);
    /* Slow commits that often fail, so that grants to threads are undone. */
    if (config->threads && sim_rng_one_in(&rng, 2)) {
        config->commit_fails = (uint16_t)sim_rng_range(&rng, 20, 200);
        config->commit_ms = sim_rng_range(&rng, 50, 500);
    }
    config->grows = (uint16_t)mostly_none(&rng, 3, 50, 400);
    draw_unaware(config, &rng);
    draw_roles(config, &rng);
    draw_twins(config, &rng);
    config->continues = config->durable && sim_rng_one_in(&rng, 2);
}
