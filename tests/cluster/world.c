#include "world.h"

#include <stdarg.h>
#include <string.h>

#include "base/assert.h"
#include "check.h"
#include "trouble.h"

enum {
    REST_MS = 400000,     /* the quiet time after the faults: more than two grace periods */
    EVENTS_MAX = 1000000, /* a world that does not come to rest is broken */
    WANT_AGAIN_MS = 1000, /* an operator who wants the service back looks again after this pause */
};

unsigned cl_packet_new(struct cl_world *world, struct cl_packet packet)
{
    struct cl_packets *packets = &world->packets;

    for (unsigned i = 0; i < CL_PACKETS; i++) {
        unsigned index = packets->cursor++ % CL_PACKETS;

        if (!packets->at[index].used) {
            packets->at[index] = packet;
            packets->at[index].used = true;
            return index;
        }
    }
    HF_ASSERT(false);
    return 0;
}

struct cl_packet cl_packet_take(struct cl_world *world, unsigned index)
{
    struct cl_packet packet = world->packets.at[index];

    world->packets.at[index].used = false;
    return packet;
}

void cl_world_init(struct cl_world *world, const struct cl_config *config, FILE *trace)
{
    memset(world, 0, sizeof(*world));
    world->config = *config;
    world->trace.out = trace;
    sim_rng_init(&world->rng, config->seed);
    sim_queue_init(&world->queue);
    cl_db_init(world);
    for (unsigned i = 0; i < config->nodes; i++)
        world->nodes[i].clock_base_ms = sim_rng_range(&world->rng, 1000, 1000000);
}

void cl_world_free(struct cl_world *world)
{
    for (unsigned i = 0; i < world->config.nodes; i++) {
        cl_term_end(world, i);
        if (world->nodes[i].pump.committing)
            hf_batch_free(&world->nodes[i].committing);
    }
    cl_db_free(world);
    sim_queue_free(&world->queue);
}

void cl_violation(struct cl_world *world, const char *invariant, const char *format, ...)
{
    va_list args;

    if (world->violation)
        return;
    world->violation = invariant;
    va_start(args, format);
    vsnprintf(world->detail, sizeof(world->detail), format, args);
    va_end(args);
    if (world->trace.out)
        sim_trace_print(&world->trace, world->now_ms, "VIOLATION: %s: %s", invariant,
                        world->detail);
}

/* ------------------------------------------------------------------ events */

/* True if the event happens inside the daemon, so that it waits while the process is stopped. */
static bool is_of_daemon(enum cl_event_kind kind)
{
    return kind == CL_EVENT_REPLY || kind == CL_EVENT_TIMEOUT || kind == CL_EVENT_WAKE ||
           kind == CL_EVENT_LOADED || kind == CL_EVENT_REQUEST || kind == CL_EVENT_LEAVE ||
           kind == CL_EVENT_CALL_ENDS || kind == CL_EVENT_WANT || kind == CL_EVENT_ADDRESS ||
           kind == CL_EVENT_CLOSED;
}

static bool is_of_host(enum cl_event_kind kind)
{
    return is_of_daemon(kind) || kind == CL_EVENT_RUNNER || kind == CL_EVENT_HOOK ||
           kind == CL_EVENT_START;
}

/* True if the event is delayed because its process or host is stopped. A host does not stop between
 * gate and network; a process may. */
static bool is_delayed(struct cl_world *world, const struct sim_event *event)
{
    enum cl_event_kind kind = (enum cl_event_kind)event->kind;
    const struct cl_node *n = &world->nodes[is_of_host(kind) ? event->who : 0];
    uint64_t until_ms = 0;

    if (is_of_host(kind) && kind != CL_EVENT_LEAVE)
        until_ms = n->host_stopped_until_ms;
    if (is_of_daemon(kind) && n->stopped_until_ms > until_ms)
        until_ms = n->stopped_until_ms;
    if (until_ms <= world->now_ms)
        return false;
    cl_push(world, until_ms - world->now_ms, kind, event->who, event->what,
            kind == CL_EVENT_REQUEST ? n->starts : event->generation);
    return true;
}

/* Makes an operator take the service back, but only after the alarm was looked into
 * (CL_EVENT_ACCEPT). */
static void want(struct cl_world *world, unsigned node)
{
    struct hf_cluster *cluster = &world->nodes[node].cluster;

    if (cluster->lease.state == HF_LEASE_ALARM) {
        cl_push(world, WANT_AGAIN_MS, CL_EVENT_WANT, node, 0, 0);
        return;
    }
    cl_enter(world, node);
    hf_cluster_take(cluster);
    cl_node_pump(world, node);
}

