/* Batches: taken by the caller, committed, and reported back. */
#include <string.h>

#include "core/common/event.h"
#include "core/core.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"

const struct hf_batch *hf_core_take_batch(struct hf_core *core)
{
    struct hf_record_server server = {
        core->epoch, core->recovery->stopped, core->recovery->tail_lost, {0}};

    if (core->config.unflushed && !core->recovery->stopped)
        memcpy(server.boot_id, core->config.boot_id, sizeof(server.boot_id));
    return hf_durable_take(core, &server);
}

/* Memory goes back to what is durable. */
static void failed(struct hf_core *core, struct hf_now now, uint64_t seq, int error)
{
    core->counters.commits_failed++;
    hf_event_add(core, HF_EVENT_COMMIT_FAILED, (int64_t)seq, (int64_t)hf_durable_n_undo(core),
                 error);
    hf_durable_failed(core, seq);
    hf_recovery_commit_failed(core, now);
}

void hf_core_batch_done(struct hf_core *core, struct hf_now now, uint64_t seq, int error)
{
    if (error != 0) {
        failed(core, now, seq, error);
        return;
    }
    hf_durable_done(core, seq);
    hf_recovery_committed(core);
    hf_turn_end(core, now);
}
