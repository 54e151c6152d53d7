#include "address.h"

#include "world.h"

enum { RETRY_MS = 200 };

static void arm(struct cl_world *world, unsigned node, uint64_t in_ms)
{
    cl_push(world, in_ms, CL_EVENT_RUNNER, node, 0, ++world->nodes[node].address.timer);
}

static void run_hook(struct cl_world *world, unsigned node, bool take)
{
    struct cl_address *address = &world->nodes[node].address;
    uint32_t ms = sim_rng_range(&world->rng, 1, world->config.hook_ms);
    bool bad = !world->calm && world->nodes[node].cut_until_ms[CL_FAULT_HOOK] > world->now_ms;

    address->is_hook_running = true;
    address->is_taking = take;
    address->hook_fails = bad && sim_rng_one_in(&world->rng, 2);
    if (bad)
        ms = sim_rng_range(&world->rng, 1, 3000);
    if (!take)
        address->is_late = bad;
    cl_push(world, ms, CL_EVENT_HOOK, node, 0, 0);
}

static void review(struct cl_world *world, unsigned node)
{
    struct cl_address *address = &world->nodes[node].address;
    uint64_t clock_ms = cl_clock(world, node);
    bool valid = clock_ms < address->valid_until_ms;

    if (!address->is_hook_running && valid != address->up)
        run_hook(world, node, valid);
    if (clock_ms < address->valid_until_ms)
        arm(world, node, cl_clock_wait(world, node, address->valid_until_ms));
}

void cl_address_valid_until(struct cl_world *world, unsigned node, uint64_t valid_until_ms)
{
    struct cl_address *address = &world->nodes[node].address;

    if (address->valid_until_ms == valid_until_ms)
        return;
    address->valid_until_ms = valid_until_ms;
    review(world, node);
}

void cl_address_on_timer(struct cl_world *world, unsigned node, uint64_t generation)
{
    if (world->nodes[node].address.timer == generation)
        review(world, node);
}

void cl_address_on_hook(struct cl_world *world, unsigned node)
{
    struct cl_address *address = &world->nodes[node].address;

    address->is_hook_running = false;
    if (address->hook_fails) {
        arm(world, node, RETRY_MS);
        return;
    }
    address->up = address->is_taking;
    CL_TRACE(world, node, address->up, 3, "n%u: address %s", node, address->up ? "up" : "down");
    review(world, node);
    cl_node_pump(world, node);
}
