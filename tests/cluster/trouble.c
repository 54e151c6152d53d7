#include "trouble.h"

#include "check.h"
#include "world.h"

enum {
    SERVES_MS = 20000, /* after the faults ended, one node must be active within this time */
    NOTICED_MS = 15000,
    CUT_CLIENTS_MS = 3000,
};

static const char *const texts[CL_FAULT_KINDS] = {
#define X(name, text) text,
    CL_FAULTS(X)
#undef X
};

static void schedule(struct cl_world *world, unsigned fault)
{
    uint32_t every_ms = world->config.every_ms[fault];

    if (every_ms > 0)
        cl_push(world, sim_rng_range(&world->rng, 1, 2 * every_ms), CL_EVENT_FAULT, 0, fault, 0);
}

static unsigned owner(const struct cl_world *world)
{
    unsigned node = 0;

    while (node + 1 < world->config.nodes && !hf_lease_is_owner(&world->nodes[node].cluster.lease))
        node++;
    return node;
}

void cl_trouble_begin(struct cl_world *world)
{
    if (world->config.is_single)
        cl_push(world, world->config.single_at_ms, CL_EVENT_FAULT, 1, world->config.single, 0);
    for (unsigned fault = 0; fault < CL_FAULT_KINDS; fault++)
        schedule(world, fault);
}

/* Draws a duration of 0.1 s to 30 s, more often a short one. */
static uint32_t duration(struct cl_world *world)
{
    uint32_t top = sim_rng_one_in(&world->rng, 4)   ? 30000
                   : sim_rng_one_in(&world->rng, 2) ? 3000
                                                    : 1200;

    return sim_rng_range(&world->rng, 100, top);
}

static void stop_node(struct cl_world *world, unsigned node, uint64_t *until_ms, uint32_t ms)
{
    if (!world->nodes[node].up || *until_ms > world->now_ms)
        return;
    cl_check_owner_fault(world, node, ms);
    *until_ms = world->now_ms + ms;
    cl_push(world, ms, CL_EVENT_CONTINUE, node, 0, 0);
}

void cl_trouble_in_turn(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    if (n->stop_in_turn_ms > 0 && !world->calm)
        stop_node(world, node, &n->stopped_until_ms, n->stop_in_turn_ms);
    n->stop_in_turn_ms = 0;
}

static void kill_node(struct cl_world *world, unsigned node)
{
    if (!world->nodes[node].up || world->nodes[node].host_stopped_until_ms > world->now_ms)
        return;
    cl_check_owner_fault(world, node, 0);
    cl_node_kill(world, node);
    cl_push(world, sim_rng_range(&world->rng, 200, 20000), CL_EVENT_START, node, 0, 0);
}

/* Makes a node's clock jump forward, far enough that two polls cannot hide it; no clock runs
 * backwards. */
static void jump(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    n->clock_base_ms = cl_clock(world, node) + sim_rng_range(&world->rng, 400, 60000);
    n->clock_since_ms = world->now_ms;
    n->wake_at_ms = 0;
    cl_address_on_timer(world, node, n->address.timer);
    cl_node_pump(world, node);
}

/* Pauses a virtual machine: its clock does not count the pause. */
static void stop_clock(struct cl_world *world, unsigned node, uint32_t ms)
{
    struct cl_node *n = &world->nodes[node];

    if (!n->up || n->host_stopped_until_ms > world->now_ms)
        return;
    n->clock_base_ms = cl_clock(world, node);
    n->clock_since_ms = world->now_ms + ms;
    n->is_deceived = true;
    n->deceived_op = n->op;
    stop_node(world, node, &n->host_stopped_until_ms, ms);
}

static void give_up(struct cl_world *world, unsigned node, bool for_good)
{
    struct cl_node *n = &world->nodes[node];

    if (!n->up)
        return;
    cl_enter(world, node);
    if (for_good) {
        hf_cluster_release(&n->cluster);
        cl_push(world, duration(world), CL_EVENT_WANT, node, 0, 0);
    } else if (hf_cluster_move(&n->cluster) == 0) { /* only the owner can move the service */
        cl_check_move(world, node);
    }
    cl_node_pump(world, node);
}

