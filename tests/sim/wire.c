#include "wire.h"

#include <stdlib.h>

#include "answers.h"
#include "base/error.h"
#include "decided.h"
#include "door.h"
#include "nsm/nsm_private.h"
#include "world.h"

static struct sim_wire *wire_of(struct sim_world *world)
{
    return &world->server.wire;
}

/* Sets the handlers' clock to the time of this step. */
static struct sim_wire *wire_at_now(struct sim_world *world)
{
    struct sim_wire *wire = wire_of(world);

    wire->service.now = sim_now(world);
    return wire;
}

/* ---- answers ---- */

static void asked_del(struct sim_asked *asked)
{
    hf_list_remove(&asked->link);
    free(asked);
}

/* What the answer becomes when its batch has failed; false: it is not sent. */
static bool refusal(const struct sim_asked *asked, struct sim_heard *out)
{
    *out = (struct sim_heard){.state = asked->expected.state};
    switch (asked->reply.call) {
    case SIM_CALL_SM_MON:
    case SIM_CALL_SM_STAT:
        out->stat = HF_STAT_DENIED;
        return true;
    case SIM_CALL_UNLOCK:
    case SIM_CALL_CANCEL:
    case SIM_CALL_UNSHARE:
    case SIM_CALL_FREE_ALL:
    case SIM_CALL_SM_NOTIFY:
    case SIM_CALL_SM_UNMON:
    case SIM_CALL_SM_UNMON_ALL:
    case SIM_CALL_SIMU_CRASH:
        return false;
    case SIM_CALL_SHARE: /* a share that was granted is not undone, so only its repeat is answered
                          */
        out->stat = HF_STAT_DENIED_NOLOCKS;
        return !asked->decided && !asked->world->config.continues;
    default:
        out->stat = HF_STAT_DENIED_NOLOCKS;
        return true;
    }
}

static void check_said(struct sim_world *world, const struct sim_asked *asked)
{
    const struct sim_wire *wire = wire_of(world);
    struct sim_heard expected = asked->expected;
    bool refused = wire->failing || !asked->decided;

    if (refused && !refusal(asked, &expected))
        sim_world_violation(world, "the answer says what was decided",
                            "%s is answered though nothing was done",
                            sim_call_name((enum sim_call)asked->reply.call));
    else if (!sim_speak_same(&asked->spoken, &asked->heard, &expected))
        sim_world_violation(world, "the answer says what was decided",
                            "%s, version %u: %s, state %d; it should be %s, state %d",
                            sim_call_name((enum sim_call)asked->reply.call), asked->spoken.vers,
                            sim_stat_name(asked->heard.stat), asked->heard.state,
                            sim_stat_name(expected.stat), expected.state);
    if (asked->reply.call == SIM_CALL_SM_NOTIFY &&
        sim_door_is_undecided(world, &asked->reply, asked->news_of))
        sim_world_violation(world, "a notice is answered when all of it is decided", "host %u",
                            asked->reply.host);
}

static bool carries_state(const struct sim_message *reply)
{
    return reply->call == SIM_CALL_SM_MON || reply->call == SIM_CALL_SM_STAT;
}

/* Checks that an answer is withheld only because the store or memory failed, or because it carries
 * a state number that is not durable: with such a number not even a refusal leaves (NSM-06). */
static void check_unsaid(struct sim_world *world, const struct sim_asked *asked)
{
    const struct sim_wire *wire = wire_of(world);
    struct sim_heard expected;
    bool refused;

    if (world->heap.failed || asked->hushed)
        return;
    if (asked->reply.call == SIM_CALL_SM_NOTIFY && asked->expected.stat != HF_STAT_GRANTED)
        return; /* another notice is being verified, and the sender is to repeat this one */
    refused = wire->failing || !asked->decided;
    if (refused && !refusal(asked, &expected))
        return;
    /* A second SM_SIMU_CRASH may come before the state of the first is durable. */
    refused = refused || asked->expected.stat == HF_STAT_DENIED;
    if (refused && carries_state(&asked->reply) &&
        world->server.epoch > world->server.durable_epoch)
        return;
    sim_world_violation(world, "every request is answered", "%s is not",
                        sim_call_name((enum sim_call)asked->reply.call));
}

