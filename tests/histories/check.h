/*
 * Decides whether the history of one file is linearizable: whether each operation can be given one
 * moment between its invocation and its completion so that, in the order of these moments, every
 * result is legal (model.h).
 *
 * The search follows the clock (as Lowe's and Knossos' do). It keeps the set of all
 * configurations that agree with the history so far: a state, and which of the operations in flight
 * have had their moment. When an operation completes, each configuration is extended by operations
 * in flight, in every order, until that one has had its moment; those in which it cannot are
 * dropped. No configuration left: the history is not linearizable. Equal configurations count once,
 * and a read has its moment as soon as it is legal, so the set stays small.
 */
#ifndef HF_HISTORIES_CHECK_H
#define HF_HISTORIES_CHECK_H

#include "model.h"

enum { CHECK_IN_FLIGHT = 64 /* the greatest number of operations on one file at a time */ };

enum check_verdict {
    CHECK_LINEARIZABLE,
    CHECK_VIOLATION,
    CHECK_TOO_MANY, /* undecided: too many operations in flight, or too many configurations */
};

struct check_result {
    enum check_verdict verdict;
    size_t failed_op; /* VIOLATION: the operation that no configuration allows */
    size_t quiet_ops; /* All operations before this one had ended, in quiet_state, */
    bool is_quiet;    /* if there was such a moment */
    struct model_state quiet_state;
    size_t configurations; /* the greatest number of configurations at a time */
};

/* Judges operations, in order of their invocation, from this state on. */
struct check_result check_ops(const struct history_op *ops, size_t n_ops,
                              const struct model_state *state);

/* Finds a small part of a history that is not linearizable, and is not linearizable itself: only
 * what is needed up to the failure, of one cell where that suffices. Returns the operations, which
 * the caller frees, which of them failed, and the state in which they begin. */
struct history_op *check_smallest(const struct history_op *ops, size_t n_ops,
                                  const struct check_result *result, size_t *n_out, size_t *failed,
                                  struct model_state *state);

/* Writes a picture (SVG): a row per owner, a bar per operation, the operation that failed in red.
 */
void check_picture(const struct history *history, const struct history_op *ops, size_t n_ops,
                   size_t failed, FILE *out);

#endif
