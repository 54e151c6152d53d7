/*
 * A simulated cluster: two or three nodes of one service over one database, and clients that lock
 * through whichever node answers. Everything follows from one seed.
 *
 *     config        what a seed decides
 *     db            the database: row lock, compare-and-set, commit, replica, failover
 *     node term     a node: the real lease, core and src/daemon/cluster.c, and what is around them
 *     daemon        what cluster.c finds below it: timer, clock, terms
 *     address       the process beside it that brings addresses up and down by hooks
 *     client        hosts that lock, retransmit, reclaim
 *     trouble       faults
 *     check         what must be true
 *     hunt main  the modes of hf-cluster
 *
 * Time is true time in milliseconds. Each node has a clock of its own, which runs at another rate
 * and jumps forward; nothing on a node sees the true time.
 */
#ifndef HF_CLUSTER_WORLD_H
#define HF_CLUSTER_WORLD_H

#include "client.h"
#include "config.h"
#include "db.h"
#include "node.h"
#include "packet.h"
#include "queue.h"
#include "rng.h"
#include "trace.h"

enum cl_event_kind {
    /* what: the transaction; generation: its number; the next two events have the same. */
    CL_EVENT_DB_ARRIVE,
    CL_EVENT_DB_FLUSHED, /* the commit is on the primary's disk */
    CL_EVENT_DB_SHIPPED, /* generation: the number of the log entry that reached the replica */
    CL_EVENT_DB_UP,
    CL_EVENT_DB_HEAL, /* what: enum cl_fault */
    CL_EVENT_REPLY,   /* who: the node; what: the packet */
    CL_EVENT_TIMEOUT, /* who: the node; generation: its operation */
    CL_EVENT_WAKE,    /* who: the node; generation: only the newest event counts */
    CL_EVENT_LOADED,  /* who: the node; generation: its term */
    /* who: the node; what: the packet; generation: the process for which it waited, or 0. */
    CL_EVENT_REQUEST,
    CL_EVENT_LEAVE,     /* who: the node; what: the packet, which has passed the gate */
    CL_EVENT_CALL_ENDS, /* who: the node; what: the outcall; generation: its number */
    CL_EVENT_START,     /* who: node */
    CL_EVENT_CONTINUE,  /* who: node */
    /* who: the node; generation: only the newest event counts; the addresses' lease ends. */
    CL_EVENT_RUNNER,
    CL_EVENT_HOOK, /* who: the node, whose hook ended */
    /* who: the node; what: the runner's report; generation: the order that it answers. */
    CL_EVENT_ADDRESS,
    CL_EVENT_CLOSED,     /* who: the node; generation: its term; the term before it is closed */
    CL_EVENT_WANT,       /* who: the node, which the manager wants to take the service again */
    CL_EVENT_TO_CLIENT,  /* who: the client; what: the packet */
    CL_EVENT_CLIENT,     /* who: the client; generation: only the newest event counts */
    CL_EVENT_FAULT,      /* what: enum cl_fault; who: 1 for the owner, 0 for any node */
    CL_EVENT_CALM,       /* the faults end */
    CL_EVENT_MUST_SERVE, /* one node must be active by this time */
    CL_EVENT_ACCEPT,     /* the operator has looked at the alarms */
};

struct cl_stats {
    uint64_t events;
    uint64_t faults[CL_FAULT_KINDS];
    uint64_t takes;  /* takes of the lease that succeeded */
    uint64_t grants; /* grants that reached a client */
    uint64_t reclaims;
    uint64_t answers;
    uint64_t in_doubt;  /* transactions that were given up */
    uint64_t suspended; /* leases that ran out and came back */
    uint64_t lost;      /* failovers that lost acknowledged commits */
    uint64_t alarms;
    uint64_t unknowable; /* failovers that lost commits of which no living process knew */
};

struct cl_world {
    struct cl_config config;
    struct sim_rng rng;
    struct sim_queue queue;
    struct sim_trace trace;
    struct cl_stats stats;
    struct cl_packets packets;
    struct cl_db db;
    struct cl_node nodes[CL_NODES];
    struct cl_client clients[CL_CLIENTS];

    uint64_t now_ms;
    bool calm;
    uint64_t calm_since_ms;

    /* What the checks remember of the past. */
    uint64_t top_epoch; /* the greatest epoch of any lease that was ever valid */
    uint64_t top_nonce;
    int32_t top_state; /* the greatest NSM state number of a term that sent something */
    uint64_t top_state_epoch;
    uint64_t owner_faults; /* faults of owners, each of which may cost one takeover */
    uint64_t left; /* how often a node left the service by itself, because it could not serve */
    uint64_t terms;
    bool has_lost; /* the database lost acknowledged commits: promises are void */
    uint64_t lost_at_ms;
    /* A world with a single fault: when it struck, in which epoch, and when the next node served.
     */
    uint64_t struck_ms;
    uint64_t struck_epoch;
    uint64_t served_ms;
    const char *violation; /* the invariant that did not hold; NULL: none so far */
    char detail[256];
};

void cl_world_init(struct cl_world *world, const struct cl_config *config, FILE *trace);
void cl_world_free(struct cl_world *world);

/* Runs to the end, or to the first violation; true if there was none. */
bool cl_world_run(struct cl_world *world);

__attribute__((format(printf, 3, 4))) void
cl_violation(struct cl_world *world, const char *invariant, const char *format, ...);

static inline void cl_push(struct cl_world *world, uint64_t in_ms, enum cl_event_kind kind,
                           unsigned who, unsigned what, uint64_t generation)
{
    sim_queue_push(&world->queue, (struct sim_event){.at_ms = world->now_ms + in_ms,
                                                     .kind = (uint16_t)kind,
                                                     .who = (uint16_t)who,
                                                     .what = what,
                                                     .generation = generation});
}

/* True with a chance of per_mille while faults happen; false afterwards. */
static inline bool cl_chance(struct cl_world *world, uint32_t per_mille)
{
    return !world->calm && sim_rng_chance(&world->rng, per_mille);
}

#define CL_TRACE(world, a, b, c, ...) \
    SIM_TRACE(&(world)->trace, (world)->now_ms, a, b, c, __VA_ARGS__)

#endif