/* True if the sender waits for an answer. */
static bool is_heard(const struct sim_message *reply)
{
    return reply->call != SIM_CALL_SIMU_CRASH && reply->call != SIM_CALL_GRANTED;
}

/* The answer is known, or that there is none: it is sent, and the request is over. */
static void conclude(struct sim_asked *asked)
{
    struct sim_world *world = asked->world;
    struct sim_wire *wire = wire_of(world);
    struct sim_message reply = asked->reply;

    if (asked->said && !wire->ending)
        check_said(world, asked);
    else if (!wire->ending)
        check_unsaid(world, asked);
    reply.stat = (uint8_t)asked->heard.stat;
    reply.state = asked->heard.state;
    /* A refusal tells nothing of the epoch that failed with it, unless it carries our state number.
     */
    if (wire->failing && !carries_state(&reply) && reply.hidden.epoch > world->server.durable_epoch)
        reply.hidden.epoch = world->server.durable_epoch;
    if (!wire->ending && !asked->hushed && is_heard(&reply)) {
        if (asked->said)
            sim_answers_send(world, &reply);
        else
            sim_answers_forget(world, &reply);
    }
    asked_del(asked);
}

/* Linux matches a callback by the server's address, whatever the transport of the mount. */
static bool is_taken_for(const struct sim_call_out *out, unsigned host, unsigned proc)
{
    return out->owner % SIM_PROCS == proc && sim_is_same_address(out->owner / SIM_PROCS, host) &&
           sim_is_same_server(out->owner / SIM_PROCS, host);
}

/* SPEC section 4: true if a GRANTED callback to the owner of an UNLOCK, in its range, was in flight
 * when the UNLOCK came, and has not ended yet. A client that hears the answer now and waits for the
 * range again would take the callback for its new grant. */
static bool has_overtaken(const struct sim_asked *asked)
{
    const struct sim_message *r = &asked->reply;

    if (r->call != SIM_CALL_UNLOCK || r->named != r->host || !asked->decided)
        return false;
    for (unsigned i = 0; i < SIM_CALLS_OUT; i++) {
        const struct sim_call_out *out = &asked->world->server.calls[i];

        if (out->used && out->kind == HF_OUTCALL_GRANTED && !out->answered &&
            out->cookie <= asked->called && is_taken_for(out, r->host, r->proc) &&
            sim_range_overlaps(out->range, r->range))
            return true;
    }
    return false;
}

/* A handler has sent an answer. */
static void on_said(struct sim_asked *asked, struct hf_bytes bytes)
{
    struct sim_world *world = asked->world;

    if (!sim_speak_read(&asked->spoken, bytes, &asked->heard))
        sim_world_violation(world, "the answer can be read", "%s, version %u",
                            sim_call_name((enum sim_call)asked->reply.call), asked->spoken.vers);
    asked->said = true;
    if (has_overtaken(asked) && !wire_of(world)->ending)
        sim_world_violation(world, "UNLOCK is answered when its callbacks are over",
                            "host %u, process %u", asked->reply.host, asked->reply.proc);
    if (wire_of(world)->asking != asked)
        conclude(asked);
}

static struct hf_bytes encode(struct sim_xdr_out *room, hf_codec codec, const void *value)
{
    XDR xdr;

    xdrmem_create(&xdr, (char *)room->data, sizeof(room->data), XDR_ENCODE);
    HF_ASSERT(!codec || codec(&xdr, (void *)(uintptr_t)value));
    return hf_bytes(room->data, xdr_getpos(&xdr));
}

static struct sim_asked *asked_of(struct hf_rpc_call *call)
{
    return hf_container_of(call, struct sim_asked, call);
}

void hf_rpc_reply(struct hf_rpc_call *call, hf_codec codec, const void *results)
{
    struct sim_xdr_out room;

    on_said(asked_of(call), encode(&room, codec, results));
}

void hf_rpc_reply_void(struct hf_rpc_call *call)
{
    struct sim_asked *asked = asked_of(call);

    if (asked->spoken.msg && !asked->receipt)
        asked->receipt = true;
    else
        on_said(asked, hf_bytes(NULL, 0));
}

