#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/socket.h"
#include "nsm/nsm_private.h"

/*
 * The outgoing calls of NSM: SM_NOTIFY, "we have restarted", to a host that held locks or is
 * monitored; `status`, "the host you monitor has restarted", to a program that registered by
 * SM_MON; and SM_STAT, "which state do you have", to a client whose crash notice is being verified.
 *
 * SM_NOTIFY goes out under our long name and then, if there is one, under our short name, over the
 * same connection, because a peer may have monitored either name. The attempt succeeds when the
 * first notice is answered; the second is sent in the time that is left.
 */

/* One attempt at an outgoing call, with a copy of those parts of the core's call that it needs. */
struct nsm_outcall {
    struct hf_nsm *nsm;
    struct hf_list link; /* links the attempt into nsm->outcalls */
    uint64_t id;
    uint64_t started_ms;
    struct hf_rpc_outcall_args rpc;
    int state;
    size_t name_len;
    size_t short_len; /* the length of our short name; 0: there is none */
    char name[];
};

static void outcall_del(struct nsm_outcall *outcall)
{
    hf_list_remove(&outcall->link);
    hf_free(outcall->nsm->service->alloc, outcall);
}

/* Returns the outcome of a call that got no answer (NOT-03). */
static enum hf_outcall_outcome failure_of(const struct hf_rpc_response *response)
{
    return response->tried ? HF_OUTCALL_FAILED : HF_OUTCALL_UNTRIED;
}

static void report(struct nsm_outcall *outcall, enum hf_outcall_outcome outcome, int error)
{
    struct hf_nsm *nsm = outcall->nsm;
    uint64_t spent_ms = hf_service_now(nsm->service).mono_ms - outcall->started_ms;

    hf_histogram_observe(&nsm->notices_ns, spent_ms * 1000000);
    hf_core_outcall_done(nsm->service->core, hf_service_now(nsm->service), outcall->id, outcome,
                         error);
    outcall_del(outcall);
}

static void on_answered(void *ctx, const struct hf_rpc_response *response)
{
    report(ctx, response->error ? failure_of(response) : HF_OUTCALL_ACCEPTED, response->error);
}

/* ---- status ---- */

static int begin_status(struct nsm_outcall *outcall, const struct hf_outcall_attempt *call)
{
    struct sm_status status = {.mon_name = to_string(call->mon_name), .state = call->state};

    memcpy(status.priv, call->priv, sizeof(status.priv));
    outcall->rpc.prog = call->prog;
    outcall->rpc.vers = call->vers;
    outcall->rpc.proc = call->proc;
    outcall->rpc.encode = xdr_sm_status;
    outcall->rpc.args = &status;
    /* A kernel accepts a `status` callback only from a reserved port of its own host. */
    outcall->rpc.reserved_port = hf_addr_is_loopback(&outcall->rpc.peer);
    outcall->rpc.transport = call->transport;
    outcall->rpc.udp_fallback = true;
    /* SEC-01: no callback goes to this daemon itself: the call would come from this host, whose
     * notices NLM believes (procedure 16). */
    if (outcall->nsm->own_port != 0 &&
        (outcall->rpc.reserved_port || hf_socket_is_own_address(&outcall->rpc.peer)))
        outcall->rpc.not_port = outcall->nsm->own_port;
    return hf_rpc_client_call(outcall->nsm->client, &outcall->rpc, on_answered, outcall, NULL);
}

/* ---- SM_NOTIFY ---- */

static int send_notify(struct nsm_outcall *outcall)
{
    struct stat_chge in_long = {{(u_int)outcall->name_len, outcall->name}, outcall->state};
    struct stat_chge in_short = {{(u_int)outcall->short_len, outcall->name}, outcall->state};
    struct hf_rpc_outcall_args *rpc = &outcall->rpc;

    /* A kernel registers over loopback, but the host that it monitors is elsewhere, so the notice
     * may leave from any address of ours. */
    if (hf_addr_is_loopback(&rpc->local) && !hf_addr_is_loopback(&rpc->peer))
        rpc->local = (struct hf_addr){0};
    rpc->prog = SM_PROG;
    rpc->vers = SM_VERS;
    rpc->proc = SM_NOTIFY;
    rpc->apart = true; /* a client that does not answer a notice counts as crashed (NOT-03) */
    rpc->transport = HF_TRANSPORT_TCP;
    rpc->udp_fallback = true;
    rpc->encode = xdr_stat_chge;
    rpc->args = &in_long;
    rpc->also = outcall->short_len > 0 ? &in_short : NULL;
    return hf_rpc_client_call(outcall->nsm->client, rpc, on_answered, outcall, NULL);
}

