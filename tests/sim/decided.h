/*
 * What the core decides, seen at the moment it does. The linker puts these in front of the core's
 * functions (--wrap, meson.build): the model has to follow a decision at once, but the handler that
 * knows it tells it only when the answer may leave.
 *
 * These variables are not part of a world, because the core's functions know no world; only one
 * world runs at a time.
 */
#ifndef HF_SIM_DECIDED_H
#define HF_SIM_DECIDED_H

#include "core/core.h"

/* What the core decided about the latest request; the caller clears it before each request. */
struct sim_decided {
    bool asked;
    struct hf_answer answer;
    struct hf_sm_answer sm; /* what the core decided about the latest NSM request */
};

extern struct sim_decided sim_decided;

/* How a call ended, as the core was told, and how often it was told since n was cleared. */
struct sim_reported {
    unsigned n;
    uint64_t id;
    enum hf_outcall_outcome outcome;
};

extern struct sim_reported sim_reported;

#endif
