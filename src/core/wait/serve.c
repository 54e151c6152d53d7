/*
 * Serves waiters: grants locks in the order of the queue, and takes back what a client does not
 * want.
 *
 * A waiter is granted when no lock of another owner conflicts with it and there is no waiter that
 * it queues behind. When a range becomes free, its file is put on the list of woken files, and
 * hf_waiters_serve() looks at those of the file's waiters that overlap the range. It does a bounded
 * amount of work; ticks do the rest, file by file.
 *
 * A granted waiter leaves the queue and carries its GRANTED callback. One owner can have several
 * callbacks (threads of a process; an old copy of a request). Where they overlap the newest one
 * counts, so the client must be told of them in the order in which they were granted: the owner's
 * next waiter is granted when the callback before it has ended.
 */
#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/common/range.h"
#include "core/common/timer.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"
#include "core/table/table.h"
#include "core/wait/private.h"

/* A grant counts as visiting this many objects, because it changes records and begins a
 * callback. */
enum { GRANT_WORK = 16 };

static void forget_had(struct hf_core *core, struct hf_waiter *w)
{
    hf_waiter_count_had(core, w, false);
    hf_free(core->alloc, w->had);
    w->had = NULL;
    w->n_had = 0;
}

/*
 * Notes what the owner holds of the range before the grant, so that a client that refuses the grant
 * gets it back. Meanwhile nothing else changes there: any request of the owner in the range, and
 * any release, ends the callback, and overlapping waiters of one owner are granted one by one. So
 * all waiters of an owner together note no more than the owner has locks.
 */
static int note_had(struct hf_core *core, struct hf_waiter *w)
{
    struct hf_lock *lock = NULL;
    uint32_t n = 0;

    while ((lock = hf_table_own(core, w->file, w->owner, w->first, w->last, lock)) != NULL)
        n += !hf_lock_is_releasing(lock);
    if (n == 0)
        return 0;
    w->had = hf_malloc(core->alloc, n * sizeof(w->had[0]));
    if (!w->had)
        return HF_ENOMEM;
    while ((lock = hf_table_own(core, w->file, w->owner, w->first, w->last, lock)) != NULL) {
        if (!hf_lock_is_releasing(lock))
            w->had[w->n_had++] =
                (struct hf_held){lock->node.first > w->first ? lock->node.first : w->first,
                                 lock->node.last < w->last ? lock->node.last : w->last,
                                 lock->exclusive,
                                 lock->durable,
                                 lock->unclaimed,
                                 lock->life};
    }
    hf_waiter_count_had(core, w, true);
    return 0;
}

/* Undoes a grant: the waiter waits again, at its old place. */
static void ungrant(struct hf_core *core, struct hf_waiter *w)
{
    HF_ASSERT(w->granting);
    hf_waiter_tell(core, w, HF_END_UNDONE);
    hf_outcall_end(core, &w->outcall);
    w->granting = false;
    forget_had(core, w);
    hf_behind_changed(core, &w->behind);
    hf_waiter_enter_queue(core, w);
    hf_owner_review_later(core, w->owner);
    hf_file_wake(core, w->file, w->first, w->last);
}

/*
 * True if the waiter must wait again when its grant is undone, although a request of its owner has
 * called the callback off, because the thread that was told BLOCKED still waits. It must not if its
 * client has restarted, or has asked for the range anew.
 */
static bool waits_again(const struct hf_core *core, const struct hf_waiter *w)
{
    struct hf_want want = hf_waiter_want(core, w);

    return w->called_off && w->life >= w->owner->client->lives.oldest &&
           !hf_waiter_find(core, w->file, &want);
}

static void revert_grant(struct hf_core *core, const struct hf_undo *entry)
{
    struct hf_waiter *w = entry->object;

    if (w->gone && !waits_again(core, w)) {
        hf_waiter_keep(core, entry);
        return;
    }
    w->undos--;
    if (w->gone)
        hf_waiter_come_back(core, w);
    ungrant(core, w);
}

static const struct hf_undo_ops grant_undo = {revert_grant, hf_waiter_keep};

/*
 * Grants the waiter its lock and, in the same transaction, registers its client if necessary: a
 * lock that was granted after a wait must not stay unmonitored (SPEC section 2). A grant only adds,
 * because the waiter may be an old copy of a request, and the owner may need what it holds.
 */