void hf_rpc_reply_void_if_paid(struct hf_rpc_call *call)
{
    hf_rpc_reply_void(call);
}

void hf_rpc_reply_error(struct hf_rpc_call *call, enum hf_rpc_accept stat)
{
    struct sim_asked *asked = asked_of(call);

    sim_world_violation(asked->world, "the answer can be read", "%s: RPC error %d",
                        sim_call_name((enum sim_call)asked->reply.call), stat);
}

void hf_rpc_reply_never(struct hf_rpc_call *call)
{
    struct sim_asked *asked = asked_of(call);

    if (wire_of(asked->world)->asking != asked)
        conclude(asked);
}

const struct hf_addr *hf_rpc_call_account(const struct hf_rpc_call *call)
{
    return &call->peer;
}

size_t hf_rpc_reply_room(const struct hf_rpc_call *call)
{
    (void)call;
    return SIZE_MAX;
}

void hf_rpc_client_took_lock(struct hf_rpc_client *client, const struct hf_addr *peer)
{
    (void)client;
    (void)peer;
}

void hf_rpc_forget_answers(struct hf_rpc_call *call)
{
    struct sim_server *server = &asked_of(call)->world->server;

    memset(server->cache, 0, sizeof(server->cache));
}

/* ---- requests ---- */

static const struct hf_rpc_procedure *find_procedure(const struct hf_rpc_program *program,
                                                     const struct sim_spoken *spoken)
{
    for (size_t i = 0; i < program->n_versions; i++) {
        const struct hf_rpc_version *version = &program->versions[i];

        if (version->number == spoken->vers && spoken->proc < version->n_procedures &&
            version->procedures[spoken->proc].name)
            return &version->procedures[spoken->proc];
    }
    return NULL;
}

static struct hf_addr from_port(struct hf_addr addr, uint16_t port)
{
    addr.port = port;
    return addr;
}

static struct sim_asked *asked_new(struct sim_world *world, const struct sim_message *r,
                                   struct sim_xdr_out *args)
{
    enum { RESERVED_PORT = 700, SERVER_PORT = 4045 };
    static const struct hf_addr loopback = {.family = HF_ADDR_IPV4, .bytes = {127, 0, 0, 1}};
    struct sim_wire *wire = wire_of(world);
    struct sim_asked *asked = calloc(1, sizeof(*asked));
    /* requests about other hosts are accepted from this host only (SEC-01) */
    bool local = r->call == SIM_CALL_SIMU_CRASH ||
                 (r->call >= SIM_CALL_SM_MON && r->call <= SIM_CALL_SM_UNMON_ALL &&
                  r->named < world->config.hosts);
    bool udp;

    HF_ASSERT(asked);
    sim_speak_request(world, r, ++wire->serial, &asked->spoken, args);
    /* The server would verify a FREE_ALL by UDP (SEC-04). FREE_ALL concerns the whole host,
     * whatever its transport. */
    udp = asked->spoken.prog == SIM_NSM || r->call == SIM_CALL_GRANTED ||
          (sim_host_transport(r->host) == HF_TRANSPORT_UDP && r->call != SIM_CALL_FREE_ALL);
    asked->world = world;
    asked->reply = *r;
    asked->reply.answer = true;
    asked->reply.to_server = false;
    asked->reply.hidden.epoch = world->server.epoch;
    asked->call = (struct hf_rpc_call){
        .header = {r->xid, asked->spoken.prog, asked->spoken.vers, asked->spoken.proc},
        .transport = udp ? HF_TRANSPORT_UDP : HF_TRANSPORT_TCP,
        .peer = from_port(local ? loopback : sim_host_addr(r->host), RESERVED_PORT),
        .local = from_port(local ? loopback : sim_server_addr(r->host), SERVER_PORT),
        .program = asked->spoken.prog == SIM_NSM ? &wire->nsm.program : &wire->nlm.program,
    };
    asked->call.trust =
        hf_trust_of(asked->call.transport, &asked->call.peer, HF_RPC_UID_UNKNOWN, false);
    asked->call.procedure = find_procedure(asked->call.program, &asked->spoken);
    hf_list_init(&asked->call.link);
    hf_list_add_tail(&wire->asked, &asked->link);
    return asked;
}

