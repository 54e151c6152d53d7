#include "nsm/nsm.h"

#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "nsm/nsm_private.h"

/* Preset storage for arguments (rpc/program.h); one call is decoded at a time. */
static char mon_name[SM_MAXSTRLEN];
static char my_name[SM_MAXSTRLEN];

static sm_name name_store = {.mon_name = {0, mon_name}};
static mon mon_store = {.mon_id = {.mon_name = {0, mon_name}, .my_id.my_name = {0, my_name}}};
static mon_id mon_id_store = {.mon_name = {0, mon_name}, .my_id.my_name = {0, my_name}};
static my_id my_id_store = {.my_name = {0, my_name}};
static stat_chge stat_chge_store = {.mon_name = {0, mon_name}};

/* ---- answers ---- */

static void count(struct hf_nsm *nsm, const struct hf_rpc_call *call, enum hf_nsm_result result)
{
    unsigned proc = call->header.proc;

    nsm->answers[proc][result]++;
    if (call->received_ns)
        hf_histogram_observe(&nsm->durations_ns[proc], uv_hrtime() - call->received_ns);
}

/*
 * NSM-06: a state number is durable before it leaves. A success waits for its batch, and so for the
 * epoch. A refusal does not wait; if the new epoch of an SM_SIMU_CRASH is not durable yet, the
 * refusal is not sent, and the peer repeats its request.
 */
static bool may_leave(const struct hf_nsm *nsm, const struct hf_sm_answer *answer)
{
    return answer->ok || hf_core_state_is_durable(nsm->service->core);
}

/* Sends the answer in the result type of its procedure. */
static void deliver(struct hf_nsm *nsm, struct hf_rpc_call *call, struct hf_sm_answer answer)
{
    sm_stat_res res = {answer.ok ? STAT_SUCC : STAT_FAIL, answer.state};
    struct sm_stat state = {answer.state};
    unsigned proc = call->header.proc;

    count(nsm, call, answer.ok ? HF_NSM_SUCCESS : HF_NSM_FAILURE);
    switch (proc) {
    case SM_STAT:
    case SM_MON:
        if (may_leave(nsm, &answer))
            hf_rpc_reply(call, xdr_sm_stat_res, &res);
        else
            hf_rpc_reply_never(call);
        break;
    case SM_UNMON:
    case SM_UNMON_ALL:
        /* A state number alone cannot express a failure, so a failure gets no answer. */
        if (answer.ok)
            hf_rpc_reply(call, xdr_sm_stat, &state);
        else
            hf_rpc_reply_never(call);
        break;
    default:
        if (answer.ok)
            hf_rpc_reply_void_if_paid(call);
        else
            hf_rpc_reply_never(call);
    }
}

/* An answer that may have to wait for its batch. The link of `waiter` keeps it in nsm->pending. */
struct pending_answer {
    struct hf_commit_waiter waiter;
    struct hf_nsm *nsm;
    struct hf_rpc_call *call;
    struct hf_sm_answer answer;
};

static void on_durable(struct hf_commit_waiter *waiter, bool durable)
{
    struct pending_answer *pending = hf_container_of(waiter, struct pending_answer, waiter);

    /* NSM-02: a change that cannot be made durable is answered STAT_FAIL. */
    if (!durable)
        pending->answer.ok = false;
    deliver(pending->nsm, pending->call, pending->answer);
    hf_pool_give(&pending->nsm->pending, pending);
}

static void answer_when_durable(struct hf_rpc_call *call, struct hf_sm_answer answer)
{
    struct hf_nsm *nsm = nsm_of(call);
    struct pending_answer *pending = hf_pool_take(&nsm->pending);

    if (!pending) {
        hf_rpc_reply_never(call); /* no memory: the peer repeats its request */
        return;
    }
    pending->nsm = nsm;
    pending->call = call;
    pending->answer = answer;
    pending->waiter.place = hf_service_place_of(nsm->service, hf_rpc_call_account(call));
    if (hf_service_may_wait(nsm->service, answer.ticket, pending->waiter.place)) {
        (void)hf_service_when(nsm->service, answer.ticket, &pending->waiter, on_durable);
    } else {
        hf_rpc_reply_never(call); /* without an answer the peer repeats its notice */
        hf_pool_give(&nsm->pending, pending);
    }
}

/* ---- access ---- */

static bool is_name(const sm_string *s)
{
    return s->sm_string_len > 0 && !memchr(s->sm_string_val, '\0', s->sm_string_len);
}

/*
 * Which programs may be called back (SPEC section 2): lock managers, status monitors, and programs
 * with a transient number. If other programs were allowed, a stranger could direct our packets at a
 * service of its choice (CVE-1999-0493).
 */
