#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "check.h"

/*
 * An operation as one cell sees it. A grant of several cells is also a grant of each. A refusal may
 * be due to another cell, and the queue belongs to the whole file, so refusals and waits are left
 * out unless they concern this cell alone.
 */
static bool project(const struct history_op *op, unsigned cell, struct history_op *out)
{
    bool alone = op->range.first == cell && op->range.last == cell;

    *out = *op;
    if (op->kind == HISTORY_CRASH || op->kind == HISTORY_RESTART)
        return true;
    if (cell < op->range.first || cell > op->range.last)
        return false;
    out->range.first = out->range.last = (uint8_t)cell;
    switch (op->kind) {
    case HISTORY_TEST:
        out->holder = HISTORY_NO_OWNER;
        return alone || op->result == HISTORY_GRANTED;
    case HISTORY_ENTER:
    case HISTORY_GRANT:
        out->kind = HISTORY_LOCK; /* a wait becomes a LOCK, because the queue is left out */
        return alone || op->result != HISTORY_DENIED;
    case HISTORY_WAIT:
    case HISTORY_LEAVE:
    case HISTORY_CANCEL:
        return false;
    case HISTORY_RECLAIM:
    case HISTORY_LOCK:
        return alone || op->result != HISTORY_DENIED;
    default:
        return true;
    }
}

static struct history_op *copy(const struct history_op *ops, size_t n)
{
    struct history_op *out = calloc(n ? n : 1, sizeof(*out));

    HF_ASSERT(out);
    memcpy(out, ops, n * sizeof(*out));
    return out;
}

/* Copies the operations from the last quiet moment on that were invoked before the failed one
 * completed. */
static struct history_op *cut(const struct history_op *ops, size_t n_ops,
                              const struct check_result *result, size_t *n_out, size_t *failed,
                              struct model_state *state)
{
    size_t from = result->is_quiet ? result->quiet_ops : 0;
    size_t to = from;

    while (to < n_ops && ops[to].invoked <= ops[result->failed_op].completed)
        to++;
    *n_out = to - from;
    *failed = result->failed_op - from;
    *state = result->is_quiet ? result->quiet_state : (struct model_state){0};
    return copy(ops + from, to - from);
}

static struct history_op *try_cell(const struct history_op *ops, size_t n_ops, unsigned cell,
                                   size_t *n_out, size_t *failed, struct model_state *state)
{
    static const struct model_state empty;
    struct history_op *projected = calloc(n_ops ? n_ops : 1, sizeof(*projected));
    struct history_op *found = NULL;
    struct check_result result;
    size_t n = 0;

    HF_ASSERT(projected);
    for (size_t i = 0; i < n_ops; i++)
        n += project(&ops[i], cell, &projected[n]);
    result = check_ops(projected, n, &empty);
    if (result.verdict == CHECK_VIOLATION)
        found = cut(projected, n, &result, n_out, failed, state);
    free(projected);
    return found;
}

struct history_op *check_smallest(const struct history_op *ops, size_t n_ops,
                                  const struct check_result *result, size_t *n_out, size_t *failed,
                                  struct model_state *state)
{
    struct history_range range = ops[result->failed_op].range;
    struct history_op *best = cut(ops, n_ops, result, n_out, failed, state);

    for (unsigned cell = range.first; cell <= range.last; cell++) {
        struct model_state from;
        size_t n, at;
        struct history_op *smaller = try_cell(ops, n_ops, cell, &n, &at, &from);

        if (smaller && n < *n_out) {
            free(best);
            best = smaller;
            *n_out = n;
            *failed = at;
            *state = from;
        } else {
            free(smaller);
        }
    }
    return best;
}
