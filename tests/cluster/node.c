#include "node.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "check.h"
#include "world.h"

enum { CONNECT_MS = 30 };

/* ------------------------------------------------------------------ time */

uint64_t cl_clock(const struct cl_world *world, unsigned node)
{
    const struct cl_node *n = &world->nodes[node];

    if (world->now_ms < n->clock_since_ms) /* the clock stands still until that moment */
        return n->clock_base_ms;
    return n->clock_base_ms + (world->now_ms - n->clock_since_ms) * world->config.rate[node] / 1000;
}

uint64_t cl_clock_wait(const struct cl_world *world, unsigned node, uint64_t clock_ms)
{
    uint64_t now = cl_clock(world, node);

    /* The result is rounded up, and has one more for what the division in cl_clock() cuts off. */
    return clock_ms <= now ? 0 : (clock_ms - now) * 1000 / world->config.rate[node] + 1;
}

bool cl_node_is_valid(const struct cl_world *world, unsigned node)
{
    const struct cl_node *n = &world->nodes[node];

    return n->up && hf_lease_is_valid(&n->cluster.lease, cl_clock(world, node));
}

/* Asks the gate whether a packet may leave, as the daemon does. */
bool cl_node_may_send(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    cl_enter(world, node);
    return n->up && hf_rpc_gate_is_open(&n->cluster.gate);
}

/* ------------------------------------------------------------------ transactions */

static void send_order(struct cl_world *world, unsigned node, const struct hf_lease_order *order,
                       const struct hf_batch *batch)
{
    struct cl_node *n = &world->nodes[node];

    n->is_in_flight = true;
    n->order = *order;
    n->op++;
    CL_TRACE(world, node, order->action, n->op, "n%u: sends %s, epoch %llu, heartbeat %llu", node,
             cl_action_name(order->action), (unsigned long long)order->epoch,
             (unsigned long long)(batch ? n->heartbeat : order->heartbeat));
    cl_db_send(world, node, order, n->heartbeat, batch);
    cl_push(world, world->config.timeout_ms, CL_EVENT_TIMEOUT, node, 0, n->op);
}

/* True if the node can connect to the database. A batch that is tried again needs a new connection,
 * and an answer of the database. */
static bool can_connect(const struct cl_world *world, unsigned node)
{
    const uint64_t *cut_until_ms = world->nodes[node].cut_until_ms;

    return cut_until_ms[CL_FAULT_CUT_TO_DB] <= world->now_ms &&
           cut_until_ms[CL_FAULT_CUT_FROM_DB] <= world->now_ms;
}

/* Runs the store's thread: it reconnects after a failure, and then looks for work. */
static void work(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];
    const struct hf_lease *lease = &n->cluster.lease;
    struct hf_lease_order order = {.action = HF_LEASE_RENEW,
                                   .epoch = lease->epoch,
                                   .nonce = lease->nonce,
                                   .heartbeat = n->heartbeat};

    if (n->is_in_flight || world->now_ms < n->connect_at_ms)
        return;
    if (n->call) {
        send_order(world, node, &n->call->order, NULL);
    } else if (n->pump.committing && n->is_fresh && !can_connect(world, node)) {
        n->connect_at_ms = world->now_ms + CONNECT_MS;
    } else if (n->pump.committing && n->is_fresh) {
        send_order(world, node, &order, NULL); /* this order is sent only to learn the heartbeat */
    } else if (n->pump.committing) {
        order.action = HF_LEASE_COMMIT;
        send_order(world, node, &order, &n->committing);
    }
}

void cl_node_lease(struct cl_world *world, unsigned node, struct hf_store_lease_call *call)
{
    cl_check_release(world, node, call);
    world->nodes[node].call = call;
    work(world, node);
}

/* Does what hf_commit_pump_submit() does. A batch without operations needs its transaction, too: it
 * shows which node has the lease. */
static void submit(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];
    const struct hf_batch *batch;

    cl_enter(world, node);
    if (!n->core || n->pump.committing || n->daemon.phase > HF_TERM_SERVING ||
        !hf_cluster_may_commit(&n->cluster))
        return;
    batch = hf_core_take_batch(n->core);
    if (!batch)
        return;
    n->pump.committing = true;
    n->batch_term = n->term;
    n->committing = (struct hf_batch){0};
    hf_batch_init(&n->committing, &hf_alloc_heap);
    cl_copy_batch(&n->committing, batch);
    hf_cluster_batch_begins(&n->cluster);
}