/* Works out what the answer to the core's decision must be. */
static void expect(struct sim_asked *asked)
{
    bool says_state = asked->spoken.prog == SIM_NSM && asked->spoken.proc <= 4;

    if (asked->spoken.prog == SIM_NSM)
        asked->expected =
            (struct sim_heard){.stat = sim_decided.sm.ok ? HF_STAT_GRANTED : HF_STAT_DENIED,
                               .state = says_state ? sim_decided.sm.state : 0};
    else if (asked->reply.call != SIM_CALL_FREE_ALL && asked->reply.call != SIM_CALL_GRANTED)
        asked->expected = sim_speak_expected(&asked->spoken, &sim_decided.answer);
}

/* True if the UNLOCK's batch is durable, but a GRANTED that the UNLOCK has overtaken is still in
 * flight. */
static bool waits_for_callback(const struct sim_asked *asked)
{
    return asked->seq <= wire_of(asked->world)->service.durable && has_overtaken(asked);
}

struct sim_asked *sim_wire_ask(struct sim_world *world, const struct sim_message *r)
{
    struct sim_wire *wire = wire_at_now(world);
    struct sim_xdr_out args;
    struct sim_asked *asked = asked_new(world, r, &args);
    const struct hf_rpc_procedure *procedure = asked->call.procedure;
    const struct hf_list *last = wire->service.waiters.list.prev;

    sim_decided = (struct sim_decided){.answer.stat = HF_STAT_DENIED_NOLOCKS, .sm.ok = true};
    wire->service.store_up =
        !world->server.outage || world->server.epoch > world->server.durable_epoch;
    asked->decided = wire->service.store_up || r->call == SIM_CALL_SM_STAT ||
                     r->call == SIM_CALL_CANCEL || r->call == SIM_CALL_UNSHARE ||
                     r->call == SIM_CALL_GRANTED || r->call == SIM_CALL_SIMU_CRASH;
    asked->called = world->server.next_cookie;
    if (!procedure || !hf_rpc_decode(procedure, hf_bytes(args.data, args.len))) {
        sim_world_violation(world, "a request is understood", "%s, version %u, procedure %u",
                            sim_call_name((enum sim_call)r->call), asked->spoken.vers,
                            asked->spoken.proc);
    } else {
        wire->asking = asked;
        procedure->handle(&asked->call, procedure->args);
        wire->asking = NULL;
    }
    asked->undecided =
        sim_decided.sm.ticket.decision != 0 || sim_decided.answer.ticket.decision != 0;
    asked->seq = sim_decided.answer.ticket.seq;
    asked->waits =
        asked->undecided || waits_for_callback(asked) || wire->service.waiters.list.prev != last;
    if (asked->decided && !sim_decided.asked && r->call < SIM_CALL_SIMU_CRASH)
        sim_world_violation(world, "a request is understood", "%s does not come to the core",
                            sim_call_name((enum sim_call)r->call));
    expect(asked);
    return asked;
}

void sim_wire_leave(struct sim_asked *asked)
{
    if (!asked->waits)
        conclude(asked);
}

void sim_wire_hush(struct sim_asked *asked)
{
    asked->hushed = true;
    if (!asked->waits)
        conclude(asked);
}

void sim_wire_batch_done(struct sim_world *world, uint64_t seq, int error)
{
    struct sim_wire *wire = wire_at_now(world);

    wire->failing = error != 0;
    hf_service_batch_done(&wire->service, seq, error);
    if (!error)
        return;
    /* Nothing waits any more; the answers that are left are those that are withheld. */
    hf_list_foreach_safe (node, &wire->asked) {
        struct sim_asked *asked = hf_list_entry(node, struct sim_asked, link);

        if (!asked->undecided && !waits_for_callback(asked))
            conclude(asked);
    }
    wire->failing = false;
}

void sim_wire_settle(struct sim_world *world)
{
    hf_service_settle(&wire_at_now(world)->service);
}

/* ---- calls ---- */

/* Handles the answer to a message; the cookie tells which message it answers. */
static void on_res(struct sim_world *world, const struct hf_rpc_outcall_args *request,
                   struct hf_bytes args)
{
    struct sim_wire *wire = wire_of(world);
    struct sim_heard heard;

