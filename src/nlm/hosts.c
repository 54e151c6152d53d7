#include <endian.h>
#include <string.h>

#include "base/log.h"
#include "nlm/nlm_private.h"

/* Serves requests about a host instead of a lock (FREE_ALL, and procedure 16, "host restarted"),
 * and takes the results of our callbacks. */

static const nlm_obj NO_COOKIE = {0, NULL};

void hf_nlm_on_null(struct hf_rpc_call *call, void *args)
{
    (void)args;
    nlm_of(call)->answers[HF_NLM_NULL][HF_STAT_GRANTED]++;
    hf_rpc_reply_void(call);
}

/* NLM-05: FREE_ALL frees only the locks of a client with the caller's address, because names can be
 * forged. */
void hf_nlm_on_free_all(struct hf_rpc_call *call, void *raw)
{
    struct hf_service *service = nlm_of(call)->service;
    const nlm_notify *a = raw;
    struct hf_peer peer;
    struct hf_answer answer;

    if (is_postponed(call))
        return;
    if (!service->store_up) {
        hf_nlm_answer_now(call, HF_NLM_FREE_ALL, &NO_COOKIE, HF_STAT_DENIED_NOLOCKS);
        return;
    }
    if (!hf_nlm_peer_of(call, &a->name, &peer)) {
        hf_nlm_answer_now(call, HF_NLM_FREE_ALL, &NO_COOKIE, HF_STAT_FAILED);
        return;
    }
    answer = hf_core_free_all(service->core, hf_service_now(service), &peer, a->state,
                              hf_rpc_call_may(call)->restarts);
    hf_nlm_answer_when_durable(call, HF_NLM_FREE_ALL, &NO_COOKIE, &answer);
}

/* Procedure 16 is accepted only from the status monitor of this host. */
void hf_nlm_on_sm_notify(struct hf_rpc_call *call, void *raw)
{
    struct hf_nlm *nlm = nlm_of(call);
    struct hf_service *service = nlm->service;
    const nlm_sm_status *a = raw;
    struct hf_answer answer = {.stat = HF_STAT_GRANTED};
    struct hf_sm_answer decided;

    if (!hf_rpc_call_may(call)->speaks_for_hosts) {
        nlm->refused_callers++;
        hf_log_limited(HF_LOG_WARN, "refused: host restarted (NLM procedure 16)",
                       HF_ADDR("from", &call->peer));
        hf_rpc_reply_error(call, HF_RPC_SYSTEM_ERR);
        return;
    }
    if (is_postponed(call))
        return;
    if (!service->store_up) {
        hf_nlm_answer_now(call, HF_NLM_SM_NOTIFY, &NO_COOKIE, HF_STAT_DENIED_NOLOCKS);
        return;
    }
    decided = hf_core_host_restarted(
        service->core, hf_service_now(service),
        hf_bytes(a->mon_name.nlm_string_val, a->mon_name.nlm_string_len), a->state);
    /* The call of the monitor is left unanswered, so that the monitor repeats it. */
    if (!decided.ok)
        answer.stat = HF_STAT_DENIED_NOLOCKS;
    answer.ticket = decided.ticket;
    hf_nlm_answer_when_durable(call, HF_NLM_SM_NOTIFY, &NO_COOKIE, &answer);
}

/* This server never waits for a lock at another server, so no GRANTED can be meant for it. */
void hf_nlm_on_granted(struct hf_rpc_call *call, void *raw)
{
    nlm4_testargs store;
    const nlm4_testargs *a = hf_nlm_testargs_v4(call, raw, &store);

    hf_nlm_answer_now(call, HF_NLM_GRANTED, &a->cookie, HF_STAT_DENIED);
}

/* Takes a GRANTED_RES, the answer to a GRANTED_MSG of ours; its cookie is the id of our call
 * (callback.c). */
void hf_nlm_on_granted_res(struct hf_rpc_call *call, void *raw)
{
    struct hf_nlm *nlm = nlm_of(call);
    nlm4_res store;
    const nlm4_res *a = hf_nlm_res_v4(call, raw, &store);
    struct hf_peer peer = {.addr = call->peer, .local = call->local};
    uint64_t id;

    if (is_postponed(call))
        return;
    nlm->answers[HF_NLM_RES][HF_STAT_GRANTED]++;
    /* A client that is in its own grace period neither accepts nor denies: the callback is
     * repeated, as in callback.c. */
    if (a->cookie.nlm_obj_len == sizeof(id) && a->stat.stat != NLM4_DENIED_GRACE_PERIOD) {
        memcpy(&id, a->cookie.nlm_obj_val, sizeof(id));
        id = be64toh(id);
        /* A denial may answer the second copy of a message whose first copy was accepted
         * (callback.c). */
        hf_core_granted_res(nlm->service->core, hf_service_now(nlm->service), &peer, id,
                            a->stat.stat == NLM4_GRANTED || hf_nlm_callback_is_repeated(nlm, id));
        hf_nlm_callback_answered(nlm, id, &call->peer, a->stat.stat == NLM4_GRANTED);
    }
    hf_rpc_reply_void(call);
}

/* Ignores answers to messages that this server never sends. */
void hf_nlm_on_ignored_res(struct hf_rpc_call *call, void *args)
{
    (void)args;
    nlm_of(call)->answers[HF_NLM_RES][HF_STAT_GRANTED]++;
    hf_rpc_reply_void(call);
}
