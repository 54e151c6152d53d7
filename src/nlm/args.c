#include "nlm/nlm_private.h"

/* Preset storage for arguments (rpc/program.h). Only one call is decoded at a time, so all argument
 * types share one set of buffers. */
static char cookie[LM_MAXNETOBJ];
static char name[LM_MAXSTRLEN];
static char fh[LM_MAXNETOBJ];
static char oh[LM_MAXNETOBJ];

#define COOKIE .cookie = {0, cookie}
#define ALOCK  .alock = {.caller_name = {0, name}, .fh = {0, fh}, .oh = {0, oh}}
#define SHARE  .share = {.caller_name = {0, name}, .fh = {0, fh}, .oh = {0, oh}}

nlm_lockargs hf_nlm_lock_store = {COOKIE, ALOCK};
nlm_cancargs hf_nlm_cancel_store = {COOKIE, ALOCK};
nlm_testargs hf_nlm_test_store = {COOKIE, ALOCK};
nlm_unlockargs hf_nlm_unlock_store = {COOKIE, ALOCK};
nlm_shareargs hf_nlm_share_store = {COOKIE, SHARE};
nlm_res hf_nlm_res_store = {COOKIE};
nlm_testres hf_nlm_testres_store = {COOKIE, .test_stat.nlm_testrply_u.holder.oh = {0, oh}};

nlm4_lockargs hf_nlm4_lock_store = {COOKIE, ALOCK};
nlm4_cancargs hf_nlm4_cancel_store = {COOKIE, ALOCK};
nlm4_testargs hf_nlm4_test_store = {COOKIE, ALOCK};
nlm4_unlockargs hf_nlm4_unlock_store = {COOKIE, ALOCK};
nlm4_shareargs hf_nlm4_share_store = {COOKIE, SHARE};
nlm4_res hf_nlm4_res_store = {COOKIE};
nlm4_testres hf_nlm4_testres_store = {COOKIE, .test_stat.nlm4_testrply_u.holder.oh = {0, oh}};

nlm_notify hf_nlm_notify_store = {.name = {0, name}};
nlm_sm_status hf_nlm_sm_status_store = {.mon_name = {0, name}};

/* ---- conversion of versions 1 and 3, which have 32-bit ranges, to version 4 ---- */

static bool is_v4(const struct hf_rpc_call *call)
{
    return call->header.vers == NLM4_VERS;
}

static nlm4_lock lock_v4(const nlm_lock *lock)
{
    return (nlm4_lock){
        .caller_name = lock->caller_name,
        .fh = lock->fh,
        .oh = lock->oh,
        .svid = lock->svid,
        .l_offset = lock->l_offset,
        .l_len = lock->l_len,
    };
}

const nlm4_lockargs *hf_nlm_lockargs_v4(const struct hf_rpc_call *call, void *args,
                                        nlm4_lockargs *store)
{
    const nlm_lockargs *a = args;

    if (is_v4(call))
        return args;
    *store = (nlm4_lockargs){a->cookie,          a->block,   a->exclusive,
                             lock_v4(&a->alock), a->reclaim, a->state};
    return store;
}

const nlm4_cancargs *hf_nlm_cancargs_v4(const struct hf_rpc_call *call, void *args,
                                        nlm4_cancargs *store)
{
    const nlm_cancargs *a = args;

    if (is_v4(call))
        return args;
    *store = (nlm4_cancargs){a->cookie, a->block, a->exclusive, lock_v4(&a->alock)};
    return store;
}

const nlm4_testargs *hf_nlm_testargs_v4(const struct hf_rpc_call *call, void *args,
                                        nlm4_testargs *store)
{
    const nlm_testargs *a = args;

    if (is_v4(call))
        return args;
    *store = (nlm4_testargs){a->cookie, a->exclusive, lock_v4(&a->alock)};
    return store;
}

const nlm4_unlockargs *hf_nlm_unlockargs_v4(const struct hf_rpc_call *call, void *args,
                                            nlm4_unlockargs *store)
{
    const nlm_unlockargs *a = args;

    if (is_v4(call))
        return args;
    *store = (nlm4_unlockargs){a->cookie, lock_v4(&a->alock)};
    return store;
}

const nlm4_shareargs *hf_nlm_shareargs_v4(const struct hf_rpc_call *call, void *args,
                                          nlm4_shareargs *store)
{
    const nlm_shareargs *a = args;
    const nlm_share *s = &a->share;

    if (is_v4(call))
        return args;
    *store =
        (nlm4_shareargs){a->cookie, {s->caller_name, s->fh, s->oh, s->mode, s->access}, a->reclaim};
    return store;
}

const nlm4_res *hf_nlm_res_v4(const struct hf_rpc_call *call, void *args, nlm4_res *store)
{
    const nlm_res *a = args;

    if (is_v4(call))
        return args;
    *store = (nlm4_res){a->cookie, {(nlm4_stats)a->stat.stat}};
    return store;
}
