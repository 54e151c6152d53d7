#include "model.h"

#include <string.h>

_Static_assert(sizeof(struct model_state) == HISTORY_CELLS * 5 + HISTORY_OWNERS * 4 + 4,
               "states are compared as bytes");

static uint32_t bit(unsigned owner)
{
    return UINT32_C(1) << owner;
}

static bool conflicts(const struct model_state *state, unsigned owner, struct history_range range)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (state->exclusive[c] && state->exclusive[c] != owner + 1)
            return true;
        if (range.exclusive && state->shared[c] & ~bit(owner))
            return true;
    }
    return false;
}

/* True if the owner holds every cell of the range in this mode or a stronger one. */
static bool holds(const struct model_state *state, unsigned owner, struct history_range range)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        bool shared = state->shared[c] & bit(owner) && !range.exclusive;

        if (!shared && state->exclusive[c] != owner + 1)
            return false;
    }
    return true;
}

static bool holds_any(const struct model_state *state, unsigned owner, struct history_range range)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (state->exclusive[c] == owner + 1 || state->shared[c] & bit(owner))
            return true;
    }
    return false;
}

static bool holds_exactly(const struct model_state *state, unsigned owner,
                          struct history_range range)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (range.exclusive ? state->exclusive[c] != owner + 1 : !(state->shared[c] & bit(owner)))
            return false;
    }
    return true;
}

static void set_free(struct model_state *state, unsigned owner, struct history_range range)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        state->shared[c] &= ~bit(owner);
        if (state->exclusive[c] == owner + 1)
            state->exclusive[c] = 0;
    }
}

static void set_held(struct model_state *state, unsigned owner, struct history_range range)
{
    set_free(state, owner, range);
    for (unsigned c = range.first; c <= range.last; c++) {
        if (range.exclusive)
            state->exclusive[c] = (uint8_t)(owner + 1);
        else
            state->shared[c] |= bit(owner);
    }
}

/* ---- the queue ---- */

static bool ranges_conflict(struct history_range a, struct history_range b)
{
    return a.first <= b.last && b.first <= a.last && (a.exclusive || b.exclusive);
}

static bool same_range(struct history_range a, struct history_range b)
{
    return a.first == b.first && a.last == b.last && a.exclusive == b.exclusive;
}

static int place_of(const struct model_state *state, unsigned owner)
{
    for (int i = 0; i < HISTORY_OWNERS && state->queue[i]; i++) {
        if (state->queue[i] == owner + 1)
            return i;
    }
    return -1;
}

/* True if a waiter before this place, of another owner, wants something that conflicts with the
 * range. */
static bool queues_behind(const struct model_state *state, int place, unsigned owner,
                          struct history_range range)
{
    for (int i = 0; i < place && state->queue[i]; i++) {
        unsigned other = state->queue[i] - 1U;

        if (other != owner && ranges_conflict(state->waits[other], range))
            return true;
    }
    return false;
}

static void leave_queue(struct model_state *state, unsigned owner)
{
    int place = place_of(state, owner);

    if (place < 0)
        return;
    memmove(&state->queue[place], &state->queue[place + 1], (size_t)(HISTORY_OWNERS - place - 1));
    state->queue[HISTORY_OWNERS - 1] = 0;
    state->waits[owner] = (struct history_range){0};
}

static void join_queue(struct model_state *state, unsigned owner, struct history_range range)
{
    int end = 0;

    if (place_of(state, owner) >= 0 && same_range(state->waits[owner], range))
        return; /* the same request repeated keeps its place */
    leave_queue(state, owner);
    while (state->queue[end])
        end++;
    state->queue[end] = (uint8_t)(owner + 1);
    state->waits[owner] = range;
}

/* First come, first served: no held lock conflicts, and no earlier waiter (NLM-03). */
static bool is_next(const struct model_state *state, unsigned owner, struct history_range range)
{
    int place = place_of(state, owner);

    return place >= 0 && same_range(state->waits[owner], range) &&
           !conflicts(state, owner, range) && !queues_behind(state, place, owner, range);
}

/* ---- operations ---- */

static bool is_true_holder(const struct model_state *state, const struct history_op *op)
{
    return op->holder != op->owner && op->held.first <= op->range.last &&
           op->range.first <= op->held.last && (op->range.exclusive || op->held.exclusive) &&
           holds_exactly(state, op->holder, op->held);
}

