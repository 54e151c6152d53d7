/* The two batches: one gathers changes while the other one is being committed. */
#include "core/core.h"
#include "core/durable/private.h"
#include "core/internal.h"

void hf_durable_init(struct hf_core *core)
{
    for (size_t i = 0; i < HF_COUNT_OF(core->durable->batches); i++)
        hf_batch_init(&core->durable->batches[i], core->alloc);
    core->durable->batches[0].seq = 1;
    hf_list_init(&core->durable->behind);
    hf_list_init(&core->durable->behind_in_flight);
}

/* Frees what only the undo log refers to, because no change will be undone any more. */
void hf_durable_close(struct hf_core *core)
{
    struct hf_durable *durable = core->durable;

    hf_undo_keep(core, &durable->undos[durable->gathering ^ 1], 0);
    hf_undo_keep(core, &durable->undos[durable->gathering], 0);
}

void hf_durable_free(struct hf_core *core)
{
    for (size_t i = 0; i < HF_COUNT_OF(core->durable->batches); i++) {
        hf_free(core->alloc, core->durable->undos[i].entries);
        hf_batch_free(&core->durable->batches[i]);
    }
}

struct hf_batch *hf_durable_gathering(struct hf_core *core)
{
    return &core->durable->batches[core->durable->gathering];
}

bool hf_durable_has(const struct hf_core *core, uint64_t seq)
{
    return seq <= core->durable->seq || seq <= core->durable->failed_seq;
}

uint64_t hf_core_durable(const struct hf_core *core)
{
    return core->durable->seq;
}

uint64_t hf_durable_last_change(struct hf_core *core)
{
    const struct hf_durable *durable = core->durable;
    uint64_t seq = hf_durable_gathering(core)->seq;

    if (durable->wanted || durable->undos[durable->gathering].n > 0)
        return seq;
    return durable->in_flight ? seq - 1 : durable->seq;
}

uint64_t hf_durable_behind_seq(struct hf_core *core)
{
    if (!core->config.continues)
        return 0;
    /* The next batch writes what a failed batch could not. */
    return hf_list_empty(&core->durable->behind) ? hf_durable_last_change(core)
                                                 : hf_durable_gathering(core)->seq;
}

size_t hf_durable_n_undo(const struct hf_core *core)
{
    return core->durable->undos[0].n + core->durable->undos[1].n;
}

/*
 * True if the batch is durable but the kernel has not released yet what it freed. A repeated
 * request waits for that release, too.
 */
static bool is_unreleased(const struct hf_core *core, uint64_t seq)
{
    const struct hf_durable *durable = core->durable;

    return durable->released && seq <= durable->seq && seq > durable->released(core);
}

uint64_t hf_durable_answer_seq(struct hf_core *core, uint64_t seq)
{
    if (seq < core->durable->epoch_seq)
        seq = core->durable->epoch_seq; /* NSM-06: nothing leaves before the epoch is durable */
    if (hf_durable_has(core, seq))
        return is_unreleased(core, seq) ? seq : 0;
    /* Without this mark nobody would take the batch that this answer waits for. */
    if (seq == hf_durable_gathering(core)->seq)
        core->durable->wanted = true;
    return seq;
}

bool hf_durable_is_beginning(const struct hf_core *core)
{
    return !hf_durable_has(core, core->durable->epoch_seq);
}

void hf_durable_write_server(struct hf_core *core)
{
    core->durable->server_dirty = true;
    core->durable->wanted = true;
    core->durable->epoch_seq = hf_durable_gathering(core)->seq;
}

const struct hf_batch *hf_durable_take(struct hf_core *core, const struct hf_record_server *server)
{
    struct hf_durable *durable = core->durable;
    struct hf_batch *batch = hf_durable_gathering(core);

    if (durable->in_flight || !durable->wanted)
        return NULL;
    if ((durable->server_dirty && hf_batch_put_server(batch, server) < 0) ||
        hf_behind_write(core) < 0)
        return NULL; /* without memory the caller asks for a batch again after its next event */
    batch->may_be_lost = core->config.unflushed && batch->locks_only;
    durable->server_in_flight = durable->server_dirty;
    durable->server_dirty = false;
    durable->wanted = false;
    durable->in_flight = true;
    durable->gathering ^= 1;
    HF_ASSERT(durable->undos[durable->gathering].n == 0);
    hf_batch_clear(hf_durable_gathering(core));
    hf_durable_gathering(core)->seq = batch->seq + 1;
    return batch;
}

/* Notes that the batch is no longer in flight. */
static void land(struct hf_core *core, uint64_t seq)
{
    struct hf_durable *durable = core->durable;

    HF_ASSERT(durable->in_flight && durable->batches[durable->gathering ^ 1].seq == seq);
    durable->in_flight = false;
}

void hf_durable_done(struct hf_core *core, uint64_t seq)
{
    land(core, seq);
    core->durable->seq = seq;
    core->durable->server_in_flight = false;
    hf_undo_keep(core, &core->durable->undos[core->durable->gathering ^ 1], 0);
    hf_behind_done(core);
}

/* Undoes the gathering batch first, because its changes came later. */
void hf_durable_failed(struct hf_core *core, uint64_t seq)
{
    struct hf_durable *durable = core->durable;
    struct hf_undo_log *later = &durable->undos[durable->gathering];
    struct hf_undo_log *failed = &durable->undos[durable->gathering ^ 1];

    land(core, seq);
    hf_undo_revert(core, later, 0);
    hf_undo_revert(core, failed, 0);
    hf_behind_failed(core);
    hf_batch_clear(hf_durable_gathering(core));
    durable->wanted = false;
    if (durable->server_in_flight || durable->server_dirty) {
        /* The server's record goes into the next batch, at the latest with the retry. */
        durable->server_dirty = true;
        durable->epoch_seq = hf_durable_gathering(core)->seq;
    }
    durable->server_in_flight = false;
    durable->failed_seq = seq; /* failed_seq changes last, because reverting asks what is durable */
}

void hf_durable_retry(struct hf_core *core)
{
    if (core->durable->server_dirty || !hf_list_empty(&core->durable->behind))
        core->durable->wanted = true;
}
