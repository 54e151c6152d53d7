#include "calls.h"

#include "base/assert.h"
#include "base/error.h"
#include "door.h"
#include "invariants.h"
#include "world.h"

static enum sim_call call_of(enum hf_outcall_kind kind)
{
    switch (kind) {
    case HF_OUTCALL_GRANTED:
        return SIM_CALL_GRANTED;
    case HF_OUTCALL_NOTIFY:
        return SIM_CALL_NOTIFY;
    case HF_OUTCALL_STAT:
        return SIM_CALL_STAT;
    default:
        return SIM_CALL_STATUS;
    }
}

/* Resolves a host that the core knows only by name, as the daemon's resolver would. */
static int host_called(const struct sim_world *world, const struct hf_outcall_attempt *call)
{
    if (call->n_to > 0)
        return sim_host_of_client(world, call->client_id, &call->to[0]);
    for (unsigned h = 0; h < world->config.hosts; h++) {
        if (hf_bytes_equal(call->host, sim_host_name(h, SIM_NAME_LONG)))
            return (int)h;
    }
    return -1;
}

static unsigned free_index(const struct sim_server *server)
{
    unsigned i = 0;

    while (i < SIM_CALLS_OUT && server->calls[i].used)
        i++;
    HF_ASSERT(i < SIM_CALLS_OUT);
    return i;
}

static void read_range(struct sim_world *world, const struct hf_outcall_attempt *call,
                       struct sim_call_out *out)
{
    uint64_t last = call->length ? call->offset + call->length - 1 : UINT64_MAX;
    int file = sim_file_of_handle(call->fh);

    if (file < 0 || call->svid < 0 || call->svid >= SIM_PROCS ||
        !sim_range_of_bytes(world->config.layout, call->offset, last, &out->range)) {
        sim_world_violation(world, "GRANTED echoes the request",
                            "a callback that no request asked for");
        return;
    }
    out->range.file = (uint8_t)file;
    out->owner = sim_owner(out->host, (unsigned)call->svid);
}

/* True if the only address of ours that the host knows is not up, so that no packet can leave from
 * it. */
static bool is_late(const struct sim_world *world, int host)
{
    return host >= 0 && world->now_ms < world->server.late_until_ms &&
           (world->server.late_hosts >> host & 1);
}

static void begin(struct sim_world *world, const struct hf_outcall_attempt *call)
{
    struct sim_server *server = &world->server;
    unsigned index = free_index(server);
    struct sim_call_out *out = &server->calls[index];
    int host = host_called(world, call);
    uint32_t ends_ms = (uint32_t)call->timeout_ms;
    struct sim_message message;

    *out = (struct sim_call_out){.used = true,
                                 .async = call->kind == HF_OUTCALL_GRANTED && call->msg,
                                 .host = (uint8_t)(host < 0 ? SIM_HOSTS : host),
                                 .untried = is_late(world, host),
                                 .kind = (uint8_t)call->kind,
                                 .attempt = call->attempt,
                                 .local = call->n_to > 0 && hf_addr_is_loopback(&call->to[0]),
                                 .call_id = call->id,
                                 .cookie = ++server->next_cookie};
    /* A datagram leaves even if the host is down; a TCP connection does not. */
    out->sent = !out->untried && ((host >= 0 && world->hosts[host].up) || call->id % 2);
    if (call->kind == HF_OUTCALL_GRANTED)
        read_range(world, call, out);
    SIM_WORLD_TRACE(world, call->kind, call->id, call->attempt,
                    "server: calls h%d %s, attempt %u, state %d", host,
                    sim_call_name(call_of(call->kind)), call->attempt, call->state);
    sim_check_call(world, call, out);
    message =
        (struct sim_message){.call = (uint8_t)call_of(call->kind),
                             .host = (uint8_t)host,
                             .proc = (uint8_t)(out->owner % SIM_PROCS),
                             .range = out->range,
                             .exclusive = call->exclusive,
                             .async = out->async,
                             .state = call->state,
                             .cookie = out->cookie,
                             .cookie_id = call->id,
                             .hidden = {.epoch = server->durable_epoch, .sent_ms = world->now_ms}};
    /* There was no memory to begin the call; the core was told so. */
    if (!sim_wire_call(world, call, out)) {
        out->used = false;
        world->model.causes.server_event = true;
        if (out->kind == HF_OUTCALL_GRANTED)
            sim_model_refused(world, out->owner, out->range);
        return;
    }
    if (out->untried)
        ends_ms = sim_rng_below(&world->rng, 20);
    else if (host >= 0 && world->hosts[host].up)
        sim_net_send(world, &message);
    else if (out->local || (!out->async && sim_rng_one_in(&world->rng, 3)))
        /* A refused connection or a missing route is known sooner. */
        ends_ms = sim_rng_below(&world->rng, 20);
    sim_queue_push(&world->queue, (struct sim_event){.at_ms = world->now_ms + ends_ms,
                                                     .kind = SIM_EVENT_CALL,
                                                     .what = index,
                                                     .generation = out->cookie});
}