    hf_list_foreach (node, &wire->asked) {
        struct sim_asked *asked = hf_list_entry(node, struct sim_asked, link);

        if (asked->receipt && !asked->said && asked->spoken.vers == request->vers &&
            asked->spoken.proc + 5 == request->proc && request->prog == SIM_NLM &&
            hf_addr_same_host(&asked->call.peer, &request->peer) &&
            hf_addr_same_host(&asked->call.local, &request->local) &&
            request->transport == asked->call.transport &&
            sim_speak_read(&asked->spoken, args, &heard)) {
            on_said(asked, args);
            return;
        }
    }
    sim_world_violation(world, "the answer can be read",
                        "procedure %u answers nothing that was asked", request->proc);
}

static bool is_transport_of(const struct hf_outcall_attempt *call,
                            const struct hf_rpc_outcall_args *request)
{
    bool notify = call->kind == HF_OUTCALL_NOTIFY || call->kind == HF_OUTCALL_STAT;

    if (!notify && call->transport == HF_TRANSPORT_UDP)
        return request->transport == HF_TRANSPORT_UDP;
    return request->transport == HF_TRANSPORT_TCP &&
           request->udp_fallback == (notify || call->kind == HF_OUTCALL_STATUS);
}

static bool is_procedure_of(const struct hf_outcall_attempt *call,
                            const struct hf_rpc_outcall_args *request)
{
    switch (call->kind) {
    case HF_OUTCALL_GRANTED:
        return request->prog == SIM_NLM && request->vers == call->vers &&
               request->proc == (call->msg ? 10 : 5) && request->wait_out == call->msg;
    case HF_OUTCALL_PROBE:
        return request->prog == SIM_NLM && request->vers == call->vers && request->proc == 0;
    case HF_OUTCALL_NOTIFY:
        return request->prog == SIM_NSM && request->vers == 1 && request->proc == 6 &&
               !request->also == (call->mon_name_short.len == 0);
    default:
        return request->prog == call->prog && request->vers == call->vers &&
               request->proc == call->proc;
    }
}

static void check_request(struct sim_world *world, const struct hf_rpc_outcall_args *request)
{
    const struct hf_outcall_attempt *call = wire_of(world)->calling;
    struct sim_xdr_out room;
    bool same =
        is_procedure_of(call, request) && is_transport_of(call, request) &&
        request->timeout_ms <= call->timeout_ms && request->timeout_ms > 0 &&
        (call->from.family == HF_ADDR_NONE || hf_addr_same_host(&request->local, &call->from)) &&
        (call->n_to == 0 ||
         hf_addr_same_host(&request->peer, &call->to[(call->attempt - 1) % call->n_to]));

    same = same && sim_speak_is_call(call, false, encode(&room, request->encode, request->args));
    if (same && request->also)
        same = sim_speak_is_call(call, true, encode(&room, request->encode, request->also));
    if (!same)
        sim_world_violation(world, "a call says what the core wants said",
                            "kind %d, version %u, procedure %u", call->kind, request->vers,
                            request->proc);
}

int hf_rpc_client_call(struct hf_rpc_client *client, const struct hf_rpc_outcall_args *request,
                       hf_rpc_done done, void *ctx, struct hf_rpc_outcall **out)
{
    struct sim_world *world = client->world;
    struct sim_wire *wire = wire_of(world);
    struct sim_xdr_out room;

    HF_ASSERT(!out);
    if (!wire->calling) { /* the outcome of a _RES concerns no caller: done has nothing to do */
        if (!ctx)
            on_res(world, request, encode(&room, request->encode, request->args));
        return 0;
    }
    check_request(world, request);
    wire->made = true;
    wire->done = done;
    wire->done_ctx = ctx;
    return 0;
}

/* Stands in for the resolver, which knows the hosts of this world by their long names; a lookup of
 * any other name takes its time. */
