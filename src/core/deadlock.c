/*
 * Deadlock (NLM-06): a request that would have to wait for somebody who waits, however far down the
 * line, for the one who asks. Looked for before the wait begins, so no cycle ever exists.
 *
 * A search from the request over owners: those whose locks are in its way, and those of the waiters
 * it may not overtake; from each that waits itself, the same again. An owner is visited once, and
 * the number of locks and waiters looked at is bounded; beyond that the request waits (and the cut
 * is counted), for a wrong DEADLCK would hurt a healthy client, and a true cycle of that size can
 * be broken by CANCEL or by the operator.
 */
#include "core/parts.h"

enum { STEPS_MAX = 20000 };

struct search {
    struct hf_core *core;
    const struct hf_owner *asker;
    struct hf_owner *queue; /* to be visited */
    unsigned steps;
    unsigned depth;  /* owners visited */
    bool locks_only; /* as if nobody queued behind anybody */
    bool found;
};

/* False when the search is over. */
static bool suspect(struct search *s, struct hf_owner *owner)
{
    if (owner == s->asker) {
        s->found = true;
        return false;
    }
    if (++s->steps > STEPS_MAX) {
        s->core->counters.deadlock_searches_cut++;
        return false;
    }
    if (!hf_list_empty(&owner->waiting->waiters) &&
        owner->waiting->suspect_round != s->core->suspect_round) {
        owner->waiting->suspect_round = s->core->suspect_round;
        owner->waiting->suspect_next = s->queue;
        s->queue = owner;
    }
    return true;
}

/* Everybody this request waits, or would wait, for. False when the search is over. */
static bool visit(struct search *s, const struct hf_file *file, const struct hf_want *want,
                  uint64_t ticket)
{
    struct hf_lock *lock = hf_held_conflict(file, want);
    struct hf_waiter *w = NULL;

    for (; lock; lock = hf_held_conflict_next(lock, want)) {
        if (!suspect(s, lock->owner))
            return false;
    }
    while (!s->locks_only && (w = hf_waiter_ahead(file, want, ticket, w)) != NULL) {
        if (!suspect(s, w->owner))
            return false;
    }
    return true;
}

/* Its place in the queue; one that may pass stands in front of everybody. */
static uint64_t place_of(const struct hf_waiter *w)
{
    return w->passes ? 0 : w->id;
}

static bool visit_owner(struct search *s, const struct hf_owner *owner)
{
    hf_list_foreach (node, &owner->waiting->waiters) {
        const struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_owner);
        struct hf_want want = {w->owner, w->first, w->last, w->exclusive, false};
        if (!w->granting && !visit(s, w->file, &want, place_of(w)))
            return false;
    }
    return true;
}

/* True if following what this request waits for leads back to its owner. */
static bool leads_back(struct hf_core *core, const struct hf_file *file, const struct hf_want *want,
                       uint64_t ticket, bool locks_only)
{
    struct search s = {.core = core, .asker = want->owner, .locks_only = locks_only};
    bool more;

    core->suspect_round++;
    more = visit(&s, file, want, ticket);
    while (more && s.queue) {
        struct hf_owner *owner = s.queue;
        s.queue = owner->waiting->suspect_next;
        if (HF_PLANTED(DEADLOCK_UNSEEN) && ++s.depth > 1)
            return false;
        more = visit_owner(&s, owner);
    }
    return s.found;
}

bool hf_deadlock_would_close(struct hf_core *core, const struct hf_file *file,
                             const struct hf_want *want)
{
    return leads_back(core, file, want, UINT64_MAX, false);
}

/*
 * A cycle can also close by itself. Who waits for whom in the queue depends on what the waiter
 * holds (waiters.c); if it loses that while it waits (not reclaimed in time, taken by the
 * operator), it begins to queue behind somebody it need not have queued behind before. Such an edge
 * is only about fairness, and may be broken: the waiter passes.
 *
 * Nobody's request closed it, so nobody is told DEADLCK as long as there is such an edge left, be
 * it another waiter's: that one passes when it asks again. Only where all wait for locks (those
 * that a failed commit gave back) can nothing else help.
 */
static bool leads_back_to(struct hf_core *core, const struct hf_waiter *w, bool locks_only)
{
    struct hf_want want = {w->owner, w->first, w->last, w->exclusive, false};

    return leads_back(core, w->file, &want, place_of(w), locks_only);
}

bool hf_deadlock_is_closed(struct hf_core *core, const struct hf_waiter *waiter)
{
    return leads_back_to(core, waiter, false);
}

bool hf_deadlock_is_of_locks(struct hf_core *core, const struct hf_waiter *waiter)
{
    return leads_back_to(core, waiter, true);
}
