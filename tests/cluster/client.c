#include "client.h"

#include "check.h"
#include "core/request.h"
#include "world.h"

enum {
    RESEND_MS = 700,
    WAIT_MS = 3000, /* how long a waiting client pauses before it asks again */
    GRACE_MS = 1000,
};

static void set_timer(struct cl_world *world, unsigned c, uint32_t in_ms)
{
    cl_push(world, in_ms, CL_EVENT_CLIENT, c, 0, ++world->clients[c].timer);
}

static void think(struct cl_world *world, unsigned c)
{
    world->clients[c].doing = CL_THINKS;
    set_timer(world, c, sim_rng_range(&world->rng, 1, world->config.think_ms));
}

/* Sends a packet to a node that has the service's address; if several do, the network decides. */
static void transmit(struct cl_world *world, struct cl_packet packet, int to)
{
    unsigned candidates[CL_NODES];
    unsigned n = 0;

    for (unsigned i = 0; i < world->config.nodes; i++) {
        if (world->nodes[i].address.up && (to < 0 || to == (int)i))
            candidates[n++] = i;
    }
    if (n == 0 || cl_chance(world, world->config.net_loss))
        return;
    n = candidates[sim_rng_below(&world->rng, n)];
    if (world->nodes[n].cut_until_ms[CL_FAULT_CUT_FROM_CLIENTS] > world->now_ms)
        return;
    cl_push(world, sim_rng_range(&world->rng, 0, world->config.net_ms), CL_EVENT_REQUEST, n,
            cl_packet_new(world, packet), 0);
}

static void ask(struct cl_world *world, unsigned c, struct cl_packet call)
{
    struct cl_client *client = &world->clients[c];

    call.client = (uint8_t)c;
    call.xid = ++client->xid;
    client->call = call;
    client->doing = CL_CALLS;
    client->asked_at_state = client->state;
    CL_TRACE(world, c, call.xid, call.call, "c%u: asks %u: %s file %u%s%s%s", c, call.xid,
             cl_call_name(call.call), call.file, call.exclusive ? " exclusive" : "",
             call.block ? " block" : "", call.reclaim ? " reclaim" : "");
    transmit(world, call, -1);
    set_timer(world, c, RESEND_MS);
}

/* ------------------------------------------------------------------ what to do next */

static bool choose(struct cl_world *world, unsigned c)
{
    struct cl_client *client = &world->clients[c];
    struct cl_packet want = {.file = (uint8_t)sim_rng_below(&world->rng, CL_FILES)};

    for (unsigned i = 0; world->calm && i < CL_FILES && !client->held[want.file]; i++)
        want.file = (uint8_t)((want.file + 1) % CL_FILES);
    if (client->held[want.file]) {
        want.call = CL_UNLOCK;
    } else if (world->calm) {
        return false;
    } else {
        want.call = sim_rng_one_in(&world->rng, 4) ? CL_TEST : CL_LOCK;
        want.exclusive = !sim_rng_one_in(&world->rng, 3);
        want.block = want.call == CL_LOCK && sim_rng_one_in(&world->rng, 2);
    }
    client->want = want;
    client->has_want = true;
    return true;
}

static void next(struct cl_world *world, unsigned c)
{
    struct cl_client *client = &world->clients[c];

    for (unsigned f = 0; f < CL_FILES; f++) {
        if (client->reclaim[f] && client->held[f]) {
            ask(world, c,
                (struct cl_packet){.call = CL_LOCK,
                                   .file = (uint8_t)f,
                                   .exclusive = client->held[f] == CL_EXCLUSIVE,
                                   .reclaim = true});
            return;
        }
    }
    if (!client->has_want && !choose(world, c)) {
        client->is_done = world->calm;
        if (!client->is_done)
            think(world, c);
        return;
    }
    if (client->want.call == CL_UNLOCK) /* the client forgets the lock before it tells the server */
        client->held[client->want.file] = CL_NOT_HELD;
    ask(world, c, client->want);
}

void cl_client_on_timer(struct cl_world *world, unsigned c, uint64_t generation)
{
    struct cl_client *client = &world->clients[c];

    if (client->timer != generation)
        return;
    if (client->doing != CL_CALLS) {
        next(world, c);
        return;
    }
    transmit(world, client->call, -1);
    set_timer(world, c, RESEND_MS);
}

void cl_client_start(struct cl_world *world, unsigned c)
{
    think(world, c);
}

void cl_client_reset(struct cl_world *world, unsigned c)
{
    struct cl_client *client = &world->clients[c];

    client->has_want = false;
    for (unsigned f = 0; f < CL_FILES; f++)
        client->held[f] = CL_NOT_HELD;
    client->xid++;
    think(world, c);
}