/* ------------------------------------------------------------------ results */

static int status_of(enum hf_lease_result result)
{
    return result == HF_LEASE_DONE ? 0 : result == HF_LEASE_REFUSED ? HF_EFENCED : HF_ETIMEDOUT;
}

static void add_nodes(const struct cl_world *world, struct hf_store_lease_call *call)
{
    for (unsigned i = 0; i < world->config.nodes; i++) {
        const struct cl_node *n = &world->nodes[i];
        struct hf_store_node *seen = &call->nodes[call->n_nodes++];

        *seen = (struct hf_store_node){.seen_ms = n->up ? 0 : world->now_ms - n->killed_at_ms};
        hf_format(seen->name, sizeof(seen->name), "n%u", i);
    }
}

static void lease_ended(struct cl_world *world, unsigned node, enum hf_lease_result result,
                        const struct hf_lease_row *row)
{
    struct cl_node *n = &world->nodes[node];
    struct hf_commit_lease lease = {.done = true, .status = status_of(result), .row_found = row};

    if (row)
        lease.row = *row;
    if (result == HF_LEASE_DONE &&
        (n->order.action == HF_LEASE_POLL || n->order.action == HF_LEASE_RENEW))
        add_nodes(world, n->call);
    n->call = NULL;
    hf_cluster_lease_ended(&n->cluster, &lease);
}

/* Does what collect() of commit_pump.c does. */
static void batch_ended(struct cl_world *world, unsigned node, int status,
                        const struct hf_lease_row *row)
{
    struct cl_node *n = &world->nodes[node];
    struct hf_commit_result result = {.status = status, .row_found = true, .row = *row};
    uint64_t seq = n->committing.seq;

    n->pump.committing = false;
    hf_batch_free(&n->committing);
    hf_cluster_batch_ended(&n->cluster, &result);
    if (n->core && n->term == n->batch_term)
        cl_term_batch_done(world, node, seq, status);
    cl_enter(world, node);
    if (n->daemon.phase == HF_TERM_STARTING && status == 0) {
        n->daemon.phase = HF_TERM_SERVING;
        n->has_served = true;
        hf_cluster_serving(&n->cluster);
    }
    hf_cluster_carry_on(&n->cluster);
}

/* A batch is tried until it is durable or another process has the lease. A batch that expected
 * another heartbeat is tried again, too: an earlier attempt, or a renewal that the node gave up,
 * has come through. */
static void committed(struct cl_world *world, unsigned node, enum hf_lease_result result,
                      const struct hf_lease_row *row)
{
    const struct hf_lease_order *order = &world->nodes[node].order;
    bool is_final = row && (row->epoch != order->epoch || row->nonce != order->nonce ||
                            row->heartbeat < order->heartbeat || row->released || row->alarm);

    if ((result == HF_LEASE_REFUSED && is_final) ||
        (result == HF_LEASE_DONE && order->action == HF_LEASE_COMMIT))
        batch_ended(world, node, status_of(result), row);
}

static void end(struct cl_world *world, unsigned node, enum hf_lease_result result,
                const struct hf_lease_row *row)
{
    struct cl_node *n = &world->nodes[node];

    n->is_in_flight = false;
    if (row)
        CL_TRACE(world, row->epoch, row->heartbeat, result,
                 "n%u: %s %s; epoch %llu, nonce %llu, heartbeat %llu%s", node,
                 cl_action_name(n->order.action), result == HF_LEASE_DONE ? "done" : "refused",
                 (unsigned long long)row->epoch, (unsigned long long)row->nonce,
                 (unsigned long long)row->heartbeat, row->released ? ", released" : "");
    else
        CL_TRACE(world, node, n->order.action, 4, "n%u: %s failed or in doubt", node,
                 cl_action_name(n->order.action));
    n->is_fresh = result != HF_LEASE_DONE;
    if (result == HF_LEASE_DONE && n->op > n->deceived_op)
        n->is_deceived = false; /* the node's lease counts from this transaction on */
    if (result == HF_LEASE_FAILED)
        n->connect_at_ms = world->now_ms + sim_rng_range(&world->rng, 0, CONNECT_MS);
    else
        n->heartbeat = row->heartbeat;
    cl_enter(world, node);
    if (n->call)
        lease_ended(world, node, result, row);
    else
        committed(world, node, result, row);
    cl_node_pump(world, node);
}

