/* Hands out outgoing calls and takes their results (outcall.h), among them GRANTED_RES. */
#include "core/clients/clients.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

bool hf_core_next_outcall(struct hf_core *core, struct hf_now now, struct hf_outcall_attempt *out)
{
    return hf_outcall_next(core, now, out);
}

void hf_core_outcall_done(struct hf_core *core, struct hf_now now, uint64_t call_id,
                          enum hf_outcall_outcome outcome, int error)
{
    struct hf_outcall *outcall = hf_outcall_find(core, call_id);

    if (!outcall || outcall->state != HF_OUTCALL_RUNNING)
        return; /* the call has ended, or GRANTED_RES answered it */
    hf_outcall_attempt_done(core, now, outcall, outcome, error);
    hf_turn_end(core, now);
}

void hf_core_stat_answered(struct hf_core *core, struct hf_now now, uint64_t call_id, int32_t state)
{
    struct hf_outcall *outcall = hf_outcall_find(core, call_id);

    if (!outcall || outcall->state != HF_OUTCALL_RUNNING)
        return;
    hf_verify_answered(core, now, outcall, state);
    hf_turn_end(core, now);
}

void hf_core_granted_res(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                         uint64_t call_id, bool accepted)
{
    struct hf_waiter *waiter = hf_grant_find(core, call_id);

    if (!waiter)
        return; /* the answer came too late, or its cookie is not ours */
    if (!waiter->msg || !hf_client_may_be_at(core, waiter->owner->client, &peer->addr)) {
        core->counters.granted_res_stranger++;
        return;
    }
    hf_grant_answered(core, now, waiter, accepted);
    hf_turn_end(core, now);
}
