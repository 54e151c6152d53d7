/*
 * A service with standbys (SPEC section 8): drives the lease of this process. core/lease decides
 * and the store's thread executes; this file, on the loop, carries orders and results between them,
 * and the lease's state to the term (term.h).
 *
 * When the lease was taken, a term begins: the service's addresses are brought up and its programs
 * served, and everything is loaded meanwhile. It ends when the lease is lost or given up: first the
 * service is silent (the gate), then its addresses go, then connections and memory. The process is
 * a standby again.
 */
#ifndef HF_DAEMON_CLUSTER_H
#define HF_DAEMON_CLUSTER_H

#include <uv.h>

#include "addresses/addresses.h"
#include "core/lease/lease.h"
#include "core/lease/silence.h"
#include "daemon/commit_pump.h"
#include "daemon/config.h"
#include "rpc/gate.h"

/* What people see in REST, metrics and `holdfastctl cluster`. */
struct hf_cluster_view {
    char owner[HF_STORE_NODE_MAX]; /* the node that took the lease last */
    int64_t taken_at_ms;
    struct hf_store_node nodes[HF_STORE_NODES_MAX];
    unsigned n_nodes;
    uint64_t looked_ms;    /* when the owner of the lease was last read */
    uint64_t takeovers;    /* how often this process took the service */
    uint64_t losses;       /* how many leases were lost to another node */
    uint64_t expiries;     /* how often the lease ran out */
    uint64_t alarms;       /* how often the database was found to have gone back */
    uint64_t last_take_ms; /* how long the last takeover took, from the take to the first answer */
    /* For how long the standby had seen no heartbeat before that takeover. */
    uint64_t last_silence_ms;
};

struct hf_cluster {
    struct hf_daemon *daemon; /* the daemon whose terms these are */
    uv_loop_t *loop;
    const struct hf_config *config;
    struct hf_commit_pump *pump;
    struct hf_rpc_gate gate;
    struct hf_addresses *addresses; /* NULL: an outside manager has the addresses */

    struct hf_lease lease;
    struct hf_store_lease_call call; /* belongs to the store's thread while `calling` */
    bool calling;
    uint64_t tried_look_ms; /* when the other nodes were last looked for */
    uv_timer_t timer;

    struct hf_lease_row row; /* the newest row that was acknowledged */
    uint64_t began_ms;       /* when the lease of this term was taken */
    uint64_t retry_ms;       /* after a failed load, when to load again; 0: no load has failed */
    bool addresses_taken;    /* the addresses were asked for, and not reported down since */
    bool was_valid;          /* the gate was open when it was last looked at */
    bool was_alarm;          /* the lease was in ALARM when it was last looked at */
    bool released;           /* the term ended because the service was given up */
    bool lost;               /* the lease of this term is gone: the addresses go, then the rest */
    /* This term began an epoch, which ends by a clean stop if the service is released. */
    bool served;
    bool stopping;
    bool stopped;
    struct hf_silence silence; /* makes the core's clock stand still */
    struct hf_cluster_view view;
};

/* All that the arguments point to outlives the cluster. */
int hf_cluster_init(struct hf_cluster *cluster, struct hf_daemon *daemon, uv_loop_t *loop,
                    const struct hf_config *config, struct hf_commit_pump *pump,
                    struct hf_addresses *addresses);

/* Follows the lease; it is called at the start, after anything that may have changed the lease, and
 * when time has passed. */
void hf_cluster_carry_on(struct hf_cluster *cluster);

/* Gives the service up and holds back; hf_daemon_shut_down() follows. */
void hf_cluster_stop(struct hf_cluster *cluster);
void hf_cluster_close(struct hf_cluster *cluster); /* closes the handle on the loop */

/* ---- what the term reports ---- */

/* Tells that the store could not be loaded: the cluster tries again, or leaves the service to
 * another node. */
void hf_cluster_not_loaded(struct hf_cluster *cluster, int status, const char *reason);
/* Tells that the new epoch is durable: requests are answered. */
void hf_cluster_serving(struct hf_cluster *cluster);

/* ---- what the store's thread reports (commit_pump.h) ---- */

/* These tell of batches: a batch is one transaction on the lease, and only one is in flight at a
 * time. */
bool hf_cluster_may_commit(const struct hf_cluster *cluster);
void hf_cluster_batch_begins(struct hf_cluster *cluster);
void hf_cluster_batch_ended(struct hf_cluster *cluster, const struct hf_commit_result *result);
void hf_cluster_lease_ended(struct hf_cluster *cluster, const struct hf_commit_lease *result);

/* ---- what an operator or an outside manager asks for ---- */

/* Takes the service as soon as it can be had, and accepts a database that went back in time. */
void hf_cluster_take(struct hf_cluster *cluster);
/* Gives the service up until hf_cluster_take(). */
void hf_cluster_release(struct hf_cluster *cluster);
/* Gives the service up to another node. Returns HF_ENOENT if no other was seen lately, HF_EDENIED
 * if the service is not ours. */
int hf_cluster_move(struct hf_cluster *cluster);

/* Returns the time that the core is given (core/lease/silence.h). */
uint64_t hf_cluster_core_ms(void *ctx, uint64_t mono_ms);

/* Returns "standby", "active", "suspended", ... */
const char *hf_cluster_role(const struct hf_cluster *cluster);

#endif
