#include "requests_server.h"

#include "base/error.h"
#include "base/log.h"
#include "fuzz.h"
#include "nsm/nsm_private.h"

enum {
    ENCODED_MAX = 4096,
    TICKS_MAX = 64,
    FINISH_ROUNDS = 200,
    NSM_PROGRAM = 100024,
    CALL_HEADER = 40,
    REPLY_HEADER = 24,
    GRANTED = 5,
    GRANTED_MSG = 10,
};

/* The core's count of work before an entry, and how many objects it holds. */
struct work {
    uint64_t before;
    struct objects objects;
};

static struct server *running; /* the server that runs, for the functions that the handlers call */

/* ---- bytes in and out ---- */

/* The bytes that came from the host and went to it by UDP; NULL: loopback addresses are not
 * counted. */
static struct flow *flow_of(const struct hf_addr *host)
{
    for (unsigned i = 0; i < FLOWS_MAX && !hf_addr_is_loopback(host); i++) {
        struct flow *flow = &running->flows[i];

        if (flow->host.family == HF_ADDR_NONE)
            flow->host = *host;
        if (hf_addr_same_host(&flow->host, host))
            return flow;
    }
    return NULL;
}

static void count_in(const struct hf_addr *host, size_t size)
{
    struct flow *flow = flow_of(host);

    if (!flow)
        return;
    flow->in += size + HF_CREDIT_HEADERS;
    hf_credit_came(running->credits, host, size);
}

static void count_out(struct flow *flow, size_t size)
{
    flow->out += size + HF_CREDIT_HEADERS;
    HF_ASSERT(flow->proved || flow->out <= HF_TRUST_ANSWER_FACTOR * flow->in);
}

static void count_answer(const struct hf_rpc_call *call, size_t size)
{
    struct flow *flow = call->transport == HF_TRANSPORT_UDP ? flow_of(&call->peer) : NULL;

    if (!flow)
        return;
    hf_credit_answered(running->credits, &call->peer, size);
    count_out(flow, size);
}

/* Pays for a call that a datagram provoked; false: it is not sent. */
static bool pay(const struct hf_rpc_outcall_args *args, size_t size)
{
    struct flow *flow = args->provoked ? flow_of(&args->peer) : NULL;

    if (!flow || flow->proved)
        return true;
    if (!hf_credit_spend(running->credits, &args->peer, size))
        return false;
    count_out(flow, size);
    return true;
}

/* ---- what the handlers use of src/rpc ---- */

static void call_ended(struct hf_rpc_call *call)
{
    hf_list_remove(&call->link);
    free(call);
}

/* Returns the length. */
static size_t encode(hf_codec codec, const void *value, uint8_t out[ENCODED_MAX])
{
    XDR xdr;

    xdrmem_create(&xdr, (char *)out, ENCODED_MAX, XDR_ENCODE);
    HF_ASSERT(!codec || codec(&xdr, (void *)(uintptr_t)value));
    return xdr_getpos(&xdr);
}

void hf_rpc_reply(struct hf_rpc_call *call, hf_codec codec, const void *results)
{
    uint8_t out[ENCODED_MAX];

    count_answer(call, REPLY_HEADER + encode(codec, results, out));
    call_ended(call);
}

void hf_rpc_reply_void(struct hf_rpc_call *call)
{
    count_answer(call, REPLY_HEADER);
    call_ended(call);
}

void hf_rpc_reply_void_if_paid(struct hf_rpc_call *call)
{
    hf_rpc_reply_void(call);
}

void hf_rpc_reply_error(struct hf_rpc_call *call, enum hf_rpc_accept stat)
{
    (void)stat;
    count_answer(call, REPLY_HEADER);
    call_ended(call);
}

void hf_rpc_reply_never(struct hf_rpc_call *call)
{
    call_ended(call);
}

const struct hf_addr *hf_rpc_call_account(const struct hf_rpc_call *call)
{
    static struct hf_addr account;

    account = hf_trust_account(call->trust, &call->peer, call->uid);
    return &account;
}

size_t hf_rpc_reply_room(const struct hf_rpc_call *call)
{
    return call->transport == HF_TRANSPORT_UDP ? HF_TRUST_ANSWER_FACTOR * call->asked - REPLY_HEADER
                                               : SIZE_MAX;
}

void hf_rpc_client_took_lock(struct hf_rpc_client *client, const struct hf_addr *peer)
{
    struct flow *flow = flow_of(peer);
    bool told = hf_addr_same_host(&running->ended.to, peer) && running->ended.cookie != 0;

    (void)client;
    for (unsigned i = 0; i < running->n_outgoing; i++)
        told = told || (running->outgoing[i].cookie != 0 && !running->outgoing[i].withheld &&
                        hf_addr_same_host(&running->outgoing[i].to, peer));
    HF_ASSERT(told);
    if (flow)
        flow->proved = true;
}

void hf_rpc_forget_answers(struct hf_rpc_call *call)
{
    (void)call;
}

