/* Drives the lease of a service with standbys (SPEC section 8). core/lease decides and the commit
 * thread executes; this file, on the loop thread, carries orders and results between them, and the
 * lease's state to the term (term.h).
 *
 * When the daemon has taken the lease, a term begins: the service's addresses are brought up and
 * its programs served, while the store is loaded. The term ends when the lease is lost or given up:
 * first the service becomes silent (its gate shuts), then its addresses go down, then connections
 * and memory go. The process is a standby again. */
#ifndef HF_DAEMON_CLUSTER_H
#define HF_DAEMON_CLUSTER_H

#include <uv.h>

#include "addresses/addresses.h"
#include "core/lease/lease.h"
#include "core/lease/silence.h"
#include "daemon/commit_pump.h"
#include "daemon/config.h"
#include "rpc/gate.h"

/* The state of the cluster, as REST, metrics and `holdfastctl cluster` show it. */
struct hf_cluster_view {
    char owner[HF_STORE_NODE_MAX]; /* the cluster node that took the lease last */
    int64_t taken_at_ms;
    struct hf_store_node nodes[HF_STORE_NODES_MAX];
    unsigned n_nodes;
    uint64_t looked_ms; /* when this daemon last read which node owns the lease */
    uint64_t takeovers; /* how often this process took the service */
    uint64_t losses;    /* how many leases this process lost to another node */
    uint64_t expiries;  /* how often the lease of this process ran out */
    /* how often this process found that the database had gone back in time */
    uint64_t alarms;
    /* the duration of the last takeover, from taking the lease to the first answer */
    uint64_t last_take_ms;
    /* How long this node, as a standby, had seen no heartbeat before its last takeover. */
    uint64_t last_silence_ms;
};

struct hf_cluster {
    struct hf_daemon *daemon; /* the daemon whose terms the cluster begins and ends */
    uv_loop_t *loop;
    const struct hf_config *config;
    struct hf_commit_pump *pump;
    struct hf_rpc_gate gate;
    struct hf_addresses *addresses; /* NULL: an outside manager moves the service's addresses */

    struct hf_lease lease;
    struct hf_store_lease_call call; /* belongs to the commit thread while `calling` is set */
    bool calling;
    uint64_t tried_look_ms; /* when this daemon last tried to read the other nodes */
    uv_timer_t timer;

    struct hf_lease_row row; /* the newest lease row that the store acknowledged */
    uint64_t began_ms;       /* when this process took the lease of the current term */
    /* when to load the store again after a failure; 0: no load has failed */
    uint64_t retry_ms;
    /* the runner was asked to bring the addresses up, and has not reported them down since */
    bool addresses_taken;
    bool was_valid; /* the lease was valid when the cluster last checked it */
    bool was_alarm; /* the alarm was raised when the cluster last checked it */
    bool released;  /* the current term ended because the service was given up */
    /* the current term's lease is lost: first its addresses are dropped, then it ends */
    bool lost;
    /* The current term has begun an epoch, so releasing the service records a clean stop of it. */
    bool served;
    bool stopping;
    bool stopped;
    struct hf_silence silence; /* stops the core's clock while the service is silent */
    struct hf_cluster_view view;
};

/* Initialises the cluster. All that the arguments point to must outlive it. */
int hf_cluster_init(struct hf_cluster *cluster, struct hf_daemon *daemon, uv_loop_t *loop,
                    const struct hf_config *config, struct hf_commit_pump *pump,
                    struct hf_addresses *addresses);

/* Follows the lease: to be called at the start, after anything that may have changed the lease, and
 * when time has passed. */
void hf_cluster_carry_on(struct hf_cluster *cluster);

/* Gives the service up for good; then hf_daemon_shut_down() is called. */
void hf_cluster_stop(struct hf_cluster *cluster);
void hf_cluster_close(struct hf_cluster *cluster); /* closes the cluster's timer on the loop */

/* ---- what the term reports ---- */

/* Reports that the term could not load the store: the cluster tries again, or leaves the service to
 * another node. */
void hf_cluster_not_loaded(struct hf_cluster *cluster, int status, const char *reason);
/* Reports that the new epoch is durable and the term answers requests. */
void hf_cluster_serving(struct hf_cluster *cluster);

/* ---- what the store's thread reports (commit_pump.h) ---- */

/* For the commit pump. A batch is one transaction on the lease, and only one transaction is in
 * flight at a time: a batch may be submitted if may_commit, and its begin and end are reported. */
bool hf_cluster_may_commit(const struct hf_cluster *cluster);
void hf_cluster_batch_begins(struct hf_cluster *cluster);
void hf_cluster_batch_ended(struct hf_cluster *cluster, const struct hf_commit_result *result);
void hf_cluster_lease_ended(struct hf_cluster *cluster, const struct hf_commit_lease *result);

/* ---- what an operator or an outside manager asks for ---- */

/* Takes the service as soon as the lease allows, and accepts a database that went back in time. */
void hf_cluster_take(struct hf_cluster *cluster);
/* Gives the service up; this node does not take it again before hf_cluster_take(). */
void hf_cluster_release(struct hf_cluster *cluster);
/* Gives the service up to another node. Returns HF_ENOENT if no other node was seen lately,
 * HF_EDENIED if this process does not own the service. */
int hf_cluster_move(struct hf_cluster *cluster);

/* Returns the time for the core's clock, which stands still while the service is silent
 * (core/lease/silence.h). */
uint64_t hf_cluster_core_ms(void *ctx, uint64_t mono_ms);

/* Returns this daemon's role: "standby", "active", "suspended", ... */
const char *hf_cluster_role(const struct hf_cluster *cluster);

#endif