static bool may_be_called(uint32_t prog)
{
    enum { TRANSIENT_FIRST = 0x40000000, TRANSIENT_LAST = 0x5fffffff };

    return prog == HF_PROGRAM_NLM || prog == HF_PROGRAM_NSM ||
           (prog >= TRANSIENT_FIRST && prog <= TRANSIENT_LAST);
}

/* True if the caller may use SM_MON and SM_UNMON (SEC-01). A user of this host could otherwise end
 * the registrations of the kernel, or have a host of his choice called. */
static bool may_monitor(const struct hf_rpc_call *call)
{
    return hf_rpc_call_may(call)->monitors != HF_MONITORS_NONE;
}

static struct hf_peer peer_of(const struct hf_rpc_call *call)
{
    struct hf_peer peer = {
        .addr = call->peer,
        .local = call->local,
        .transport = call->transport,
    };

    peer.addr.port = 0;
    peer.local.port = 0;
    return peer;
}

static struct hf_mon_args args_of(const my_id *id)
{
    return (struct hf_mon_args){
        .my_name = from_string(&id->my_name),
        .prog = (uint32_t)id->my_prog,
        .vers = (uint32_t)id->my_vers,
        .proc = (uint32_t)id->my_proc,
    };
}

/*
 * True if the store is down: nothing can be registered or removed then (SPEC section 5), and this
 * function has refused the call. SM_MON gets STAT_FAIL; the other procedures, whose results cannot
 * express a refusal, get no answer.
 */
static bool refused(struct hf_rpc_call *call)
{
    struct hf_nsm *nsm = nsm_of(call);
    struct hf_sm_answer answer = hf_core_sm_stat(nsm->service->core);

    if (nsm->service->store_up)
        return false;
    answer.ok = false;
    deliver(nsm, call, answer);
    return true;
}

/* True while a service that has just been taken over is still loading (HA-05). It has no state
 * number to tell yet, so this function leaves the call unanswered, and the peer repeats it. */
static bool is_postponed(struct hf_rpc_call *call)
{
    if (!nsm_of(call)->service->loading)
        return false;
    hf_rpc_reply_never(call);
    return true;
}

/* ---- procedures ---- */

static void on_null(struct hf_rpc_call *call, void *args)
{
    (void)args;
    count(nsm_of(call), call, HF_NSM_SUCCESS);
    hf_rpc_reply_void(call);
}

/* NSM-04: SM_STAT with any name gets STAT_SUCC and our state number, and registers nothing. */
static void on_stat(struct hf_rpc_call *call, void *args)
{
    (void)args;
    if (is_postponed(call))
        return;
    answer_when_durable(call, hf_core_sm_stat(nsm_of(call)->service->core));
}

/* Returns why an SM_MON registration is refused; NULL: it is not. */
static const char *mon_refusal(const struct hf_rpc_call *call, const struct mon_id *id)
{
    const struct hf_core *core = nsm_of(call)->service->core;

    if (!may_monitor(call))
        return "from this host only with a reserved port";
    if (!is_name(&id->mon_name) || !is_name(&id->my_id.my_name))
        return "empty or broken name";
    if (!may_be_called((uint32_t)id->my_id.my_prog))
        return "program not allowed";
    /* SEC-01: if other hosts could monitor any name, they could have packets of ours sent to any
     * host. */
    if (hf_rpc_call_may(call)->monitors == HF_MONITORS_US &&
        !hf_core_is_our_name(core, from_string(&id->mon_name), &call->local))
        return "another host may monitor this server only";
    return NULL;
}

static void on_mon(struct hf_rpc_call *call, void *raw)
{
    struct hf_nsm *nsm = nsm_of(call);
    const mon *a = raw;
    const struct mon_id *id = &a->mon_id;
    struct hf_mon_args args = args_of(&id->my_id);
    struct hf_sm_answer answer = hf_core_sm_stat(nsm->service->core);
    struct hf_peer peer = peer_of(call);
    const char *reason = mon_refusal(call, id);

    if (is_postponed(call) || refused(call))
        return;
    if (reason) {
        answer.ok = false;
        hf_log_limited(HF_LOG_WARN, "refused: SM_MON", HF_ADDR("from", &call->peer),
                       HF_UINT("program", args.prog), HF_STR("reason", reason));
    } else {
        args.mon_name = from_string(&id->mon_name);
        memcpy(args.priv, a->priv, sizeof(args.priv));
        answer = hf_core_sm_mon(nsm->service->core, hf_service_now(nsm->service), &peer, &args);
    }
    answer_when_durable(call, answer);
}

/* Leaves an SM_UNMON or SM_UNMON_ALL unanswered if the caller may not monitor, because their
 * results cannot express a refusal. */
static bool refuse_unmon(struct hf_rpc_call *call)
{
    if (may_monitor(call))
        return false;
    count(nsm_of(call), call, HF_NSM_FAILURE);
    hf_log_limited(HF_LOG_WARN, "refused: SM_UNMON", HF_ADDR("from", &call->peer),
                   HF_STR("reason", "from this host only with a reserved port"));
    hf_rpc_reply_error(call, HF_RPC_SYSTEM_ERR);
    return true;
}

