#include <endian.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "nlm/nlm_private.h"

/*
 * Makes the calls GRANTED (procedure 5) and GRANTED_MSG (10), which tell a waiter that it has its
 * lock, and probes, which ask whether a client's lock manager is alive. The cookie is the core's id
 * of the outcall. The arguments repeat those of the LOCK byte for byte, because some clients
 * compare them so.
 *
 * When an UNLOCK of its owner overtakes a callback, the core is done with the callback, but the
 * call may still arrive, at a client that may have forgotten what it was for. So this file finds
 * the callbacks in flight by owner and range, whether or not the core still knows the waiter or its
 * owner.
 */

struct nlm_outcall {
    struct hf_nlm *nlm;
    struct hf_list link; /* links the call into nlm->outcalls */
    uint64_t id;
    struct hf_list in_owner; /* GRANTED: links the call into nlm->granted */
    uint64_t owner;          /* the number that callback_owner() makes of the owner */
    uint64_t first, last;
    uint64_t serial; /* the number of this call, in the order in which calls began */
    struct hf_addr to;
    const struct hf_vouch *vouch; /* the operator's vouch for the client that is called, or NULL */
    bool v4;
    bool msg;
    /* The call was answered or given up. A GRANTED_MSG is answered by its GRANTED_RES, although the
     * time of the call is waited out. */
    bool answered;
    bool repeated; /* a second copy of the call was sent in this attempt */
};

static void outcall_del(struct nlm_outcall *outcall)
{
    hf_list_remove(&outcall->link);
    outcall->nlm->n_granted -= hf_list_linked(&outcall->in_owner);
    hf_list_remove(&outcall->in_owner);
    hf_free(outcall->nlm->service->alloc, outcall);
}

void hf_nlm_callbacks_init(struct hf_nlm *nlm)
{
    for (size_t i = 0; i < HF_NLM_OUTCALL_LISTS; i++) {
        hf_list_init(&nlm->outcalls[i]);
        hf_list_init(&nlm->granted[i]);
    }
}

void hf_nlm_callbacks_del(struct hf_nlm *nlm)
{
    for (size_t i = 0; i < HF_NLM_OUTCALL_LISTS; i++) {
        hf_list_foreach_safe (node, &nlm->outcalls[i])
            outcall_del(hf_list_entry(node, struct nlm_outcall, link));
    }
}

static struct nlm_outcall *outcall_find(const struct hf_nlm *nlm, uint64_t id)
{
    hf_list_foreach (node, &nlm->outcalls[id % HF_NLM_OUTCALL_LISTS]) {
        struct nlm_outcall *outcall = hf_list_entry(node, struct nlm_outcall, link);
        if (outcall->id == id)
            return outcall;
    }
    return NULL;
}

/*
 * Hashes the client (by both addresses), the file and the owner that is called into one number. If
 * two owners share a number, an UNLOCK of one also waits for a callback to the other. The transport
 * is left out: a Linux kernel with mounts by TCP and UDP accepts a callback by either. A client for
 * which the operator vouches (TRK-02) counts by its name, because its UNLOCK may come from another
 * address than the one that is called.
 */
static uint64_t callback_owner(const struct hf_nlm *nlm, const struct hf_vouch *vouch,
                               const struct hf_addr *peer, const struct hf_addr *local,
                               struct hf_bytes fh, struct hf_bytes oh, int32_t svid)
{
    const struct hf_hash_key *key = hf_core_hash_key(nlm->service->core);
    struct hf_bytes client = vouch ? vouch->name : hf_bytes(peer->bytes, sizeof(peer->bytes));
    uint64_t hosts = hf_hash_u64(key, hf_hash(key, client.data, client.len),
                                 hf_hash(key, local->bytes, sizeof(local->bytes)));

    hosts = hf_hash_u64(key, hosts, hf_hash(key, fh.data, fh.len));
    return hf_hash_u64(key, hosts ^ (uint32_t)svid, hf_hash(key, oh.data, oh.len));
}

static uint64_t last_byte(uint64_t offset, uint64_t length)
{
    return length == 0 || length - 1 > UINT64_MAX - offset ? UINT64_MAX : offset + length - 1;
}

static struct hf_list *granted_list(struct hf_nlm *nlm, uint64_t owner)
{
    return &nlm->granted[owner % HF_NLM_OUTCALL_LISTS];
}

struct callbacks hf_nlm_callbacks_overtaken(const struct hf_nlm *nlm, const struct hf_peer *peer,
                                            const struct hf_lock_args *args)
{
    if (nlm->n_granted == 0)
        return (struct callbacks){0};
    return (struct callbacks){
        .owner = callback_owner(nlm, hf_vouch_of(nlm->service->core, peer->name, &peer->addr),
                                &peer->addr, &peer->local, args->fh, args->oh, args->svid),
        .first = args->offset,
        .last = last_byte(args->offset, args->length),
        .before = nlm->begun + 1,
    };
}

