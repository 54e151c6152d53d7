#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "check.h"
#include "trouble.h"
#include "world.h"

struct hf_now cl_core_now(const struct cl_world *world, unsigned node)
{
    const struct cl_node *n = &world->nodes[node];
    uint64_t clock_ms = cl_clock(world, node);

    if (clock_ms > n->heard_until_ms)
        clock_ms = n->heard_until_ms;
    return (struct hf_now){.mono_ms = clock_ms - n->silent_ms,
                           .wall_ms = 1700000000000 + (int64_t)world->now_ms};
}

/* ------------------------------------------------------------------ beginning and end */

void cl_life_begin(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    n->life++;
    n->is_loading = true;
    cl_push(world, sim_rng_range(&world->rng, 0, world->config.load_ms), CL_EVENT_LOADED, node, 0,
            n->life);
}

void cl_life_end(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    cl_address_valid_until(world, node, 0);
    if (n->core)
        hf_core_del(n->core);
    n->core = NULL;
    n->batch = NULL;
    n->is_loading = false;
    n->stop_seq = 0;
    n->life++;
    n->heard_until_ms = 0;
    n->silent_ms = 0;
    memset(n->cache, 0, sizeof(n->cache));
    memset(n->pending, 0, sizeof(n->pending));
    memset(n->outcalls, 0, sizeof(n->outcalls));
}

/* Clients are never gone for good here, so they need not be given up (NOT-03). */
enum { CALL_ATTEMPTS = 1000 };

static struct hf_core_config core_config(const struct cl_world *world)
{
    struct hf_core_config config = hf_core_config_default();

    config.server_name = hf_bytes_str("service.example");
    config.hash_key = (struct hf_hash_key){1, 2};
    config.verify_notices = false;
    config.grace_ms = world->config.grace_ms;
    config.call_attempts = CALL_ATTEMPTS;
    config.fenced = true;
    config.durable_locks = world->config.durable_locks;
    config.grace_mode = world->config.conflict_mode ? HF_GRACE_CONFLICT : HF_GRACE_STRICT;
    return config;
}

void cl_life_on_loaded(struct cl_world *world, unsigned node, uint64_t life)
{
    enum { AGAIN_MS = 100 };
    struct cl_node *n = &world->nodes[node];
    const struct records *records = &world->db.primary.records;
    struct hf_core_config config = core_config(world);
    struct hf_view_status status;
    struct hf_loader *loader;

    if (!n->up || !n->is_loading || n->life != life)
        return;
    if (!cl_db_is_readable(world, node)) {
        cl_push(world, AGAIN_MS, CL_EVENT_LOADED, node, 0, life);
        return;
    }

    n->core = hf_core_new(&config, &hf_alloc_heap);
    HF_ASSERT(n->core);
    loader = hf_loader_new(n->core);
    HF_ASSERT(loader);
    for (unsigned i = 0; i < records->count; i++)
        HF_ASSERT(hf_loader_add(loader, records->at[i]->kind, record_bytes(records->at[i])) == 0);
    HF_ASSERT(hf_loader_end(loader) == 0);
    hf_loader_del(loader);
    HF_ASSERT(hf_core_start(n->core, cl_core_now(world, node)) == 0);
    n->is_loading = false;
    hf_core_view_status(n->core, cl_core_now(world, node), &status);
    n->state = status.state;
    CL_TRACE(world, node, status.locks, status.state, "n%u: loaded %llu locks, state number %d",
             node, (unsigned long long)status.locks, status.state);
    cl_node_pump(world, node);
}

/* ------------------------------------------------------------------ packets out */

/* The gate is asked now; the packet leaves a moment later, unless the process is stopped between.
 */
static void send(struct cl_world *world, unsigned node, struct cl_packet packet)
{
    if (!cl_node_may_send(world, node))
        return;
    packet.node = (uint8_t)node;
    packet.epoch = world->nodes[node].lease.epoch;
    packet.passed_ms = world->now_ms;
    cl_push(world, 0, CL_EVENT_LEAVE, node, cl_packet_new(world, packet), world->nodes[node].life);
    cl_trouble_in_turn(world, node);
}

