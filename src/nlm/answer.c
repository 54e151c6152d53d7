#include <string.h>

#include "nlm/nlm_private.h"

enum { RES_TIMEOUT_MS = 5000 };

/* ---- encoding in the version of the request ---- */

/* NLM versions 1 and 3 have only the first five statuses; any other becomes a denial. */
static nlm_stats stat_v3(const struct answer *a)
{
    if (a->stat <= HF_STAT_DENIED_GRACE_PERIOD)
        return (nlm_stats)a->stat;
    /* A denied TEST must name a holder, and this denial has none to name. */
    return a->kind == HF_NLM_TEST ? LCK_DENIED_NOLOCKS : LCK_DENIED;
}

/* Clamps a holder's range beyond 32 bits instead of truncating it, so that "from there to the end
 * of the file" stays true. */
static nlm_holder holder_v3(const struct hf_holder *h)
{
    uint64_t end = h->length == 0 ? UINT64_MAX : h->offset + h->length - 1;

    return (nlm_holder){
        .exclusive = h->exclusive,
        .svid = h->svid,
        .oh = to_obj(h->oh),
        .l_offset = h->offset > UINT32_MAX ? UINT32_MAX : (u_int)h->offset,
        .l_len = end > UINT32_MAX ? 0 : (u_int)h->length,
    };
}

union results {
    nlm_testres test3;
    nlm4_testres test4;
    nlm_res res3;
    nlm4_res res4;
    nlm_shareres share3;
    nlm4_shareres share4;
};

static hf_codec build_test(const struct answer *a, union results *out)
{
    const struct hf_holder *h = &a->holder;

    if (a->vers == NLM4_VERS) {
        out->test4 =
            (nlm4_testres){.cookie = to_obj(a->cookie), .test_stat = {.stat = (nlm4_stats)a->stat}};
        out->test4.test_stat.nlm4_testrply_u.holder =
            (nlm4_holder){h->exclusive, h->svid, to_obj(h->oh), h->offset, h->length};
        return xdr_nlm4_testres;
    }
    out->test3 = (nlm_testres){.cookie = to_obj(a->cookie), .test_stat = {.stat = stat_v3(a)}};
    out->test3.test_stat.nlm_testrply_u.holder = holder_v3(h);
    return xdr_nlm_testres;
}

static hf_codec build_share(const struct answer *a, union results *out)
{
    if (a->vers == NLM4_VERS) {
        out->share4 = (nlm4_shareres){to_obj(a->cookie), (nlm4_stats)a->stat, 0};
        return xdr_nlm4_shareres;
    }
    out->share3 = (nlm_shareres){to_obj(a->cookie), stat_v3(a), 0};
    return xdr_nlm_shareres;
}

static hf_codec build(const struct answer *a, union results *out)
{
    switch (a->kind) {
    case HF_NLM_TEST:
        return build_test(a, out);
    case HF_NLM_SHARE:
    case HF_NLM_UNSHARE:
        return build_share(a, out);
    default:
        break;
    }
    if (a->vers == NLM4_VERS) {
        out->res4 = (nlm4_res){to_obj(a->cookie), {(nlm4_stats)a->stat}};
        return xdr_nlm4_res;
    }
    out->res3 = (nlm_res){to_obj(a->cookie), {stat_v3(a)}};
    return xdr_nlm_res;
}

/* ---- timing ---- */

/* Counts the time of an answer that waited for a batch: all answers to one batch leave when its
 * result arrives. */
static void time_waited(struct hf_nlm *nlm, const struct answer *a)
{
    uint64_t done_ns = nlm->service->batch_done_ns;

    if (a->received_ns && done_ns >= a->received_ns)
        hf_histogram_observe(&nlm->durations_ns[a->kind], done_ns - a->received_ns);
}

static void close_prompt(struct hf_nlm *nlm, uint64_t now_ns)
{
    struct hf_nlm_prompt *prompt = &nlm->prompt;

    for (unsigned k = 0; k < HF_NLM_KINDS; k++) {
        if (prompt->n[k] > 0)
            hf_histogram_observe_n(&nlm->durations_ns[k], now_ns - prompt->received_ns,
                                   prompt->n[k]);
    }
    *prompt = (struct hf_nlm_prompt){0};
}

static void time_prompt(struct hf_nlm *nlm, const struct answer *a)
{
    if (a->received_ns != nlm->prompt.received_ns) {
        if (nlm->prompt.received_ns)
            close_prompt(nlm, a->received_ns);
        nlm->prompt.received_ns = a->received_ns;
    }
    nlm->prompt.n[a->kind] += a->received_ns != 0;
}

void hf_nlm_end_turn(struct hf_nlm *nlm)
{
    if (nlm->prompt.received_ns)
        close_prompt(nlm, uv_hrtime());
}

/* ---- sending ---- */

/* The outcome of a _RES call is ignored: a client that did not get the call repeats its request. */
static void on_res_done(void *ctx, const struct hf_rpc_response *response)
{
    (void)ctx;
    (void)response;
}

