#include "nlm/nlm_private.h"

/* Serves SHARE and UNSHARE, which reserve whole files by the DOS sharing modes. */

typedef struct hf_answer (*ask_core)(struct hf_core *core, struct hf_now now,
                                     const struct hf_peer *peer, const struct hf_share_args *args);

static void share(struct hf_rpc_call *call, enum hf_nlm_kind kind, void *raw,
                  ask_core core_function)
{
    struct hf_service *service = nlm_of(call)->service;
    nlm4_shareargs store;
    const nlm4_shareargs *a = hf_nlm_shareargs_v4(call, raw, &store);
    struct hf_answer answer;
    struct hf_peer peer;
    struct hf_share_args args = {
        .fh = from_obj(&a->share.fh),
        .oh = from_obj(&a->share.oh),
        .mode = a->share.mode,
        .access = a->share.access,
        .reclaim = a->reclaim,
    };

    if ((kind == HF_NLM_UNSHARE || args.reclaim) && is_postponed(call))
        return;
    if (service->loading) {
        hf_nlm_answer_now(call, kind, &a->cookie, HF_STAT_DENIED_GRACE_PERIOD);
        return;
    }
    /*
     * SPEC section 5: nothing is granted while the store is down, not even what is not durable, as
     * NM_LOCK. UNSHARE promises nothing and is served. Where answers to SHARE wait for a commit, a
     * SHARE stays unanswered now: its share may have been given before without the answer leaving,
     * and shares are not undone, so a repeat must not be refused.
     */
    if (kind == HF_NLM_SHARE && !service->store_up) {
        if (service->shares_wait)
            hf_rpc_reply_never(call);
        else
            hf_nlm_answer_now(call, kind, &a->cookie, HF_STAT_DENIED_NOLOCKS);
        return;
    }
    /* The XDR codec does not check the values of enumerations. */
    if (!hf_nlm_peer_of(call, &a->share.caller_name, &peer) || args.mode > fsm_DRW ||
        args.access > fsa_RW) {
        hf_nlm_answer_now(call, kind, &a->cookie, HF_STAT_FAILED);
    } else if (!hf_nlm_handle_is_possible(&a->share.fh)) {
        hf_nlm_answer_now(call, kind, &a->cookie, HF_STAT_STALE_FH);
    } else if (kind == HF_NLM_SHARE && hf_nlm_is_foreign(call, &a->share.fh)) {
        hf_nlm_answer_now(call, kind, &a->cookie, HF_STAT_DENIED_NOLOCKS);
    } else {
        answer = core_function(service->core, hf_service_now(service), &peer, &args);
        hf_nlm_answer_when_durable(call, kind, &a->cookie, &answer);
    }
}

void hf_nlm_on_share(struct hf_rpc_call *call, void *args)
{
    share(call, HF_NLM_SHARE, args, hf_core_share);
}

void hf_nlm_on_unshare(struct hf_rpc_call *call, void *args)
{
    share(call, HF_NLM_UNSHARE, args, hf_core_unshare);
}
