/*
 * Waiters: blocked LOCKs, one queue per file, first come, first served (NLM-03).
 *
 * A waiter is granted when no lock of another owner is in the way and no waiter ahead of it would
 * be overtaken. A waiter ahead counts only if the two conflict, and does not count if it waits for
 * the very owner who asks: that one must not queue behind somebody who waits for it (an upgrade,
 * say).
 *
 * When a range gets free its file is put on the list of woken ones, and hf_waiters_serve() looks,
 * among the waiters of that file, at those that overlap the range. So however many locks go at
 * once, there is one loop and no recursion (CRS-01).
 *
 * A granted waiter stays, out of the queue, as the carrier of its GRANTED callback. One owner can
 * have several (threads of a process; an old copy of a request). Where they overlap the newest
 * counts, so the client must hear of them in the order in which they were granted: the next is
 * granted when the callback before it is over.
 */
#include "core/parts.h"

static struct hf_want want_of(const struct hf_core *core, const struct hf_waiter *w)
{
    return (struct hf_want){w->owner, w->first, w->last, w->exclusive,
                            w->monitored && core->config.durable_locks};
}

/* The owner holds a lock that the waiter waits for. */
static bool waits_for(const struct hf_waiter *w, const struct hf_owner *owner)
{
    struct hf_lock *lock = NULL;

    while ((lock = hf_held_own(w->file, owner, w->first, w->last, lock)) != NULL) {
        if (w->exclusive || lock->exclusive)
            return true;
    }
    return false;
}

static bool holds_all(const struct hf_file *file, const struct hf_want *want)
{
    struct hf_want any = *want;

    any.exclusive = false; /* in whatever mode */
    return hf_held_covers(file, &any, false);
}

struct hf_waiter *hf_waiter_ahead(const struct hf_file *file, const struct hf_want *want,
                                  uint64_t ticket, const struct hf_waiter *after)
{
    const struct hf_list *node = after ? after->in_file.next : file->crowd->waiters.next;

    if (file->crowd->n_waiters == 0 || holds_all(file, want))
        return NULL;
    if (HF_PLANTED(OVERTAKE_WAITER) && ticket == UINT64_MAX)
        return NULL;
    for (; node != &file->crowd->waiters; node = node->next) {
        struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_file);
        if (w->id >= ticket)
            return NULL;
        if (w->owner != want->owner && (w->exclusive || want->exclusive) &&
            hf_range_overlap(w->first, w->last, want->first, want->last) &&
            !waits_for(w, want->owner))
            return w;
    }
    return NULL;
}

struct hf_waiter *hf_waiter_find(const struct hf_file *file, const struct hf_want *want)
{
    hf_list_foreach (node, &want->owner->waiting->waiters) {
        struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_owner);
        if (w->file == file && w->first == want->first && w->last == want->last &&
            w->exclusive == want->exclusive && !(HF_PLANTED(DUPLICATE_WAITER) && !w->granting))
            return w;
    }
    return NULL;
}

bool hf_waiter_is_behind_own(const struct hf_waiter *waiter)
{
    hf_list_foreach (node, &waiter->owner->waiting->waiters) {
        const struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_owner);
        if (w->granting && w->file == waiter->file &&
            hf_range_overlap(w->first, w->last, waiter->first, waiter->last))
            return true;
    }
    return false;
}

static void enter_queue(struct hf_core *core, struct hf_waiter *w)
{
    struct hf_list *place = w->file->crowd->waiters.prev;

    while (place != &w->file->crowd->waiters &&
           hf_list_entry(place, struct hf_waiter, in_file)->id > w->id)
        place = place->prev; /* an undone grant: back to where it was */
    hf_list_add_after(place, &w->in_file);
    w->file->crowd->n_waiters++;
    w->owner->client->n_waiters++;
    core->n_waiters++;
}

static void leave_queue(struct hf_core *core, struct hf_waiter *w)
{
    hf_list_remove(&w->in_file);
    w->file->crowd->n_waiters--;
    w->owner->client->n_waiters--;
    core->n_waiters--;
}

