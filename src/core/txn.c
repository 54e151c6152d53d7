/*
 * Durability (SPEC sections 4 and 5): one batch gathers while another commits. A transaction is one
 * request's worth of changes. Each change is logged in the undo log of the gathering batch before
 * it is made, so a transaction can be rolled back when memory runs out half-way, and the whole
 * batch when the store refuses it.
 *
 * What a transaction waits for. It must wait for the gathering batch if it put a record there, and
 * also if it changed a file that has changes not yet durable: should those be undone, this one must
 * be as well, or two owners could hold one range. Such a transaction makes the batch wanted even if
 * it has no record of its own. Any other transaction (an NM_LOCK on a quiet file, every lock of a
 * known client when locks are not durable) is final at once and leaves no trace in the log.
 */
#include "core/parts.h"

struct hf_batch *hf_core_gathering(struct hf_core *core)
{
    return &core->batches[core->gathering];
}

/* A batch that failed leaves nothing to wait for: what it did is undone, the rest is durable. */
bool hf_core_is_durable(const struct hf_core *core, uint64_t seq)
{
    return seq <= core->durable || seq <= core->failed;
}

uint64_t hf_core_durable(const struct hf_core *core)
{
    return core->durable;
}

uint64_t hf_core_answer_seq(struct hf_core *core, uint64_t seq)
{
    if (HF_PLANTED(GRANT_BEFORE_DURABLE))
        return 0;
    if (seq < core->epoch_seq)
        seq = core->epoch_seq; /* NSM-06: nothing leaves before the epoch is durable */
    if (hf_core_is_durable(core, seq))
        return 0;
    if (seq == hf_core_gathering(core)->seq)
        core->wanted = true; /* or nobody would commit what this answer waits for */
    return seq;
}

struct hf_txn_mark hf_txn_mark(const struct hf_txn *txn)
{
    struct hf_core *core = txn->core;
    const struct hf_batch *batch = hf_core_gathering(core);

    return (struct hf_txn_mark){core->undos[core->gathering].n, hf_buf_len(&batch->buf),
                                batch->n_ops};
}

void hf_txn_begin(struct hf_txn *txn, struct hf_core *core, struct hf_now now, struct hf_file *file)
{
    *txn = (struct hf_txn){.core = core, .now = now, .file = file};
    txn->begin = hf_txn_mark(txn);
}

void hf_txn_rollback(struct hf_txn *txn, struct hf_txn_mark mark)
{
    struct hf_core *core = txn->core;
    struct hf_batch *batch = hf_core_gathering(core);

    hf_undo_back(core, &core->undos[core->gathering], mark.undo_n);
    hf_buf_truncate(&batch->buf, mark.batch_end);
    batch->n_ops = mark.n_ops;
}

void hf_txn_abort(struct hf_txn *txn)
{
    txn->core->counters.out_of_memory++;
    hf_txn_rollback(txn, txn->begin);
}

uint64_t hf_txn_commit(struct hf_txn *txn)
{
    struct hf_core *core = txn->core;
    struct hf_undo_log *log = &core->undos[core->gathering];
    const struct hf_batch *batch = hf_core_gathering(core);
    bool changed = log->n > txn->begin.undo_n;
    bool recorded = batch->n_ops > txn->begin.n_ops;
    bool waits = txn->file && !hf_core_is_durable(core, txn->file->seq);

    if (!changed) {
        HF_ASSERT(!recorded);
        if (txn->depends)
            return batch->seq;
        return txn->file ? txn->file->seq : 0; /* a repeat waits for what it repeats */
    }
    if (!recorded && !waits && !txn->depends) {
        hf_undo_settle(core, log, txn->begin.undo_n);
        return 0;
    }
    if (txn->file)
        txn->file->seq = batch->seq;
    core->wanted = true;
    return batch->seq;
}

const struct hf_batch *hf_core_take_batch(struct hf_core *core)
{
    struct hf_batch *batch = hf_core_gathering(core);
    struct hf_record_server server = {core->epoch, core->stopped};

    if (core->in_flight || !core->wanted)
        return NULL;
    if (core->server_dirty && hf_batch_put_server(batch, &server) < 0)
        return NULL; /* asked again with the next event */
    core->server_in_flight = core->server_dirty;
    core->server_dirty = false;
    core->wanted = false;
    core->in_flight = true;
    core->gathering ^= 1;
    HF_ASSERT(core->undos[core->gathering].n == 0);
    hf_batch_clear(hf_core_gathering(core));
    hf_core_gathering(core)->seq = batch->seq + 1;
    return batch;
}

/* Memory goes back to what is durable: the gathering batch first, it came later. */
static void take_back(struct hf_core *core, struct hf_now now, uint64_t seq, int error)
{
    struct hf_undo_log *later = &core->undos[core->gathering];
    struct hf_undo_log *failed = &core->undos[core->gathering ^ 1];

    core->counters.commits_failed++;
    hf_event_add(core, HF_EVENT_COMMIT_FAILED, NULL, (int64_t)seq, (int64_t)(later->n + failed->n),
                 error);
    if (HF_PLANTED(FORGET_UNDO)) {
        hf_undo_settle(core, failed, 0);
        hf_undo_settle(core, later, 0);
    }
    hf_undo_back(core, later, 0);
    hf_undo_back(core, failed, 0);
    hf_doom_undone(core);
    hf_batch_clear(hf_core_gathering(core));
    core->wanted = false;
    if (core->server_in_flight || core->server_dirty) {
        core->server_dirty = true; /* goes with the next batch, at the latest with the redo */
        core->epoch_seq = hf_core_gathering(core)->seq;
        if (!hf_core_state_is_durable(core))
            core->state_seq = core->epoch_seq;
    }
    core->grace.drained_seq = 0; /* what had been reclaimed may be unclaimed again */
    core->failed = seq;          /* not before: undoing asks what is durable */
    hf_redo_later(core, now);
}

void hf_core_batch_done(struct hf_core *core, struct hf_now now, uint64_t seq, int error)
{
    struct hf_batch *batch = &core->batches[core->gathering ^ 1];

    HF_ASSERT(core->in_flight && batch->seq == seq);
    core->in_flight = false;
    if (error == 0) {
        core->durable = seq;
        hf_undo_settle(core, &core->undos[core->gathering ^ 1], 0);
        hf_doom_durable(core);
        hf_core_settle(core, now);
    } else {
        take_back(core, now, seq, error);
    }
    core->server_in_flight = false;
}