static void send_res(struct hf_nlm *nlm, const struct answer *a)
{
    union results results;
    struct hf_rpc_outcall_args rpc = {
        .peer = a->peer,
        .local = a->local,
        .transport = a->transport,
        .remember_port = true,
        .listening_port = true,
        .expendable = true,
        .provoked = a->transport == HF_TRANSPORT_UDP,
        .prog = NLM_PROG,
        .vers = a->vers,
        .proc = (uint32_t)a->kind + RES_OFFSET,
        .timeout_ms = RES_TIMEOUT_MS,
        .encode = build(a, &results),
        .args = &results,
    };

    rpc.peer.port = 0;
    rpc.local.port = 0;
    (void)hf_rpc_client_call(nlm->client, &rpc, on_res_done, NULL, NULL);
}

/*
 * True for refusals that are not sent. A client whose UNLOCK, CANCEL or UNSHARE is refused forgets
 * the lock, the wait or the share nevertheless, and the server would keep it for ever; without an
 * answer the client asks again until there is memory, or the store is back. FREE_ALL and SM_NOTIFY
 * have void results, which cannot express a refusal. A SHARE whose answer waited for a batch is not
 * undone when the batch fails, so it is not refused either: its repeat is answered.
 */
static bool is_left_unanswered(const struct answer *a)
{
    if (a->stat != HF_STAT_DENIED_NOLOCKS)
        return false;
    switch (a->kind) {
    case HF_NLM_UNLOCK:
    case HF_NLM_CANCEL:
    case HF_NLM_UNSHARE:
        return true;
    case HF_NLM_SHARE:
        return a->store_failed;
    default:
        return a->kind == HF_NLM_FREE_ALL || a->kind == HF_NLM_SM_NOTIFY;
    }
}

/* call is NULL for a message form, whose RPC call was answered when it arrived. */
static void deliver(struct hf_nlm *nlm, struct hf_rpc_call *call, const struct answer *a)
{
    union results results;
    hf_codec encode;

    nlm->answers[a->kind][a->stat]++;
    if (is_left_unanswered(a)) {
        if (call)
            hf_rpc_reply_never(call);
    } else if (!call) {
        send_res(nlm, a);
    } else if (a->kind == HF_NLM_FREE_ALL || a->kind == HF_NLM_SM_NOTIFY) {
        hf_rpc_reply_void_if_paid(call);
    } else {
        encode = build(a, &results);
        hf_rpc_reply(call, encode, &results);
    }
}

/* Leaves the holder's owner handle out of an answer to TEST that would be longer than SEC-03
 * allows; clients have no use for that handle. */
static void fit_holder(const struct hf_rpc_call *call, struct answer *a)
{
    /* Room for the cookie's length, the status and the holder's other fields. */
    enum { FIXED = 64 };

    if (a->holder.oh.len > 0 && FIXED + a->cookie.len + a->holder.oh.len > hf_rpc_reply_room(call))
        a->holder.oh = hf_bytes(NULL, 0);
}

/* ---- waiting ---- */

/* An answer that may have to wait for its batch. The link of `waiter` keeps it in nlm->pending. */
struct pending_answer {
    struct hf_commit_waiter waiter;
    struct hf_nlm *nlm;
    struct hf_rpc_call *call; /* NULL: a message form, whose RPC call has been answered */
    struct answer answer;
    /* GRANTED callbacks that the answer waits for once its batch is durable. */
    struct callbacks awaited;
    /* A copy of the cookie, then of the holder's owner handle, while the answer waits. */
    struct hf_buf copy;
};

/* Gives up a pending answer for want of memory or room; the client repeats its request. */
static void pending_drop(struct pending_answer *pending)
{
    if (pending->call)
        hf_rpc_reply_never(pending->call);
    hf_pool_give(&pending->nlm->pending, pending);
}

static void on_durable(struct hf_commit_waiter *waiter, bool durable)
{
    struct pending_answer *pending = hf_container_of(waiter, struct pending_answer, waiter);
    struct hf_nlm *nlm = pending->nlm;
    struct hf_ticket callback = {
        .decision = durable ? hf_nlm_callback_in_flight(nlm, &pending->awaited) : 0};

    if (callback.decision != 0) {
        if (hf_service_may_wait(nlm->service, callback, waiter->place))
            (void)hf_service_when(nlm->service, callback, waiter, on_durable);
        else
            pending_drop(pending);
        return;
    }
    if (waiter->ticket.seq == 0 && waiter->ticket.decision == 0)
        time_prompt(nlm, &pending->answer);
    else
        time_waited(nlm, &pending->answer);
    /* SPEC section 5: the store refused the batch, so nothing is promised. */
    if (!durable) {
        pending->answer.stat = HF_STAT_DENIED_NOLOCKS;
        pending->answer.store_failed = true;
    }
    deliver(nlm, pending->call, &pending->answer);
    hf_pool_give(&nlm->pending, pending);
}

static struct pending_answer *pending_take(struct hf_nlm *nlm)
{
    struct pending_answer *pending = hf_pool_take(&nlm->pending);

