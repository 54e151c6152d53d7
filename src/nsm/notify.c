#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "core/plant.h"
#include "nsm/nsm_private.h"

/*
 * The calls of NSM: SM_NOTIFY, "we have restarted", to a host that held locks or is monitored; and
 * `status`, "the host you asked about has restarted", to whoever registered by SM_MON.
 *
 * SM_NOTIFY goes out under our long name and then, where there is one, under the short name, over
 * the same connection: a peer may have monitored either. The first one answered is what counts; the
 * second is a courtesy, in what is left of the attempt's time.
 */

/* One attempt: what the core's call said, kept for as long as the attempt lasts. */
struct errand {
    struct hf_nsm *nsm;
    struct hf_list link; /* in nsm->errands */
    uint64_t id;
    uint64_t started_ms;
    struct hf_rpc_request request;
    int state;
    size_t name_len;
    size_t short_len; /* 0: no short form */
    char name[];
};

static void errand_del(struct errand *errand)
{
    hf_list_remove(&errand->link);
    hf_free(errand->nsm->config.alloc, errand);
}

static void report(struct errand *errand, int error)
{
    struct hf_nsm *nsm = errand->nsm;
    uint64_t spent_ms = now_of(nsm).mono_ms - errand->started_ms;

    hf_histogram_observe(&nsm->notices_ns, spent_ms * 1000000);
    hf_core_call_done(nsm->config.core, now_of(nsm), errand->id,
                      error ? HF_CALL_FAILED : HF_CALL_ACCEPTED, error);
    errand_del(errand);
}

/* ---- status ---- */

static void on_status_done(void *ctx, const struct hf_rpc_response *response)
{
    report(ctx, response->error);
}

static int begin_status(struct errand *errand, const struct hf_call *call)
{
    struct sm_status status = {.mon_name = to_string(call->mon_name), .state = call->state};

    if (!HF_PLANTED(NSM_PRIV_LOST))
        memcpy(status.priv, call->priv, sizeof(status.priv));
    errand->request.prog = call->prog;
    errand->request.vers = call->vers;
    errand->request.proc = call->proc;
    errand->request.encode = (xdrproc_t)xdr_sm_status;
    errand->request.args = &status;
    /* A kernel believes its status monitor only from a reserved port. */
    errand->request.reserved_port = hf_addr_is_loopback(&errand->request.peer);
    errand->request.path =
        call->transport == HF_TRANSPORT_UDP ? HF_RPC_BY_UDP : HF_RPC_BY_TCP_OR_UDP;
    return hf_rpc_client_call(errand->nsm->config.client, &errand->request, on_status_done, errand,
                              NULL);
}

/* ---- SM_NOTIFY ---- */

static void on_notify_done(void *ctx, const struct hf_rpc_response *response)
{
    report(ctx, response->error);
}

static int send_notify(struct errand *errand)
{
    struct stat_chge in_long = {{(u_int)errand->name_len, errand->name}, errand->state};
    struct stat_chge in_short = {{(u_int)errand->short_len, errand->name}, errand->state};
    struct hf_rpc_request *request = &errand->request;

    /* Registered from this very host, as a kernel does: what it is about need not be here. */
    if (hf_addr_is_loopback(&request->local) && !hf_addr_is_loopback(&request->peer))
        request->local = (struct hf_addr){0};
    request->prog = SM_PROG;
    request->vers = SM_VERS;
    request->proc = SM_NOTIFY;
    request->path = HF_RPC_BY_TCP_OR_UDP;
    request->encode = (xdrproc_t)xdr_stat_chge;
    request->args = &in_long;
    request->also = errand->short_len > 0 ? &in_short : NULL;
    return hf_rpc_client_call(errand->nsm->config.client, request, on_notify_done, errand, NULL);
}

/* NOT-01: what the lookup took is gone from the time of the attempt. */
static void on_resolved(void *ctx, int error, const struct hf_addr *addrs, unsigned n)
{
    struct errand *errand = ctx;
    uint64_t spent = now_of(errand->nsm).mono_ms - errand->started_ms;

    if (error == 0 && spent >= errand->request.timeout_ms)
        error = HF_ETIMEDOUT;
    if (error == 0) {
        HF_ASSERT(n > 0);
        errand->request.peer = addrs[0];
        errand->request.timeout_ms -= (uint32_t)spent;
        error = send_notify(errand);
    }
    if (error < 0)
        report(errand, error);
}

static int begin_notify(struct errand *errand, const struct hf_call *call)
{
    if (call->n_to > 0)
        return send_notify(errand);
    resolve_name(errand->nsm, call->client_id, call->host, errand->request.timeout_ms, on_resolved,
                 errand);
    return 0;
}

/* ---- either ---- */

static struct errand *errand_new(struct hf_nsm *nsm, const struct hf_call *call)
{
    struct errand *errand = hf_malloc(nsm->config.alloc, sizeof(*errand) + call->mon_name.len);

    if (!errand)
        return NULL;
    *errand = (struct errand){
        .nsm = nsm,
        .id = call->id,
        .started_ms = now_of(nsm).mono_ms,
        .request = {.local = call->from, .timeout_ms = (uint32_t)call->timeout_ms},
        .state = call->state,
        .name_len = call->mon_name.len,
        .short_len = call->mon_name_short.len,
    };
    /* A host with several addresses is tried at another one each time. */
    if (call->n_to > 0)
        errand->request.peer = call->to[(call->attempt - 1) % call->n_to];
    memcpy(errand->name, call->mon_name.data, call->mon_name.len);
    hf_list_add_tail(&nsm->errands, &errand->link);
    return errand;
}

void hf_nsm_call(struct hf_nsm *nsm, const struct hf_call *call)
{
    struct errand *errand = errand_new(nsm, call);
    int rv = HF_ENOMEM;

    if (errand && call->kind == HF_CALL_STATUS)
        rv = begin_status(errand, call);
    else if (errand)
        rv = begin_notify(errand, call);
    if (rv < 0 && errand)
        report(errand, rv);
    else if (rv < 0)
        hf_core_call_done(nsm->config.core, now_of(nsm), call->id, HF_CALL_FAILED, rv);
}

void errands_del(struct hf_nsm *nsm)
{
    hf_list_foreach_safe (node, &nsm->errands)
        errand_del(hf_list_entry(node, struct errand, link));
}
