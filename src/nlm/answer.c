#include <string.h>

#include "base/check.h"
#include "core/plant.h"
#include "nlm/nlm_private.h"

enum { RES_TIMEOUT_MS = 5000 };

/* ---- the form of the version that asked ---- */

/* Versions 1 and 3 know the first five; whatever else went wrong is, to them, a denial. */
static nlm_stats stat_v3(const struct answer *a)
{
    if (a->stat <= HF_STAT_DENIED_GRACE_PERIOD)
        return (nlm_stats)a->stat;
    /* A denied TEST carries a holder, and here there is none. */
    return a->kind == HF_NLM_TEST ? LCK_DENIED_NOLOCKS : LCK_DENIED;
}

/* A holder beyond 32 bits is clamped, not truncated: "from there to the end" stays true. */
static nlm_holder holder_v3(const struct hf_holder *h)
{
    uint64_t end = h->length == 0 ? UINT64_MAX : h->offset + h->length - 1;

    if (HF_PLANTED(NLM_HOLDER_TRUNCATED))
        return (nlm_holder){h->exclusive, h->svid, to_obj(h->oh), (u_int)h->offset,
                            (u_int)h->length};
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

static xdrproc_t build_test(const struct answer *a, union results *out)
{
    const struct hf_holder *h = &a->holder;

    if (a->vers == NLM4_VERS) {
        out->test4 =
            (nlm4_testres){.cookie = to_obj(a->cookie), .test_stat = {.stat = (nlm4_stats)a->stat}};
        out->test4.test_stat.nlm4_testrply_u.holder =
            (nlm4_holder){h->exclusive, h->svid, to_obj(h->oh), h->offset, h->length};
        return (xdrproc_t)xdr_nlm4_testres;
    }
    out->test3 = (nlm_testres){.cookie = to_obj(a->cookie), .test_stat = {.stat = stat_v3(a)}};
    out->test3.test_stat.nlm_testrply_u.holder = holder_v3(h);
    return (xdrproc_t)xdr_nlm_testres;
}

static xdrproc_t build_share(const struct answer *a, union results *out)
{
    if (a->vers == NLM4_VERS) {
        out->share4 = (nlm4_shareres){to_obj(a->cookie), (nlm4_stats)a->stat, 0};
        return (xdrproc_t)xdr_nlm4_shareres;
    }
    out->share3 = (nlm_shareres){to_obj(a->cookie), stat_v3(a), 0};
    return (xdrproc_t)xdr_nlm_shareres;
}

static xdrproc_t build(const struct answer *a, union results *out)
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
        return (xdrproc_t)xdr_nlm4_res;
    }
    out->res3 = (nlm_res){to_obj(a->cookie), {stat_v3(a)}};
    return (xdrproc_t)xdr_nlm_res;
}

/* ---- timing ---- */