static void node_event(struct cl_world *world, const struct sim_event *event)
{
    unsigned node = event->who;
    struct cl_packet packet = {0};

    if (event->kind == CL_EVENT_REPLY || event->kind == CL_EVENT_REQUEST ||
        event->kind == CL_EVENT_LEAVE)
        packet = cl_packet_take(world, event->what);
    if (!world->nodes[node].up)
        return;
    switch ((enum cl_event_kind)event->kind) {
    case CL_EVENT_REPLY:
        cl_node_on_reply(world, node, &packet);
        break;
    case CL_EVENT_TIMEOUT:
        cl_node_on_timeout(world, node, event->generation);
        break;
    case CL_EVENT_WAKE:
        cl_node_on_wake(world, node, event->generation);
        break;
    case CL_EVENT_LOADED:
        cl_term_on_loaded(world, node, event->generation);
        break;
    case CL_EVENT_REQUEST: /* a request that waits for a stopped process is lost when that process
                              dies */
        if (event->generation == 0 || event->generation == world->nodes[node].starts)
            cl_term_on_request(world, node, &packet);
        break;
    case CL_EVENT_LEAVE:
        if (event->generation == world->nodes[node].term)
            cl_term_on_leave(world, node, &packet);
        break;
    case CL_EVENT_CALL_ENDS:
        cl_term_on_call_ends(world, node, event->what, event->generation);
        break;
    case CL_EVENT_ADDRESS:
        cl_address_on_report(world, node, event->what, event->generation);
        break;
    case CL_EVENT_CLOSED:
        cl_daemon_on_closed(world, node, event->generation);
        break;
    default: /* WANT */
        want(world, node);
        break;
    }
}

static void dispatch(struct cl_world *world, const struct sim_event *event)
{
    struct cl_packet packet;

    switch ((enum cl_event_kind)event->kind) {
    case CL_EVENT_DB_ARRIVE:
        cl_db_on_arrive(world, event->what, event->generation);
        break;
    case CL_EVENT_DB_FLUSHED:
        cl_db_on_flushed(world, event->what, event->generation);
        break;
    case CL_EVENT_DB_SHIPPED:
        cl_db_on_shipped(world, event->generation);
        break;
    case CL_EVENT_DB_UP:
        cl_db_on_up(world);
        break;
    case CL_EVENT_DB_HEAL:
        cl_trouble_heals(world, event->what);
        break;
    case CL_EVENT_START:
        cl_node_start(world, event->who);
        break;
    case CL_EVENT_CONTINUE:
        cl_node_pump(world, event->who);
        break;
    case CL_EVENT_RUNNER:
        cl_address_on_timer(world, event->who, event->generation);
        break;
    case CL_EVENT_HOOK:
        cl_address_on_hook(world, event->who);
        break;
    case CL_EVENT_TO_CLIENT:
        packet = cl_packet_take(world, event->what);
        cl_client_on_packet(world, event->who, &packet);
        break;
    case CL_EVENT_CLIENT:
        cl_client_on_timer(world, event->who, event->generation);
        break;
    case CL_EVENT_FAULT:
        cl_trouble_strikes(world, event->what, event->who == 1);
        break;
    case CL_EVENT_CALM:
        cl_trouble_ends(world);
        break;
    case CL_EVENT_MUST_SERVE:
        cl_check_serves(world);
        break;
    case CL_EVENT_ACCEPT:
        cl_trouble_accept(world);
        break;
    default:
        node_event(world, event);
        break;
    }
}

static void begin(struct cl_world *world)
{
    for (unsigned i = 0; i < world->config.nodes; i++)
        cl_push(world, sim_rng_range(&world->rng, 0, 2000), CL_EVENT_START, i, 0, 0);
    for (unsigned c = 0; c < CL_CLIENTS; c++)
        cl_client_start(world, c);
    cl_trouble_begin(world);
    cl_push(world, world->config.busy_ms, CL_EVENT_CALM, 0, 0, 0);
}

static bool is_at_rest(const struct cl_world *world)
{
    enum { LATEST_MS = 75000 }; /* by this time, all that cl_trouble_ends() sets up has happened */

    if (!world->calm || world->now_ms < world->calm_since_ms + LATEST_MS)
        return false;
    for (unsigned c = 0; c < CL_CLIENTS; c++) {
        if (!world->clients[c].is_done)
            return false;
    }
    return records_count(&world->db.primary.records, HF_RECORD_LOCK) == 0 || world->has_lost;
}

bool cl_world_run(struct cl_world *world)
{
    struct sim_event event;

    begin(world);
    while (!world->violation && sim_queue_pop(&world->queue, &event)) {
        world->now_ms = event.at_ms;
        world->stats.events++;
        sim_trace_mix(&world->trace, event.kind, event.at_ms, event.who);
        if (is_delayed(world, &event))
            continue;
        dispatch(world, &event);
        cl_check_event(world);
        if (world->calm && (is_at_rest(world) || world->now_ms > world->calm_since_ms + REST_MS))
            break;
        if (world->stats.events > EVENTS_MAX)
            cl_violation(world, "the world comes to rest", "too many events");
    }
    if (!world->violation)
        cl_check_end(world);
    return !world->violation;
}
