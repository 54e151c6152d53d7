#include "base/assert.h"
#include "nlm/nlm_private.h"

/*
 * NLM versions 1 and 3 share codecs; version 3 adds procedures 20 to 23. Procedures that must not
 * be executed twice go through the duplicate request cache; TEST, GRANTED and ignored results need
 * not.
 */
#define PROC(name, type, store, handler, once)       \
    {                                                \
        name, xdr_##type, &hf_##store, handler, once \
    }

#define COMMON(p)                                                                                  \
    [NLM_NULL] = {"NULL", NULL, NULL, hf_nlm_on_null, false},                                      \
    [NLM_TEST] = PROC("TEST", p##_testargs, p##_test_store, hf_nlm_on_test, false),                \
    [NLM_LOCK] = PROC("LOCK", p##_lockargs, p##_lock_store, hf_nlm_on_lock, true),                 \
    [NLM_CANCEL] = PROC("CANCEL", p##_cancargs, p##_cancel_store, hf_nlm_on_cancel, true),         \
    [NLM_UNLOCK] = PROC("UNLOCK", p##_unlockargs, p##_unlock_store, hf_nlm_on_unlock, true),       \
    [NLM_GRANTED] = PROC("GRANTED", p##_testargs, p##_test_store, hf_nlm_on_granted, false),       \
    [NLM_TEST_MSG] = PROC("TEST_MSG", p##_testargs, p##_test_store, hf_nlm_on_test, false),        \
    [NLM_LOCK_MSG] = PROC("LOCK_MSG", p##_lockargs, p##_lock_store, hf_nlm_on_lock, true),         \
    [NLM_CANCEL_MSG] = PROC("CANCEL_MSG", p##_cancargs, p##_cancel_store, hf_nlm_on_cancel, true), \
    [NLM_UNLOCK_MSG] =                                                                             \
        PROC("UNLOCK_MSG", p##_unlockargs, p##_unlock_store, hf_nlm_on_unlock, true),              \
    [NLM_GRANTED_MSG] =                                                                            \
        PROC("GRANTED_MSG", p##_testargs, p##_test_store, hf_nlm_on_granted, false),               \
    [NLM_TEST_RES] =                                                                               \
        PROC("TEST_RES", p##_testres, p##_testres_store, hf_nlm_on_ignored_res, false),            \
    [NLM_LOCK_RES] = PROC("LOCK_RES", p##_res, p##_res_store, hf_nlm_on_ignored_res, false),       \
    [NLM_CANCEL_RES] = PROC("CANCEL_RES", p##_res, p##_res_store, hf_nlm_on_ignored_res, false),   \
    [NLM_UNLOCK_RES] = PROC("UNLOCK_RES", p##_res, p##_res_store, hf_nlm_on_ignored_res, false),   \
    [NLM_GRANTED_RES] = PROC("GRANTED_RES", p##_res, p##_res_store, hf_nlm_on_granted_res, true),  \
    [NLM_SM_NOTIFY] =                                                                              \
        PROC("SM_NOTIFY", nlm_sm_status, nlm_sm_status_store, hf_nlm_on_sm_notify, true)

#define EXTENDED(p)                                                                           \
    [NLM_SHARE] = PROC("SHARE", p##_shareargs, p##_share_store, hf_nlm_on_share, true),       \
    [NLM_UNSHARE] = PROC("UNSHARE", p##_shareargs, p##_share_store, hf_nlm_on_unshare, true), \
    [NLM_NM_LOCK] = PROC("NM_LOCK", p##_lockargs, p##_lock_store, hf_nlm_on_nm_lock, true),   \
    [NLM_FREE_ALL] = PROC("FREE_ALL", nlm_notify, nlm_notify_store, hf_nlm_on_free_all, true)

static const struct hf_rpc_procedure V1[] = {COMMON(nlm)};
static const struct hf_rpc_procedure V3[] = {COMMON(nlm), EXTENDED(nlm)};
static const struct hf_rpc_procedure V4[] = {COMMON(nlm4), EXTENDED(nlm4)};

const struct hf_rpc_version hf_nlm_versions[3] = {
    {NLM_VERS, V1, HF_COUNT_OF(V1)},
    {NLM_VERSX, V3, HF_COUNT_OF(V3)},
    {NLM4_VERS, V4, HF_COUNT_OF(V4)},
};

static const char *const KINDS[HF_NLM_KINDS] = {
    "NULL", "TEST",      "LOCK",  "CANCEL",  "UNLOCK",  "GRANTED",
    "RES",  "SM_NOTIFY", "SHARE", "UNSHARE", "NM_LOCK", "FREE_ALL",
};

static const char *const STATS[HF_NLM_STATS] = {
    "granted", "denied", "denied_nolocks", "blocked", "denied_grace_period",
    "deadlck", "rofs",   "stale_fh",       "fbig",    "failed",
};

const char *hf_nlm_kind_name(enum hf_nlm_kind kind)
{
    return KINDS[kind];
}

const char *hf_nlm_stat_name(enum hf_stat stat)
{
    return STATS[stat];
}

void hf_nlm_init(struct hf_nlm *nlm, struct hf_service *service, struct hf_rpc_client *client)
{
    *nlm = (struct hf_nlm){
        .program = {NLM_PROG, "nlm", hf_nlm_versions, HF_COUNT_OF(hf_nlm_versions), nlm},
        .service = service,
        .client = client,
    };
    hf_nlm_callbacks_init(nlm);
    hf_nlm_answers_init(nlm);
}