static void time_kept(struct hf_nlm *nlm, const struct answer *a)
{
    if (a->received_ns && nlm->settled_ns >= a->received_ns)
        hf_histogram_observe(&nlm->durations_ns[a->kind], nlm->settled_ns - a->received_ns);
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

void hf_nlm_turn_over(struct hf_nlm *nlm)
{
    if (nlm->prompt.received_ns)
        close_prompt(nlm, uv_hrtime());
}

/* ---- sending ---- */

/* Nobody waits for how a _RES fared: a client that missed it asks again. */
static void on_res_done(void *ctx, const struct hf_rpc_response *response)
{
    (void)ctx;
    (void)response;
}

static void send_res(struct hf_nlm *nlm, const struct answer *a)
{
    union results results;
    struct hf_rpc_request request = {
        .peer = a->peer,
        .local = a->local,
        .path = a->transport == HF_RPC_TCP ? HF_RPC_BY_TCP : HF_RPC_BY_UDP,
        .remember_port = true,
        .listening_port = true,
        .prog = NLM_PROG,
        .vers = a->vers,
        .proc = (uint32_t)a->kind + RES_OFFSET,
        .timeout_ms = RES_TIMEOUT_MS,
        .encode = build(a, &results),
        .args = &results,
    };

    request.peer.port = 0;
    request.local.port = 0;
    (void)hf_rpc_client_call(nlm->config.client, &request, on_res_done, NULL, NULL);
}

/*
 * Where silence is the better refusal. A client that is told "no" to an UNLOCK forgets the lock all
 * the same, and it would stay held here; unanswered, it asks again until the store is back. (Not
 * so at a limit, which lasts: it would ask for ever.) And a void answer cannot say "no".
 */
static bool better_unsaid(const struct answer *a)
{
    return a->stat == HF_STAT_DENIED_NOLOCKS &&
           ((a->kind == HF_NLM_UNLOCK && a->store_failed) || a->kind == HF_NLM_FREE_ALL ||
            a->kind == HF_NLM_SM_NOTIFY);
}

/* call is NULL where the RPC call was answered before: a message. */
static void deliver(struct hf_nlm *nlm, struct hf_rpc_call *call, const struct answer *a)
{
    union results results;
    xdrproc_t encode;

    nlm->answers[a->kind][a->stat]++;
    if (better_unsaid(a)) {
        if (call)
            hf_rpc_reply_never(call);
    } else if (!call) {
        send_res(nlm, a);
    } else if (a->kind == HF_NLM_FREE_ALL || a->kind == HF_NLM_SM_NOTIFY) {
        hf_rpc_reply_void(call);
    } else {
        encode = build(a, &results);
        hf_rpc_reply(call, encode, &results);
    }
}

/* ---- keeping ---- */

/* An answer that waits for its batch, with its own copy of what it echoes. */
struct kept {
    struct hf_later later;
    struct hf_nlm *nlm;
    struct hf_rpc_call *call;
    struct answer answer;
    struct hf_buf bytes; /* cookie, then the holder's owner handle */
    struct hf_list spare;
};

static void on_reached(struct hf_later *later, bool durable)
{
    struct kept *kept = hf_container_of(later, struct kept, later);
    struct hf_bytes bytes = hf_buf_view(&kept->bytes);

    kept->answer.cookie.data = bytes.data;
    kept->answer.holder.oh.data = bytes.data + kept->answer.cookie.len;
    /* SPEC section 5: the store refused, so nothing is promised. */
    if (!durable && !HF_PLANTED(NLM_REFUSAL_UNSAID)) {
        kept->answer.stat = HF_STAT_DENIED_NOLOCKS;
        kept->answer.store_failed = true;
    }
    time_kept(kept->nlm, &kept->answer);
    deliver(kept->nlm, kept->call, &kept->answer);
    hf_list_add_head(&kept->nlm->spare, &kept->spare);
}

static struct kept *kept_take(struct hf_nlm *nlm)
{
    struct kept *kept = hf_list_first(&nlm->spare, struct kept, spare);

    if (kept) {
        hf_list_remove(&kept->spare);
        hf_buf_clear(&kept->bytes);
        return kept;
    }
    kept = hf_malloc(nlm->config.alloc, sizeof(*kept));
    if (kept) {
        kept->nlm = nlm;
        hf_buf_init(&kept->bytes, nlm->config.alloc);
    }
    return kept;
}

static void keep(struct hf_nlm *nlm, struct hf_rpc_call *call, const struct answer *a, uint64_t seq)
{
    struct kept *kept = kept_take(nlm);

    if (!kept || hf_buf_append(&kept->bytes, a->cookie.data, a->cookie.len) < 0 ||
        hf_buf_append(&kept->bytes, a->holder.oh.data, a->holder.oh.len) < 0) {
        /* No memory to wait with: say nothing, and the client asks again. */
        if (kept)
            hf_list_add_head(&nlm->spare, &kept->spare);
        if (call)
            hf_rpc_reply_never(call);
        return;
    }
    kept->call = call;
    kept->answer = *a;
    hf_later_add(nlm->config.answers, &kept->later, seq, on_reached);
}

void hf_nlm_free(struct hf_nlm *nlm)
{
    callbacks_del(nlm);
    hf_list_foreach_safe (node, &nlm->spare) {
        struct kept *kept = hf_list_entry(node, struct kept, spare);
        hf_buf_free(&kept->bytes);
        hf_free(nlm->config.alloc, kept);
    }
    hf_list_init(&nlm->spare);
}

/* ---- the two ways ---- */

void answer_when_durable(struct hf_rpc_call *call, enum hf_nlm_kind kind, const nlm_obj *cookie,
                         const struct hf_answer *core_answer)
{
    struct hf_nlm *nlm = nlm_of(call);
    struct answer a = {
        .kind = kind,
        .vers = call->header.vers,
        .msg = is_message(call),
        .stat = core_answer->stat,
        .store_failed = !*nlm->config.store_up,
        .cookie = from_obj(cookie),
        .peer = call->peer,
        .local = call->local,
        .transport = call->transport,
        .received_ns = call->received_ns,
    };

    if (kind == HF_NLM_TEST && a.stat == HF_STAT_DENIED)
        a.holder = core_answer->holder;
    if (a.msg) {
        hf_rpc_reply_void(call); /* the message has arrived; that promises nothing */
        call = NULL;
    }
    if (core_answer->seq > hf_core_durable(nlm->config.core) && !HF_PLANTED(NLM_ANSWER_AT_ONCE)) {
        keep(nlm, call, &a, core_answer->seq);
    } else {
        time_prompt(nlm, &a);
        deliver(nlm, call, &a);
    }
}

void answer_now(struct hf_rpc_call *call, enum hf_nlm_kind kind, const nlm_obj *cookie,
                enum hf_stat stat)
{
    struct hf_answer answer = {.stat = stat};

    answer_when_durable(call, kind, cookie, &answer);
}
