/* A transaction makes the changes of one request together or not at all. */
#include "core/durable/private.h"
#include "core/internal.h"

void hf_txn_begin(struct hf_txn *txn, struct hf_core *core, struct hf_now now, uint64_t *object_seq)
{
    const struct hf_batch *batch = hf_durable_gathering(core);

    *txn = (struct hf_txn){
        .core = core,
        .now = now,
        .undo_n = core->durable->undos[core->durable->gathering].n,
        .batch_end = hf_buf_len(&batch->buf),
        .n_ops = batch->n_ops,
    };
    txn->object_seq = object_seq;
}

void hf_txn_begin_giving(struct hf_txn *txn, struct hf_core *core, struct hf_now now,
                         uint64_t *object_seq)
{
    hf_txn_begin(txn, core, now, object_seq);
    txn->depends = hf_durable_is_beginning(core) || core->config.fenced;
}

void hf_txn_abort(struct hf_txn *txn)
{
    struct hf_core *core = txn->core;
    struct hf_batch *batch = hf_durable_gathering(core);

    core->counters.out_of_memory++;
    hf_undo_revert(core, &core->durable->undos[core->durable->gathering], txn->undo_n);
    hf_buf_truncate(&batch->buf, txn->batch_end);
    batch->n_ops = txn->n_ops;
}

bool hf_txn_has_changes(const struct hf_txn *txn)
{
    const struct hf_durable *durable = txn->core->durable;

    return durable->undos[durable->gathering].n > txn->undo_n;
}

uint64_t hf_txn_commit(struct hf_txn *txn)
{
    struct hf_core *core = txn->core;
    const struct hf_batch *batch = hf_durable_gathering(core);
    bool recorded = batch->n_ops > txn->n_ops;
    bool waits = txn->object_seq && !hf_durable_has(core, *txn->object_seq);

    if (!hf_txn_has_changes(txn)) {
        HF_ASSERT(!recorded);
        if (txn->depends)
            return batch->seq;
        /* A repeated request waits for the change that its first copy made. */
        return txn->object_seq ? *txn->object_seq : 0;
    }
    if (!recorded && !waits && !txn->depends && !core->config.fenced && !core->config.coherent) {
        hf_undo_keep(core, &core->durable->undos[core->durable->gathering], txn->undo_n);
        return 0;
    }
    if (txn->object_seq)
        *txn->object_seq = batch->seq;
    core->durable->wanted = true;
    return batch->seq;
}