void sim_calls_begin(struct sim_world *world)
{
    struct hf_outcall_attempt call;

    while (!world->violation && !world->server.stopping &&
           hf_core_next_outcall(world->server.core, sim_now(world), &call))
        begin(world, &call);
}

static struct sim_outcall *outcall_of(struct sim_server *server, uint64_t call_id)
{
    struct sim_outcall *outcall;

    for (unsigned i = 0; i < SIM_CALLS_OUT; i++) {
        if (server->outcalls[i].call_id == call_id)
            return &server->outcalls[i];
    }
    outcall = &server->outcalls[server->n_outcalls++ % SIM_CALLS_OUT];
    *outcall = (struct sim_outcall){.call_id = call_id, .host = SIM_HOSTS};
    return outcall;
}

/* What the core is told about the end of a call. DENIED to a repeat may mean that the client took
 * the lock when the first call arrived and that the answer was lost; so only a DENIED to the one
 * call that can have arrived counts as a refusal. The handler knows what was sent twice within one
 * attempt (src/nlm/callback.c), the core knows of earlier attempts (src/core/wait/grant.c). */
static enum hf_outcall_outcome outcome_of(const struct sim_call_out *out, enum hf_stat stat,
                                          int error, bool repeated)
{
    if (error && (out->resolved || out->untried))
        return HF_OUTCALL_UNTRIED;
    if (error && !out->sent && (out->kind == HF_OUTCALL_GRANTED || out->kind == HF_OUTCALL_PROBE))
        return HF_OUTCALL_UNSENT;
    if (error || out->async)
        return repeated ? HF_OUTCALL_REPEATED : HF_OUTCALL_FAILED;
    if (out->kind != HF_OUTCALL_GRANTED || stat == HF_STAT_GRANTED)
        return HF_OUTCALL_ACCEPTED;
    return repeated ? HF_OUTCALL_ACCEPTED : HF_OUTCALL_DENIED;
}

/* The host is given up: each of its callbacks in flight has one more attempt, even if the host
 * answers a probe meanwhile (seed 130111340). */
static void cut_short(struct sim_server *server, unsigned host)
{
    for (unsigned i = 0; i < SIM_CALLS_OUT; i++) {
        const struct sim_call_out *out = &server->calls[i];

        if (out->used && out->kind == HF_OUTCALL_GRANTED && out->host == host)
            outcall_of(server, out->call_id)->host = out->host;
    }
    for (unsigned i = 0; i < SIM_CALLS_OUT; i++)
        server->outcalls[i].cut_short |= server->outcalls[i].host == host;
}

/* The last attempt of a callback or probe failed: the host is silent, and its waiters leave the
 * queue. A GRANTED makes fewer attempts after failed probes or another GRANTED that was given up,
 * so any failed attempt may then be its last. */
static void note_failed(struct sim_world *world, const struct sim_call_out *out)
{
    bool last = out->attempt >= world->call_attempts;
    bool early = out->kind == HF_OUTCALL_GRANTED && out->host < SIM_HOSTS &&
                 (world->model.probe_failed[out->host] ||
                  outcall_of(&world->server, out->call_id)->cut_short);

    if (out->host >= SIM_HOSTS ||
        (out->kind != HF_OUTCALL_GRANTED && out->kind != HF_OUTCALL_PROBE))
        return;
    if (out->kind == HF_OUTCALL_PROBE || last)
        world->model.probe_failed[out->host] = true;
    if (last)
        world->model.silent[out->host] = true;
    else if (early)
        world->model.silent_early[out->host] = true;
    if (last || early)
        cut_short(&world->server, out->host);
}

