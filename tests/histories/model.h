/*
 * The byte-range locks of one file as a sequential object: at each moment an owner holds a cell
 * exclusively, or some owners share it, or it is free; and some owners wait, in order. An operation
 * with its result is legal in a state or not, and leads to another state.
 */
#ifndef HF_HISTORIES_MODEL_H
#define HF_HISTORIES_MODEL_H

#include "history.h"

/* No padding: states are compared and hashed as bytes. */
struct model_state {
    uint32_t shared[HISTORY_CELLS];   /* one bit per owner */
    uint8_t exclusive[HISTORY_CELLS]; /* the owner + 1; 0: none */
    uint8_t queue[HISTORY_OWNERS];    /* owner + 1 of each waiter, in order; 0: the end */
    struct history_range waits[HISTORY_OWNERS];
    uint32_t released; /* owners whose UNLOCK, in progress, may have to be undone */
};

/* Whether the operation can have this result here. The result maybe: whether it can take effect. */
bool model_is_legal(const struct model_state *state, const struct history_op *op);

/* What the operation changes, which must be legal. */
void model_apply(struct model_state *state, const struct history_op *op);

/*
 * Operations that change nothing, whatever the state. To place one as soon as it is legal costs no
 * other order of the rest, so a search need not try to place it later.
 */
bool model_is_read(const struct history_op *op);

#endif
