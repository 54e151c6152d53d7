/* The byte-range locks of one file as a sequential object. At each moment a cell is free, held
 * exclusively by one owner, or shared by some; and some owners wait, in order. An operation with
 * its result is either legal in a state, and leads to another state, or is not legal. */
#ifndef HF_HISTORIES_MODEL_H
#define HF_HISTORIES_MODEL_H

#include "history.h"

/* The structure has no padding, because states are compared and hashed as bytes. */
struct model_state {
    uint32_t shared[HISTORY_CELLS];   /* one bit per owner */
    uint8_t exclusive[HISTORY_CELLS]; /* the owner + 1; 0: none */
    uint8_t queue[HISTORY_OWNERS];    /* number + 1 of each waiting owner, in order; 0: the end */
    struct history_range waits[HISTORY_OWNERS];
    uint32_t released; /* one bit per owner whose UNLOCK is in progress and may have to be undone */
};

/* True if the operation can have this result in this state. For the result `maybe`: true if it can
 * take effect. */
bool model_is_legal(const struct model_state *state, const struct history_op *op);

/* Applies a legal operation to the state. */
void model_apply(struct model_state *state, const struct history_op *op);

/* True for operations that change nothing, whatever the state is. Such an operation can be placed
 * as soon as it is legal, because that excludes no order of the others; a search need not try to
 * place it later. */
bool model_is_read(const struct history_op *op);

#endif
