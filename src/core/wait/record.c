/*
 * The records of waiters (recovery.notify=needed): a request that waits keeps its place over a
 * restart, and a GRANTED callback that was in flight is made again.
 */
#include <string.h>

#include "core/clients/clients.h"
#include "core/internal.h"
#include "core/wait/private.h"

static void put_had(const struct hf_waiter *w, uint8_t *out)
{
    for (uint32_t i = 0; i < w->n_had; i++, out += HF_RECORD_HAD_SIZE) {
        const struct hf_record_had had = {w->had[i].first, w->had[i].last, w->had[i].exclusive};
        hf_record_put_had(out, &had);
    }
}

/* Writes the waiter's record. A grant over very many parts that its owner had is not recorded: if
 * the daemon is killed before the client has answered, the client learns of its lock when it asks
 * again. */
static int put_record(struct hf_txn *txn, struct hf_behind *behind)
{
    const struct hf_waiter *w = hf_container_of(behind, struct hf_waiter, behind);
    uint8_t had[HF_RECORD_HAD_MAX * HF_RECORD_HAD_SIZE];
    struct hf_batch *batch = hf_durable_gathering(txn->core);
    struct hf_record_lock record = {
        .id = behind->id,
        .client_id = w->owner->client->id,
        .export = hf_file_export_name(txn->core, w->file),
        .fh = w->fh ? hf_bytes(w->fh, w->file->fh_len) : hf_file_fh(w->file),
        .oh = hf_owner_oh(w->owner),
        .svid = w->owner->svid,
        .first = w->first,
        .last = w->last,
        .exclusive = w->exclusive,
        .acquired_at_ms = w->since_ms,
        .epoch = txn->core->epoch,
        .extra = {.what = w->granting ? HF_RECORD_GRANTED : HF_RECORD_WAITING,
                  .life_id = hf_client_first_id(w->owner->client, w->life),
                  .place = w->id,
                  .offset = w->offset,
                  .length = w->length,
                  .local = w->local,
                  .transport = w->transport,
                  .version = w->version,
                  .msg = w->msg,
                  .monitored = w->monitored,
                  .passes = w->passes,
                  .n_had = (uint16_t)w->n_had},
    };

    if (w->n_had > HF_RECORD_HAD_MAX)
        return hf_batch_delete(batch, HF_RECORD_LOCK, behind->id);
    put_had(w, had);
    record.extra.had = hf_bytes(had, (size_t)w->n_had * HF_RECORD_HAD_SIZE);
    return hf_client_register_behind(txn, w->owner->client) < 0 ? HF_ENOMEM
                                                                : hf_batch_put_lock(batch, &record);
}

static void forget(struct hf_core *core, struct hf_behind *behind)
{
    hf_waiter_release(core, hf_container_of(behind, struct hf_waiter, behind));
}

const struct hf_behind_ops hf_waiter_behind = {put_record, forget};

/* Loads the parts that the waiter's owner held before the grant, as parts of the waiter's life: no
 * start continues from a run that ended while a part belonged to another life (REC-01j). */
static int load_had(struct hf_core *core, struct hf_waiter *w, const struct hf_record_extra *extra)
{
    if (extra->n_had == 0)
        return 0;
    w->had = hf_malloc(core->alloc, extra->n_had * sizeof(w->had[0]));
    if (!w->had)
        return HF_ENOMEM;
    for (; w->n_had < extra->n_had; w->n_had++) {
        struct hf_record_had had = hf_record_had(extra, w->n_had);
        w->had[w->n_had] =
            (struct hf_held){had.first, had.last, had.exclusive, .durable = true, .life = w->life};
    }
    return 0;
}

static void link_waiter(struct hf_core *core, struct hf_waiter *w)
{
    w->owner->refs++;
    w->file->refs++;
    hf_list_add_tail(&w->owner->waiting->waiters, &w->in_owner);
    w->owner->waiting->n_waiters++;
    hf_list_add_tail(&w->owner->client->waiters, &w->in_client);
    /* Waiters are loaded in the order of their ids. */
    hf_list_add_tail(&core->wait->all, &w->in_all);
    if (!w->granting)
        hf_waiter_enter_queue(core, w);
}

int hf_waiter_load(struct hf_core *core, struct hf_file *file, struct hf_owner *owner,
                   const struct hf_record_lock *record)
{
    const struct hf_record_extra *extra = &record->extra;
    struct hf_waiter *w;

    if (hf_owner_ensure_waiting(core, owner) < 0 || hf_file_ensure_queue(core, file) < 0)
        return HF_ENOMEM;
    w = hf_slab_take(&core->wait->slab);
    if (!w)
        return HF_ENOMEM;
    *w = (struct hf_waiter){
        .id = extra->place,
        .owner = owner,
        .file = file,
        .first = record->first,
        .last = record->last,
        .offset = extra->offset,
        .length = extra->length,
        .since_ms = record->acquired_at_ms,
        .life = hf_client_life_of_id(owner->client, extra->life_id),
        .local = extra->local,
        .transport = extra->transport,
        .version = extra->version,
        .msg = extra->msg,
        .exclusive = record->exclusive,
        .monitored = extra->monitored,
        .passes = extra->passes,
        .loaded = true,
        .granting = extra->what == HF_RECORD_GRANTED,
    };
    hf_list_init(&w->in_file);
    hf_behind_init(&w->behind, &hf_waiter_behind, record->id, true);
    hf_outcall_init(&w->outcall);
    if (load_had(core, w, extra) < 0 || hf_waiter_keep_handle(core, w, record->fh) < 0) {
        hf_free(core->alloc, w->had);
        hf_slab_give(&core->wait->slab, w);
        return HF_ENOMEM;
    }
    link_waiter(core, w);
    return 0;
}

/* Lets loaded waiters wait again, and makes callbacks again in the order of the grants, as far as
 * the waiters' ids tell it. */
void hf_waiters_resume(struct hf_core *core)
{
    for (size_t i = 0; i < hf_slab_slots(&core->wait->slab); i++) {
        struct hf_waiter *w = hf_slab_at(&core->wait->slab, i);
        if (!w)
            continue;
        if (w->granting) {
            hf_grant_resume(core, w);
        } else {
            hf_owner_review_later(core, w->owner);
            hf_file_wake(core, w->file, w->first, w->last);
        }
    }
}
