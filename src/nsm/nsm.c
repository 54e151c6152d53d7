#include "nsm/nsm.h"

#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "core/plant.h"
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
 * NSM-06: a state number is durable before it leaves. What was decided well waits for its batch,
 * and so for the epoch; a refusal is for when that has failed, and may find an epoch (after
 * SM_SIMU_CRASH) that is yet to be written. Then it is better unsaid: the peer asks again.
 */
static bool may_leave(const struct hf_nsm *nsm, const struct hf_sm_answer *answer)
{
    return answer->ok || hf_core_state_is_durable(nsm->config.core);
}

/* What is said, in the core's terms; which of the three result types depends on the procedure. */
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
            hf_rpc_reply(call, (xdrproc_t)xdr_sm_stat_res, &res);
        else
            hf_rpc_reply_never(call);
        break;
    case SM_UNMON:
    case SM_UNMON_ALL:
        /* The state number is all it can say: where nothing was done, it says nothing. */
        if (answer.ok)
            hf_rpc_reply(call, (xdrproc_t)xdr_sm_stat, &state);
        else
            hf_rpc_reply_never(call);
        break;
    default:
        if (answer.ok)
            hf_rpc_reply_void(call);
        else
            hf_rpc_reply_never(call);
    }
}

struct kept {
    struct hf_later later;
    struct hf_nsm *nsm;
    struct hf_rpc_call *call;
    struct hf_sm_answer answer;
    struct hf_list spare;
};

static void on_reached(struct hf_later *later, bool durable)
{
    struct kept *kept = hf_container_of(later, struct kept, later);

    if (!durable && !HF_PLANTED(NSM_FAILURE_UNSAID))
        kept->answer.ok = false; /* NSM-02: what cannot be made durable is STAT_FAIL */
    deliver(kept->nsm, kept->call, kept->answer);
    hf_list_add_head(&kept->nsm->spare, &kept->spare);
}

static void answer_when_durable(struct hf_rpc_call *call, struct hf_sm_answer answer)
{
    struct hf_nsm *nsm = nsm_of(call);
    struct kept *kept;

    if (answer.seq <= hf_core_durable(nsm->config.core)) {
        deliver(nsm, call, answer);
        return;
    }
    kept = hf_list_first(&nsm->spare, struct kept, spare);
    if (kept)
        hf_list_remove(&kept->spare);
    else
        kept = hf_malloc(nsm->config.alloc, sizeof(*kept));
    if (!kept) {
        hf_rpc_reply_never(call); /* no memory to wait with: the peer asks again */
        return;
    }
    kept->nsm = nsm;
    kept->call = call;
    kept->answer = answer;
    hf_later_add(nsm->config.answers, &kept->later, answer.seq, on_reached);
}

/* ---- who and what may ask ---- */

static bool is_name(const sm_string *s)
{
    return s->sm_string_len > 0 && !memchr(s->sm_string_val, '\0', s->sm_string_len);
}

/*
 * Which programs may be called back (SPEC section 2): lock managers, status monitors, and what has
 * no fixed number. Anything else would let a stranger aim our packets at a service of its choice
 * (CVE-1999-0493).
 */
static bool may_be_called(uint32_t prog)
{
    enum { NLM = 100021, TRANSIENT_FIRST = 0x40000000, TRANSIENT_LAST = 0x5fffffff };

    return prog == NLM || prog == SM_PROG || (prog >= TRANSIENT_FIRST && prog <= TRANSIENT_LAST);
}

static bool is_local_root(const struct hf_rpc_call *call)
{
    return hf_addr_is_loopback(&call->peer) && hf_addr_is_reserved_port(&call->peer);
}

