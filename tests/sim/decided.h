/*
 * What the core decides, seen at the moment it does. The linker puts these in front of the core's
 * functions (--wrap, meson.build): the model has to follow a decision at once, and the handler,
 * which knows it, keeps it to itself until the answer may leave.
 *
 * Not part of the world, because the core's functions know of none; one world runs at a time.
 */
#ifndef HF_SIM_DECIDED_H
#define HF_SIM_DECIDED_H

#include "core/core.h"

/* By the latest request; the caller clears it before each request. */
struct sim_decided {
    bool asked;
    struct hf_answer answer;
    struct hf_sm_answer sm; /* the same for NSM */
};

extern struct sim_decided sim_decided;

/* What the core was told of how a call ended, and how often since n was cleared. */
struct sim_reported {
    unsigned n;
    uint64_t id;
    enum hf_outcall_outcome outcome;
};

extern struct sim_reported sim_reported;

#endif