static int grant(struct hf_core *core, struct hf_now now, struct hf_waiter *w)
{
    struct hf_want want = hf_waiter_want(core, w);
    struct hf_txn txn;

    if (note_had(core, w) < 0) {
        core->counters.out_of_memory++;
        return HF_ENOMEM;
    }
    hf_txn_begin_giving(&txn, core, now, &w->file->seq);
    /* The grant depends on the wait, whose beginning is undone if its batch fails. */
    txn.depends |= !hf_durable_has(core, w->seq);
    if ((w->monitored && hf_client_register(&txn, w->owner->client) < 0) ||
        hf_table_add(&txn, w->file, &want) < 0 || hf_undo_reserve(core) < 0) {
        hf_txn_abort(&txn);
        forget_had(core, w);
        return HF_ENOMEM;
    }
    hf_limits_held_by(core, w->owner, w->file);
    hf_undo_push(core, (struct hf_undo){&grant_undo, .object = w});
    hf_waiter_leave_queue(core, w);
    w->granting = true;
    w->undos++;
    hf_behind_changed(core, &w->behind);
    hf_waiter_tell(core, w, HF_END_GRANTED);
    hf_grant_begin(core, w, hf_txn_commit(&txn));
    hf_owner_wake(core, w->owner, w->file);
    return 0;
}

/* True if, after this grant, no waiter further back can be granted any part of the range. */
static bool takes_all(const struct hf_waiter *w, uint64_t first, uint64_t last)
{
    return w->exclusive && w->first <= first && w->last >= last &&
           w->owner->waiting->waiters.next == w->owner->waiting->waiters.prev;
}

/*
 * Asks the kernel to hold the range for us; returns 1 if it does. If it is still being asked, the
 * waiter is looked at again when the result comes; behind a holder outside NLM the waiter waits in
 * the kernel's queue. A waiter for which the kernel can hold nothing goes, and its client's next
 * request is told why.
 */
static int ask_kernel(struct hf_core *core, struct hf_waiter *w, const struct hf_want *want)
{
    struct hf_claim_said said;

    if (w->outside)
        return hf_claim_covers(core, w->file, w->first, w->last, w->exclusive);
    said = hf_claim_want(core, w->file, want, HF_CLAIM_RAISE);
    switch (said.say) {
    case HF_SAYS_YES:
        return 1;
    case HF_SAYS_HELD:
    case HF_SAYS_LATER:
        return hf_claim_wait_begin(core, w->file, want,
                                   said.say == HF_SAYS_HELD ? &said.holder : NULL, &w->outside);
    case HF_SAYS_REFUSED:
        if (said.stat != HF_STAT_DENIED_GRACE_PERIOD)
            hf_waiter_end(core, w, HF_END_REFUSED);
        return 0;
    case HF_SAYS_NO_MEMORY:
        return HF_ENOMEM;
    case HF_SAYS_WAIT:
        break;
    }
    return 0;
}

/* Returns 1 if the waiter can be granted now, 0 if it cannot, or HF_ENOMEM. */
static int can_be_granted(struct hf_core *core, struct hf_waiter *w)
{
    struct hf_want want = hf_waiter_want(core, w);

    if (hf_table_conflict(core, w->file, &want) ||
        (!w->passes && hf_waiter_ahead(core, w->file, &want, w->id, NULL)) ||
        hf_waiter_is_behind_own(core, w))
        return 0;
    return core->config.coherent ? ask_kernel(core, w, &want) : 1;
}

enum served {
    SERVED_ALL,
    SERVED_SOME,    /* the next tick goes on with the pass */
    SERVED_STALLED, /* memory ran out: the file is served again later */
};

/* Begins a pass over the file's waiters, or goes on with the one in progress. */
static enum served serve_file(struct hf_core *core, struct hf_now now, struct hf_file_queue *queue,
                              uint64_t work_end)
{
    if (!queue->resume) {
        queue->pass_first = queue->woken_first;
        queue->pass_last = queue->woken_last;
        queue->has_range = false;
        queue->resume = queue->waiters.next;
    }
    while (queue->resume != &queue->waiters) {
        struct hf_waiter *w = hf_list_entry(queue->resume, struct hf_waiter, in_file);
        int can;

        if (core->table->work++ >= work_end)
            return SERVED_SOME;
        queue->resume = queue->resume->next;
        if (!hf_range_overlap(w->first, w->last, queue->pass_first, queue->pass_last))
            continue;
        can = can_be_granted(core, w);
        if (can == 0)
            continue;
        if (can < 0 || grant(core, now, w) < 0) {
            queue->resume = NULL;
            hf_file_wake(core, queue->file, queue->pass_first, queue->pass_last);
            return SERVED_STALLED;
        }
        core->table->work += GRANT_WORK;
        if (takes_all(w, queue->pass_first, queue->pass_last))
            break;
    }
    queue->resume = NULL;
    return SERVED_ALL;
}