/* ------------------------------------------------------------------ answers */

static void finish(struct cl_world *world, unsigned c)
{
    world->clients[c].has_want = false;
    think(world, c);
}

static void granted(struct cl_world *world, unsigned c)
{
    struct cl_client *client = &world->clients[c];
    struct cl_packet call = client->call;

    /* The server restarted after the request was sent: the grant may be of a term that ended, so
     * the client asks again. */
    if (client->asked_at_state != client->state) {
        client->doing = CL_PAUSES;
        set_timer(world, c, 1);
        return;
    }
    client->held[call.file] = call.exclusive ? CL_EXCLUSIVE : CL_SHARED;
    client->reclaim[call.file] = false;
    world->stats.grants++;
    CL_TRACE(world, c, call.file, call.exclusive, "c%u: holds file %u %s", c, call.file,
             call.exclusive ? "exclusive" : "shared");
    cl_check_grant(world, c, call.file);
    finish(world, c);
}

static void reclaimed(struct cl_world *world, unsigned c, uint8_t stat)
{
    struct cl_client *client = &world->clients[c];

    if (client->asked_at_state == client->state) {
        client->reclaim[client->call.file] = false;
        world->stats.reclaims++;
        if (stat != HF_STAT_GRANTED)
            cl_check_refused(world, c, client->call.file, stat);
    }
    client->doing = CL_PAUSES;
    set_timer(world, c, 1);
}

static void answered(struct cl_world *world, unsigned c, uint8_t stat)
{
    struct cl_client *client = &world->clients[c];

    CL_TRACE(world, c, client->xid, stat, "c%u: answer to %u: %u", c, client->xid, stat);
    if (client->call.reclaim) { /* a Linux kernel gives the lock up, whatever the refusal is */
        reclaimed(world, c, stat);
    } else if (stat == HF_STAT_DENIED_GRACE_PERIOD) {
        client->doing = CL_PAUSES;
        set_timer(world, c, GRACE_MS);
    } else if (client->call.call != CL_LOCK) {
        finish(world, c);
    } else if (stat == HF_STAT_GRANTED) {
        granted(world, c);
    } else if (stat == HF_STAT_BLOCKED) {
        client->doing = CL_WAITS;
        set_timer(world, c, WAIT_MS);
    } else {
        finish(world, c);
    }
}

/* ------------------------------------------------------------------ calls of the service */

static void notified(struct cl_world *world, unsigned c, int32_t state)
{
    struct cl_client *client = &world->clients[c];

    if (state <= client->state)
        return;
    CL_TRACE(world, c, (uint64_t)(int64_t)state, 9, "c%u: hears of state %d", c, state);
    client->state = state;
    for (unsigned f = 0; f < CL_FILES; f++)
        client->reclaim[f] = client->held[f] != CL_NOT_HELD;
    if (client->doing != CL_CALLS)
        set_timer(world, c, 1);
    client->is_done = false;
}

static uint8_t callback(struct cl_world *world, unsigned c, const struct cl_packet *packet)
{
    struct cl_client *client = &world->clients[c];

    if (client->doing != CL_WAITS || client->call.file != packet->file ||
        client->call.exclusive != packet->exclusive)
        return HF_STAT_DENIED;
    /* The grant was durable before the node and its clock stood still: its callback may leave late
     * (HA-03), and a client that waits again takes it for its new grant (seed 90036907). */
    if (!packet->was_deceived || packet->epoch >= world->top_epoch)
        granted(world, c);
    return HF_STAT_GRANTED;
}

void cl_client_send(struct cl_world *world, unsigned c, struct cl_packet packet)
{
    uint64_t *arrives_ms = &world->clients[c].arrives_ms[packet.node];
    uint64_t at_ms = world->now_ms + sim_rng_range(&world->rng, 0, world->config.net_ms);

    if (at_ms < *arrives_ms)
        at_ms = *arrives_ms;
    *arrives_ms = at_ms;
    cl_push(world, at_ms - world->now_ms, CL_EVENT_TO_CLIENT, c, cl_packet_new(world, packet), 0);
}

void cl_client_on_packet(struct cl_world *world, unsigned c, const struct cl_packet *packet)
{
    struct cl_client *client = &world->clients[c];
    struct cl_packet reply = *packet;

    if (packet->answer) {
        if (client->doing == CL_CALLS && packet->xid == client->call.xid)
            answered(world, c, packet->stat);
        return;
    }
    reply.answer = true;
    reply.stat = HF_STAT_GRANTED;
    if (packet->call == CL_NOTIFY)
        notified(world, c, packet->state);
    else
        reply.stat = callback(world, c, packet);
    transmit(world, reply, packet->node);
}
