/* The passing of time: when the core wants to be called, and what is due then. */
#include "core/claims/claims.h"
#include "core/common/timer.h"
#include "core/core.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"
#include "core/wait/wait.h"

uint64_t hf_core_deadline(const struct hf_core *core)
{
    const struct hf_grace *grace = &core->recovery->grace;
    uint64_t at_ms = hf_timers_deadline(core);

    if (core->outcalls->room_ms < at_ms)
        at_ms = core->outcalls->room_ms;
    if (core->wait->unfinished && !hf_grace_is_strict(core))
        return 0; /* waiters are still to be served, so the tick is due at once */
    if (hf_pending_release_is_due(core))
        return 0;
    if (core->recovery->hold_end_ms > 0 && core->recovery->hold_end_ms < at_ms)
        at_ms = core->recovery->hold_end_ms;
    return grace->active && grace->end_ms < at_ms ? grace->end_ms : at_ms;
}

static void retry(struct hf_core *core)
{
    core->timers->retry_ms = UINT64_MAX;
    hf_durable_retry(core);
    hf_recovery_retry(core);
    if (core->config.coherent)
        hf_claims_retry(core);
}

void hf_core_tick(struct hf_core *core, struct hf_now now)
{
    hf_timers_fire_due(core, now);
    if (core->outcalls->room_ms <= now.mono_ms)
        /* Each turn ends by asking for outgoing calls anyway. */
        core->outcalls->room_ms = UINT64_MAX;
    if (core->recovery->grace.active && core->recovery->grace.end_ms <= now.mono_ms)
        hf_grace_ran_out(core, now);
    if (core->recovery->hold_end_ms <= now.mono_ms)
        core->recovery->hold_end_ms = 0;
    if (core->timers->retry_ms <= now.mono_ms)
        retry(core);
    hf_pending_release_go_on_if_due(core, now);
    core->wait->unfinished = false; /* hf_turn_end() goes on serving waiters now */
    hf_turn_end(core, now);
}