uint64_t hf_nlm_callback_in_flight(const struct hf_nlm *nlm, const struct callbacks *awaited)
{
    if (awaited->before == 0 || nlm->n_granted == 0)
        return 0;
    hf_list_foreach (node, &nlm->granted[awaited->owner % HF_NLM_OUTCALL_LISTS]) {
        const struct nlm_outcall *outcall = hf_list_entry(node, struct nlm_outcall, in_owner);
        if (outcall->owner == awaited->owner && outcall->serial < awaited->before &&
            !outcall->answered && outcall->first <= awaited->last &&
            outcall->last >= awaited->first)
            return outcall->id;
    }
    return 0;
}

void hf_nlm_callback_answered(struct hf_nlm *nlm, uint64_t id, const struct hf_addr *from,
                              bool took)
{
    struct nlm_outcall *outcall = outcall_find(nlm, id);

    if (!outcall || !outcall->msg ||
        !(hf_addr_same_host(&outcall->to, from) ||
          hf_vouch_is_at_once(nlm->service->core, outcall->vouch, from)))
        return;
    if (took)
        hf_rpc_client_took_lock(nlm->client, &outcall->to);
    outcall->answered = true;
    hf_service_let_go(nlm->service, id);
}

bool hf_nlm_callback_is_repeated(const struct hf_nlm *nlm, uint64_t id)
{
    const struct nlm_outcall *outcall = outcall_find(nlm, id);

    return outcall && outcall->repeated;
}

static enum hf_outcall_outcome failure_of(const struct hf_rpc_response *response)
{
    if (response->sent)
        return response->repeated ? HF_OUTCALL_REPEATED : HF_OUTCALL_FAILED;
    return response->tried ? HF_OUTCALL_UNSENT : HF_OUTCALL_UNTRIED;
}

/* Reads the NLM status from the answer to a callback; -1 if it cannot be read. */
static int stat_of(const struct nlm_outcall *outcall, const struct hf_rpc_response *response)
{
    char cookie[LM_MAXNETOBJ];
    nlm4_res res4 = {.cookie = {0, cookie}};
    nlm_res res3 = {.cookie = {0, cookie}};

    if (outcall->v4 && xdr_nlm4_res(response->results, &res4))
        return (int)res4.stat.stat;
    if (!outcall->v4 && xdr_nlm_res(response->results, &res3))
        return (int)res3.stat.stat;
    return -1;
}

static enum hf_outcall_outcome outcome_of(int stat, bool repeated)
{
    switch (stat) {
    case -1:
        return HF_OUTCALL_FAILED;
    case NLM4_GRANTED:
        return HF_OUTCALL_ACCEPTED;
    case NLM4_DENIED_GRACE_PERIOD:
        return HF_OUTCALL_FAILED; /* the client is in its own grace period: try again */
    default:
        /* The call was sent twice in this attempt, so a denial is not believed: it may answer the
         * second copy of a call whose first copy was accepted (core/wait/grant.c). */
        return repeated ? HF_OUTCALL_ACCEPTED : HF_OUTCALL_DENIED;
    }
}

static void on_done(void *ctx, const struct hf_rpc_response *response)
{
    struct nlm_outcall *outcall = ctx;
    struct hf_nlm *nlm = outcall->nlm;
    enum hf_outcall_outcome outcome = failure_of(response);
    int error = response->error;
    int stat = error == 0 && !outcall->msg ? stat_of(outcall, response) : -1;

    hf_histogram_observe(&nlm->callbacks_ns, (uint64_t)response->elapsed_ms * 1000000);
    if (error == 0 && outcall->msg)
        /* The answer to a GRANTED_MSG is a GRANTED_RES, which has not come in time. */
        error = HF_ETIMEDOUT;
    else if (error == 0)
        outcome = outcome_of(stat, response->repeated);
    if (stat == NLM4_GRANTED)
        hf_rpc_client_took_lock(nlm->client, &outcall->to);
    if (error == 0 && outcome == HF_OUTCALL_FAILED)
        error = HF_EFORMAT;
    hf_core_outcall_done(nlm->service->core, hf_service_now(nlm->service), outcall->id, outcome,
                         error);
    outcall->answered = true;
    hf_service_let_go(nlm->service, outcall->id);
    outcall_del(outcall);
}

union args {
    nlm_testargs v3;
    nlm4_testargs v4;
};

