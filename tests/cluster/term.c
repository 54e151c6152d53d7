#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "check.h"
#include "trouble.h"
#include "world.h"

struct hf_now cl_core_now(struct cl_world *world, unsigned node)
{
    cl_enter(world, node);
    return (struct hf_now){
        .mono_ms = hf_cluster_core_ms(&world->nodes[node].cluster, cl_clock(world, node)),
        .wall_ms = 1700000000000 + (int64_t)world->now_ms};
}

/* ------------------------------------------------------------------ beginning and end */

void cl_term_begin(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    n->term++;
    cl_push(world, sim_rng_range(&world->rng, 0, world->config.load_ms), CL_EVENT_LOADED, node, 0,
            n->term);
}

void cl_term_end(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];

    if (n->core)
        hf_core_del(n->core);
    n->core = NULL;
    n->term++;
    memset(n->cache, 0, sizeof(n->cache));
    memset(n->pending, 0, sizeof(n->pending));
    memset(n->outcalls, 0, sizeof(n->outcalls));
}

/* No client goes away for good in these worlds, so no call may be given up (NOT-03). */
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
    config.continues = world->config.continues;
    config.grace_mode = world->config.conflict_mode ? HF_GRACE_CONFLICT : HF_GRACE_STRICT;
    return config;
}

/* Returns 0, or why the records cannot be read under the lease that was taken. */
static int try_reading(const struct cl_world *world, unsigned node)
{
    const struct hf_lease_row *mine = &world->nodes[node].load_row;
    const struct hf_lease_row *row = &world->db.primary.row;

    if (!cl_db_is_readable(world, node))
        return HF_EUNREACH;
    if (row->epoch < mine->epoch || row->heartbeat < mine->heartbeat)
        return HF_EBEHIND;
    return row->epoch != mine->epoch || row->nonce != mine->nonce ? HF_EFENCED : 0;
}

static void load(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];
    const struct records *records = &world->db.primary.records;
    struct hf_core_config config = core_config(world);
    struct hf_loader *loader;

    n->core = hf_core_new(&config, &hf_alloc_heap);
    HF_ASSERT(n->core);
    loader = hf_loader_new(n->core);
    HF_ASSERT(loader);
    for (unsigned i = 0; i < records->count; i++)
        HF_ASSERT(hf_loader_add(loader, records->at[i]->kind, record_bytes(records->at[i])) == 0);
    HF_ASSERT(hf_loader_end(loader) == 0);
    hf_loader_del(loader);
    HF_ASSERT(hf_core_start(n->core, cl_core_now(world, node)) == 0);
}

/* Does what on_loaded() of term.c does. */
void cl_term_on_loaded(struct cl_world *world, unsigned node, uint64_t term)
{
    struct cl_node *n = &world->nodes[node];
    struct hf_view_status status;
    int rv;

    if (!n->up || n->daemon.phase != HF_TERM_LOADING || n->term != term)
        return;
    cl_enter(world, node);
    rv = try_reading(world, node);
    if (rv < 0) {
        hf_cluster_not_loaded(&n->cluster, rv, hf_strerror(rv));
        cl_node_pump(world, node);
        return;
    }
    load(world, node);
    n->daemon.phase = HF_TERM_STARTING;
    hf_core_view_status(n->core, cl_core_now(world, node), &status);
    n->state = status.state;
    cl_check_continues(world, node, &status);
    CL_TRACE(world, node, status.locks, status.state, "n%u: loaded %llu locks, state number %d",
             node, (unsigned long long)status.locks, status.state);
    hf_cluster_carry_on(&n->cluster);
    cl_node_pump(world, node);
}

/* ------------------------------------------------------------------ packets out */

/* Asks the gate now; the packet leaves a moment later, unless the process is stopped between the
 * two. */
static void send_packet(struct cl_world *world, unsigned node, struct cl_packet packet)
{
    if (!cl_node_may_send(world, node))
        return;
    packet.node = (uint8_t)node;
    packet.epoch = world->nodes[node].cluster.lease.epoch;
    packet.passed_ms = world->now_ms;
    packet.was_deceived = world->nodes[node].is_deceived;
    cl_push(world, 0, CL_EVENT_LEAVE, node, cl_packet_new(world, packet), world->nodes[node].term);
    cl_trouble_in_turn(world, node);
}

void cl_term_on_leave(struct cl_world *world, unsigned node, const struct cl_packet *packet)
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
    send_packet(world, node, *packet);
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
    answer_when_durable(world, node, a.ticket.seq, &packet);
}

