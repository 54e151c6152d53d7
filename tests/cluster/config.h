/*
 * What a seed decides before the first event: how many nodes there are, how bad network, database,
 * clocks and hooks are, and which faults happen how often. Most worlds are bad in a few ways only.
 */
#ifndef HF_CLUSTER_CONFIG_H
#define HF_CLUSTER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"

enum { CL_NODES = 3, CL_CLIENTS = 4, CL_FILES = 3 };

/* The faults that are drawn at random moments: name, text. */
#define CL_FAULTS(X)                                             \
    X(STOP_PROCESS, "a node's process is stopped and continued") \
    X(STOP_HOST, "a whole node stands still")                    \
    X(KILL, "a node's process is killed")                        \
    X(JUMP, "a node's clock jumps")                              \
    X(CUT_TO_DB, "a node's packets to the database are lost")    \
    X(CUT_FROM_DB, "the database's packets to a node are lost")  \
    X(CUT_TO_CLIENTS, "a node's packets to clients are lost")    \
    X(CUT_FROM_CLIENTS, "clients' packets to a node are lost")   \
    X(DB_STALL, "the database stalls")                           \
    X(SYNC_STALL, "replication stalls, so commits do")           \
    X(DB_RESTART, "the database restarts")                       \
    X(FAILOVER, "the replica is promoted")                       \
    X(HOOK, "hooks fail or are slow")                            \
    X(MOVE, "planned moves")                                     \
    X(RELEASE, "releases by an outside manager")                 \
    X(STOP_CLOCK, "a whole node stands still, with its clock")

enum cl_fault {
#define X(name, text) CL_FAULT_##name,
    CL_FAULTS(X)
#undef X
        CL_FAULT_KINDS
};

struct cl_config {
    uint64_t seed;
    uint8_t nodes;
    uint32_t busy_ms;
    uint32_t think_ms;
    uint32_t grace_ms;
    uint32_t load_ms; /* the longest time that loading takes */
    bool conflict_mode;
    bool continues; /* recovery.notify=needed: a takeover that loses nothing sends no notice */
    /* Locks are recorded; otherwise a new owner knows the clients only, and they reclaim. */
    bool durable_locks;
    uint16_t rate[CL_NODES]; /* the speed of each node's clock, per mille */

    uint32_t net_ms;   /* the longest delay of a packet between nodes and clients */
    uint16_t net_loss; /* how many packets are lost, per mille */
    uint32_t db_ms;    /* the longest delay between a node and the database */
    uint16_t db_loss;  /* the chance that a transaction, or the answer to one, is lost, per mille */
    uint32_t commit_ms;  /* the longest time that a flush takes, or the way to the replica */
    bool synchronous;    /* a commit waits for the replica */
    uint32_t lag_ms;     /* how far the replica is behind, if a commit does not wait for it */
    uint32_t timeout_ms; /* after this time a node gives up a transaction and connects anew */
    uint32_t hook_ms;    /* the longest run of a hook */

    uint32_t every_ms[CL_FAULT_KINDS]; /* the mean pause between faults; 0: there are none */
    bool is_single; /* one fault of the owner happens, at this moment, and no other */
    enum cl_fault single;
    uint32_t single_at_ms;
};

void cl_config_draw(struct cl_config *config, uint64_t seed);

/* Makes a world with only this fault, to measure how long the service is away. */
void cl_config_single(struct cl_config *config, uint64_t seed, enum cl_fault fault);

#endif