void cl_life_on_leave(struct cl_world *world, unsigned node, const struct cl_packet *packet)
{
    struct cl_node *n = &world->nodes[node];

    if (!n->address.up)
        return;
    cl_check_leaves(world, node, packet);
    world->stats.answers++;
    if (n->cut_until_ms[CL_FAULT_CUT_TO_CLIENTS] > world->now_ms ||
        cl_chance(world, world->config.net_loss))
        return;
    cl_client_send(world, packet->client, *packet);
}

/* ------------------------------------------------------------------ requests */

static struct hf_peer peer_of(unsigned client)
{
    static const char *const names[CL_CLIENTS] = {"c0.example", "c1.example", "c2.example",
                                                  "c3.example"};
    struct hf_peer peer = {.name = hf_bytes_str(names[client]), .transport = HF_TRANSPORT_TCP};

    peer.addr = (struct hf_addr){.family = HF_ADDR_IPV4, .port = 700};
    peer.addr.bytes[0] = 10;
    peer.addr.bytes[3] = (uint8_t)(client + 1);
    peer.local = peer.addr;
    peer.local.bytes[3] = 200;
    return peer;
}

static struct cl_cached *cached(struct cl_node *n, const struct cl_packet *request)
{
    for (unsigned i = 0; i < CL_CACHE; i++) {
        struct cl_cached *entry = &n->cache[i];

        if (entry->used && entry->answer.client == request->client &&
            entry->answer.xid == request->xid)
            return entry;
    }
    return NULL;
}

static void answer(struct cl_world *world, unsigned node, const struct cl_packet *packet)
{
    struct cl_cached *entry = cached(&world->nodes[node], packet);

    if (entry) {
        entry->answered = true;
        entry->answer = *packet;
    }
    send(world, node, *packet);
}

static void answer_when_durable(struct cl_world *world, unsigned node, uint64_t seq,
                                const struct cl_packet *packet)
{
    struct cl_node *n = &world->nodes[node];

    if (seq <= hf_core_durable(n->core)) {
        answer(world, node, packet);
        return;
    }
    for (unsigned i = 0; i < CL_PENDING; i++) {
        if (!n->pending[i].used) {
            n->pending[i] = (struct cl_pending){true, seq, *packet};
            return;
        }
    }
    HF_ASSERT(false);
}

static void execute(struct cl_world *world, unsigned node, const struct cl_packet *request)
{
    struct cl_node *n = &world->nodes[node];
    struct hf_now now = cl_core_now(world, node);
    struct hf_peer peer = peer_of(request->client);
    struct hf_lock_args args = {.fh = hf_bytes(&request->file, 1),
                                .oh = hf_bytes(&request->client, 1),
                                .svid = request->client,
                                .exclusive = request->exclusive,
                                .block = request->block,
                                .reclaim = request->reclaim,
                                .version = 4};
    struct cl_packet packet = *request;
    struct hf_answer a;

    if (request->call == CL_LOCK)
        a = hf_core_lock(n->core, now, &peer, &args);
    else if (request->call == CL_UNLOCK)
        a = hf_core_unlock(n->core, now, &peer, &args);
    else
        a = hf_core_test(n->core, now, &peer, &args);
    packet.answer = true;
    packet.stat = (uint8_t)a.stat;
    n->cache[n->next_cached++ % CL_CACHE] = (struct cl_cached){.used = true, .answer = packet};
    answer_when_durable(world, node, a.seq, &packet);
}

static void call_answered(struct cl_world *world, unsigned node, const struct cl_packet *packet)
{
    struct cl_node *n = &world->nodes[node];
    struct cl_outcall *out = &n->outcalls[packet->outcall];

    if (!n->core || !out->used || out->number != packet->number)
        return;
    out->used = false;
    hf_core_call_done(n->core, cl_core_now(world, node), out->call_id,
                      packet->stat == HF_STAT_GRANTED ? HF_CALL_ACCEPTED : HF_CALL_DENIED, 0);
}

