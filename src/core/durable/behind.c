/* Records written behind: keeps what became of each object, and puts that into batches. */
#include "core/durable/private.h"
#include "core/internal.h"

void hf_behind_init(struct hf_behind *behind, const struct hf_behind_ops *ops, uint64_t id,
                    bool stored)
{
    *behind = (struct hf_behind){.ops = ops, .id = id, .stored = stored};
    hf_list_init(&behind->link);
}

void hf_behind_changed(struct hf_core *core, struct hf_behind *behind)
{
    if (!core->config.continues)
        return;
    behind->changed = true;
    core->durable->wanted = true;
    if (!hf_list_linked(&behind->link))
        hf_list_add_tail(&core->durable->behind, &behind->link);
}

void hf_behind_ended(struct hf_core *core, struct hf_behind *behind)
{
    behind->gone = true;
    if (behind->stored || behind->in_flight)
        hf_behind_changed(core, behind);
    else
        hf_list_remove(&behind->link); /* the store has no record of the object */
}

void hf_behind_came_back(struct hf_core *core, struct hf_behind *behind)
{
    behind->gone = false;
    hf_behind_changed(core, behind);
}

bool hf_behind_is_busy(const struct hf_behind *behind)
{
    return hf_list_linked(&behind->link);
}

static int write_one(struct hf_txn *txn, struct hf_behind *behind)
{
    if (behind->gone)
        return hf_batch_delete(hf_durable_gathering(txn->core), HF_RECORD_LOCK, behind->id);
    return behind->ops->put(txn, behind);
}

/* Writes all changed objects or none, so that a batch shows the state of one moment. */
int hf_behind_write(struct hf_core *core)
{
    struct hf_durable *durable = core->durable;
    struct hf_txn txn;

    if (hf_list_empty(&durable->behind))
        return 0;
    hf_txn_begin(&txn, core, (struct hf_now){0}, NULL);
    hf_list_foreach (node, &durable->behind) {
        if (write_one(&txn, hf_list_entry(node, struct hf_behind, link)) < 0) {
            hf_txn_abort(&txn);
            return HF_ENOMEM;
        }
    }
    hf_list_foreach (node, &durable->behind) {
        struct hf_behind *behind = hf_list_entry(node, struct hf_behind, link);
        behind->changed = false;
        behind->in_flight = true;
    }
    hf_list_splice_tail(&durable->behind_in_flight, &durable->behind);
    return 0;
}

/* Ends a batch that is durable. An object that changed while the batch was in flight goes into the
 * next one. */
void hf_behind_done(struct hf_core *core)
{
    struct hf_durable *durable = core->durable;

    hf_list_foreach_safe (node, &durable->behind_in_flight) {
        struct hf_behind *behind = hf_list_entry(node, struct hf_behind, link);
        hf_list_remove(&behind->link);
        behind->in_flight = false;
        behind->stored = true;
        if (behind->changed)
            hf_behind_changed(core, behind);
        else if (behind->gone)
            behind->ops->forget(core, behind);
    }
}

/* Ends a batch that failed. Objects in memory are not undone: the next batch writes the state that
 * they have by then. */
void hf_behind_failed(struct hf_core *core)
{
    struct hf_durable *durable = core->durable;

    hf_list_foreach (node, &durable->behind_in_flight)
        hf_list_entry(node, struct hf_behind, link)->in_flight = false;
    hf_list_splice_tail(&durable->behind, &durable->behind_in_flight);
}

void hf_behind_free(struct hf_core *core)
{
    hf_behind_failed(core);
    hf_list_foreach_safe (node, &core->durable->behind) {
        struct hf_behind *behind = hf_list_entry(node, struct hf_behind, link);
        hf_list_remove(&behind->link);
        behind->ops->forget(core, behind);
    }
}
