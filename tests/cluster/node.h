/*
 * A node: the real lease, the real core, and the real src/daemon/cluster.c, which drives the one
 * and begins and ends the terms of the other. Models of the rest of src/daemon, src/rpc and
 * src/store surround them.
 *
 * node.c is the loop and the store's thread, which makes one transaction at a time and gives up
 * those that take too long. daemon.c has what cluster.c calls: timer, clock, terms. term.c is the
 * core of one term: loading, requests, answers, the duplicate request cache, outgoing calls; every
 * packet passes the gate. The core's clock stands still while the node may not answer: clients
 * cannot reclaim then either, so grace must not run.
 *
 * A process can be stopped and continued (its packets may have passed the gate already), or killed;
 * a whole host can stand still. The clock runs on meanwhile, as CLOCK_BOOTTIME does; or, on a
 * virtual machine that was paused, it stands still as well. Such a node believes in a lease that
 * another node may have taken, until it hears from the database again.
 */
#ifndef HF_CLUSTER_NODE_H
#define HF_CLUSTER_NODE_H

#include "address.h"
#include "config.h"
#include "core/core.h"
#include "core/lease/lease.h"
#include "daemon.h"
#include "packet.h"
#include "support/records.h"

struct cl_world;

enum { CL_CACHE = 64, CL_PENDING = 64, CL_OUTCALLS = 64 };

struct cl_cached { /* an entry of the duplicate request cache */
    bool used, answered;
    struct cl_packet answer;
};

struct cl_pending { /* an answer that waits for its batch */
    bool used;
    uint64_t seq;
    struct cl_packet answer;
};

struct cl_outcall {
    bool used;
    uint64_t number;
    uint64_t call_id;
    uint64_t silent_ms; /* how long the node had been silent when the outgoing call began */
};

struct cl_node {
    bool up; /* the node's process runs */
    uint64_t killed_at_ms;
    uint64_t starts; /* how many processes were started */
    uint64_t
        losses_seen; /* how many losses of the service the process had counted at the last look */
    uint64_t stopped_until_ms;
    uint64_t host_stopped_until_ms;
    /* The process is stopped for this time as soon as a packet has passed the gate. */
    uint32_t stop_in_turn_ms;
    uint64_t cut_until_ms[CL_FAULT_KINDS];
    uint64_t fault_until_ms; /* until this moment a fault may cost the node the service */
    bool knew;               /* the node knew more than the database did after a failover */

    uint64_t clock_since_ms; /* the true time at which the node's clock showed clock_base_ms */
    uint64_t clock_base_ms;
    /* The node's clock stood still, and no transaction sent since has been answered. */
    bool is_deceived;
    uint64_t deceived_op; /* the last transaction that the node sent before its clock stood still */

    /* The real driver of the lease, and its surroundings (daemon.h). */
    struct hf_cluster cluster;
    struct hf_commit_pump pump; /* this pump only says whether a batch is being committed */
    struct hf_daemon daemon;
    struct hf_addresses runner;
    uv_loop_t loop;
    uint64_t timer_ms;   /* when the cluster's timer is due, by the node's own clock; 0: never */
    uint64_t wake_at_ms; /* the moment for which an event is queued */
    uint64_t wakes;

    /* The store's thread makes one transaction at a time. */
    /* The transaction on the lease that the daemon asked for; NULL: none. */
    struct hf_store_lease_call *call;
    struct hf_batch committing; /* the batch, if the pump is committing */
    uint64_t batch_term;        /* the term to which the batch belongs */
    uint64_t op;                /* the number of the transaction in flight, or of the last one */
    bool is_in_flight;
    struct hf_lease_order order;
    bool is_fresh;      /* the session does not know the heartbeat yet */
    uint64_t heartbeat; /* the heartbeat that the session saw last */
    uint64_t connect_at_ms;

    /* The term of the core that runs on this node. */
    uint64_t term;                /* the number of the term */
    struct hf_lease_row load_row; /* the row of the lease under which the term loads */
    struct hf_core *core;
    int32_t state;   /* the NSM state number of the term */
    bool has_served; /* the epoch of this term is durable */
    struct cl_cached cache[CL_CACHE];
    unsigned next_cached;
    struct cl_pending pending[CL_PENDING];
    struct cl_outcall outcalls[CL_OUTCALLS];
    uint64_t numbers;

    struct cl_address address;
};

/* node.c */
uint64_t cl_clock(const struct cl_world *world, unsigned node);
/* Returns how many ms of true time pass until the node's clock shows this. */
uint64_t cl_clock_wait(const struct cl_world *world, unsigned node, uint64_t clock_ms);
bool cl_node_is_valid(const struct cl_world *world, unsigned node);
bool cl_node_may_send(struct cl_world *world, unsigned node);
void cl_node_start(struct cl_world *world, unsigned node);
void cl_node_kill(struct cl_world *world, unsigned node);
void cl_node_pump(struct cl_world *world, unsigned node);
void cl_node_on_reply(struct cl_world *world, unsigned node, const struct cl_packet *reply);
void cl_node_on_timeout(struct cl_world *world, unsigned node, uint64_t op);
/* Hands a transaction on the lease from the daemon to the store's thread. */
void cl_node_lease(struct cl_world *world, unsigned node, struct hf_store_lease_call *call);
void cl_node_on_wake(struct cl_world *world, unsigned node, uint64_t generation);

/* term.c */
struct hf_now cl_core_now(struct cl_world *world, unsigned node);
void cl_term_begin(struct cl_world *world, unsigned node);
void cl_term_end(struct cl_world *world, unsigned node);
void cl_term_on_loaded(struct cl_world *world, unsigned node, uint64_t term);
void cl_term_on_request(struct cl_world *world, unsigned node, const struct cl_packet *request);
void cl_term_on_leave(struct cl_world *world, unsigned node, const struct cl_packet *packet);
void cl_term_on_call_ends(struct cl_world *world, unsigned node, unsigned index, uint64_t number);
void cl_term_batch_done(struct cl_world *world, unsigned node, uint64_t seq, int status);
void cl_term_calls(struct cl_world *world, unsigned node);

#endif
