/*
 * Waiters: how they enter the queue, leave it, and are found in it.
 *
 * A waiter queues behind another if the two conflict, unless the other one waits for a lock of the
 * first one's owner: an owner must not queue behind a waiter that waits for it (an upgrade, say).
 * An owner that holds all of the range already, in whatever mode, queues behind no waiter. Nor does
 * a waiter that passes, because its place in the queue would be part of a cycle (deadlock.c).
 *
 * Only requests that wait are subject to the order of the queue. A LOCK that does not wait is
 * granted whenever no held lock conflicts with it, as TEST says.
 */
#include <string.h>

#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/common/range.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"
#include "core/table/table.h"
#include "core/wait/private.h"

enum { PLACES_MAX = 1000 }; /* how many waiters a search looks at, for a metric only */

int hf_wait_init(struct hf_core *core)
{
    struct hf_wait *wait = core->wait;

    hf_slab_init(&wait->slab, core->alloc, sizeof(struct hf_waiter));
    hf_list_init(&wait->all);
    wait->n_by_export =
        hf_calloc(core->alloc, core->config.n_export_rules + 1, sizeof(*wait->n_by_export));
    return wait->n_by_export ? 0 : HF_ENOMEM;
}

bool hf_wants_record(const struct hf_core *core, const struct hf_lock_args *args)
{
    return !args->unmonitored || core->config.continues;
}

void hf_wait_free(struct hf_core *core)
{
    hf_slab_free(&core->wait->slab);
    hf_free(core->alloc, core->wait->n_by_export);
}

struct hf_want hf_waiter_want(const struct hf_core *core, const struct hf_waiter *w)
{
    return (struct hf_want){
        w->owner, w->first, w->last, w->exclusive, w->monitored && core->config.durable_locks,
        w->life};
}

/*
 * True if the waiter waits for a lock of this owner, or if finding out would take too long.
 */
static bool waits_for(const struct hf_core *core, const struct hf_waiter *w,
                      const struct hf_owner *owner, uint64_t work_end)
{
    struct hf_lock *lock = NULL;

    while ((lock = hf_table_own(core, w->file, owner, w->first, w->last, lock)) != NULL) {
        if (w->exclusive || lock->exclusive || core->table->work > work_end)
            return true;
    }
    return false;
}

/* True if the owner holds all of the range, in whatever mode, or if finding out would take too
 * long. */
static bool holds_all(const struct hf_core *core, const struct hf_file *file,
                      const struct hf_want *want, uint64_t work_end)
{
    uint64_t next = want->first; /* the owner holds everything before this byte */
    struct hf_lock *lock = NULL;

    while ((lock = hf_table_own(core, file, want->owner, want->first, want->last, lock)) != NULL &&
           lock->node.first <= next) {
        if (lock->node.last >= want->last || core->table->work > work_end)
            return true;
        next = lock->node.last + 1;
    }
    return false;
}

struct hf_waiter *hf_waiter_ahead(const struct hf_core *core, const struct hf_file *file,
                                  const struct hf_want *want, uint64_t ticket,
                                  const struct hf_waiter *after)
{
    const struct hf_list *node = after ? after->in_file.next : file->queue->waiters.next;
    const uint64_t work_end = core->table->work + core->config.budgets.ahead;

    /* With `after` set, an earlier call has found that the owner does not hold all of the range. */
    if (file->queue->n_waiters == 0 || (!after && holds_all(core, file, want, work_end)))
        return NULL;
    for (; node != &file->queue->waiters; node = node->next) {
        struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_file);
        if (w->id >= ticket || core->table->work++ > work_end)
            return NULL;
        if (w->owner != want->owner && (w->exclusive || want->exclusive) &&
            hf_range_overlap(w->first, w->last, want->first, want->last) &&
            !waits_for(core, w, want->owner, work_end))
            return w;
    }
    return NULL;
}

struct hf_waiter *hf_waiter_find(const struct hf_core *core, const struct hf_file *file,
                                 const struct hf_want *want)
{
    hf_list_foreach (node, &want->owner->waiting->waiters) {
        struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_owner);
        core->table->work++;
        if (w->file == file && w->first == want->first && w->last == want->last && !w->granting)
            return w;
    }
    return NULL;
}