int hf_waiter_add(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                  const struct hf_lock_args *args, struct hf_file *file, const struct hf_want *want)
{
    struct hf_waiter *w;

    if (HF_PLANTED(DROP_SECOND_WAITER) && file->crowd->n_waiters == 1)
        return 0;
    if (hf_owner_waiting(core, want->owner) < 0 || hf_file_crowd(core, file) < 0)
        return HF_ENOMEM;
    w = hf_slab_take(&core->waiter_slab);
    if (!w)
        return HF_ENOMEM;
    *w = (struct hf_waiter){
        .id = hf_core_new_id(core),
        .owner = want->owner,
        .file = file,
        .first = want->first,
        .last = want->last,
        .offset = args->offset,
        .length = args->length,
        .since_ms = now.wall_ms,
        .local = peer->local,
        .transport = peer->transport,
        .version = args->version,
        .msg = args->msg,
        .exclusive = args->exclusive,
        .monitored = !args->unmonitored,
    };
    hf_errand_init(&w->errand, HF_ERRAND_GRANT);
    want->owner->refs++;
    file->refs++;
    hf_list_add_tail(&want->owner->waiting->waiters, &w->in_owner);
    hf_list_add_tail(&want->owner->client->waiters, &w->in_client);
    enter_queue(core, w);
    return 0;
}

void hf_waiter_del(struct hf_core *core, struct hf_waiter *w)
{
    hf_owner_unref(core, w->owner);
    hf_file_unref(core, w->file);
    hf_slab_give(&core->waiter_slab, w);
}

void hf_waiter_remove(struct hf_core *core, struct hf_waiter *w)
{
    hf_errand_end(core, &w->errand);
    if (!w->granting) {
        leave_queue(core, w);
        hf_waiters_wake(core, w->file, w->first, w->last); /* for those behind it */
    }
    hf_list_remove(&w->in_owner);
    hf_list_remove(&w->in_client);
    if (w->granting)
        hf_waiters_wake_owner(core, w->owner, w->file); /* its turn to be told of the next */
    if (hf_list_empty(&w->owner->client->waiters))
        hf_errand_end(core, &w->owner->client->probe);
    if (w->undoable)
        w->gone = true; /* the undo entry deletes it */
    else
        hf_waiter_del(core, w);
}

void hf_waiter_ungrant(struct hf_core *core, struct hf_waiter *w)
{
    HF_ASSERT(w->granting);
    hf_errand_end(core, &w->errand);
    w->granting = false;
    enter_queue(core, w);
    hf_waiters_wake(core, w->file, w->first, w->last);
}

void hf_waiter_confirm_range(struct hf_core *core, struct hf_owner *owner, struct hf_file *file,
                             uint64_t first, uint64_t last)
{
    hf_list_foreach_safe (node, &owner->waiting->waiters) {
        struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_owner);
        if (w->granting && w->file == file && hf_range_overlap(w->first, w->last, first, last))
            hf_waiter_remove(core, w);
    }
}

void hf_waiters_wake(struct hf_core *core, struct hf_file *file, uint64_t first, uint64_t last)
{
    if (file->crowd->n_waiters == 0 || HF_PLANTED(FORGET_WAKE))
        return;
    if (!hf_list_linked(&file->crowd->woken)) {
        hf_list_add_tail(&core->woken, &file->crowd->woken);
        file->crowd->woken_first = first;
        file->crowd->woken_last = last;
        return;
    }
    if (first < file->crowd->woken_first)
        file->crowd->woken_first = first;
    if (last > file->crowd->woken_last)
        file->crowd->woken_last = last;
}

void hf_waiters_wake_owner(struct hf_core *core, const struct hf_owner *owner, struct hf_file *file)
{
    hf_list_foreach (node, &owner->waiting->waiters) {
        const struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_owner);
        if (!w->granting && w->file == file)
            hf_waiters_wake(core, file, w->first, w->last);
    }
}

static enum hf_had had_of(const struct hf_file *file, const struct hf_want *want)
{
    struct hf_want shared = *want;

    if (!hf_held_own(file, want->owner, want->first, want->last, NULL))
        return HF_HAD_NOTHING;
    shared.exclusive = false;
    return hf_held_covers(file, &shared, true) ? HF_HAD_SHARED : HF_HAD_SOME;
}

/*
 * The lock, and the registration of its client if that is its first, in one transaction (SPEC
 * section 2: "a lock granted to a waiter that was never monitored" is an old wound).
 */
