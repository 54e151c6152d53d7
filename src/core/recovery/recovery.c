/* Recovery as a whole, and what it does after each commit. */
#include "core/common/timer.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/private.h"

void hf_recovery_init(struct hf_core *core)
{
    hf_list_init(&core->recovery->pending_releases);
    hf_list_init(&core->recovery->decisions);
}

void hf_recovery_committed(struct hf_core *core)
{
    hf_pending_release_committed(core);
}

void hf_recovery_commit_failed(struct hf_core *core, struct hf_now now)
{
    struct hf_recovery *recovery = core->recovery;

    hf_pending_release_commit_failed(core);
    if (recovery->state_seq > core->durable->seq)
        recovery->state_seq = core->durable->epoch_seq;
    recovery->grace.drained_seq = 0; /* what had been reclaimed may be unclaimed again */
    hf_retry_later(core, now);
}

void hf_recovery_retry(struct hf_core *core, struct hf_now now)
{
    hf_pending_release_retry_all(core, now);
    hf_grace_retry(core, now);
}
