/*
 * The process beside a node's daemon that brings the service's addresses up and down by hooks. The
 * daemon tells it how long its lease is valid. It drops the addresses by itself when that time is
 * over, also if the daemon is stopped, and when the daemon is gone. Hooks take time, and may be
 * slow or fail.
 */
#ifndef HF_CLUSTER_ADDRESS_H
#define HF_CLUSTER_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

struct cl_world;

struct cl_address {
    bool up;
    bool is_hook_running;
    bool is_taking; /* the hook that runs: take or drop */
    bool hook_fails;
    bool is_late;            /* the last drop failed or was slow */
    uint64_t valid_until_ms; /* own clock of the node */
    uint64_t timer;
};

/* The daemon's lease is valid until then; 0: drop the addresses. */
void cl_address_valid_until(struct cl_world *world, unsigned node, uint64_t valid_until_ms);
void cl_address_on_timer(struct cl_world *world, unsigned node, uint64_t generation);
void cl_address_on_hook(struct cl_world *world, unsigned node);

#endif