/*
 * Serves the woken files in turn until none is left or the work has reached its bound; then the
 * rest stays in the list.
 */
static void serve_woken(struct hf_core *core, struct hf_now now, struct hf_list *stalled,
                        uint64_t work_end)
{
    struct hf_file_queue *queue;

    while (core->table->work < work_end &&
           (queue = hf_list_first(&core->table->woken, struct hf_file_queue, woken)) != NULL) {
        enum served served;

        hf_list_remove(&queue->woken);
        served = serve_file(core, now, queue, work_end);
        if (served == SERVED_ALL && !queue->has_range)
            continue;
        hf_list_remove(&queue->woken); /* a grant may have woken the file again */
        hf_list_add_tail(served == SERVED_STALLED ? stalled : &core->table->woken, &queue->woken);
    }
}

/* Serves waiters and breaks cycles in turn: a grant can close a cycle, and breaking a cycle can let
 * a waiter be granted. */
void hf_waiters_serve(struct hf_core *core, struct hf_now now)
{
    uint64_t work_end = core->table->work + core->config.budgets.serve;
    struct hf_list stalled;

    hf_list_init(&stalled);
    do {
        serve_woken(core, now, &stalled, work_end);
        hf_deadlock_review(core, work_end);
    } while (core->table->work < work_end &&
             (!hf_list_empty(&core->table->woken) || !hf_list_empty(&core->table->review)));
    core->wait->unfinished =
        !hf_list_empty(&core->table->woken) || !hf_list_empty(&core->table->review);
    if (!hf_list_empty(&stalled))
        hf_retry_later(core, now);
    hf_list_splice_tail(&core->table->woken, &stalled);
}

/*
 * Takes back what the grant gave, because the client does not want the lock, or does not answer.
 * What the owner held before stays, because it may be in use: each part becomes what it was, shared
 * or exclusive, of its own life, and still to be reclaimed if it was.
 */
static int take_back(struct hf_txn *txn, const struct hf_waiter *w)
{
    struct hf_want want = hf_waiter_want(txn->core, w);

    txn->end = HF_END_NOT_TAKEN;
    if (hf_table_clear(txn, w->file, w->owner, w->first, w->last) < 0)
        return HF_ENOMEM;
    for (uint32_t i = 0; i < w->n_had; i++) {
        want.first = w->had[i].first;
        want.last = w->had[i].last;
        want.exclusive = w->had[i].exclusive;
        want.durable = w->had[i].durable;
        want.life = w->had[i].life;
        want.unclaimed = w->had[i].unclaimed;
        txn->core->wait->put_back |= want.unclaimed;
        if (hf_table_set(txn, w->file, &want) < 0)
            return HF_ENOMEM;
    }
    return 0;
}

/*
 * Makes a callback again whose refusal could not be committed: the client holds a lock that it does
 * not want, or is dead. The call waits a moment: otherwise, while the store is down, a client that
 * refuses would be called as fast as it answers.
 */
static void revert_called(struct hf_core *core, const struct hf_undo *entry)
{
    struct hf_waiter *w = entry->object;

    w->undos--;
    hf_waiter_come_back(core, w);
    hf_grant_begin(core, w, 0);
    hf_outcall_pause(core, (struct hf_now){0}, &w->outcall,
                     w->outcall.attempt_ms + HF_RETRY_PAUSE_MS);
}

static const struct hf_undo_ops called_undo = {revert_called, hf_waiter_keep};

int hf_waiter_called(struct hf_core *core, struct hf_now now, struct hf_waiter *w, bool accepted)
{
    struct hf_client *client = w->owner->client;
    struct hf_txn txn;

    HF_ASSERT(w->granting && !w->gone);
    if (!accepted) {
        hf_txn_begin(&txn, core, now, &w->file->seq);
        if (take_back(&txn, w) < 0 || hf_undo_reserve(core) < 0) {
            hf_txn_abort(&txn);
            return HF_ENOMEM;
        }
        hf_undo_push(core, (struct hf_undo){&called_undo, .object = w});
        w->undos++;
        hf_txn_commit(&txn);
    }
    client->refs++;
    hf_waiter_remove(core, w);
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
    return 0;
}
