/* Batches: the caller takes one, commits it, and reports the result. */
#include <string.h>

#include "core/common/event.h"
#include "core/core.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"

static enum hf_durability durability_of(const struct hf_core_config *config)
{
    if (!config->durable_locks)
        return HF_DURABILITY_NONE;
    return config->unflushed ? HF_DURABILITY_PROCESS : HF_DURABILITY_FULL;
}

/*
 * Adds deletions of records that the start found and does not use. They go with the start's own
 * record, and again if that batch fails. Such records must not outlive the run, because their
 * clients may go.
 */
static bool add_obsolete(struct hf_core *core)
{
    const struct hf_batch *obsolete = &core->recovery->obsolete;

    if (obsolete->n_ops == 0 || !core->durable->server_dirty || core->durable->in_flight ||
        !core->durable->wanted)
        return true;
    return hf_batch_append(hf_durable_gathering(core), obsolete) == 0;
}

const struct hf_batch *hf_core_take_batch(struct hf_core *core)
{
    struct hf_record_server server = {
        .epoch = core->epoch,
        .clean = core->recovery->stopped,
        .locks_unknown = core->recovery->locks_unknown,
        .role = core->config.role,
        .durability = durability_of(&core->config),
        .number_epoch = core->recovery->number_epoch,
        .continuity = hf_epoch_continuity(core),
    };

    memcpy(server.boot_id, core->config.boot_id, sizeof(server.boot_id));
    if (!add_obsolete(core))
        return NULL; /* without memory the caller asks for a batch again after its next event */
    return hf_durable_take(core, &server);
}

/* Brings memory back to what is durable, after a failed commit. */
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
    if (core->durable->server_in_flight)
        hf_recovery_free(core);
    hf_durable_done(core, seq);
    hf_recovery_committed(core);
    hf_turn_end(core, now);
}