static void strike_database(struct cl_world *world, unsigned fault, uint32_t ms)
{
    struct cl_db *db = &world->db;

    if (fault == CL_FAULT_DB_STALL && !db->stalled)
        cl_db_stall(world, true), cl_push(world, ms, CL_EVENT_DB_HEAL, 0, fault, 0);
    else if (fault == CL_FAULT_SYNC_STALL && !db->sync_stalled)
        cl_db_stall_sync(world, true), cl_push(world, ms, CL_EVENT_DB_HEAL, 0, fault, 0);
    else if (fault == CL_FAULT_DB_RESTART)
        cl_db_restart(world, ms);
    else if (fault == CL_FAULT_FAILOVER)
        cl_db_failover(world, ms);
}

void cl_trouble_strikes(struct cl_world *world, unsigned fault, bool on_owner)
{
    unsigned node = on_owner ? owner(world) : sim_rng_below(&world->rng, world->config.nodes);
    struct cl_node *n = &world->nodes[node];
    uint32_t ms = on_owner ? 15000 : duration(world);

    if (world->calm)
        return;
    schedule(world, fault);
    world->stats.faults[fault]++;
    if (on_owner) {
        world->struck_ms = world->now_ms;
        world->struck_epoch = world->top_epoch;
    }
    CL_TRACE(world, fault, node, ms, "fault: %s (n%u, %u ms)", texts[fault], node, ms);
    switch ((enum cl_fault)fault) {
    case CL_FAULT_STOP_PROCESS:
        if (n->core && !on_owner && sim_rng_one_in(&world->rng, 2))
            n->stop_in_turn_ms = ms;
        else
            stop_node(world, node, &n->stopped_until_ms, ms);
        break;
    case CL_FAULT_STOP_HOST:
        stop_node(world, node, &n->host_stopped_until_ms, ms);
        break;
    case CL_FAULT_STOP_CLOCK:
        stop_clock(world, node, ms);
        break;
    case CL_FAULT_KILL:
        kill_node(world, node);
        break;
    case CL_FAULT_JUMP:
        jump(world, node);
        break;
    case CL_FAULT_CUT_TO_DB:
    case CL_FAULT_CUT_FROM_DB:
        cl_check_owner_fault(world, node, ms);
        n->cut_until_ms[fault] = world->now_ms + ms;
        break;
    case CL_FAULT_CUT_TO_CLIENTS:
    case CL_FAULT_CUT_FROM_CLIENTS: /* this cut is short, because clients must be able to reclaim in
                                       time */
        n->cut_until_ms[fault] = world->now_ms + ms % CUT_CLIENTS_MS;
        break;
    case CL_FAULT_HOOK:
        n->cut_until_ms[fault] = world->now_ms + ms;
        break;
    case CL_FAULT_MOVE:
        give_up(world, node, false);
        break;
    case CL_FAULT_RELEASE:
        give_up(world, node, true);
        break;
    default:
        strike_database(world, fault, ms);
        break;
    }
}

void cl_trouble_heals(struct cl_world *world, unsigned fault)
{
    CL_TRACE(world, fault, 6, 7, "healed: %s", texts[fault]);
    if (fault == CL_FAULT_DB_STALL)
        cl_db_stall(world, false);
    else
        cl_db_stall_sync(world, false);
}

static void heal_node(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    for (unsigned fault = 0; fault < CL_FAULT_KINDS; fault++)
        n->cut_until_ms[fault] = 0;
}

void cl_trouble_ends(struct cl_world *world)
{
    /* The longest time that a node may still be stopped, killed or down. */
    enum { LONGEST_MS = 30000 };

    if (world->calm)
        return;
    CL_TRACE(world, 8, 8, 8, "calm: the faults end");
    world->calm = true;
    world->calm_since_ms = world->now_ms;
    for (unsigned i = 0; i < world->config.nodes; i++)
        heal_node(world, i);
    if (world->has_lost)
        cl_push(world, LONGEST_MS + NOTICED_MS, CL_EVENT_ACCEPT, 0, 0, 0);
    else
        cl_push(world, LONGEST_MS + SERVES_MS, CL_EVENT_MUST_SERVE, 0, 0, 0);
}

void cl_trouble_accept(struct cl_world *world)
{
    cl_check_noticed(world);
    /* The fault strikes any one of the nodes. */
    for (unsigned i = 0; i < world->config.nodes; i++) {
        struct hf_cluster *cluster = &world->nodes[i].cluster;

        if (cluster->lease.state == HF_LEASE_ALARM) {
            cl_enter(world, i);
            hf_cluster_take(cluster);
            cl_node_pump(world, i);
            break;
        }
    }
    for (unsigned c = 0; c < CL_CLIENTS; c++)
        cl_client_reset(world, c);
    cl_push(world, SERVES_MS, CL_EVENT_MUST_SERVE, 0, 0, 0);
}