bool hf_waiter_is_behind_own(const struct hf_core *core, const struct hf_waiter *waiter)
{
    hf_list_foreach (node, &waiter->owner->waiting->waiters) {
        const struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_owner);
        core->table->work++;
        if (w->granting && w->file == waiter->file &&
            hf_range_overlap(w->first, w->last, waiter->first, waiter->last))
            return true;
    }
    return false;
}

void hf_waiter_enter_queue(struct hf_core *core, struct hf_waiter *w)
{
    struct hf_list *place = w->file->queue->waiters.prev;

    while (place != &w->file->queue->waiters &&
           hf_list_entry(place, struct hf_waiter, in_file)->id > w->id) {
        place = place->prev; /* after the undo of a grant, the waiter gets its old place */
        core->table->work++;
    }
    hf_list_add_after(place, &w->in_file);
    w->file->queue->n_waiters++;
    w->owner->client->n_waiters++;
    w->owner->client->host->n_held++;
    w->owner->client->host->n_waiters++;
    core->table->n_waiters++;
    core->wait->n_by_export[w->file->export_rule]++;
}

void hf_waiter_leave_queue(struct hf_core *core, struct hf_waiter *w)
{
    hf_claim_wait_end(core, &w->outside);
    if (w->file->queue->resume == &w->in_file)
        w->file->queue->resume = w->in_file.next;
    hf_list_remove(&w->in_file);
    w->file->queue->n_waiters--;
    w->owner->client->n_waiters--;
    w->owner->client->host->n_held--;
    w->owner->client->host->n_waiters--;
    core->table->n_waiters--;
    core->wait->n_by_export[w->file->export_rule]--;
}

/* Undoes the beginning of a wait: its BLOCKED was not sent and becomes a refusal, so the client
 * does not wait. */
static void revert_wait(struct hf_core *core, const struct hf_undo *entry)
{
    struct hf_waiter *w = entry->object;

    if (w->gone) {
        hf_waiter_keep(core, entry);
        return;
    }
    HF_ASSERT(!w->granting); /* the waiter's grant came after this wait, so it was undone first */
    w->undos--;
    hf_waiter_remove(core, w);
}

static const struct hf_undo_ops wait_undo = {revert_wait, hf_waiter_keep};

/* Keeps the file handle that the client sent: clients recognise a callback by it. */
int hf_waiter_keep_handle(struct hf_core *core, struct hf_waiter *w, struct hf_bytes fh)
{
    uint8_t *copy = NULL;

    if (!hf_bytes_equal(fh, hf_file_fh(w->file))) {
        copy = hf_malloc(core->alloc, fh.len);
        if (!copy)
            return HF_ENOMEM;
        memcpy(copy, fh.data, fh.len);
    }
    hf_free(core->alloc, w->fh);
    w->fh = copy;
    return 0;
}

int hf_waiter_add(struct hf_txn *txn, const struct hf_peer *peer, const struct hf_lock_args *args,
                  struct hf_file *file, const struct hf_want *want)
{
    struct hf_core *core = txn->core;
    struct hf_waiter *w;

    if (txn->depends && hf_undo_reserve(core) < 0)
        return HF_ENOMEM;
    if (hf_owner_ensure_waiting(core, want->owner) < 0 || hf_file_ensure_queue(core, file) < 0)
        return HF_ENOMEM;
    w = hf_slab_take(&core->wait->slab);
    if (!w)
        return HF_ENOMEM;
    *w = (struct hf_waiter){
        .id = hf_core_new_id(core),
        .owner = want->owner,
        .file = file,
        .first = want->first,
        .last = want->last,
        .since_ms = txn->now.wall_ms,
        .exclusive = args->exclusive,
    };
    if (hf_waiter_keep_handle(core, w, args->fh) < 0) {
        hf_slab_give(&core->wait->slab, w);
        return HF_ENOMEM;
    }
    hf_behind_init(&w->behind, &hf_waiter_behind, w->id, false);
    hf_waiter_repeated(core, w, peer, args, want->life);
    hf_outcall_init(&w->outcall);
    want->owner->refs++;
    file->refs++;
    hf_list_add_tail(&want->owner->waiting->waiters, &w->in_owner);
    want->owner->waiting->n_waiters++;
    hf_list_add_tail(&want->owner->client->waiters, &w->in_client);
    hf_list_add_tail(&core->wait->all, &w->in_all);
    hf_waiter_enter_queue(core, w);
    txn->object_seq = &w->seq;
    if (txn->depends) {
        hf_undo_push(core, (struct hf_undo){&wait_undo, .object = w});
        w->undos++;
    }
    return 0;
}