static int add_outgoing(struct outgoing outgoing)
{
    if (running->n_outgoing == OUTCALLS_MAX)
        return HF_ELIMIT;
    running->outgoing[running->n_outgoing++] = outgoing;
    return 0;
}

int hf_rpc_client_call(struct hf_rpc_client *client, const struct hf_rpc_outcall_args *args,
                       hf_rpc_done done, void *ctx, struct hf_rpc_outcall **out)
{
    struct outgoing call = {.done = done, .ctx = ctx, .to = args->peer};
    uint8_t bytes[ENCODED_MAX];
    size_t size = encode(args->encode, args->args, bytes);

    (void)client;
    HF_ASSERT(!out);
    call.msg = args->proc == GRANTED_MSG;
    if (args->prog != NSM_PROGRAM && (args->proc == GRANTED || call.msg)) {
        memcpy(&call.cookie, bytes + 4, sizeof(call.cookie));
        call.cookie = be64toh(call.cookie);
    }
    call.withheld = !pay(args, CALL_HEADER + size);
    if (args->also)
        encode(args->encode, args->also, bytes);
    return add_outgoing(call);
}

void hf_nsm_resolve_name(struct hf_nsm *nsm, uint64_t client_id, struct hf_bytes name,
                         uint32_t timeout_ms, resolved done, void *ctx)
{
    (void)nsm;
    (void)client_id;
    (void)name;
    (void)timeout_ms;
    if (add_outgoing((struct outgoing){.resolved = done, .ctx = ctx}) < 0)
        done(ctx, HF_ELIMIT, NULL, 0);
}

void hf_nsm_resolve_stop(struct hf_nsm *nsm)
{
    (void)nsm;
}

/* ---- the loop ---- */

static struct work begin_work(const struct server *server)
{
    struct hf_view_status status;

    hf_core_view_status(server->core, server->service.now, &status);
    return (struct work){
        .before = hf_core_work(server->core),
        .objects = {.locks = status.locks + status.shares,
                    .others = status.waiters + status.nlm_clients + status.nsm_clients}};
}

static void end_work(struct server *server, enum entry entry, const struct work *work)
{
    server->on_cost(server, entry, hf_core_work(server->core) - work->before, &work->objects);
}

static void make_calls(struct server *server)
{
    struct hf_outcall_attempt call;

    while (server->n_outgoing < OUTCALLS_MAX &&
           hf_core_next_outcall(server->core, server->service.now, &call)) {
        if (call.kind == HF_OUTCALL_GRANTED)
            hf_nlm_call_granted(&server->nlm, &call);
        else if (call.kind == HF_OUTCALL_PROBE)
            hf_nlm_call_probe(&server->nlm, &call);
        else
            hf_nsm_call(&server->nsm, &call);
    }
}

static void pump(struct server *server)
{
    struct hf_event event;

    HF_ASSERT(server->service.n_undecided <= HF_UNDECIDED_MAX);
    hf_service_settle(&server->service);
    if (!server->committing)
        server->committing = hf_core_take_batch(server->core);
    make_calls(server);
    while (hf_core_next_event(server->core, &event))
        ;
}

void server_tick(struct server *server)
{
    for (unsigned i = 0; i < TICKS_MAX; i++) {
        struct work work = begin_work(server);

        if (hf_core_deadline(server->core) > server->service.now.mono_ms)
            return;
        hf_core_tick(server->core, server->service.now);
        end_work(server, ENTRY_TICK, &work);
        pump(server);
    }
}

void server_commit(struct server *server, int error)
{
    const struct hf_batch *batch = server->committing;
    struct work work = begin_work(server);

    if (!batch)
        return;
    server->committing = NULL;
    if (!error)
        records_apply(&server->records, batch);
    hf_service_batch_done(&server->service, batch->seq, error);
    end_work(server, ENTRY_COMMIT, &work);
    pump(server);
}

void server_call_done(struct server *server, unsigned number, int error, uint32_t stat)
{
    uint8_t results[16] = {0, 0, 0, 8, [7] = (uint8_t)stat, [15] = (uint8_t)stat % 2};
    struct hf_rpc_response response = {.error = error, .sent = true, .tried = true};
    struct outgoing outgoing;
    struct work work = begin_work(server);
    XDR xdr;

    if (server->n_outgoing == 0)
        return;
    number %= server->n_outgoing;
    outgoing = server->outgoing[number];
    server->outgoing[number] = server->outgoing[--server->n_outgoing];
    if (outgoing.withheld) {
        error = response.error = HF_ETIMEDOUT;
        response.sent = false;
    }
    if (!error && !outgoing.resolved)
        count_in(&outgoing.to, REPLY_HEADER);
    server->ended = outgoing;
    xdrmem_create(&xdr, (char *)results, sizeof(results), XDR_DECODE);
    response.results = &xdr;
    if (outgoing.resolved)
        outgoing.resolved(outgoing.ctx, error ? error : HF_ENOENT, NULL, 0);
    else
        outgoing.done(outgoing.ctx, &response);
    server->ended = (struct outgoing){.cookie = 0};
    end_work(server, ENTRY_CALL, &work);
    pump(server);
}

