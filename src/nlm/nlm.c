#include "nlm/nlm.h"

#include "base/check.h"
#include "proto/nlm.h"

static void null(struct hf_rpc_call *call, void *args)
{
    (void)args;
    hf_rpc_reply_void(call);
}

static const struct hf_rpc_procedure PROCEDURES[] = {
    [NLM_NULL] = {"NULL", NULL, NULL, null, false},
};

static const struct hf_rpc_version VERSIONS[] = {
    {NLM_VERS, PROCEDURES, HF_COUNT_OF(PROCEDURES)},
    {NLM_VERSX, PROCEDURES, HF_COUNT_OF(PROCEDURES)},
    {NLM4_VERS, PROCEDURES, HF_COUNT_OF(PROCEDURES)},
};

void hf_nlm_init(struct hf_nlm *nlm)
{
    *nlm = (struct hf_nlm){
        .program = {NLM_PROG, "nlm", VERSIONS, HF_COUNT_OF(VERSIONS), nlm},
    };
}
