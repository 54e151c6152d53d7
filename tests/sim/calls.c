#include "calls.h"

#include "base/check.h"
#include "base/error.h"
#include "door.h"
#include "invariants.h"
#include "world.h"

static enum sim_call call_of(enum hf_call_kind kind)
{
    switch (kind) {
    case HF_CALL_GRANTED:
        return SIM_CALL_GRANTED;
    case HF_CALL_NOTIFY:
        return SIM_CALL_NOTIFY;
    default:
        return SIM_CALL_STATUS;
    }
}

/* A host that is called by name only is resolved here, as the daemon's resolver would. */
static int host_called(const struct sim_world *world, const struct hf_call *call)
{
    if (call->n_to > 0)
        return sim_host_of_addr(&call->to[0]);
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

static void read_range(struct sim_world *world, const struct hf_call *call,
                       struct sim_call_out *out)
{
    uint64_t last = call->length ? call->offset + call->length - 1 : UINT64_MAX;
    int file = sim_file_of_handle(call->fh);

    if (file < 0 || call->svid < 0 || call->svid >= SIM_PROCS ||
        !sim_range_of_bytes(world->config.layout, call->offset, last, &out->range)) {
        sim_world_violation(world, "GRANTED echoes the request",
                            "a callback that nobody asked for");
        return;
    }
    out->range.file = (uint8_t)file;
    out->owner = sim_owner(out->host, (unsigned)call->svid);
}

static void begin(struct sim_world *world, const struct hf_call *call)
{
    struct sim_server *server = &world->server;
    unsigned index = free_index(server);
    struct sim_call_out *out = &server->calls[index];
    int host = host_called(world, call);
    uint32_t ends_ms = (uint32_t)call->timeout_ms;

    *out = (struct sim_call_out){.used = true,
                                 .async = call->kind == HF_CALL_GRANTED && call->msg,
                                 .host = (uint8_t)(host < 0 ? SIM_HOSTS : host),
                                 .kind = (uint8_t)call->kind,
                                 .attempt = call->attempt,
                                 .call_id = call->id,
                                 .cookie = ++server->next_cookie};
    if (call->kind == HF_CALL_GRANTED)
        read_range(world, call, out);
    SIM_WORLD_TRACE(world, call->kind, call->id, call->attempt,
                    "server: calls h%d %s, attempt %u, state %d", host,
                    sim_call_name(call_of(call->kind)), call->attempt, call->state);
    sim_check_call(world, call, out);
    if (host >= 0 && world->hosts[host].up)
        sim_net_send(world, &(struct sim_message){.call = (uint8_t)call_of(call->kind),
                                                  .host = (uint8_t)host,
                                                  .proc = (uint8_t)(out->owner % SIM_PROCS),
                                                  .range = out->range,
                                                  .exclusive = call->exclusive,
                                                  .async = out->async,
                                                  .state = call->state,
                                                  .cookie = out->cookie,
                                                  .cookie_id = call->id,
                                                  .hidden.epoch = server->durable_epoch});
    else if (!out->async && sim_rng_one_in(&world->rng, 3))
        ends_ms = sim_rng_below(&world->rng, 20); /* refused, or no route: known sooner */
    sim_queue_push(&world->queue, (struct sim_event){.at_ms = world->now_ms + ends_ms,
                                                     .kind = SIM_EVENT_CALL,
                                                     .what = index,
                                                     .generation = out->cookie});
}

void sim_calls_begin(struct sim_world *world)
{
    struct hf_call call;

    while (!world->violation && !world->server.stopping &&
           hf_core_next_call(world->server.core, sim_now(world), &call))
        begin(world, &call);
}

/* Tells the core, having noted what this may change. */
static void end(struct sim_world *world, struct sim_call_out *out, enum hf_call_outcome outcome,
                int error)
{
    struct sim_causes *causes = &world->model.causes;

    out->used = false;
    causes->server_event = true;
    if (out->kind == HF_CALL_GRANTED && outcome != HF_CALL_ACCEPTED)
        sim_model_refused(&world->model, out->owner, out->range);
    if (outcome == HF_CALL_FAILED) {
        sim_world_fault(world, SIM_FAULT_CALL_FAILED);
        /* A GRANTED may be cut short by probes that failed, so any failed one may be the last. */
        if (out->host < SIM_HOSTS &&
            (out->kind == HF_CALL_GRANTED ||
             (out->kind == HF_CALL_PROBE && out->attempt >= world->call_attempts)))
            world->model.silent[out->host] = true;
        if (out->kind == HF_CALL_NOTIFY && out->host < SIM_HOSTS)
            world->server.notices_failed[out->host]++;
    } else if (outcome == HF_CALL_DENIED) {
        sim_world_fault(world, SIM_FAULT_CALL_REFUSED);
    }
    SIM_WORLD_TRACE(world, out->call_id, outcome, out->attempt, "server: call to h%u %s", out->host,
                    outcome == HF_CALL_ACCEPTED ? "answered"
                    : outcome == HF_CALL_DENIED ? "denied"
                                                : "failed");
    hf_core_call_done(world->server.core, sim_now(world), out->call_id, outcome, error);
}

/* GRANTED_RES stands for itself: it may come late, twice, or after the errand is over. */
static void granted_res(struct sim_world *world, const struct sim_message *answer)
{
    struct hf_peer peer = {.name = sim_host_name(answer->host, SIM_NAME_LONG),
                           .addr = sim_host_addr(answer->host),
                           .local = sim_server_addr(),
                           .transport = HF_TRANSPORT_UDP};
    struct sim_causes *causes = &world->model.causes;

    causes->server_event = true;
    if (answer->stat != HF_STAT_GRANTED) {
        sim_model_refused(&world->model, sim_owner(answer->host, answer->proc), answer->range);
        sim_world_fault(world, SIM_FAULT_CALL_REFUSED);
    }
    hf_core_granted_res(world->server.core, sim_now(world), &peer, answer->cookie_id,
                        answer->stat == HF_STAT_GRANTED);
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
            end(world, out, answer->stat == HF_STAT_GRANTED ? HF_CALL_ACCEPTED : HF_CALL_DENIED, 0);
            return;
        }
    }
}

void sim_calls_on_timeout(struct sim_world *world, unsigned index, uint64_t cookie)
{
    struct sim_call_out *out = &world->server.calls[index];

    if (!world->server.core || world->server.stopping || !out->used || out->cookie != cookie)
        return;
    end(world, out, HF_CALL_FAILED, HF_ETIMEDOUT);
    sim_server_pump(world);
}