/* ---- requests ---- */

static const struct hf_rpc_procedure *find_procedure(const struct hf_rpc_program *program,
                                                     const struct server_request *request)
{
    for (size_t i = 0; i < program->n_versions; i++) {
        const struct hf_rpc_version *version = &program->versions[i];

        if (version->number == request->vers && request->proc < version->n_procedures &&
            version->procedures[request->proc].name)
            return &version->procedures[request->proc];
    }
    return NULL;
}

static struct hf_rpc_call *call_new(struct server *server, const struct server_request *request,
                                    const struct hf_rpc_program *program,
                                    const struct hf_rpc_procedure *procedure)
{
    struct hf_rpc_call *call = calloc(1, sizeof(*call));

    HF_ASSERT(call);
    call->header = (struct hf_rpc_header){1, request->prog, request->vers, request->proc};
    call->transport = request->transport;
    call->peer = request->peer;
    call->uid = request->uid;
    call->trust = hf_trust_of(call->transport, &call->peer, call->uid, false);
    call->asked = (uint32_t)(CALL_HEADER + request->args.len);
    call->local = request->local;
    call->program = program;
    call->procedure = procedure;
    hf_list_init(&call->link);
    hf_list_add_tail(&server->calls, &call->link);
    return call;
}

bool server_ask(struct server *server, const struct server_request *request)
{
    bool nsm = request->prog == NSM_PROGRAM;
    const struct hf_rpc_program *program = nsm ? &server->nsm.program : &server->nlm.program;
    const struct hf_rpc_procedure *procedure = find_procedure(program, request);
    struct work work = begin_work(server);

    if (!procedure || !hf_rpc_decode(procedure, request->args))
        return false;
    if (request->transport == HF_TRANSPORT_UDP)
        count_in(&request->peer, CALL_HEADER + request->args.len);
    procedure->handle(call_new(server, request, program, procedure), procedure->args);
    end_work(server, (enum entry)((nsm ? ENTRY_NSM : ENTRY_NLM) + request->proc), &work);
    pump(server);
    return true;
}

/* ---- start and end ---- */

void server_start(struct server *server)
{
    running = server;
    if (!server->credits)
        server->credits = calloc(1, sizeof(*server->credits));
    HF_ASSERT(server->credits);
    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    server->core = hf_core_new(&server->config, &server->alloc);
    HF_ASSERT(server->core);
    for (unsigned i = 0; i < server->records.count; i++) {
        const struct stored_record *record = server->records.at[i];
        int rv = hf_core_load(server->core, record->kind, record_bytes(record));

        HF_ASSERT(rv == 0);
    }
    HF_ASSERT(hf_core_start(server->core, server->service.now) == 0);
    server->n_outgoing = 0;
    server->committing = NULL;
    hf_list_init(&server->calls);
    {
        struct hf_now now = server->service.now;

        hf_service_init(&server->service, server->core, NULL, &server->alloc);
        server->service.now = now;
    }
    hf_nlm_init(&server->nlm, &server->service, NULL);
    hf_nsm_init(&server->nsm, &server->service, NULL);
    pump(server);
}

void server_crash(struct server *server)
{
    server->heap.after = -1;
    hf_service_fail_waiters(&server->service);
    hf_list_foreach_safe (node, &server->calls)
        call_ended(hf_list_entry(node, struct hf_rpc_call, link));
    hf_nsm_stop(&server->nsm);
    hf_nlm_free(&server->nlm);
    hf_nsm_free(&server->nsm);
    hf_core_del(server->core);
    server->core = NULL;
    HF_ASSERT(server->heap.live == 0);
}

/* Ends all calls: a request may wait for commits, and for outgoing calls that ask about its sender.
 */
static void finish_calls(struct server *server)
{
    while (server->committing)
        server_commit(server, 0);
    for (unsigned i = 0; i < FINISH_ROUNDS && !hf_list_empty(&server->calls); i++) {
        uint64_t deadline = hf_core_deadline(server->core);

        while (server->n_outgoing > 0)
            server_call_done(server, 0, HF_ETIMEDOUT, 0);
        if (deadline != UINT64_MAX && deadline > server->service.now.mono_ms)
            server->service.now.mono_ms = deadline;
        server_tick(server);
        while (server->committing)
            server_commit(server, 0);
    }
}

void server_stop(struct server *server)
{
    uint64_t digest;

    server->heap.after = -1;
    finish_calls(server);
    hf_core_stop(server->core, server->service.now);
    pump(server);
    while (server->committing)
        server_commit(server, 0);
    HF_ASSERT(hf_list_empty(&server->calls)); /* every request is answered or dropped in the end */
    digest = hf_core_digest(server->core);
    server_crash(server);
    server_start(server);
    HF_ASSERT(hf_core_digest(server->core) == digest);
}

void server_free(struct server *server)
{
    server_crash(server);
    records_free(&server->records);
    free(server->credits);
    server->credits = NULL;
}
