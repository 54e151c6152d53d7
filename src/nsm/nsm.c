#include "nsm/nsm.h"

#include "base/check.h"
#include "proto/nsm.h"

/* Preset storage for arguments: see rpc/program.h. */
static char mon_name[SM_MAXSTRLEN];
static sm_name name_args = {.mon_name = {.sm_string_val = mon_name}};

static void null(struct hf_rpc_call *call, void *args)
{
    (void)args;
    hf_rpc_reply_void(call);
}

/* NSM-04: any name gets STAT_SUCC and our state number, and registers nothing. */
static void stat(struct hf_rpc_call *call, void *args)
{
    const struct hf_nsm *nsm = call->program->ctx;
    sm_stat_res res = {.res_stat = STAT_SUCC, .state = nsm->state};

    (void)args;
    hf_rpc_reply(call, (xdrproc_t)xdr_sm_stat_res, &res);
}

static const struct hf_rpc_procedure PROCEDURES[] = {
    [SM_NULL] = {"NULL", NULL, NULL, null, false},
    [SM_STAT] = {"STAT", (xdrproc_t)xdr_sm_name, &name_args, stat, false},
};

static const struct hf_rpc_version VERSIONS[] = {{SM_VERS, PROCEDURES, HF_COUNT_OF(PROCEDURES)}};

void hf_nsm_init(struct hf_nsm *nsm)
{
    *nsm = (struct hf_nsm){
        .state = 1, /* odd while up (NSM-06), until it comes from the durable epoch */
        .program = {SM_PROG, "nsm", VERSIONS, HF_COUNT_OF(VERSIONS), nsm},
    };
}