static hf_codec build(const struct hf_outcall_attempt *call, const uint64_t *cookie,
                      union args *out)
{
    nlm_obj cookie_obj = {sizeof(*cookie), (char *)(uintptr_t)cookie};

    if (call->vers == NLM4_VERS) {
        out->v4 = (nlm4_testargs){
            cookie_obj,
            call->exclusive,
            {to_string(call->host), to_obj(call->fh), to_obj(call->oh), call->svid, call->offset,
             call->length},
        };
        return xdr_nlm4_testargs;
    }
    out->v3 = (nlm_testargs){
        cookie_obj,
        call->exclusive,
        {to_string(call->host), to_obj(call->fh), to_obj(call->oh), call->svid, (u_int)call->offset,
         (u_int)call->length},
    };
    return xdr_nlm_testargs;
}

static void note_owner(struct hf_nlm *nlm, struct nlm_outcall *outcall,
                       const struct hf_outcall_attempt *call)
{
    outcall->owner = callback_owner(nlm, outcall->vouch, &call->to[0], &call->from, call->fh,
                                    call->oh, call->svid);
    outcall->first = call->offset;
    outcall->last = last_byte(call->offset, call->length);
    hf_list_add_tail(granted_list(nlm, outcall->owner), &outcall->in_owner);
    nlm->n_granted++;
}

/* Hands the call to the RPC client, and reports a call that cannot begin as not tried. */
static void start(struct hf_nlm *nlm, const struct hf_outcall_attempt *call,
                  struct hf_rpc_outcall_args *rpc, hf_rpc_done done)
{
    struct nlm_outcall *outcall = hf_malloc(nlm->service->alloc, sizeof(*outcall));
    int rv = HF_ENOMEM;

    HF_ASSERT(call->n_to > 0);
    if (outcall) {
        *outcall =
            (struct nlm_outcall){.nlm = nlm,
                                 .id = call->id,
                                 .serial = ++nlm->begun,
                                 .to = call->to[0],
                                 .vouch = hf_vouch_of(nlm->service->core, call->host, &call->to[0]),
                                 .v4 = call->vers == NLM4_VERS,
                                 .msg = call->msg};
        rpc->repeated = &outcall->repeated;
        hf_list_init(&outcall->in_owner);
        if (call->kind == HF_OUTCALL_GRANTED)
            note_owner(nlm, outcall, call);
        hf_list_add_tail(&nlm->outcalls[call->id % HF_NLM_OUTCALL_LISTS], &outcall->link);
        rv = hf_rpc_client_call(nlm->client, rpc, done, outcall, NULL);
    }
    if (rv < 0) {
        if (outcall)
            outcall_del(outcall);
        hf_core_outcall_done(nlm->service->core, hf_service_now(nlm->service), call->id,
                             HF_OUTCALL_UNTRIED, rv);
    }
}

static struct hf_rpc_outcall_args rpc_args_of(const struct hf_outcall_attempt *call)
{
    return (struct hf_rpc_outcall_args){
        .peer = call->to[0],
        .local = call->from,
        .transport = call->transport,
        /* The RPC client forgets a port that failed, and does not use it again. */
        .remember_port = true,
        .provoked = call->transport == HF_TRANSPORT_UDP && !call->loaded,
        .prog = NLM_PROG,
        .vers = call->vers,
        .timeout_ms = (uint32_t)call->timeout_ms,
    };
}

void hf_nlm_call_granted(struct hf_nlm *nlm, const struct hf_outcall_attempt *call)
{
    struct hf_rpc_outcall_args rpc = rpc_args_of(call);
    uint64_t cookie = htobe64(call->id);
    union args args;

    rpc.proc = call->msg ? NLM_GRANTED_MSG : NLM_GRANTED;
    rpc.wait_out = call->msg;
    rpc.encode = build(call, &cookie, &args);
    rpc.args = &args;
    start(nlm, call, &rpc, on_done);
}

/* Any answer to a probe shows that the client's lock manager is alive, except "program not
 * available". */
static void on_probed(void *ctx, const struct hf_rpc_response *response)
{
    struct nlm_outcall *outcall = ctx;
    struct hf_nlm *nlm = outcall->nlm;
    bool alive = response->error == 0 || response->error == HF_EDENIED;

    hf_core_outcall_done(nlm->service->core, hf_service_now(nlm->service), outcall->id,
                         alive ? HF_OUTCALL_ACCEPTED : failure_of(response), response->error);
    outcall_del(outcall);
}

void hf_nlm_call_probe(struct hf_nlm *nlm, const struct hf_outcall_attempt *call)
{
    struct hf_rpc_outcall_args rpc = rpc_args_of(call);

    rpc.proc = NLM_NULL;
    start(nlm, call, &rpc, on_probed);
}
