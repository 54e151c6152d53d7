#include "node.h"

#include "base/assert.h"
#include "check.h"
#include "world.h"

enum { CONNECT_MS = 30 };

/* ------------------------------------------------------------------ time */

uint64_t cl_clock(const struct cl_world *world, unsigned node)
{
    const struct cl_node *n = &world->nodes[node];

    if (world->now_ms < n->clock_since_ms) /* it stands still until then */
        return n->clock_base_ms;
    return n->clock_base_ms + (world->now_ms - n->clock_since_ms) * world->config.rate[node] / 1000;
}

uint64_t cl_clock_wait(const struct cl_world *world, unsigned node, uint64_t clock_ms)
{
    uint64_t now = cl_clock(world, node);

    /* Rounded up, and one more for what the division in cl_clock() cuts off. */
    return clock_ms <= now ? 0 : (clock_ms - now) * 1000 / world->config.rate[node] + 1;
}

bool cl_node_is_valid(const struct cl_world *world, unsigned node)
{
    const struct cl_node *n = &world->nodes[node];

    return n->up && hf_lease_is_valid(&n->lease, cl_clock(world, node));
}

/* The gate. */
bool cl_node_may_send(const struct cl_world *world, unsigned node)
{
    return cl_node_is_valid(world, node);
}

/* The lease was renewed: for how long the core's clock stood still before. */
static void note_silence(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];
    uint64_t clock_ms = cl_clock(world, node);
    uint64_t until_ms = hf_lease_valid_until(&n->lease);

    if (until_ms <= clock_ms || until_ms <= n->heard_until_ms)
        return;
    if (n->heard_until_ms > 0 && clock_ms >= n->heard_until_ms) {
        n->silent_ms += clock_ms - n->heard_until_ms;
        world->stats.suspended++;
    }
    n->heard_until_ms = until_ms;
}

/* ------------------------------------------------------------------ transactions */

/* One without operations needs its transaction, too: it shows whose the lease is. */
static bool has_batch(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    if (n->core && !n->batch)
        n->batch = hf_core_take_batch(n->core);
    return n->core && n->batch;
}

static enum hf_lease_action choose(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];
    enum hf_lease_action action = hf_lease_next(&n->lease, cl_clock(world, node));

    if (!hf_lease_may_commit(&n->lease, cl_clock(world, node)) || action == HF_LEASE_RELEASE ||
        !has_batch(world, node))
        return action;
    return n->is_fresh ? HF_LEASE_RENEW : HF_LEASE_COMMIT;
}

static void begin(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];
    struct hf_lease_order order;
    enum hf_lease_action action;

    if (n->is_under_way || world->now_ms < n->connect_at_ms)
        return;
    action = choose(world, node);
    if (action == HF_LEASE_NOTHING)
        return;
    order = hf_lease_begin(&n->lease, action, cl_clock(world, node));
    n->is_under_way = true;
    n->action = action;
    n->op++;
    CL_TRACE(world, node, action, n->op, "n%u: sends %s, epoch %llu, beat %llu", node,
             cl_action_name(action), (unsigned long long)order.epoch,
             (unsigned long long)(action == HF_LEASE_COMMIT ? n->beat : order.beat));
    cl_db_send(world, node, &order, n->beat, action == HF_LEASE_COMMIT ? n->batch : NULL);
    cl_push(world, world->config.timeout_ms, CL_EVENT_TIMEOUT, node, 0, n->op);
}

static void end(struct cl_world *world, unsigned node, enum hf_lease_result result,
                const struct hf_lease_row *row)
{
    struct cl_node *n = &world->nodes[node];

    n->is_under_way = false;
    if (row)
        CL_TRACE(world, row->epoch, row->beat, result,
                 "n%u: %s %s; epoch %llu, nonce %llu, beat %llu%s", node, cl_action_name(n->action),
                 result == HF_LEASE_DONE ? "done" : "refused", (unsigned long long)row->epoch,
                 (unsigned long long)row->nonce, (unsigned long long)row->beat,
                 row->released ? ", released" : "");
    else
        CL_TRACE(world, node, n->action, 4, "n%u: %s failed or in doubt", node,
                 cl_action_name(n->action));
    hf_lease_end(&n->lease, cl_clock(world, node), result, row);
    n->is_fresh = result != HF_LEASE_DONE;
    if (result != HF_LEASE_FAILED && n->op > n->deceived_op)
        n->is_deceived = false;
    if (result == HF_LEASE_FAILED)
        n->connect_at_ms = world->now_ms + sim_rng_range(&world->rng, 0, CONNECT_MS);
    else
        n->beat = row->beat;
    note_silence(world, node);
    if (result == HF_LEASE_DONE && n->action == HF_LEASE_COMMIT && n->core && n->batch)
        cl_life_batch_done(world, node);
    cl_node_pump(world, node);
}

