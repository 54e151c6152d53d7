/*
 * Cycles in the waits-for graph (NLM-03, NLM-06).
 *
 * The nodes of the graph are owners. A waits-for edge leads from an owner that waits to one that it
 * waits for. An edge is hard if the other owner holds a lock that conflicts, and soft if its
 * request stands ahead in the queue of the file (hf_waiter_ahead()). A cycle of hard edges means
 * something else than one with a soft edge:
 *
 *   - A cycle of hard edges alone can never resolve itself. The blocking request that would close
 *     it is answered DEADLCK.
 *   - A cycle with a soft edge exists only because we serve waiters in order. Order is no reason to
 *     refuse anything, so such a cycle is broken: one waiter in it "passes", which means that it
 *     does not queue behind other waiters any more.
 *
 * Only a new edge can close a cycle: an owner begins to wait; gets a lock, for which other waiters
 * then wait; or loses one, so that it may have to queue behind waiters that it could pass before
 * (waiters.c). In each case this owner is in the cycle and waits itself. So it is put on a list,
 * and hf_waiters_serve() reviews it before the request is over.
 *
 * A search goes from owner to owner. The number of locks and waiters that it looks at is bounded
 * (budgets.search); beyond that it ends without a result and the cut is counted. The request waits
 * then: a wrong DEADLCK would hurt a healthy client, and the search is made again when the client
 * repeats its request.
 */
#include "core/internal.h"
#include "core/table/table.h"
#include "core/wait/private.h"

struct search {
    struct hf_core *core;
    const struct hf_owner *asker;
    struct hf_owner *queue; /* the owners still to be visited */
    uint64_t work_end;      /* the search ends when table->work exceeds this */
    bool locks_only;        /* cycles count only if all their edges are held locks */
    bool mixed;             /* cycles count only if they include a place in a queue */
    bool found;             /* the search led back to the owner that it began with */
    struct hf_waiter *via;  /* the waiter whose place in a queue is part of the cycle */
};

/* Puts an owner into the search's queue, if the search has not reached it before, or has reached it
 * only through locks and now reaches it through a place in a queue. */
static void enqueue(struct search *s, struct hf_owner *owner, struct hf_waiter *via)
{
    struct hf_waiting *waiting = owner->waiting;

    if (hf_list_empty(&waiting->waiters))
        return;
    if (waiting->suspect_round != s->core->wait->suspect_round) {
        waiting->suspect_round = s->core->wait->suspect_round;
        waiting->suspect_queued = false;
    } else if (!via || waiting->suspect_via) {
        return;
    }
    waiting->suspect_via = via;
    if (waiting->suspect_queued)
        return;
    waiting->suspect_queued = true;
    waiting->suspect_next = s->queue;
    s->queue = owner;
}

/* Notes that the search has reached an owner. via: the first waiter on the way here whose place in
 * a queue was followed; NULL: only locks were. Returns false when the search is over. */
static bool suspect(struct search *s, struct hf_owner *owner, struct hf_waiter *via)
{
    if (owner == s->asker && (via || !s->mixed)) {
        s->found = true;
        s->via = via;
        return false;
    }
    if (s->core->table->work > s->work_end) {
        s->core->counters.deadlock_searches_cut++;
        return false;
    }
    if (owner != s->asker)
        enqueue(s, owner, via);
    return true;
}

/* Visits all owners that this request waits for, or would wait for. place: the request's own
 * waiter; NULL: it does not wait yet. Returns false when the search is over. */
static bool visit(struct search *s, const struct hf_file *file, const struct hf_want *want,
                  struct hf_waiter *place, struct hf_waiter *via)
{
    struct hf_lock *lock = hf_table_conflict(s->core, file, want);
    struct hf_waiter *w = NULL;

    for (; lock; lock = hf_table_conflict_next(s->core, lock, want)) {
        if (!suspect(s, hf_lock_owner(lock), via))
            return false;
    }
    if (s->locks_only || (place && place->passes))
        return true;
    while ((w = hf_waiter_ahead(s->core, file, want, place ? place->id : UINT64_MAX, w)) != NULL) {
        if (!suspect(s, w->owner, via ? via : place))
            return false;
    }
    return true;
}

static bool visit_owner(struct search *s, const struct hf_owner *owner, struct hf_waiter *via)
{
    hf_list_foreach (node, &owner->waiting->waiters) {
        struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_owner);
        struct hf_want want = {w->owner, w->first, w->last, w->exclusive, false};
        s->core->table->work++;
        if (!w->granting && !visit(s, w->file, &want, w, via))
            return false;
    }
    return true;
}

/* Visits the owners in the search's queue, one after the other. Returns true if the way leads back
 * to the asker. */
static bool follow(struct search *s, bool more)
{
    while (more && s->queue) {
        struct hf_owner *owner = s->queue;
        s->queue = owner->waiting->suspect_next;
        owner->waiting->suspect_queued = false;
        more = visit_owner(s, owner, owner->waiting->suspect_via);
    }
    return s->found;
}

static bool leads_back(struct hf_core *core, const struct hf_file *file, const struct hf_want *want,
                       bool locks_only)
{
    struct search s = {.core = core,
                       .asker = want->owner,
                       .locks_only = locks_only,
                       .work_end = core->table->work + core->config.budgets.search};

    core->wait->suspect_round++;
    return follow(&s, visit(&s, file, want, NULL, NULL));
}

bool hf_deadlock_of_locks(struct hf_core *core, const struct hf_file *file,
                          const struct hf_want *want)
{
    if (!hf_owner_has_locks(want->owner))
        return false; /* the owner has no lock that another owner could wait for */
    return leads_back(core, file, want, true);
}

bool hf_deadlock_by_queueing(struct hf_core *core, const struct hf_file *file,
                             const struct hf_want *want)
{
    if (!hf_owner_has_locks(want->owner) && hf_list_empty(&want->owner->waiting->waiters))
        return false;
    return leads_back(core, file, want, false);
}

/* True if the owner waits, and another owner may wait for it. */
static bool may_be_in_cycle(const struct hf_core *core, const struct hf_owner *owner)
{
    hf_list_foreach (node, &owner->waiting->waiters) {
        const struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_owner);
        bool only_and_last = owner->waiting->waiters.prev == node &&
                             owner->waiting->waiters.next == node &&
                             w->in_file.next == &w->file->queue->waiters;
        core->table->work++;
        if (!w->granting)
            return hf_owner_has_locks(owner) || !only_and_last;
    }
    return false;
}

/* Breaks all cycles through the owner, one in each round until a round finds none. All rounds
 * together have the budget of one search. */
static void break_cycles(struct hf_core *core, const struct hf_owner *owner)
{
    struct search s = {.core = core,
                       .asker = owner,
                       .mixed = true,
                       .work_end = core->table->work + core->config.budgets.search};

    if (!may_be_in_cycle(core, owner))
        return;
    do {
        s.found = false;
        s.queue = NULL;
        core->wait->suspect_round++;
        if (follow(&s, visit_owner(&s, owner, NULL))) {
            s.via->passes = true;
            hf_behind_changed(core, &s.via->behind);
            hf_file_wake(core, s.via->file, s.via->first, s.via->last);
        }
    } while (s.found);
}

void hf_deadlock_review(struct hf_core *core, uint64_t work_end)
{
    struct hf_waiting *waiting;

    while (core->table->work < work_end &&
           (waiting = hf_list_first(&core->table->review, struct hf_waiting, review)) != NULL) {
        hf_list_remove(&waiting->review);
        break_cycles(core, waiting->owner);
    }
}