void hf_nsm_resolve_name(struct hf_nsm *nsm, uint64_t client_id, struct hf_bytes name,
                         uint32_t timeout_ms, resolved done, void *ctx)
{
    struct sim_world *world = nsm->client->world;
    struct sim_wire *wire = wire_of(world);

    (void)client_id;
    (void)timeout_ms;
    for (unsigned h = 0; h < world->config.hosts; h++) {
        struct hf_addr addr = sim_host_addr(h);

        if (hf_bytes_equal(name, sim_host_name(h, SIM_NAME_LONG))) {
            done(ctx, 0, &addr, 1);
            return;
        }
    }
    wire->made = true;
    wire->resolved = done;
    wire->done_ctx = ctx;
}

void hf_nsm_resolve_stop(struct hf_nsm *nsm)
{
    (void)nsm;
}

bool sim_wire_call(struct sim_world *world, const struct hf_outcall_attempt *call,
                   struct sim_call_out *out)
{
    struct sim_wire *wire = wire_at_now(world);

    wire->calling = call;
    wire->made = false;
    wire->done = NULL;
    wire->resolved = NULL;
    sim_reported.n = 0;
    if (call->kind == HF_OUTCALL_GRANTED)
        hf_nlm_call_granted(&wire->nlm, call);
    else if (call->kind == HF_OUTCALL_PROBE)
        hf_nlm_call_probe(&wire->nlm, call);
    else
        hf_nsm_call(&wire->nsm, call);
    wire->calling = NULL;
    if (sim_reported.n != !wire->made || (!wire->made && !world->heap.failed))
        sim_world_violation(world, "a call ends once", "kind %d, %u reports at its begin",
                            out->kind, sim_reported.n);
    out->done = wire->done;
    out->resolved = wire->resolved;
    out->done_ctx = wire->done_ctx;
    return wire->made;
}

void sim_wire_call_done(struct sim_world *world, struct sim_call_out *out, enum hf_stat stat,
                        int error, bool repeated, enum hf_outcall_outcome expected)
{
    struct hf_rpc_response response = {
        .error = error, .sent = out->sent, .tried = !out->untried, .repeated = repeated};
    uint64_t cookie = out->call_id;
    struct sim_xdr_out room = {.len = 0};
    XDR xdr;

    if (out->kind == HF_OUTCALL_STAT) {
        /* The answer may say that the name is unknown there; the handler ignores that. */
        sim_xdr_put32(&room, cookie % 2);
        sim_xdr_put32(&room, (uint32_t)out->state);
    }
    if (out->kind == HF_OUTCALL_GRANTED && !out->async) {
        sim_xdr_put_opaque(&room, hf_bytes(&cookie, sizeof(cookie)));
        sim_xdr_put32(&room, stat);
    }
    xdrmem_create(&xdr, (char *)room.data, (u_int)room.len, XDR_DECODE);
    response.results = &xdr;
    sim_reported.n = 0;
    (void)wire_at_now(world);
    if (out->resolved)
        out->resolved(out->done_ctx, error ? error : HF_ENOENT, NULL, 0);
    else
        out->done(out->done_ctx, &response);
    if (sim_reported.n != 1 || sim_reported.id != out->call_id || sim_reported.outcome != expected)
        sim_world_violation(world, "a call's end is reported as it was",
                            "kind %d: %u reports, outcome %d, it should be %d", out->kind,
                            sim_reported.n, sim_reported.outcome, expected);
}

/* ---- life and death ---- */

void sim_wire_start(struct sim_world *world)
{
    struct sim_wire *wire = wire_of(world);

    *wire = (struct sim_wire){.client = {world}, .serial = wire->serial};
    hf_list_init(&wire->asked);
    hf_service_init(&wire->service, world->server.core, NULL, &world->alloc);
    wire->service.shares_wait = world->config.continues;
    hf_nlm_init(&wire->nlm, &wire->service, &wire->client);
    hf_nsm_init(&wire->nsm, &wire->service, &wire->client);
}

void sim_wire_stop(struct sim_world *world)
{
    struct sim_wire *wire = wire_of(world);

    wire->ending = true;
    hf_service_fail_waiters(&wire->service);
    hf_list_foreach_safe (node, &wire->asked)
        asked_del(hf_list_entry(node, struct sim_asked, link));
    hf_nsm_stop(&wire->nsm);
    hf_nlm_free(&wire->nlm);
    hf_nsm_free(&wire->nsm);
}