void cl_node_on_reply(struct cl_world *world, unsigned node, const struct cl_packet *reply)
{
    struct cl_node *n = &world->nodes[node];

    if (n->is_under_way && reply->number == n->op)
        end(world, node, reply->result, reply->result == HF_LEASE_FAILED ? NULL : &reply->row);
}

void cl_node_on_timeout(struct cl_world *world, unsigned node, uint64_t op)
{
    struct cl_node *n = &world->nodes[node];

    if (!n->is_under_way || n->op != op)
        return;
    world->stats.in_doubt++;
    end(world, node, HF_LEASE_FAILED, NULL);
}

/* ------------------------------------------------------------------ what follows from the lease */

/* Silent first; then the last batch, and the addresses; then the row. */
static void leave(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    cl_address_valid_until(world, node, 0);
    if (n->is_loading)
        cl_life_end(world, node);
    if (n->core && n->stop_seq == 0)
        n->stop_seq = hf_core_stop(n->core, cl_core_now(world, node));
    if (!n->address.up && !n->address.is_hook_running && !has_batch(world, node) &&
        (!n->core || hf_core_durable(n->core) >= n->stop_seq))
        hf_lease_silent(&n->lease);
}

static void follow(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    switch (hf_lease_state(&n->lease, cl_clock(world, node))) {
    case HF_LEASE_ACTIVE:
        cl_address_valid_until(world, node, hf_lease_valid_until(&n->lease));
        if (!n->core && !n->is_loading)
            cl_life_begin(world, node);
        break;
    case HF_LEASE_SUSPENDED:
        break;
    case HF_LEASE_LEAVING:
        leave(world, node);
        break;
    case HF_LEASE_LOST:
        cl_life_end(world, node);
        hf_lease_reset(&n->lease, ++world->lives, cl_clock(world, node));
        break;
    case HF_LEASE_ALARM:
        if (n->core || n->is_loading)
            cl_life_end(world, node);
        break;
    case HF_LEASE_STANDBY:
    case HF_LEASE_HELD:
        break;
    }
}

/* ------------------------------------------------------------------ the loop */

static void arm(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];
    uint64_t clock_ms = cl_clock(world, node);
    uint64_t at_ms = hf_lease_deadline(&n->lease, clock_ms);
    uint64_t wait_ms;

    if (n->core && n->stop_seq == 0 && clock_ms < n->heard_until_ms) {
        uint64_t core_ms = hf_core_deadline(n->core);

        if (core_ms != UINT64_MAX && core_ms + n->silent_ms < at_ms)
            at_ms = core_ms + n->silent_ms;
    }
    if (at_ms == UINT64_MAX)
        return;
    wait_ms = cl_clock_wait(world, node, at_ms);
    if (world->now_ms + wait_ms < n->connect_at_ms)
        wait_ms = n->connect_at_ms - world->now_ms;
    if (wait_ms == 0)
        wait_ms = 1;
    if (n->wake_at_ms > world->now_ms && n->wake_at_ms <= world->now_ms + wait_ms)
        return;
    n->wake_at_ms = world->now_ms + wait_ms;
    cl_push(world, wait_ms, CL_EVENT_WAKE, node, 0, ++n->wakes);
}

void cl_node_pump(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    if (!n->up || n->stopped_until_ms > world->now_ms || n->host_stopped_until_ms > world->now_ms)
        return;
    follow(world, node);
    cl_life_calls(world, node);
    begin(world, node);
    arm(world, node);
}

void cl_node_on_wake(struct cl_world *world, unsigned node, uint64_t generation)
{
    struct cl_node *n = &world->nodes[node];

    if (generation != n->wakes)
        return;
    n->wake_at_ms = 0;
    if (n->core && n->stop_seq == 0 && cl_clock(world, node) < n->heard_until_ms &&
        hf_core_deadline(n->core) <= cl_core_now(world, node).mono_ms)
        hf_core_tick(n->core, cl_core_now(world, node));
    cl_node_pump(world, node);
}

void cl_node_start(struct cl_world *world, unsigned node)
{
    static const struct hf_lease_config defaults = HF_LEASE_DEFAULTS;
    struct cl_node *n = &world->nodes[node];

    if (n->up)
        return;
    n->up = true;
    n->starts++;
    hf_lease_init(&n->lease, &defaults, ++world->lives);
    n->is_under_way = false;
    n->is_fresh = true;
    n->is_deceived = false;
    n->connect_at_ms = world->now_ms;
    n->wake_at_ms = 0;
    CL_TRACE(world, node, n->lease.nonce, 5, "n%u: starts, nonce %llu", node,
             (unsigned long long)n->lease.nonce);
    cl_node_pump(world, node);
}

void cl_node_kill(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    cl_life_end(world, node);
    n->up = false;
    n->knew = false;
    n->is_under_way = false;
    n->stopped_until_ms = 0;
    n->op++;
    n->wakes++;
    hf_lease_init(&n->lease, &n->lease.config, ++world->lives);
}
