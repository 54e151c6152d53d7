/*
 * The process beside a node's daemon, the runner, that brings the service's addresses up and down
 * by hooks. It stands behind the functions of addresses/addresses.h, which the daemon's cluster.c
 * calls. It drops the addresses by itself when the daemon is gone, or when the lease that the
 * daemon named is over, even if the daemon is stopped. Hooks take time, and may be slow or fail.
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
    uint32_t take; /* the number of the last order; a report about an earlier order is ignored */
};

struct cl_address {
    bool up;
    bool wanted_up;
    uint32_t take;  /* the number of the daemon's last order */
    bool take_open; /* the last order is a take, and was not answered yet */
    bool down_open; /* the daemon still has to hear that the addresses are down */
    bool is_hook_running;
    bool is_taking; /* the hook in progress takes the addresses; otherwise it drops them */
    bool hook_fails;
    bool is_late;            /* the last drop failed or was slow */
    uint64_t valid_until_ms; /* until when the addresses may be up, by the node's own clock */
    uint64_t timer;
};

/* Drops the addresses, because the daemon is gone. */
void cl_address_abandon(struct cl_world *world, unsigned node);
void cl_address_on_timer(struct cl_world *world, unsigned node, uint64_t generation);
void cl_address_on_hook(struct cl_world *world, unsigned node);
/* Lets the daemon read a report. */
void cl_address_on_report(struct cl_world *world, unsigned node, unsigned event, uint64_t take);

#endif
