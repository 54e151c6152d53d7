/* Start, stop, and SM_SIMU_CRASH, which is a start without a stop (NSM-06). */
#include "core/core.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"

int hf_core_start(struct hf_core *core, struct hf_now now)
{
    if (hf_epoch_start(core, now) < 0)
        return HF_ENOMEM;
    hf_turn_end(core, now);
    return 0;
}

bool hf_core_lost_tail(const struct hf_core *core)
{
    return core->recovery->tail_lost;
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