static void call_answered(struct cl_world *world, unsigned node, const struct cl_packet *packet)
{
    struct cl_node *n = &world->nodes[node];
    struct cl_outcall *out = &n->outcalls[packet->outcall];

    if (n->daemon.phase != HF_TERM_SERVING || !out->used || out->number != packet->number)
        return;
    out->used = false;
    hf_core_outcall_done(n->core, cl_core_now(world, node), out->call_id,
                         packet->stat == HF_STAT_GRANTED ? HF_OUTCALL_ACCEPTED : HF_OUTCALL_DENIED,
                         0);
}

void cl_term_on_request(struct cl_world *world, unsigned node, const struct cl_packet *request)
{
    struct cl_node *n = &world->nodes[node];
    struct cl_cached *entry = cached(n, request);
    struct cl_packet refusal = *request;

    if (!cl_node_may_send(world, node))
        return; /* a node that does not serve does not even read the request */
    if (request->answer) {
        call_answered(world, node, request);
    } else if (n->daemon.phase != HF_TERM_SERVING) {
        /* A client would give up a lock whose reclaim is refused, so it gets no answer yet. */
        refusal.answer = true;
        refusal.stat = HF_STAT_DENIED_GRACE_PERIOD;
        if (!request->reclaim)
            send_packet(world, node, refusal);
    } else if (entry) {
        if (entry->answered)
            send_packet(world, node, entry->answer);
    } else {
        execute(world, node, request);
    }
    cl_node_pump(world, node);
}

/* ------------------------------------------------------------------ commits */

/* A failed batch is undone together with all later decisions: the answers that waited for it are
 * not sent. */
void cl_term_batch_done(struct cl_world *world, unsigned node, uint64_t seq, int status)
{
    struct cl_node *n = &world->nodes[node];

    hf_core_batch_done(n->core, cl_core_now(world, node), seq, status);
    if (status < 0) {
        memset(n->pending, 0, sizeof(n->pending));
        memset(n->cache, 0, sizeof(n->cache));
    }
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

static void begin_call(struct cl_world *world, unsigned node, const struct hf_outcall_attempt *call)
{
    struct cl_node *n = &world->nodes[node];
    struct cl_packet packet = {.call = call->kind == HF_OUTCALL_GRANTED ? CL_GRANTED : CL_NOTIFY};
    unsigned i = 0;

    if (call->kind != HF_OUTCALL_GRANTED && call->kind != HF_OUTCALL_NOTIFY) {
        hf_core_outcall_done(n->core, cl_core_now(world, node), call->id, HF_OUTCALL_ACCEPTED, 0);
        return;
    }
    while (i < CL_OUTCALLS && n->outcalls[i].used)
        i++;
    HF_ASSERT(i < CL_OUTCALLS && call->n_to > 0);
    n->outcalls[i] = (struct cl_outcall){true, ++n->numbers, call->id, n->cluster.silence.total_ms};
    packet.client = (uint8_t)(call->to[0].bytes[3] - 1);
    packet.state = call->state;
    packet.outcall = i;
    packet.number = n->numbers;
    if (call->kind == HF_OUTCALL_GRANTED) {
        packet.file = call->fh.data[0];
        packet.exclusive = call->exclusive;
    }
    send_packet(world, node, packet);
    cl_push(world, call->timeout_ms, CL_EVENT_CALL_ENDS, node, i, n->numbers);
}

void cl_term_calls(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];
    struct hf_decision decision;
    struct hf_event event;
    struct hf_outcall_attempt call;

    if (n->daemon.phase != HF_TERM_SERVING)
        return;
    while (cl_node_may_send(world, node) &&
           hf_core_next_outcall(n->core, cl_core_now(world, node), &call))
        begin_call(world, node, &call);
    while (hf_core_next_decision(n->core, &decision))
        ;
    while (hf_core_next_event(n->core, &event))
        ;
}

/* A call that ended while the node was silent tells nothing about the client. */
void cl_term_on_call_ends(struct cl_world *world, unsigned node, unsigned index, uint64_t number)
{
    struct cl_node *n = &world->nodes[node];
    struct cl_outcall *out = &n->outcalls[index];
    bool was_silent =
        !cl_node_may_send(world, node) || n->cluster.silence.total_ms != out->silent_ms;

    if (n->daemon.phase != HF_TERM_SERVING || !out->used || out->number != number)
        return;
    out->used = false;
    hf_core_outcall_done(n->core, cl_core_now(world, node), out->call_id, HF_OUTCALL_FAILED,
                         was_silent ? HF_EBUSY : HF_ETIMEDOUT);
    cl_node_pump(world, node);
}