/* NOT-01: the time of an attempt includes the name lookup. */
static void on_resolved(void *ctx, int error, const struct hf_addr *addrs, unsigned n)
{
    struct nsm_outcall *outcall = ctx;
    uint64_t spent = hf_service_now(outcall->nsm->service).mono_ms - outcall->started_ms;

    if (error == 0 && spent >= outcall->rpc.timeout_ms)
        error = HF_ETIMEDOUT;
    if (error == 0) {
        HF_ASSERT(n > 0);
        outcall->rpc.peer = addrs[0];
        outcall->rpc.timeout_ms -= (uint32_t)spent;
        error = send_notify(outcall);
    }
    if (error < 0)
        report(outcall, HF_OUTCALL_UNTRIED, error);
}

static int begin_notify(struct nsm_outcall *outcall, const struct hf_outcall_attempt *call)
{
    if (call->n_to > 0)
        return send_notify(outcall);
    hf_nsm_resolve_name(outcall->nsm, call->client_id, call->host, outcall->rpc.timeout_ms,
                        on_resolved, outcall);
    return 0;
}

/* ---- SM_STAT ---- */

/* An answer to SM_STAT without a state number, or with an impossible one, counts as no answer. */
static void on_stat_done(void *ctx, const struct hf_rpc_response *response)
{
    struct nsm_outcall *outcall = ctx;
    struct hf_service *service = outcall->nsm->service;
    sm_stat_res res = {0};

    if (response->error == 0 && xdr_sm_stat_res(response->results, &res) && res.state > 0)
        hf_core_stat_answered(service->core, hf_service_now(service), outcall->id, res.state);
    else
        hf_core_outcall_done(service->core, hf_service_now(service), outcall->id,
                             response->error ? failure_of(response) : HF_OUTCALL_FAILED,
                             response->error ? response->error : HF_EFORMAT);
    outcall_del(outcall);
}

/* Puts an address as the name into SM_STAT: rpc.statd looks up the name, and an address costs it no
 * time. */
static int begin_stat(struct nsm_outcall *outcall)
{
    char text[HF_ADDR_TEXT_MAX];
    struct sm_name name;

    hf_addr_format(&outcall->rpc.peer, text);
    name.mon_name = to_string(hf_bytes_str(text));
    outcall->rpc.prog = SM_PROG;
    outcall->rpc.vers = SM_VERS;
    outcall->rpc.proc = SM_STAT;
    outcall->rpc.transport = HF_TRANSPORT_TCP;
    outcall->rpc.udp_fallback = true;
    /* SEC-04: silence to this question decides about locks. */
    outcall->rpc.apart = outcall->rpc.by_itself = true;
    outcall->rpc.charged = true;
    outcall->rpc.encode = xdr_sm_name;
    outcall->rpc.args = &name;
    return hf_rpc_client_call(outcall->nsm->client, &outcall->rpc, on_stat_done, outcall, NULL);
}

/* ---- all kinds ---- */

static struct nsm_outcall *outcall_new(struct hf_nsm *nsm, const struct hf_outcall_attempt *call)
{
    struct nsm_outcall *outcall =
        hf_malloc(nsm->service->alloc, sizeof(*outcall) + call->mon_name.len);

    if (!outcall)
        return NULL;
    *outcall = (struct nsm_outcall){
        .nsm = nsm,
        .id = call->id,
        .started_ms = hf_service_now(nsm->service).mono_ms,
        .rpc = {.local = call->from, .timeout_ms = (uint32_t)call->timeout_ms},
        .state = call->state,
        .name_len = call->mon_name.len,
        .short_len = call->mon_name_short.len,
    };
    /* Each attempt goes to another address of the host. */
    if (call->n_to > 0)
        outcall->rpc.peer = call->to[(call->attempt - 1) % call->n_to];
    if (call->mon_name.len > 0)
        memcpy(outcall->name, call->mon_name.data, call->mon_name.len);
    hf_list_add_tail(&nsm->outcalls, &outcall->link);
    return outcall;
}

void hf_nsm_call(struct hf_nsm *nsm, const struct hf_outcall_attempt *call)
{
    struct nsm_outcall *outcall = outcall_new(nsm, call);
    int rv = HF_ENOMEM;

    if (outcall && call->kind == HF_OUTCALL_STATUS)
        rv = begin_status(outcall, call);
    else if (outcall && call->kind == HF_OUTCALL_STAT)
        rv = begin_stat(outcall);
    else if (outcall)
        rv = begin_notify(outcall, call);
    if (rv < 0 && outcall)
        report(outcall, HF_OUTCALL_UNTRIED, rv);
    else if (rv < 0)
        hf_core_outcall_done(nsm->service->core, hf_service_now(nsm->service), call->id,
                             HF_OUTCALL_UNTRIED, rv);
}

void hf_nsm_outcalls_del(struct hf_nsm *nsm)
{
    hf_list_foreach_safe (node, &nsm->outcalls)
        outcall_del(hf_list_entry(node, struct nsm_outcall, link));
}
