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
    CL_EVENT_DB_ARRIVE,  /* what: transaction, generation: its number; so are the next two */
    CL_EVENT_DB_FLUSHED, /* the commit is on the primary's disk */
    CL_EVENT_DB_SHIPPED, /* generation: sequence number of the log that reached the replica */
    CL_EVENT_DB_UP,
    CL_EVENT_DB_HEAL,    /* what: enum cl_fault */
    CL_EVENT_REPLY,      /* who: node, what: packet */
    CL_EVENT_TIMEOUT,    /* who: node, generation: its operation */
    CL_EVENT_WAKE,       /* who: node, generation: the newest counts */
    CL_EVENT_LOADED,     /* who: node, generation: its term */
    CL_EVENT_REQUEST,    /* who: node, what: packet, generation: process it waited for, or 0 */
    CL_EVENT_LEAVE,      /* who: node, what: packet that has passed the gate */
    CL_EVENT_CALL_ENDS,  /* who: node, what: outcall, generation: its number */
    CL_EVENT_START,      /* who: node */
    CL_EVENT_CONTINUE,   /* who: node */
    CL_EVENT_RUNNER,     /* who: node, generation: the newest counts; the lease of the addresses */
    CL_EVENT_HOOK,       /* who: node; its hook ended */
    CL_EVENT_ADDRESS,    /* who: node, what: the runner's report, generation: of which order */
    CL_EVENT_CLOSED,     /* who: node, generation: its term; the term before is closed */
    CL_EVENT_WANT,       /* who: node; the manager wants it to take the service again */
    CL_EVENT_TO_CLIENT,  /* who: client, what: packet */
    CL_EVENT_CLIENT,     /* who: client, generation: the newest counts */
    CL_EVENT_FAULT,      /* what: enum cl_fault, who: 1 for the owner, 0 for any node */
    CL_EVENT_CALM,       /* the faults end */
    CL_EVENT_MUST_SERVE, /* by now one node must be active */
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
    uint64_t unknowable; /* failovers that lost something no living process knew of */
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

    /* What the checks remember. */
    uint64_t top_epoch; /* the epoch of any lease that was ever valid */
    uint64_t top_nonce;
    int32_t top_state; /* the greatest NSM state number of a term that sent something */
    uint64_t top_state_epoch;
    uint64_t owner_faults; /* faults of owners, each of which may cost one takeover */
    uint64_t left; /* how often a node left the service by itself, because it could not serve */
    uint64_t terms;
    bool has_lost; /* the database lost acknowledged commits: promises are void */
    uint64_t lost_at_ms;
    /* A single fault: when it struck, in which epoch, and when the next one served. */
    uint64_t struck_ms;
    uint64_t struck_epoch;
    uint64_t served_ms;
    const char *violation; /* NULL: none so far */
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

/* True with a chance of per_mille, while there is trouble. */
static inline bool cl_chance(struct cl_world *world, uint32_t per_mille)
{
    return !world->calm && sim_rng_chance(&world->rng, per_mille);
}

#define CL_TRACE(world, a, b, c, ...) \
    SIM_TRACE(&(world)->trace, (world)->now_ms, a, b, c, __VA_ARGS__)

#endif