/* Tells the handler how a call ended, and notes what the core may conclude from it. */
static void end(struct sim_world *world, struct sim_call_out *out, enum hf_stat stat, int error)
{
    struct sim_causes *causes = &world->model.causes;
    /* A network that loses nothing sends nothing twice. */
    bool repeated = !error && !world->calm && sim_rng_one_in(&world->rng, 8);
    enum hf_outcall_outcome told = outcome_of(out, stat, error, repeated);
    enum hf_outcall_outcome outcome = told;
    struct sim_outcall *outcall = outcall_of(&world->server, out->call_id);

    if (told == HF_OUTCALL_DENIED && outcall->arrived > 0)
        outcome = HF_OUTCALL_ACCEPTED;
    if (told >= HF_OUTCALL_FAILED)
        outcome = HF_OUTCALL_FAILED;
    outcall->arrived += told == HF_OUTCALL_REPEATED ? 2 : told == HF_OUTCALL_FAILED;
    if (out->kind == HF_OUTCALL_GRANTED)
        outcall->host = out->host;
    out->used = false;
    causes->server_event = true;
    if (out->kind == HF_OUTCALL_GRANTED && outcome != HF_OUTCALL_ACCEPTED)
        sim_model_refused(world, out->owner, out->range);
    if (out->kind == HF_OUTCALL_STAT && out->host < SIM_HOSTS && told != HF_OUTCALL_UNTRIED)
        sim_door_verified(world, out->host, error ? 0 : out->state);
    if (outcome != HF_OUTCALL_FAILED && out->kind == HF_OUTCALL_PROBE && out->host < SIM_HOSTS)
        world->model.probe_failed[out->host] = false;
    if (outcome == HF_OUTCALL_FAILED) {
        sim_world_fault(world, SIM_FAULT_CALL_FAILED);
        if (told != HF_OUTCALL_UNTRIED)
            note_failed(world, out);
        if (out->kind == HF_OUTCALL_NOTIFY && out->host < SIM_HOSTS && told != HF_OUTCALL_UNTRIED)
            world->server.notices_failed[out->host]++;
    } else if (outcome == HF_OUTCALL_DENIED) {
        sim_world_fault(world, SIM_FAULT_CALL_REFUSED);
    }
    SIM_WORLD_TRACE(world, out->call_id, outcome, out->attempt, "server: call to h%u %s", out->host,
                    outcome == HF_OUTCALL_ACCEPTED ? "answered"
                    : outcome == HF_OUTCALL_DENIED ? "denied"
                                                   : "failed");
    sim_wire_call_done(world, out, stat, error, repeated, told);
    if (out->kind == HF_OUTCALL_STAT && out->host < SIM_HOSTS && told != HF_OUTCALL_UNTRIED)
        sim_door_twins_verified(world, out->host, error ? 0 : out->state);
}

/* True if the answer to a GRANTED_MSG may be a denial that counts. An attempt whose answer comes
 * late was counted when it timed out. */
static bool may_be_denied(struct sim_server *server, uint64_t call_id)
{
    unsigned arrived = outcall_of(server, call_id)->arrived;

    for (unsigned i = 0; i < SIM_CALLS_OUT; i++) {
        if (server->calls[i].used && server->calls[i].call_id == call_id)
            return arrived == 0;
    }
    return arrived <= 1;
}

/* GRANTED_RES is a call of its own: it may come late, twice, or after the outcall is over. */
static void granted_res(struct sim_world *world, const struct sim_message *answer)
{
    struct sim_causes *causes = &world->model.causes;

    causes->server_event = true;
    for (unsigned i = 0; i < SIM_CALLS_OUT; i++) {
        struct sim_call_out *out = &world->server.calls[i];

        if (out->used && out->call_id == answer->cookie_id && out->host == answer->host)
            out->answered = true;
    }
    if (answer->stat != HF_STAT_GRANTED && may_be_denied(&world->server, answer->cookie_id)) {
        sim_model_refused(world, sim_owner(answer->host, answer->proc), answer->range);
        sim_world_fault(world, SIM_FAULT_CALL_REFUSED);
    }
    sim_wire_leave(sim_wire_ask(world, answer));
}

void sim_calls_on_answer(struct sim_world *world, const struct sim_message *answer)
{
    struct sim_server *server = &world->server;

    if (answer->async && answer->call == SIM_CALL_GRANTED) {
        granted_res(world, answer);
        return;
    }
    for (unsigned i = 0; i < SIM_CALLS_OUT; i++) {
        struct sim_call_out *out = &server->calls[i];

        if (out->used && out->cookie == answer->cookie) {
            out->state = answer->state;
            end(world, out, (enum hf_stat)answer->stat, 0);
            return;
        }
    }
}

void sim_calls_on_timeout(struct sim_world *world, unsigned index, uint64_t cookie)
{
    struct sim_call_out *out = &world->server.calls[index];

    if (!world->server.core || world->server.stopping || !out->used || out->cookie != cookie)
        return;
    /* The RPC reply to a message says only that it arrived; the answer is a message of its own. */
    end(world, out, HF_STAT_GRANTED,
        (out->async && out->sent && cookie % 2) || (out->local && !out->untried && cookie % 8)
            ? 0
            : HF_ETIMEDOUT);
    sim_server_pump(world);
}