static void on_unmon(struct hf_rpc_call *call, void *raw)
{
    struct hf_nsm *nsm = nsm_of(call);
    const mon_id *a = raw;
    struct hf_mon_args args = args_of(&a->my_id);
    struct hf_peer peer = peer_of(call);

    if (refuse_unmon(call) || is_postponed(call) || refused(call))
        return;
    args.mon_name = from_string(&a->mon_name);
    answer_when_durable(
        call, hf_core_sm_unmon(nsm->service->core, hf_service_now(nsm->service), &peer, &args));
}

static void on_unmon_all(struct hf_rpc_call *call, void *raw)
{
    struct hf_nsm *nsm = nsm_of(call);
    struct hf_mon_args args = args_of(raw);
    struct hf_peer peer = peer_of(call);

    if (refuse_unmon(call) || is_postponed(call) || refused(call))
        return;
    answer_when_durable(
        call, hf_core_sm_unmon_all(nsm->service->core, hf_service_now(nsm->service), &peer, &args));
}

static void on_simu_crash(struct hf_rpc_call *call, void *args)
{
    struct hf_nsm *nsm = nsm_of(call);
    struct hf_sm_answer answer = {.ok = true};

    (void)args;
    if (!hf_rpc_call_may(call)->speaks_for_hosts) {
        count(nsm, call, HF_NSM_FAILURE);
        hf_log_limited(HF_LOG_WARN, "refused: SM_SIMU_CRASH", HF_ADDR("from", &call->peer),
                       HF_STR("reason", "only from this host and a reserved port"));
        hf_rpc_reply_error(call, HF_RPC_SYSTEM_ERR);
        return;
    }
    if (is_postponed(call))
        return;
    hf_rpc_forget_answers(call);
    answer.ticket.seq = hf_core_simu_crash(nsm->service->core, hf_service_now(nsm->service));
    answer_when_durable(call, answer);
}

/* NSM-05: a notice about an unknown host gets the same void answer as one about a client, so that
 * its sender learns nothing. */
static void on_notify(struct hf_rpc_call *call, void *raw)
{
    struct hf_nsm *nsm = nsm_of(call);
    const stat_chge *a = raw;

    if (is_postponed(call) || refused(call))
        return; /* without an answer the peer repeats its notice */
    answer_when_durable(call, hf_core_sm_notify(nsm->service->core, hf_service_now(nsm->service),
                                                &call->peer, from_string(&a->mon_name), a->state,
                                                hf_rpc_call_may(call)->restarts));
}

/* ---- the table ---- */

static const struct hf_rpc_procedure PROCEDURES[HF_NSM_PROCEDURES] = {
    [SM_NULL] = {"NULL", NULL, NULL, on_null, false},
    [SM_STAT] = {"STAT", xdr_sm_name, &name_store, on_stat, false},
    [SM_MON] = {"MON", xdr_mon, &mon_store, on_mon, true},
    [SM_UNMON] = {"UNMON", xdr_mon_id, &mon_id_store, on_unmon, true},
    [SM_UNMON_ALL] = {"UNMON_ALL", xdr_my_id, &my_id_store, on_unmon_all, true},
    [SM_SIMU_CRASH] = {"SIMU_CRASH", NULL, NULL, on_simu_crash, true},
    [SM_NOTIFY] = {"NOTIFY", xdr_stat_chge, &stat_chge_store, on_notify, true},
};

static const struct hf_rpc_version VERSIONS[] = {{SM_VERS, PROCEDURES, HF_COUNT_OF(PROCEDURES)}};

const char *hf_nsm_procedure_name(unsigned procedure)
{
    HF_ASSERT(procedure < HF_NSM_PROCEDURES);
    return PROCEDURES[procedure].name;
}

void hf_nsm_init(struct hf_nsm *nsm, struct hf_service *service, struct hf_rpc_client *client)
{
    *nsm = (struct hf_nsm){
        .program = {SM_PROG, "nsm", VERSIONS, HF_COUNT_OF(VERSIONS), nsm},
        .service = service,
        .client = client,
    };
    hf_pool_init(&nsm->pending, service->alloc, sizeof(struct pending_answer));
    hf_list_init(&nsm->outcalls);
    hf_list_init(&nsm->lookups);
}

void hf_nsm_stop(struct hf_nsm *nsm)
{
    hf_nsm_resolve_stop(nsm);
    hf_nsm_outcalls_del(nsm);
}

void hf_nsm_free(struct hf_nsm *nsm)
{
    struct pending_answer *pending;

    while ((pending = hf_pool_pop(&nsm->pending)))
        hf_free(nsm->service->alloc, pending);
}