static struct hf_peer peer_of(const struct hf_rpc_call *call)
{
    struct hf_peer peer = {
        .addr = call->peer,
        .local = call->local,
        .transport = call->transport == HF_RPC_TCP ? HF_TRANSPORT_TCP : HF_TRANSPORT_UDP,
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
 * SPEC section 5: while the store is down nothing can be registered or removed. True if the call
 * was refused for that: SM_MON by STAT_FAIL, the others, which cannot say no, by silence.
 */
static bool refused(struct hf_rpc_call *call)
{
    struct hf_nsm *nsm = nsm_of(call);
    struct hf_sm_answer answer = hf_core_sm_stat(nsm->config.core);

    if (*nsm->config.store_up)
        return false;
    answer.ok = false;
    deliver(nsm, call, answer);
    return true;
}

/* ---- procedures ---- */

static void on_null(struct hf_rpc_call *call, void *args)
{
    (void)args;
    count(nsm_of(call), call, HF_NSM_SUCCESS);
    hf_rpc_reply_void(call);
}

/* NSM-04: any name gets STAT_SUCC and our state number, and registers nothing. */
static void on_stat(struct hf_rpc_call *call, void *args)
{
    (void)args;
    answer_when_durable(call, hf_core_sm_stat(nsm_of(call)->config.core));
}

static void on_mon(struct hf_rpc_call *call, void *raw)
{
    struct hf_nsm *nsm = nsm_of(call);
    const mon *a = raw;
    const struct mon_id *id = &a->mon_id;
    struct hf_mon_args args = args_of(&id->my_id);
    struct hf_sm_answer answer = hf_core_sm_stat(nsm->config.core);
    struct hf_peer peer = peer_of(call);

    if (refused(call))
        return;
    if (is_name(&id->mon_name) && is_name(&id->my_id.my_name) && may_be_called(args.prog)) {
        args.mon_name = from_string(&id->mon_name);
        memcpy(args.priv, a->priv, sizeof(args.priv));
        answer = hf_core_sm_mon(nsm->config.core, now_of(nsm), &peer, &args);
    } else {
        answer.ok = false;
        hf_log_limited(HF_LOG_WARN, "refused: SM_MON", HF_ADDR("from", &call->peer),
                       HF_UINT("program", args.prog),
                       HF_STR("reason", may_be_called(args.prog) ? "empty or broken name"
                                                                 : "program not allowed"));
    }
    answer_when_durable(call, answer);
}

static void on_unmon(struct hf_rpc_call *call, void *raw)
{
    struct hf_nsm *nsm = nsm_of(call);
    const mon_id *a = raw;
    struct hf_mon_args args = args_of(&a->my_id);
    struct hf_peer peer = peer_of(call);

    if (refused(call))
        return;
    args.mon_name = from_string(&a->mon_name);
    answer_when_durable(call, hf_core_sm_unmon(nsm->config.core, now_of(nsm), &peer, &args));
}

static void on_unmon_all(struct hf_rpc_call *call, void *raw)
{
    struct hf_nsm *nsm = nsm_of(call);
    struct hf_mon_args args = args_of(raw);
    struct hf_peer peer = peer_of(call);

    if (refused(call))
        return;
    answer_when_durable(call, hf_core_sm_unmon_all(nsm->config.core, now_of(nsm), &peer, &args));
}

static void on_simu_crash(struct hf_rpc_call *call, void *args)
{
    struct hf_nsm *nsm = nsm_of(call);
    struct hf_sm_answer answer = {.ok = true};

    (void)args;
    if (!is_local_root(call)) {
        count(nsm, call, HF_NSM_FAILURE);
        hf_log_limited(HF_LOG_WARN, "refused: SM_SIMU_CRASH", HF_ADDR("from", &call->peer),
                       HF_STR("reason", "only from this host and a reserved port"));
        hf_rpc_reply_error(call, HF_RPC_SYSTEM_ERR);
        return;
    }
    hf_rpc_forget_answers(call);
    answer.seq = hf_core_simu_crash(nsm->config.core, now_of(nsm));
    answer_when_durable(call, answer);
}

/* NSM-05. A stranger gets the same void answer as everybody: it learns nothing from it. */
static void on_notify(struct hf_rpc_call *call, void *raw)
{
    struct hf_nsm *nsm = nsm_of(call);
    const stat_chge *a = raw;
    struct hf_sm_answer answer = {.ok = true};

    if (refused(call))
        return; /* the peer says it again until it is heard */
    answer.seq = hf_core_sm_notify(nsm->config.core, now_of(nsm), &call->peer,
                                   from_string(&a->mon_name), a->state);
    answer_when_durable(call, answer);
}

/* ---- the table ---- */

static const struct hf_rpc_procedure PROCEDURES[HF_NSM_PROCEDURES] = {
    [SM_NULL] = {"NULL", NULL, NULL, on_null, false},
    [SM_STAT] = {"STAT", (xdrproc_t)xdr_sm_name, &name_store, on_stat, false},
    [SM_MON] = {"MON", (xdrproc_t)xdr_mon, &mon_store, on_mon, true},
    [SM_UNMON] = {"UNMON", (xdrproc_t)xdr_mon_id, &mon_id_store, on_unmon, true},
    [SM_UNMON_ALL] = {"UNMON_ALL", (xdrproc_t)xdr_my_id, &my_id_store, on_unmon_all, true},
    [SM_SIMU_CRASH] = {"SIMU_CRASH", NULL, NULL, on_simu_crash, true},
    [SM_NOTIFY] = {"NOTIFY", (xdrproc_t)xdr_stat_chge, &stat_chge_store, on_notify, true},
};

static const struct hf_rpc_version VERSIONS[] = {{SM_VERS, PROCEDURES, HF_COUNT_OF(PROCEDURES)}};

const char *hf_nsm_procedure_name(unsigned procedure)
{
    HF_ASSERT(procedure < HF_NSM_PROCEDURES);
    return PROCEDURES[procedure].name;
}

void hf_nsm_init(struct hf_nsm *nsm, const struct hf_nsm_config *config)
{
    *nsm = (struct hf_nsm){
        .program = {SM_PROG, "nsm", VERSIONS, HF_COUNT_OF(VERSIONS), nsm},
        .config = *config,
    };
    hf_list_init(&nsm->spare);
    hf_list_init(&nsm->errands);
    hf_list_init(&nsm->lookups);
}

void hf_nsm_stop(struct hf_nsm *nsm)
{
    resolve_stop(nsm);
    errands_del(nsm);
}

void hf_nsm_free(struct hf_nsm *nsm)
{
    hf_list_foreach_safe (node, &nsm->spare) {
        hf_free(nsm->config.alloc, hf_list_entry(node, struct kept, spare));
    }
    hf_list_init(&nsm->spare);
}
