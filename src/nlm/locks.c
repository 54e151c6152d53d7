#include <string.h>

#include "base/log.h"
#include "nlm/nlm_private.h"

/*
 * Serves TEST, LOCK, CANCEL, UNLOCK and NM_LOCK: checks the arguments and passes them to the core.
 */

bool hf_nlm_peer_of(const struct hf_rpc_call *call, const nlm_string *name, struct hf_peer *out)
{
    const char *bytes = name->nlm_string_val;
    size_t len = name->nlm_string_len;

    if (len == 0 || memchr(bytes, '\0', len))
        return false;
    *out = (struct hf_peer){
        .name = hf_bytes(bytes, len),
        .addr = call->peer,
        .local = call->local,
        .transport = call->transport,
        .account = *hf_rpc_call_account(call),
    };
    out->addr.port = 0;
    out->local.port = 0;
    return true;
}

bool hf_nlm_handle_is_possible(const nlm_obj *fh)
{
    return fh->nlm_obj_len > 0 && fh->nlm_obj_len <= NFS3_FHSIZE;
}

/*
 * Makes the checks that all requests on a lock share. HF_STAT_GRANTED: the request goes on; any
 * other status is the answer. CANCEL promises nothing, so it is served while the store is down,
 * too.
 */
static enum hf_stat open_request(const struct hf_rpc_call *call, enum hf_nlm_kind kind,
                                 const nlm4_lock *lock, struct hf_peer *peer,
                                 struct hf_lock_args *args)
{
    if (nlm_of(call)->service->loading)
        return HF_STAT_DENIED_GRACE_PERIOD;
    if (!nlm_of(call)->service->store_up && kind != HF_NLM_CANCEL)
        /* SPEC section 5: while the store is down nothing can be promised. */
        return HF_STAT_DENIED_NOLOCKS;
    if (!hf_nlm_peer_of(call, &lock->caller_name, peer))
        return HF_STAT_FAILED;
    if (!hf_nlm_handle_is_possible(&lock->fh))
        return HF_STAT_STALE_FH;
    *args = (struct hf_lock_args){
        .fh = from_obj(&lock->fh),
        .oh = from_obj(&lock->oh),
        .svid = lock->svid,
        .offset = lock->l_offset,
        .length = lock->l_len,
        .version = (uint8_t)call->header.vers,
        .msg = is_message(call),
    };
    return HF_STAT_GRANTED;
}

typedef struct hf_answer (*ask_core)(struct hf_core *core, struct hf_now now,
                                     const struct hf_peer *peer, const struct hf_lock_args *args);

/* Answers an UNLOCK when the GRANTED callbacks for its range are over. A client that is told
 * "unlocked" may wait for the range again, and would take an earlier callback for its new grant. */
static void unlock(struct hf_rpc_call *call, const nlm_obj *cookie, const struct hf_peer *peer,
                   const struct hf_lock_args *args)
{
    struct hf_nlm *nlm = nlm_of(call);
    struct callbacks overtaken = hf_nlm_callbacks_overtaken(nlm, peer, args);
    struct hf_answer answer =
        hf_core_unlock(nlm->service->core, hf_service_now(nlm->service), peer, args);

    if (answer.claim != 0)
        hf_nlm_park(call, HF_NLM_UNLOCK, cookie, peer, args, answer.claim);
    else if (answer.silent)
        hf_rpc_reply_never(call);
    else if (hf_nlm_callback_in_flight(nlm, &overtaken) != 0)
        hf_nlm_answer_after_callbacks(call, HF_NLM_UNLOCK, cookie, &answer, &overtaken);
    else
        hf_nlm_answer_when_durable(call, HF_NLM_UNLOCK, cookie, &answer);
}

static void ask(struct hf_rpc_call *call, enum hf_nlm_kind kind, const nlm_obj *cookie,
                ask_core core_function, const struct hf_peer *peer, const struct hf_lock_args *args)
{
    struct hf_service *service = nlm_of(call)->service;
    struct hf_answer answer;

    answer = core_function(service->core, hf_service_now(service), peer, args);
    if (answer.claim != 0)
        hf_nlm_park(call, kind, cookie, peer, args, answer.claim);
    else if (answer.silent)
        hf_rpc_reply_never(call);
    else
        hf_nlm_answer_when_durable(call, kind, cookie, &answer);
}