/* True if the waiter's record already says what this copy of the request says. */
static bool is_as_recorded(const struct hf_core *core, const struct hf_waiter *w,
                           const struct hf_peer *peer, const struct hf_lock_args *args,
                           uint32_t life)
{
    return w->offset == args->offset && w->length == args->length && w->life >= life &&
           w->monitored >= hf_wants_record(core, args) &&
           hf_addr_same_host(&w->local, &peer->local) && w->transport == peer->transport &&
           w->version == args->version && w->msg == args->msg &&
           hf_bytes_equal(args->fh, w->fh ? hf_bytes(w->fh, w->file->fh_len) : hf_file_fh(w->file));
}

void hf_waiter_repeated(struct hf_core *core, struct hf_waiter *w, const struct hf_peer *peer,
                        const struct hf_lock_args *args, uint32_t life)
{
    if (!is_as_recorded(core, w, peer, args, life))
        hf_behind_changed(core, &w->behind);
    /* Without memory the waiter keeps the handle that it had. */
    (void)hf_waiter_keep_handle(core, w, args->fh);
    w->monitored |= hf_wants_record(core, args);
    w->offset = args->offset;
    w->length = args->length;
    w->local = peer->local;
    w->transport = peer->transport;
    w->version = args->version;
    w->msg = args->msg;
    if (life > w->life) { /* the client waits again after its restart */
        hf_waiter_count_had(core, w, false);
        w->life = life;
        hf_waiter_count_had(core, w, true);
    }
}

/* Makes the waiter exclusive. A failed batch does not undo that: a client that waits for a shared
 * lock can take an exclusive one. */
void hf_waiter_strengthen(struct hf_core *core, struct hf_waiter *w)
{
    hf_waiter_leave_queue(core, w);
    hf_file_wake(core, w->file, w->first, w->last); /* waiters behind this one may be granted now */
    w->id = hf_core_new_id(core);
    w->exclusive = true;
    w->passes = false;
    hf_behind_changed(core, &w->behind);
    hf_waiter_enter_queue(core, w);
    /* An exclusive waiter needs an exclusive lock in the kernel. */
    if (core->config.coherent)
        hf_file_wake(core, w->file, w->first, w->last);
}

void hf_waiter_del(struct hf_core *core, struct hf_waiter *w)
{
    hf_free(core->alloc, w->fh);
    hf_free(core->alloc, w->had);
    hf_owner_unref(core, w->owner);
    hf_file_unref(core, w->file);
    hf_slab_give(&core->wait->slab, w);
}

void hf_waiter_keep(struct hf_core *core, const struct hf_undo *entry)
{
    struct hf_waiter *w = entry->object;

    w->undos--;
    hf_waiter_release(core, w);
}

void hf_waiter_release(struct hf_core *core, struct hf_waiter *w)
{
    if (w->gone && w->undos == 0 && !hf_behind_is_busy(&w->behind))
        hf_waiter_del(core, w);
}

void hf_waiter_count_had(struct hf_core *core, const struct hf_waiter *w, bool more)
{
    for (uint32_t i = 0; i < w->n_had; i++) {
        if (w->had[i].unclaimed)
            core->wait->n_unclaimed += more ? 1 : UINT32_MAX;
        if (w->had[i].life != w->life)
            core->wait->n_ambiguous += more ? 1 : UINT32_MAX;
    }
}

/* Puts the waiter back where it was among all waiters. The search is bounded, because only a metric
 * depends on the place. */
static void put_back(struct hf_core *core, struct hf_waiter *w)
{
    struct hf_list *place = core->wait->all.prev;

    for (unsigned n = 0; n < PLACES_MAX && place != &core->wait->all &&
                         hf_list_entry(place, struct hf_waiter, in_all)->since_ms > w->since_ms;
         n++)
        place = place->prev;
    hf_list_add_after(place, &w->in_all);
}

