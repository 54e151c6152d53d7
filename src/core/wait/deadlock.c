/*
 * Cycles in the waits-for graph (NLM-03, NLM-06).
 *
 * The nodes of the graph are owners. A waits-for edge leads from an owner that waits to one that
 * it waits for. There are two kinds of edges: the other owner holds a lock that conflicts (a hard
 * edge), or its request stands ahead in the queue of the file (a soft edge, hf_waiter_ahead()).
 * They differ in what a cycle means:
 *
 *   - A cycle of hard edges alone can never resolve itself. The blocking request that would close
 *     it is answered DEADLCK.
 *   - A cycle with a soft edge exists only because we serve waiters in order. Order is no reason to
 *     refuse anything, so such a cycle is broken: one waiter in it "passes", which means that it
 *     does not queue behind other waiters any more.
 *
 * A cycle can close only when an edge is new: an owner begins to wait, gets a lock (other waiters
 * wait for it then), or loses one (it may queue behind a waiter that it need not have queued behind
 * before, see waiters.c). In each case that owner is in the cycle and waits itself, so it is put
 * on a list, and hf_waiters_serve() reviews it before the request is over.
 *
 * A search goes from owner to owner. The number of locks and waiters that it looks at is bounded
 * (budgets.search); beyond that it ends without a result and the cut is counted. The request waits
 * then: a wrong DEADLCK would hurt a healthy client, and the search is made again when the client
 * repeats its request.
 */
#include "core/common/range.h"
#include "core/internal.h"
#include "core/table/table.h"
#include "core/wait/private.h"

struct search {
    struct hf_core *core;
    const struct hf_owner *asker;
    struct hf_owner *queue; /* the owners that are still to be visited */
    uint64_t work_end;      /* the search ends when table->work is beyond this */
    bool locks_only;        /* only locks count, not places in queues */
    bool mixed;             /* only cycles that lead through a place in a queue count */
    bool found;             /* the search led back to the asker */
    struct hf_waiter *via;  /* the waiter through whose place in a queue it led back */
};

/* Puts an owner into the queue of those to be visited, if it was not reached before, or so far only
 * by locks and now through a place in a queue. */
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

/* Suspects an owner. via is the first place in a queue on the way here; NULL: there is none.
 * Returns false when the search is over. */
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

/* Visits all owners that this request waits, or would wait, for. place is the waiter that stands in
 * the queue for it; NULL: none does yet. Returns false when the search is over. */
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

/* Visits what the first visit put in the queue. True if this leads back to the asker. */
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
        return false; /* the owner has nothing that another owner could wait for */
    return leads_back(core, file, want, true);
}

bool hf_deadlock_by_queueing(struct hf_core *core, const struct hf_file *file,
                             const struct hf_want *want)
{
    if (!hf_owner_has_locks(want->owner) && hf_list_empty(&want->owner->waiting->waiters))
        return false;
    return leads_back(core, file, want, false);
}

/* True if another owner may wait for this one, and this one waits itself. */
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

/* Breaks cycles: each round but the last breaks one. All rounds together have the steps of one
 * search. */
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
