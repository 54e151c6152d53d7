#include <endian.h>
#include <string.h>

#include "base/log.h"
#include "nlm/nlm_private.h"

/* What hosts say of themselves: FREE_ALL, "host restarted" (16), and answers to our callbacks. */

static const nlm_obj NO_COOKIE = {0, NULL};

void on_null(struct hf_rpc_call *call, void *args)
{
    (void)args;
    nlm_of(call)->answers[HF_NLM_NULL][HF_STAT_GRANTED]++;
    hf_rpc_reply_void(call);
}

/* NLM-05. Bound to the calling address: a name alone frees nobody's locks. */
void on_free_all(struct hf_rpc_call *call, void *raw)
{
    struct hf_nlm *nlm = nlm_of(call);
    const nlm_notify *a = raw;
    struct hf_peer peer;
    struct hf_answer answer;

    if (!*nlm->config.store_up) {
        answer_now(call, HF_NLM_FREE_ALL, &NO_COOKIE, HF_STAT_DENIED_NOLOCKS);
        return;
    }
    if (!peer_of(call, &a->name, &peer)) {
        answer_now(call, HF_NLM_FREE_ALL, &NO_COOKIE, HF_STAT_FAILED);
        return;
    }
    answer = hf_core_free_all(nlm->config.core, now_of(nlm), &peer);
    answer_when_durable(call, HF_NLM_FREE_ALL, &NO_COOKIE, &answer);
}

/* Procedure 16, from the status monitor of this very host and nobody else. */
void on_sm_notify(struct hf_rpc_call *call, void *raw)
{
    struct hf_nlm *nlm = nlm_of(call);
    const nlm_sm_status *a = raw;
    struct hf_answer answer = {.stat = HF_STAT_GRANTED};

    if (!hf_addr_is_loopback(&call->peer) || !hf_addr_is_reserved_port(&call->peer)) {
        nlm->refused_callers++;
        hf_log_limited(HF_LOG_WARN, "refused: host restarted (NLM procedure 16)",
                       HF_ADDR("from", &call->peer));
        hf_rpc_reply_error(call, HF_RPC_SYSTEM_ERR);
        return;
    }
    if (!*nlm->config.store_up) {
        answer_now(call, HF_NLM_SM_NOTIFY, &NO_COOKIE, HF_STAT_DENIED_NOLOCKS);
        return;
    }
    answer.seq = hf_core_host_restarted(
        nlm->config.core, now_of(nlm),
        hf_bytes(a->mon_name.nlm_string_val, a->mon_name.nlm_string_len), a->state);
    answer_when_durable(call, HF_NLM_SM_NOTIFY, &NO_COOKIE, &answer);
}

/* We wait for no lock at any other server, so a grant is never for us. */
void on_granted(struct hf_rpc_call *call, void *raw)
{
    nlm4_testargs store;
    const nlm4_testargs *a = testargs_v4(call, raw, &store);

    answer_now(call, HF_NLM_GRANTED, &a->cookie, HF_STAT_DENIED);
}

/* The answer to a GRANTED_MSG; its cookie is the one we made up (callback.c). */
void on_granted_res(struct hf_rpc_call *call, void *raw)
{
    struct hf_nlm *nlm = nlm_of(call);
    nlm4_res store;
    const nlm4_res *a = res_v4(call, raw, &store);
    struct hf_peer peer = {.addr = call->peer, .local = call->local};
    uint64_t id;

    nlm->answers[HF_NLM_RES][HF_STAT_GRANTED]++;
    /* One that is in grace itself says neither yes nor no: it is asked again, as in callback.c. */
    if (a->cookie.nlm_obj_len == sizeof(id) && a->stat.stat != NLM4_DENIED_GRACE_PERIOD) {
        memcpy(&id, a->cookie.nlm_obj_val, sizeof(id));
        id = be64toh(id);
        hf_core_granted_res(nlm->config.core, now_of(nlm), &peer, id, a->stat.stat == NLM4_GRANTED);
    }
    hf_rpc_reply_void(call);
}

/* The answers to messages that we never send. */
void on_ignored_res(struct hf_rpc_call *call, void *args)
{
    (void)args;
    nlm_of(call)->answers[HF_NLM_RES][HF_STAT_GRANTED]++;
    hf_rpc_reply_void(call);
}
