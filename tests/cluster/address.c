#include "address.h"

#include "base/error.h"
#include "daemon.h"
#include "world.h"

enum { RETRY_MS = 200 };

static void arm(struct cl_world *world, unsigned node, uint64_t in_ms)
{
    cl_push(world, in_ms, CL_EVENT_RUNNER, node, 0, ++world->nodes[node].address.timer);
}

static void report(struct cl_world *world, unsigned node, enum hf_addresses_event event)
{
    cl_push(world, 0, CL_EVENT_ADDRESS, node, event, world->nodes[node].address.take);
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

static void want_down(struct cl_address *address)
{
    address->wanted_up = false;
    address->take_open = false;
    address->down_open = true;
}

/* Takes the next step towards the state that the daemon ordered. */
static void review(struct cl_world *world, unsigned node)
{
    struct cl_address *address = &world->nodes[node].address;

    if (address->wanted_up && cl_clock(world, node) >= address->valid_until_ms)
        want_down(address);
    if (address->wanted_up)
        arm(world, node, cl_clock_wait(world, node, address->valid_until_ms));
    if (address->is_hook_running)
        return;
    if (address->wanted_up ? !address->up || address->take_open : address->up) {
        run_hook(world, node, address->wanted_up);
    } else if (!address->wanted_up && address->down_open) {
        address->down_open = false;
        report(world, node, HF_ADDRESSES_DOWN);
    }
}

void cl_address_abandon(struct cl_world *world, unsigned node)
{
    want_down(&world->nodes[node].address);
    review(world, node);
}

void cl_address_on_timer(struct cl_world *world, unsigned node, uint64_t generation)
{
    if (world->nodes[node].address.timer == generation)
        review(world, node);
}

/* Ends a hook. A drop that fails is tried again; a take that fails is given up, and what it did is
 * undone. */
void cl_address_on_hook(struct cl_world *world, unsigned node)
{
    struct cl_address *address = &world->nodes[node].address;

    address->is_hook_running = false;
    if (address->hook_fails && !address->is_taking) {
        arm(world, node, RETRY_MS);
        return;
    }
    if (address->hook_fails) {
        if (address->take_open)
            report(world, node, HF_ADDRESSES_FAILED);
        want_down(address);
    } else {
        address->up = address->is_taking;
        if (address->up && address->take_open)
            report(world, node, HF_ADDRESSES_UP);
        address->take_open = address->take_open && !address->up;
        CL_TRACE(world, node, address->up, 3, "n%u: address %s", node, address->up ? "up" : "down");
    }
    review(world, node);
}

/* ------------------------------------------------------------------ the daemon's side */

void cl_address_on_report(struct cl_world *world, unsigned node, unsigned event, uint64_t take)
{
    const struct hf_addresses *runner = &world->nodes[node].runner;

    if (take != runner->take)
        return;
    cl_enter(world, node);
    runner->report(runner->ctx, (enum hf_addresses_event)event,
                   event == HF_ADDRESSES_FAILED ? HF_EIO : 0);
    cl_node_pump(world, node);
}

static struct cl_address *order(struct hf_addresses *runner)
{
    struct cl_address *address = &runner->world->nodes[runner->node].address;

    address->take = ++runner->take;
    return address;
}

void hf_addresses_take(struct hf_addresses *runner, uint64_t valid_until_ms)
{
    struct cl_address *address = order(runner);

    address->wanted_up = address->take_open = true;
    address->valid_until_ms = valid_until_ms;
    review(runner->world, runner->node);
}

void hf_addresses_renew(struct hf_addresses *runner, uint64_t valid_until_ms)
{
    struct cl_address *address = &runner->world->nodes[runner->node].address;

    if (valid_until_ms <= address->valid_until_ms)
        return;
    address->valid_until_ms = valid_until_ms;
    review(runner->world, runner->node);
}

void hf_addresses_drop(struct hf_addresses *runner)
{
    want_down(order(runner));
    review(runner->world, runner->node);
}

int hf_addresses_attach(struct hf_addresses *runner, uv_loop_t *loop, hf_addresses_cb *cb,
                        void *ctx)
{
    (void)loop;
    runner->report = cb;
    runner->ctx = ctx;
    return 0;
}

void hf_addresses_stop(struct hf_addresses *runner)
{
    cl_address_abandon(runner->world, runner->node);
}