void hf_nlm_ask_again(struct hf_rpc_call *call, enum hf_nlm_kind kind, const nlm_obj *cookie,
                      const struct hf_peer *peer, const struct hf_lock_args *args)
{
    if (kind == HF_NLM_UNLOCK)
        unlock(call, cookie, peer, args);
    else if (kind == HF_NLM_CANCEL)
        ask(call, kind, cookie, hf_core_cancel, peer, args);
    else if (kind == HF_NLM_TEST)
        ask(call, kind, cookie, hf_core_test, peer, args);
    else
        ask(call, kind, cookie, hf_core_lock, peer, args);
}

bool hf_nlm_is_foreign(struct hf_rpc_call *call, const nlm_obj *fh)
{
    struct hf_nlm *nlm = nlm_of(call);
    struct hf_bytes export_name;

    if (!hf_core_is_foreign(nlm->service->core, from_obj(fh), &export_name))
        return false;
    nlm->refused_foreign++;
    hf_log_limited(HF_LOG_WARN, "refused: a lock in an export of another service",
                   HF_BYTES("export", export_name), HF_ADDR("from", &call->peer));
    return true;
}

void hf_nlm_on_test(struct hf_rpc_call *call, void *raw)
{
    nlm4_testargs store;
    const nlm4_testargs *a = hf_nlm_testargs_v4(call, raw, &store);
    struct hf_lock_args args;
    struct hf_peer peer;
    enum hf_stat stat = open_request(call, HF_NLM_TEST, &a->alock, &peer, &args);

    if (stat == HF_STAT_GRANTED && hf_nlm_is_foreign(call, &a->alock.fh))
        stat = HF_STAT_DENIED_NOLOCKS;
    if (stat != HF_STAT_GRANTED) {
        hf_nlm_answer_now(call, HF_NLM_TEST, &a->cookie, stat);
        return;
    }
    args.exclusive = a->exclusive;
    ask(call, HF_NLM_TEST, &a->cookie, hf_core_test, &peer, &args);
}

static void lock(struct hf_rpc_call *call, enum hf_nlm_kind kind, const nlm4_lockargs *a)
{
    struct hf_lock_args args;
    struct hf_peer peer;
    enum hf_stat stat = open_request(call, kind, &a->alock, &peer, &args);

    if (a->reclaim && is_postponed(call))
        return;
    if (stat == HF_STAT_GRANTED && hf_nlm_is_foreign(call, &a->alock.fh))
        stat = HF_STAT_DENIED_NOLOCKS;
    if (stat != HF_STAT_GRANTED) {
        hf_nlm_answer_now(call, kind, &a->cookie, stat);
        return;
    }
    args.exclusive = a->exclusive;
    args.block = a->block;
    args.reclaim = a->reclaim;
    args.state = a->state;
    args.unmonitored = kind == HF_NLM_NM_LOCK;
    ask(call, kind, &a->cookie, hf_core_lock, &peer, &args);
}

void hf_nlm_on_lock(struct hf_rpc_call *call, void *raw)
{
    nlm4_lockargs store;

    lock(call, HF_NLM_LOCK, hf_nlm_lockargs_v4(call, raw, &store));
}

void hf_nlm_on_nm_lock(struct hf_rpc_call *call, void *raw)
{
    nlm4_lockargs store;

    lock(call, HF_NLM_NM_LOCK, hf_nlm_lockargs_v4(call, raw, &store));
}

void hf_nlm_on_cancel(struct hf_rpc_call *call, void *raw)
{
    nlm4_cancargs store;
    const nlm4_cancargs *a = hf_nlm_cancargs_v4(call, raw, &store);
    struct hf_lock_args args;
    struct hf_peer peer;
    enum hf_stat stat = open_request(call, HF_NLM_CANCEL, &a->alock, &peer, &args);

    if (is_postponed(call))
        return;
    if (stat != HF_STAT_GRANTED) {
        hf_nlm_answer_now(call, HF_NLM_CANCEL, &a->cookie, stat);
        return;
    }
    args.exclusive = a->exclusive;
    args.block = a->block;
    ask(call, HF_NLM_CANCEL, &a->cookie, hf_core_cancel, &peer, &args);
}

void hf_nlm_on_unlock(struct hf_rpc_call *call, void *raw)
{
    nlm4_unlockargs store;
    const nlm4_unlockargs *a = hf_nlm_unlockargs_v4(call, raw, &store);
    struct hf_lock_args args;
    struct hf_peer peer;
    enum hf_stat stat = open_request(call, HF_NLM_UNLOCK, &a->alock, &peer, &args);

    if (is_postponed(call))
        return;
    if (stat != HF_STAT_GRANTED) {
        hf_nlm_answer_now(call, HF_NLM_UNLOCK, &a->cookie, stat);
        return;
    }
    unlock(call, &a->cookie, &peer, &args);
}