void cl_life_on_request(struct cl_world *world, unsigned node, const struct cl_packet *request)
{
    struct cl_node *n = &world->nodes[node];
    struct cl_cached *entry = cached(n, request);
    struct cl_packet refusal = *request;

    if (!cl_node_may_send(world, node))
        return; /* not even read */
    if (request->answer) {
        call_answered(world, node, request);
    } else if (!n->core) {
        /* A client would give up a lock whose reclaim is refused: it gets no answer yet. */
        refusal.answer = true;
        refusal.stat = HF_STAT_DENIED_GRACE_PERIOD;
        if (!request->reclaim)
            send(world, node, refusal);
    } else if (entry) {
        if (entry->answered)
            send(world, node, entry->answer);
    } else {
        execute(world, node, request);
    }
    cl_node_pump(world, node);
}

/* ------------------------------------------------------------------ commits */

void cl_life_batch_done(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    hf_core_batch_done(n->core, cl_core_now(world, node), n->batch->seq, 0);
    n->batch = NULL;
    for (unsigned i = 0; i < CL_PENDING; i++) {
        struct cl_pending *pending = &n->pending[i];

        if (pending->used && pending->seq <= hf_core_durable(n->core)) {
            pending->used = false;
            pending->answer.waited = true;
            answer(world, node, &pending->answer);
        }
    }
}

/* ------------------------------------------------------------------ outgoing calls */

static void begin_call(struct cl_world *world, unsigned node, const struct hf_call *call)
{
    struct cl_node *n = &world->nodes[node];
    struct cl_packet packet = {.call = call->kind == HF_CALL_GRANTED ? CL_GRANTED : CL_NOTIFY};
    unsigned i = 0;

    if (call->kind != HF_CALL_GRANTED && call->kind != HF_CALL_NOTIFY) {
        hf_core_call_done(n->core, cl_core_now(world, node), call->id, HF_CALL_ACCEPTED, 0);
        return;
    }
    while (i < CL_OUTCALLS && n->outcalls[i].used)
        i++;
    HF_ASSERT(i < CL_OUTCALLS && call->n_to > 0);
    n->outcalls[i] = (struct cl_outcall){true, ++n->numbers, call->id, n->silent_ms};
    packet.client = (uint8_t)(call->to[0].bytes[3] - 1);
    packet.state = call->state;
    packet.outcall = i;
    packet.number = n->numbers;
    if (call->kind == HF_CALL_GRANTED) {
        packet.file = call->fh.data[0];
        packet.exclusive = call->exclusive;
    }
    send(world, node, packet);
    cl_push(world, call->timeout_ms, CL_EVENT_CALL_ENDS, node, i, n->numbers);
}

void cl_life_calls(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];
    struct hf_decision decision;
    struct hf_event event;
    struct hf_call call;

    if (!n->core || n->stop_seq != 0)
        return;
    while (cl_node_may_send(world, node) &&
           hf_core_next_call(n->core, cl_core_now(world, node), &call))
        begin_call(world, node, &call);
    while (hf_core_next_decision(n->core, &decision))
        ;
    while (hf_core_next_event(n->core, &event))
        ;
}

/* A call that ended while the node was silent says nothing about the client. */
void cl_life_on_call_ends(struct cl_world *world, unsigned node, unsigned index, uint64_t number)
{
    struct cl_node *n = &world->nodes[node];
    struct cl_outcall *out = &n->outcalls[index];
    bool was_silent = !cl_node_may_send(world, node) || n->silent_ms != out->silent_ms;

    if (!n->core || !out->used || out->number != number)
        return;
    out->used = false;
    hf_core_call_done(n->core, cl_core_now(world, node), out->call_id, HF_CALL_FAILED,
                      was_silent ? HF_EBUSY : HF_ETIMEDOUT);
    cl_node_pump(world, node);
}
