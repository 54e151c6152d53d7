/*
 * The process beside a node's daemon, the runner, that brings the service's addresses up and down
 * by hooks. It stands behind the functions of addresses/addresses.h, which the daemon's cluster.c
 * calls. It drops the addresses by itself when the lease that it was told of is over, also if the
 * daemon is stopped, and when the daemon is gone. Hooks take time, and may be slow or fail.
 */
#ifndef HF_CLUSTER_ADDRESS_H
#define HF_CLUSTER_ADDRESS_H

#include "addresses/addresses.h"

struct cl_world;

/* The daemon's side. */
struct hf_addresses {
    struct cl_world *world;
    unsigned node;
    hf_addresses_cb *report;
    void *ctx;
    uint32_t take; /* answers to earlier orders are old */
};

struct cl_address {
    bool up;
    bool wanted_up;
    uint32_t take;  /* the last order */
    bool take_open; /* it is a take, and not answered yet */
    bool down_open; /* the daemon is to hear that they are down */
    bool is_hook_running;
    bool is_taking; /* the hook that runs: take or drop */
    bool hook_fails;
    bool is_late;            /* the last drop failed or was slow */
    uint64_t valid_until_ms; /* own clock of the node */
    uint64_t timer;
};

/* The daemon is gone: drops them. */
void cl_address_abandon(struct cl_world *world, unsigned node);
void cl_address_on_timer(struct cl_world *world, unsigned node, uint64_t generation);
void cl_address_on_hook(struct cl_world *world, unsigned node);
/* The daemon reads a report. */
void cl_address_on_report(struct cl_world *world, unsigned node, unsigned event, uint64_t take);

#endif
