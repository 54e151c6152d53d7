#include "trouble.h"

#include <string.h>

#include "door.h"
#include "operator.h"
#include "world.h"

static uint32_t mean_ms(const struct sim_config *c, enum sim_fault fault)
{
    switch (fault) {
    case SIM_FAULT_SERVER_CRASH:
        return c->server_crash_ms;
    case SIM_FAULT_SERVER_STOP:
        return c->server_stop_ms;
    case SIM_FAULT_SIMU_CRASH:
        return c->simu_crash_ms;
    case SIM_FAULT_HOST_CRASH:
        return c->host_crash_ms;
    case SIM_FAULT_CLIENT_CRASH:
        return c->client_crash_ms;
    case SIM_FAULT_PARTITION:
        return c->partition_ms;
    case SIM_FAULT_OUTAGE:
        return c->store_outage_ms;
    case SIM_FAULT_WALL_JUMP:
        return c->wall_jump_ms;
    case SIM_FAULT_OPERATOR:
        return c->operator_ms;
    default:
        return 0;
    }
}

static void schedule(struct sim_world *world, enum sim_fault fault)
{
    uint32_t mean = mean_ms(&world->config, fault);

    if (mean == 0)
        return;
    sim_queue_push(
        &world->queue,
        (struct sim_event){.at_ms = world->now_ms + sim_rng_range(&world->rng, 1, 2 * mean),
                           .kind = SIM_EVENT_FAULT,
                           .what = fault});
}

void sim_trouble_init(struct sim_world *world)
{
    for (unsigned f = 0; f < SIM_FAULT_KINDS; f++)
        schedule(world, (enum sim_fault)f);
}

static void heal_later(struct sim_world *world, unsigned who, unsigned what, uint32_t pause_ms)
{
    sim_queue_push(&world->queue, (struct sim_event){.at_ms = world->now_ms + pause_ms,
                                                     .kind = SIM_EVENT_HEAL,
                                                     .who = (uint16_t)who,
                                                     .what = what});
}

static void crash_client(struct sim_world *world)
{
    unsigned h = sim_rng_below(&world->rng, world->config.hosts);
    bool last = sim_machine(h) != 0 && sim_rng_one_in(&world->rng, world->config.dead_for_good);

    if (!sim_client_is_up(world, h))
        return;
    sim_world_fault(world, SIM_FAULT_CLIENT_CRASH);
    if (last) /* host 0 always comes back, so that one client is left at the end */
        sim_world_fault(world, SIM_FAULT_CLIENT_DEATH);
    sim_client_crash(world, h, last ? 0 : sim_rng_range(&world->rng, 500, 60000));
}

static void cut(struct sim_world *world)
{
    unsigned h = sim_rng_below(&world->rng, world->config.hosts);
    /* The direction up, the direction down, and twice as often both. */
    unsigned which = sim_rng_below(&world->rng, 4);

    sim_world_fault(world, SIM_FAULT_PARTITION);
    if (which != 0)
        world->net.cut[h][false] = true;
    if (which != 1)
        world->net.cut[h][true] = true;
    SIM_WORLD_TRACE(world, h, which, 0, "network: h%u is cut off%s", h,
                    which == 0   ? " on its way to the server"
                    : which == 1 ? " on the way from the server"
                                 : "");
    heal_later(world, h, SIM_FAULT_PARTITION, sim_rng_range(&world->rng, 500, 120000));
}

static void break_store(struct sim_world *world)
{
    sim_world_fault(world, SIM_FAULT_OUTAGE);
    world->server.outage = true;
    SIM_WORLD_TRACE(world, 0, 0, 0, "store: fails from now on");
    heal_later(world, 0, SIM_FAULT_OUTAGE, sim_rng_range(&world->rng, 100, 20000));
}