static int grant(struct hf_core *core, struct hf_now now, struct hf_waiter *w)
{
    struct hf_want want = want_of(core, w);
    struct hf_txn txn;

    w->had = had_of(w->file, &want);
    hf_txn_begin(&txn, core, now, w->file);
    if ((w->monitored && !HF_PLANTED(WAITED_UNREGISTERED) &&
         hf_client_register(&txn, w->owner->client) < 0) ||
        hf_held_set(&txn, &want) < 0 || hf_undo_reserve(core) < 0) {
        hf_txn_abort(&txn);
        return HF_ENOMEM;
    }
    hf_undo_push(core, (struct hf_undo){HF_UNDO_WAITER_GRANTED, .waiter = w});
    leave_queue(core, w);
    w->granting = true;
    w->undoable = true;
    hf_errand_begin(core, &w->errand, hf_txn_commit(&txn));
    hf_waiters_wake_owner(core, w->owner, w->file);
    return 0;
}

/* Nobody further back can have any part of the range that this one just got. */
static bool takes_all(const struct hf_waiter *w, uint64_t first, uint64_t last)
{
    return w->exclusive && w->first <= first && w->last >= last &&
           w->owner->waiting->waiters.next == w->owner->waiting->waiters.prev;
}

static int serve_file(struct hf_core *core, struct hf_now now, struct hf_file *file)
{
    uint64_t first = file->crowd->woken_first;
    uint64_t last = file->crowd->woken_last;

    hf_list_foreach_safe (node, &file->crowd->waiters) {
        struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_file);
        struct hf_want want = want_of(core, w);
        if (!hf_range_overlap(w->first, w->last, first, last) || hf_held_conflict(file, &want) ||
            (!w->passes && hf_waiter_ahead(file, &want, w->id, NULL)) || hf_waiter_is_behind_own(w))
            continue;
        if (grant(core, now, w) < 0) {
            hf_waiters_wake(core, file, first, last);
            return HF_ENOMEM;
        }
        if (takes_all(w, first, last))
            break;
    }
    return 0;
}

void hf_waiters_serve(struct hf_core *core, struct hf_now now)
{
    struct hf_list stalled;
    struct hf_crowd *crowd;

    if (core->grace.active && core->config.grace_mode == HF_GRACE_STRICT)
        return; /* nothing new is granted; they are looked at when it ends */
    hf_list_init(&stalled);
    while ((crowd = hf_list_first(&core->woken, struct hf_crowd, woken)) != NULL) {
        hf_list_remove(&crowd->woken);
        if (serve_file(core, now, crowd->file) < 0) {
            hf_list_remove(&crowd->woken);
            hf_list_add_tail(&stalled, &crowd->woken);
        }
    }
    if (!hf_list_empty(&stalled))
        hf_redo_later(core, now);
    hf_list_splice_tail(&core->woken, &stalled);
}

/*
 * The client does not want it, or does not answer: what the grant gave is taken back, and not what
 * the owner held before. That is in use, as far as we know. An upgrade goes back to shared; a part
 * that was held is not told from the rest any more, so all of it stays until it is unlocked.
 */
static int take_back(struct hf_txn *txn, const struct hf_waiter *w)
{
    struct hf_want shared = want_of(txn->core, w);

    shared.exclusive = false;
    switch (w->had) {
    case HF_HAD_NOTHING:
        return hf_held_clear(txn, w->owner, w->first, w->last);
    case HF_HAD_SHARED:
        return hf_held_set(txn, &shared);
    default:
        return 0;
    }
}

int hf_waiter_called(struct hf_core *core, struct hf_now now, struct hf_waiter *w, bool accepted)
{
    struct hf_client *client = w->owner->client;
    struct hf_txn txn;

    HF_ASSERT(w->granting && !w->gone);
    if (!accepted) {
        hf_txn_begin(&txn, core, now, w->file);
        if (take_back(&txn, w) < 0) {
            hf_txn_abort(&txn);
            return HF_ENOMEM;
        }
        hf_txn_commit(&txn);
    }
    client->refs++;
    hf_waiter_remove(core, w);
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
    return 0;
}

void hf_waiter_fill(const struct hf_waiter *w, struct hf_call *out)
{
    const struct hf_client *client = w->owner->client;

    out->kind = HF_CALL_GRANTED;
    out->client_id = client->id;
    out->host = client->name;
    out->to[0] = client->addr;
    out->n_to = 1;
    out->from = w->local;
    out->from.port = 0;
    out->transport = w->transport;
    out->prog = 100021;
    out->vers = w->version;
    out->proc = w->msg ? 10 : 5; /* GRANTED_MSG, GRANTED */
    out->fh = hf_file_fh(w->file);
    out->oh = hf_owner_oh(w->owner);
    out->svid = w->owner->svid;
    out->exclusive = w->exclusive;
    out->offset = w->offset;
    out->length = w->length;
    out->msg = w->msg;
}