void cl_node_on_reply(struct cl_world *world, unsigned node, const struct cl_packet *reply)
{
    struct cl_node *n = &world->nodes[node];

    if (n->is_in_flight && reply->number == n->op)
        end(world, node, reply->result, reply->result == HF_LEASE_FAILED ? NULL : &reply->row);
}

void cl_node_on_timeout(struct cl_world *world, unsigned node, uint64_t op)
{
    struct cl_node *n = &world->nodes[node];

    if (!n->is_in_flight || n->op != op)
        return;
    world->stats.in_doubt++;
    end(world, node, HF_LEASE_FAILED, NULL);
}

/* ------------------------------------------------------------------ the loop */

/* Returns the time until the cluster's timer, the core's next deadline, or the thread that
 * reconnects. */
static uint64_t next_wait(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];
    uint64_t at_ms = n->timer_ms ? n->timer_ms : UINT64_MAX;
    uint64_t wait_ms;

    if (n->daemon.phase == HF_TERM_SERVING && cl_node_may_send(world, node)) {
        uint64_t core_ms = hf_core_deadline(n->core);
        uint64_t now_ms = cl_core_now(world, node).mono_ms;
        uint64_t clock_ms = cl_clock(world, node);

        if (core_ms != UINT64_MAX && clock_ms + (core_ms > now_ms ? core_ms - now_ms : 0) < at_ms)
            at_ms = clock_ms + (core_ms > now_ms ? core_ms - now_ms : 0);
    }
    wait_ms = at_ms == UINT64_MAX ? UINT64_MAX : cl_clock_wait(world, node, at_ms);
    if (!n->is_in_flight && n->connect_at_ms > world->now_ms &&
        n->connect_at_ms - world->now_ms < wait_ms)
        wait_ms = n->connect_at_ms - world->now_ms;
    return wait_ms > 0 ? wait_ms : 1;
}

static void arm(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];
    uint64_t wait_ms = next_wait(world, node);

    if (wait_ms == UINT64_MAX ||
        (n->wake_at_ms > world->now_ms && n->wake_at_ms <= world->now_ms + wait_ms))
        return;
    n->wake_at_ms = world->now_ms + wait_ms;
    cl_push(world, wait_ms, CL_EVENT_WAKE, node, 0, ++n->wakes);
}

void cl_node_pump(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    if (!n->up || n->stopped_until_ms > world->now_ms || n->host_stopped_until_ms > world->now_ms)
        return;
    cl_term_calls(world, node);
    submit(world, node);
    work(world, node);
    arm(world, node);
}

void cl_node_on_wake(struct cl_world *world, unsigned node, uint64_t generation)
{
    struct cl_node *n = &world->nodes[node];

    if (generation != n->wakes)
        return;
    n->wake_at_ms = 0;
    cl_enter(world, node);
    if (n->timer_ms && cl_clock(world, node) >= n->timer_ms) {
        n->timer_ms = 0;
        n->cluster.timer.timer_cb(&n->cluster.timer);
    }
    if (n->daemon.phase == HF_TERM_SERVING && cl_node_may_send(world, node) &&
        hf_core_deadline(n->core) <= cl_core_now(world, node).mono_ms)
        hf_core_tick(n->core, cl_core_now(world, node));
    cl_node_pump(world, node);
}

void cl_node_start(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    if (n->up)
        return;
    n->up = true;
    n->starts++;
    n->is_in_flight = false;
    n->is_fresh = true;
    n->is_deceived = false;
    n->connect_at_ms = world->now_ms;
    n->wake_at_ms = 0;
    cl_daemon_start(world, node);
    CL_TRACE(world, node, n->cluster.lease.nonce, 5, "n%u: starts, nonce %llu", node,
             (unsigned long long)n->cluster.lease.nonce);
    cl_node_pump(world, node);
}

void cl_node_kill(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    cl_term_end(world, node);
    if (n->pump.committing)
        hf_batch_free(&n->committing);
    n->pump.committing = false;
    n->call = NULL;
    n->up = false;
    n->killed_at_ms = world->now_ms;
    n->knew = false;
    n->is_in_flight = false;
    n->stopped_until_ms = 0;
    n->op++;
    n->wakes++;
    n->runner.take++; /* the stopped runner ignores what is still sent to it */
    n->cluster.lease.state = HF_LEASE_STANDBY;
    n->cluster.lease.epoch = 0;
    n->cluster.lease.nonce = ++world->terms;
    cl_address_abandon(world, node);
}
