#include <endian.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "core/plant.h"
#include "nlm/nlm_private.h"

/*
 * GRANTED (procedure 5) and GRANTED_MSG (10): a waiter gets its lock. The cookie is the core's
 * number of the errand. It echoes what was asked byte for byte: some clients compare it so.
 */

struct errand {
    struct hf_nlm *nlm;
    struct hf_list link; /* in nlm->errands */
    uint64_t id;
    bool v4;
    bool msg;
};

static void errand_del(struct errand *errand)
{
    hf_list_remove(&errand->link);
    hf_free(errand->nlm->config.alloc, errand);
}

void callbacks_del(struct hf_nlm *nlm)
{
    hf_list_foreach_safe (node, &nlm->errands)
        errand_del(hf_list_entry(node, struct errand, link));
}

static enum hf_call_outcome outcome_of(const struct errand *errand,
                                       const struct hf_rpc_response *response)
{
    char cookie[LM_MAXNETOBJ];
    nlm4_res res4 = {.cookie = {0, cookie}};
    nlm_res res3 = {.cookie = {0, cookie}};
    int stat;

    if (errand->v4 && xdr_nlm4_res(response->results, &res4))
        stat = (int)res4.stat.stat;
    else if (!errand->v4 && xdr_nlm_res(response->results, &res3))
        stat = (int)res3.stat.stat;
    else
        return HF_CALL_FAILED;
    switch (stat) {
    case NLM4_GRANTED:
        return HF_CALL_ACCEPTED;
    case NLM4_DENIED_GRACE_PERIOD:
        return HF_CALL_FAILED; /* it is restarting itself: try again */
    default:
        /* Sent twice in this attempt: as for a second attempt (core/errand.c). */
        return response->repeated ? HF_CALL_ACCEPTED : HF_CALL_DENIED;
    }
}

static void on_done(void *ctx, const struct hf_rpc_response *response)
{
    struct errand *errand = ctx;
    struct hf_nlm *nlm = errand->nlm;
    enum hf_call_outcome outcome = response->sent ? HF_CALL_FAILED : HF_CALL_UNSENT;
    int error = response->error;

    hf_histogram_observe(&nlm->callbacks_ns, (uint64_t)response->elapsed_ms * 1000000);
    if (error == 0 && errand->msg)
        error = HF_ETIMEDOUT; /* what counts comes by GRANTED_RES; that it has not is the news */
    else if (error == 0)
        outcome = outcome_of(errand, response);
    if (error == 0 && outcome == HF_CALL_FAILED)
        error = HF_EFORMAT;
    hf_core_call_done(nlm->config.core, now_of(nlm), errand->id, outcome, error);
    errand_del(errand);
}

union args {
    nlm_testargs v3;
    nlm4_testargs v4;
};

static xdrproc_t build(const struct hf_call *call, const uint64_t *cookie, union args *out)
{
    nlm_obj cookie_obj = {sizeof(*cookie), (char *)(uintptr_t)cookie};

    if (call->vers == NLM4_VERS) {
        out->v4 = (nlm4_testargs){
            cookie_obj,
            call->exclusive,
            {to_string(call->host), to_obj(call->fh), to_obj(call->oh), call->svid, call->offset,
             call->length},
        };
        return (xdrproc_t)xdr_nlm4_testargs;
    }
    out->v3 = (nlm_testargs){
        cookie_obj,
        call->exclusive,
        {to_string(call->host), to_obj(call->fh), to_obj(call->oh), call->svid, (u_int)call->offset,
         (u_int)call->length},
    };
    return (xdrproc_t)xdr_nlm_testargs;
}

/* Hands the call to the RPC client; what cannot even begin has failed. */
static void start(struct hf_nlm *nlm, const struct hf_call *call,
                  const struct hf_rpc_request *request, hf_rpc_done done)
{
    struct errand *errand = hf_malloc(nlm->config.alloc, sizeof(*errand));
    int rv = HF_ENOMEM;

    HF_ASSERT(call->n_to > 0);
    if (errand) {
        *errand = (struct errand){
            .nlm = nlm, .id = call->id, .v4 = call->vers == NLM4_VERS, .msg = call->msg};
        hf_list_add_tail(&nlm->errands, &errand->link);
        rv = hf_rpc_client_call(nlm->config.client, request, done, errand, NULL);
    }
    if (rv < 0) {
        if (errand)
            errand_del(errand);
        hf_core_call_done(nlm->config.core, now_of(nlm), call->id, HF_CALL_UNSENT, rv);
    }
}

static struct hf_rpc_request request_to(const struct hf_call *call)
{
    return (struct hf_rpc_request){
        .peer = call->to[0],
        .local = call->from,
        .path = call->transport == HF_TRANSPORT_TCP ? HF_RPC_BY_TCP : HF_RPC_BY_UDP,
        .remember_port = call->attempt == 1, /* what failed is looked up anew */
        .prog = NLM_PROG,
        .vers = call->vers,
        .timeout_ms = (uint32_t)call->timeout_ms,
    };
}

void hf_nlm_call_granted(struct hf_nlm *nlm, const struct hf_call *call)
{
    struct hf_rpc_request request = request_to(call);
    uint64_t cookie = HF_PLANTED(NLM_COOKIE_UNSWAPPED) ? call->id : htobe64(call->id);
    union args args;

    request.proc = call->msg ? NLM_GRANTED_MSG : NLM_GRANTED;
    request.wait_out = call->msg;
    request.encode = build(call, &cookie, &args);
    request.args = &args;
    start(nlm, call, &request, on_done);
}

/* Whatever it answers, it is there; except that no lock manager is. */
static void on_probed(void *ctx, const struct hf_rpc_response *response)
{
    struct errand *errand = ctx;
    struct hf_nlm *nlm = errand->nlm;
    bool there = response->error == 0 || response->error == HF_EDENIED;

    hf_core_call_done(nlm->config.core, now_of(nlm), errand->id,
                      there ? HF_CALL_ACCEPTED : HF_CALL_FAILED, response->error);
    errand_del(errand);
}

void hf_nlm_call_probe(struct hf_nlm *nlm, const struct hf_call *call)
{
    struct hf_rpc_request request = request_to(call);

    request.proc = NLM_NULL;
    start(nlm, call, &request, on_probed);
}