int64_t hf_waiters_oldest_ms(const struct hf_core *core)
{
    unsigned n = 0;

    hf_list_foreach (node, &core->wait->all) {
        const struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_all);
        if (!w->granting)
            return w->since_ms;
        if (++n == PLACES_MAX)
            break;
    }
    return INT64_MAX;
}

void hf_waiter_come_back(struct hf_core *core, struct hf_waiter *w)
{
    w->gone = w->called_off = false;
    hf_behind_came_back(core, &w->behind);
    hf_list_add_tail(&w->owner->waiting->waiters, &w->in_owner);
    w->owner->waiting->n_waiters++;
    hf_list_add_tail(&w->owner->client->waiters, &w->in_client);
    put_back(core, w);
    hf_waiter_count_had(core, w, true);
}

void hf_waiter_remove(struct hf_core *core, struct hf_waiter *w)
{
    hf_outcall_end(core, &w->outcall);
    if (!w->granting) {
        hf_waiter_leave_queue(core, w);
        /* Waiters behind this one may be granted now. */
        hf_file_wake(core, w->file, w->first, w->last);
    }
    hf_list_remove(&w->in_owner);
    w->owner->waiting->n_waiters--;
    hf_list_remove(&w->in_client);
    hf_list_remove(&w->in_all);
    if (w->granting) {
        hf_waiter_count_had(core, w, false);
        hf_owner_wake(core, w->owner, w->file); /* the owner's next waiter can be granted now */
    }
    if (hf_list_empty(&w->owner->client->waiters))
        hf_outcall_end(core, &w->owner->client->probe);
    w->gone = true;
    hf_behind_ended(core, &w->behind);
    /* If the waiter is still needed, its last undo entry or its record deletes it later. */
    hf_waiter_release(core, w);
}

void hf_waiter_tell(const struct hf_core *core, const struct hf_waiter *w, enum hf_end end)
{
    const struct hf_client *client = w->owner->client;
    struct hf_ending ending;

    if (!core->heard || !core->heard(core->told_ctx, end, true, w->since_ms))
        return;
    ending = (struct hf_ending){
        .end = end,
        .wait = true,
        .exclusive = w->exclusive,
        .id = w->id,
        .first = w->first,
        .last = w->last,
        .since_ms = w->since_ms,
        .client = client->name,
        .addr = client->addr,
        .fh = hf_file_fh(w->file),
        .oh = hf_owner_oh(w->owner),
        .svid = w->owner->svid,
    };
    core->told(core->told_ctx, &ending);
}

/* Ends a wait. A waiter that has been granted no longer waits: the end of its wait was told
 * then. */
void hf_waiter_end(struct hf_core *core, struct hf_waiter *w, enum hf_end end)
{
    if (!w->granting)
        hf_waiter_tell(core, w, end);
    hf_waiter_remove(core, w);
}

void hf_waiter_confirm_range(struct hf_core *core, struct hf_owner *owner, struct hf_file *file,
                             uint64_t first, uint64_t last, bool waits)
{
    hf_list_foreach_safe (node, &owner->waiting->waiters) {
        struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_owner);
        core->table->work++;
        if (w->granting && w->file == file && hf_range_overlap(w->first, w->last, first, last)) {
            w->called_off = !(waits && w->first == first && w->last == last);
            hf_waiter_remove(core, w);
        }
    }
}

void hf_waiters_wake_all(struct hf_core *core)
{
    for (size_t i = 0; i < hf_slab_slots(&core->wait->slab); i++) {
        const struct hf_waiter *w = hf_slab_at(&core->wait->slab, i);
        if (w && !w->granting && !w->gone)
            hf_file_wake(core, w->file, w->first, w->last);
    }
}

void hf_owner_wake(struct hf_core *core, const struct hf_owner *owner, struct hf_file *file)
{
    hf_list_foreach (node, &owner->waiting->waiters) {
        const struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_owner);
        core->table->work++;
        if (!w->granting && w->file == file)
            hf_file_wake(core, file, w->first, w->last);
    }
}