bool model_is_legal(const struct model_state *state, const struct history_op *op)
{
    bool denied = op->result == HISTORY_DENIED;

    switch (op->kind) {
    case HISTORY_TEST:
        return denied && op->holder != HISTORY_NO_OWNER
                   ? is_true_holder(state, op)
                   : conflicts(state, op->owner, op->range) == denied;
    case HISTORY_LOCK:
        return conflicts(state, op->owner, op->range) == denied;
    case HISTORY_ENTER: /* the request may not overtake an earlier waiter, unless it repeats what
                           its owner holds */
        return denied ? conflicts(state, op->owner, op->range)
                      : holds_exactly(state, op->owner, op->range) ||
                            (!conflicts(state, op->owner, op->range) &&
                             !queues_behind(state, HISTORY_OWNERS, op->owner, op->range));
    case HISTORY_WAIT:
        return conflicts(state, op->owner, op->range) ||
               queues_behind(state, HISTORY_OWNERS, op->owner, op->range);
    case HISTORY_GRANT:
        return is_next(state, op->owner, op->range);
    case HISTORY_CANCEL:
    case HISTORY_RECLAIM:
        return holds(state, op->owner, op->range) == ((op->kind == HISTORY_CANCEL) == denied);
    case HISTORY_LAPSE: /* illegal for an owner that holds nothing, to save a branch of the search
                         */
    case HISTORY_RELEASE:
        return holds_any(state, op->owner, op->range);
    case HISTORY_WEAKEN: /* legal only for an exclusive lock, in a range that the owner holds */
        return holds(state, op->owner, op->range) && !holds_exactly(state, op->owner, op->range);
    case HISTORY_RESTORE:
        return state->released & bit(op->owner) && !conflicts(state, op->owner, op->range);
    case HISTORY_LEAVE:
        return place_of(state, op->owner) >= 0;
    default:
        return true;
    }
}

static void crash(struct model_state *state, uint32_t owners)
{
    struct history_range all = {0, HISTORY_CELLS - 1, true};

    for (unsigned owner = 0; owner < HISTORY_OWNERS; owner++) {
        if (owners & bit(owner)) {
            set_free(state, owner, all);
            leave_queue(state, owner);
        }
    }
    state->released &= ~owners;
}

void model_apply(struct model_state *state, const struct history_op *op)
{
    switch (op->kind) {
    case HISTORY_LOCK:
    case HISTORY_ENTER:
        if (op->result != HISTORY_DENIED)
            set_held(state, op->owner, op->range);
        break;
    case HISTORY_WAIT:
        join_queue(state, op->owner, op->range);
        break;
    case HISTORY_GRANT:
        leave_queue(state, op->owner);
        set_held(state, op->owner, op->range);
        break;
    case HISTORY_WEAKEN:
        set_held(state, op->owner, op->range);
        break;
    case HISTORY_RELEASE:
        set_free(state, op->owner, op->range);
        state->released |= bit(op->owner);
        break;
    case HISTORY_RESTORE:
        set_held(state, op->owner, op->range);
        state->released &= ~bit(op->owner);
        break;
    case HISTORY_UNLOCK: /* the UNLOCK is final: what was released before it is not restored any
                            more */
        state->released &= ~bit(op->owner);
        set_free(state, op->owner, op->range);
        break;
    case HISTORY_LAPSE:
        set_free(state, op->owner, op->range);
        break;
    case HISTORY_CANCEL:
        if (op->result != HISTORY_DENIED)
            leave_queue(state, op->owner);
        break;
    case HISTORY_LEAVE:
        leave_queue(state, op->owner);
        break;
    case HISTORY_CRASH:
        crash(state, op->owners);
        break;
    case HISTORY_RESTART:
        memset(state->queue, 0, sizeof(state->queue));
        memset(state->waits, 0, sizeof(state->waits));
        break;
    default:
        break;
    }
}

bool model_is_read(const struct history_op *op)
{
    switch (op->kind) {
    case HISTORY_TEST:
    case HISTORY_RECLAIM:
        return true;
    case HISTORY_LOCK:
    case HISTORY_ENTER:
    case HISTORY_CANCEL:
        return op->result == HISTORY_DENIED;
    default:
        return false;
    }
}
