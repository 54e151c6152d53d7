#include "requests_server.h"

#include "base/error.h"
#include "base/log.h"
#include "fuzz.h"
#include "nsm/nsm_private.h"

enum { ENCODED_MAX = 4096, TICKS_MAX = 64, FINISH_ROUNDS = 200, NSM_PROGRAM = 100024 };

/* What the core has done before an entry, and how much it holds. */
struct work {
    uint64_t before;
    struct objects objects;
};

static struct server *running; /* for what the handlers call */

/* ---- what the handlers use of src/rpc ---- */

static void call_ended(struct hf_rpc_call *call)
{
    hf_list_remove(&call->link);
    free(call);
}

static void encode(hf_codec codec, const void *value)
{
    uint8_t out[ENCODED_MAX];
    XDR xdr;

    xdrmem_create(&xdr, (char *)out, sizeof(out), XDR_ENCODE);
    HF_ASSERT(!codec || codec(&xdr, (void *)(uintptr_t)value));
}

void hf_rpc_reply(struct hf_rpc_call *call, hf_codec codec, const void *results)
{
    encode(codec, results);
    call_ended(call);
}

void hf_rpc_reply_void(struct hf_rpc_call *call)
{
    call_ended(call);
}

void hf_rpc_reply_error(struct hf_rpc_call *call, enum hf_rpc_accept stat)
{
    (void)stat;
    call_ended(call);
}

void hf_rpc_reply_never(struct hf_rpc_call *call)
{
    call_ended(call);
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
    (void)call;
}

static int add_outgoing(struct outgoing outgoing)
{
    if (running->n_outgoing == OUTCALLS_MAX)
        return HF_ELIMIT;
    running->outgoing[running->n_outgoing++] = outgoing;
    return 0;
}

int hf_rpc_client_call(struct hf_rpc_client *client, const struct hf_rpc_call_args *args,
                       hf_rpc_done done, void *ctx, struct hf_rpc_outcall **out)
{
    (void)client;
    HF_ASSERT(!out);
    encode(args->encode, args->args);
    if (args->also)
        encode(args->encode, args->also);
    return add_outgoing((struct outgoing){.done = done, .ctx = ctx});
}

void resolve_name(struct hf_nsm *nsm, uint64_t client_id, struct hf_bytes name, uint32_t timeout_ms,
                  resolved done, void *ctx)
{
    (void)nsm;
    (void)client_id;
    (void)name;
    (void)timeout_ms;
    if (add_outgoing((struct outgoing){.resolved = done, .ctx = ctx}) < 0)
        done(ctx, HF_ELIMIT, NULL, 0);
}

void resolve_stop(struct hf_nsm *nsm)
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
    struct hf_call call;

    while (server->n_outgoing < OUTCALLS_MAX &&
           hf_core_next_call(server->core, server->service.now, &call)) {
        if (call.kind == HF_CALL_GRANTED)
            hf_nlm_call_granted(&server->nlm, &call);
        else if (call.kind == HF_CALL_PROBE)
            hf_nlm_call_probe(&server->nlm, &call);
        else
            hf_nsm_call(&server->nsm, &call);
    }
}

static void pump(struct server *server)
{
    struct hf_event event;

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
    xdrmem_create(&xdr, (char *)results, sizeof(results), XDR_DECODE);
    response.results = &xdr;
    if (outgoing.resolved)
        outgoing.resolved(outgoing.ctx, error ? error : HF_ENOENT, NULL, 0);
    else
        outgoing.done(outgoing.ctx, &response);
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
    call->trust = hf_trust_of(call->transport, &call->peer, HF_RPC_UID_UNKNOWN);
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
    procedure->handle(call_new(server, request, program, procedure), procedure->args);
    end_work(server, (enum entry)((nsm ? ENTRY_NSM : ENTRY_NLM) + request->proc), &work);
    pump(server);
    return true;
}

/* ---- life and death ---- */

void server_start(struct server *server)
{
    running = server;
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

/* A request may wait for commits, and for outgoing calls that ask about its sender. */
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
    HF_ASSERT(hf_list_empty(&server->calls)); /* every request is answered in the end */
    digest = hf_core_digest(server->core);
    server_crash(server);
    server_start(server);
    HF_ASSERT(hf_core_digest(server->core) == digest);
}

void server_free(struct server *server)
{
    server_crash(server);
    records_free(&server->records);
}