    if (pending && !pending->nlm) { /* a new object of the pool is all zero */
        pending->nlm = nlm;
        hf_buf_init(&pending->copy, nlm->service->alloc);
    }
    return pending;
}

/* Copies the arguments and the core's bytes that the answer points to, because neither outlives
 * this request. */
static bool pending_copy(struct pending_answer *pending)
{
    struct answer *a = &pending->answer;

    hf_buf_clear(&pending->copy);
    if (hf_buf_append(&pending->copy, a->cookie.data, a->cookie.len) < 0 ||
        hf_buf_append(&pending->copy, a->holder.oh.data, a->holder.oh.len) < 0)
        return false;
    a->cookie.data = hf_buf_view(&pending->copy).data;
    a->holder.oh.data = a->cookie.data + a->cookie.len;
    return true;
}

/* Copies the bytes of an answer that already waits, or gives the answer up without memory. */
static void pending_keep(struct pending_answer *pending)
{
    if (!pending_copy(pending)) {
        hf_service_forget(pending->nlm->service, &pending->waiter);
        pending_drop(pending);
    }
}

void hf_nlm_answers_init(struct hf_nlm *nlm)
{
    hf_pool_init(&nlm->pending, nlm->service->alloc, sizeof(struct pending_answer));
    hf_nlm_parked_init(nlm);
}

void hf_nlm_free(struct hf_nlm *nlm)
{
    struct pending_answer *pending;

    hf_nlm_callbacks_del(nlm);
    hf_nlm_parked_free(nlm);
    while ((pending = hf_pool_pop(&nlm->pending))) {
        hf_buf_free(&pending->copy);
        hf_free(nlm->service->alloc, pending);
    }
}

/* ---- answering ---- */

/* Returns the place of the caller's account. Must be called before the call is answered, which
 * frees the call. */
static uint32_t place_of(const struct hf_rpc_call *call)
{
    return hf_service_place_of(nlm_of(call)->service, hf_rpc_call_account(call));
}

static bool names_holder(enum hf_nlm_kind kind, const struct hf_answer *core_answer)
{
    return kind == HF_NLM_TEST && core_answer->stat == HF_STAT_DENIED;
}

/* Begins an answer, which is sent later. Returns NULL without memory: the client repeats its
 * request. */
static struct pending_answer *pending_begin(struct hf_rpc_call *call, enum hf_nlm_kind kind,
                                            const nlm_obj *cookie,
                                            const struct hf_answer *core_answer)
{
    struct pending_answer *pending = pending_take(nlm_of(call));
    struct answer *a;

    if (!pending) {
        hf_rpc_reply_never(call);
        return NULL;
    }
    pending->call = call;
    pending->awaited = (struct callbacks){0};
    a = &pending->answer;
    a->kind = kind;
    a->vers = call->header.vers;
    a->stat = core_answer->stat;
    a->store_failed = false;
    a->cookie = from_obj(cookie);
    a->holder = names_holder(kind, core_answer) ? core_answer->holder : (struct hf_holder){0};
    fit_holder(call, a);
    a->peer = call->peer;
    a->local = call->local;
    a->transport = call->transport;
    a->received_ns = call->received_ns;
    if (is_message(call)) {
        /*
         * The RPC reply to a message only says that the message has arrived; it promises nothing.
         */
        hf_rpc_reply_void(call);
        pending->call = NULL;
    }
    return pending;
}

void hf_nlm_answer_when_durable(struct hf_rpc_call *call, enum hf_nlm_kind kind,
                                const nlm_obj *cookie, const struct hf_answer *core_answer)
{
    struct hf_nlm *nlm = nlm_of(call);
    uint32_t place = core_answer->ticket.decision != 0 ? place_of(call) : 0;
    struct pending_answer *pending = pending_begin(call, kind, cookie, core_answer);

    if (!pending)
        return;
    pending->waiter.place = place;
    if (!hf_service_may_wait(nlm->service, core_answer->ticket, place))
        pending_drop(pending);
    else if (!hf_service_when(nlm->service, core_answer->ticket, &pending->waiter, on_durable))
        pending_keep(pending);
}

void hf_nlm_answer_after_callbacks(struct hf_rpc_call *call, enum hf_nlm_kind kind,
                                   const nlm_obj *cookie, const struct hf_answer *core_answer,
                                   const struct callbacks *awaited)
{
    struct hf_nlm *nlm = nlm_of(call);
    uint32_t place = place_of(call);
    struct pending_answer *pending = pending_begin(call, kind, cookie, core_answer);

    if (!pending)
        return;
    pending->waiter.place = place;
    pending->awaited = *awaited;
    if (pending_copy(pending))
        (void)hf_service_when(nlm->service, (struct hf_ticket){.seq = core_answer->ticket.seq},
                              &pending->waiter, on_durable);
    else
        pending_drop(pending);
}

void hf_nlm_answer_now(struct hf_rpc_call *call, enum hf_nlm_kind kind, const nlm_obj *cookie,
                       enum hf_stat stat)
{
    struct hf_answer answer = {.stat = stat};

    hf_nlm_answer_when_durable(call, kind, cookie, &answer);
}
