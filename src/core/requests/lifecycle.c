/* Start, stop, and SM_SIMU_CRASH, which is a start without a stop (NSM-06). */
#include "core/claims/claims.h"
#include "core/core.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"

int hf_core_start(struct hf_core *core, struct hf_now now)
{
    if (hf_claims_start(core) < 0 || hf_epoch_start(core, now) < 0)
        return HF_ENOMEM;
    hf_turn_end(core, now);
    return 0;
}

enum hf_unknown_locks hf_core_unknown_locks(const struct hf_core *core)
{
    return core->recovery->locks_unknown ? core->recovery->start.unknown : HF_UNKNOWN_NONE;
}

uint64_t hf_core_stop(struct hf_core *core, struct hf_now now)
{
    (void)now;
    core->recovery->stopped = true;
    hf_durable_write_server(core);
    return core->durable->epoch_seq;
}

uint64_t hf_core_simu_crash(struct hf_core *core, struct hf_now now)
{
    hf_epoch_simulate_crash(core, now);
    hf_turn_end(core, now);
    return hf_durable_answer_seq(core, core->durable->epoch_seq);
}