static void jump(struct sim_world *world)
{
    int64_t by_ms = (int64_t)sim_rng_below(&world->rng, 2000000000) - 1000000000;

    sim_world_fault(world, SIM_FAULT_WALL_JUMP);
    world->wall_offset_ms += by_ms;
    SIM_WORLD_TRACE(world, by_ms, 0, 0, "clock: the wall clock jumps by %lld s",
                    (long long)by_ms / 1000);
}

static void strike(struct sim_world *world, enum sim_fault fault)
{
    switch (fault) {
    case SIM_FAULT_SERVER_CRASH:
        sim_world_fault(world, fault);
        sim_server_crash(world);
        break;
    case SIM_FAULT_SERVER_STOP:
        sim_world_fault(world, fault);
        sim_server_stop(world);
        break;
    case SIM_FAULT_SIMU_CRASH:
        sim_world_fault(world, fault);
        sim_server_simu_crash(world);
        break;
    case SIM_FAULT_HOST_CRASH:
        sim_world_fault(world, fault);
        sim_server_host_crash(world);
        break;
    case SIM_FAULT_CLIENT_CRASH:
        crash_client(world);
        break;
    case SIM_FAULT_PARTITION:
        cut(world);
        break;
    case SIM_FAULT_OUTAGE:
        break_store(world);
        break;
    case SIM_FAULT_OPERATOR:
        sim_world_fault(world, fault);
        sim_operator_acts(world);
        break;
    default:
        jump(world);
        break;
    }
}

void sim_trouble_strikes(struct sim_world *world, const struct sim_event *event)
{
    if (world->calm)
        return;
    strike(world, (enum sim_fault)event->what);
    if (!event->who)
        schedule(world, (enum sim_fault)event->what);
}

void sim_trouble_heals(struct sim_world *world, const struct sim_event *event)
{
    if (event->what == SIM_FAULT_OUTAGE)
        world->server.outage = false;
    else
        memset(world->net.cut[event->who], false, sizeof(world->net.cut[event->who]));
}

/* The time after which no message of a host that is dead for good is in flight; 0: no host is dead.
 */
static uint64_t last_of_the_dead_ms(const struct sim_world *world)
{
    uint64_t last_ms = 0;

    for (unsigned h = 0; h < world->config.hosts; h++) {
        uint64_t arrival_ms = world->net.last_arrival[h][true];

        if (world->hosts[h].dead && arrival_ms >= last_ms)
            last_ms = arrival_ms + 1;
    }
    return last_ms;
}

void sim_trouble_restarts(struct sim_world *world)
{
    /* A start that continues sends no notice, so none could fail. */
    world->config.continues = false;
    world->restart_due = false;
    sim_server_crash(world);
}

/*
 * The server finds out that a silent host is dead only by its own restart, when the notice to the
 * host fails. That releases what the host has not reclaimed, and no lock that it took since the
 * restart: a host that locks is alive (SPEC section 3). A LOCK that was in flight when the host
 * died looks the same. So the restart waits until the last message of the dead host has arrived;
 * then no lock of that host may be left.
 */
static void restart_for_the_dead(struct sim_world *world)
{
    uint64_t at_ms = last_of_the_dead_ms(world);

    if (at_ms == 0)
        return;
    if (at_ms <= world->now_ms) {
        sim_trouble_restarts(world);
        return;
    }
    world->restart_due = true;
    sim_queue_push(&world->queue,
                   (struct sim_event){.at_ms = at_ms, .kind = SIM_EVENT_LAST_RESTART});
}

void sim_trouble_ends(struct sim_world *world)
{
    world->calm = true;
    world->calm_since_ms = world->now_ms;
    world->server.outage = false;
    memset(world->net.cut, false, sizeof(world->net.cut));
    SIM_WORLD_TRACE(world, 0, 0, 0, "world: the faults stop");
    restart_for_the_dead(world);
    if (world->config.monitor && !world->restart_due)
        sim_server_crash(world); /* the monitor becomes a lock manager again */
}
