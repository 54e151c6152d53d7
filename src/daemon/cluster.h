/*
 * A service with standbys (SPEC section 8): the lease, and the lives of this process. core/lease
 * decides, the store's thread executes, and this, on the loop, carries one to the other.
 *
 * A life begins when the lease was taken: the service's addresses are brought up and its programs
 * served, everything is loaded meanwhile (loading.h), and when the new epoch is durable, requests
 * are answered. It ends when the lease is lost or given up: first the service is silent (the gate),
 * then its addresses go, then connections and memory. The process is a standby again.
 *
 * What opens and closes a life is the daemon's (lives.c), through struct hf_cluster_ops.
 */
#ifndef HF_DAEMON_CLUSTER_H
#define HF_DAEMON_CLUSTER_H

#include <uv.h>

#include "addresses/addresses.h"
#include "core/lease/lease.h"
#include "core/lease/silence.h"
#include "daemon/commit_pump.h"
#include "daemon/loading.h"
#include "rpc/gate.h"

enum hf_cluster_phase {
    HF_PHASE_WAITING,  /* no life */
    HF_PHASE_LOADING,  /* serves: come again */
    HF_PHASE_STARTING, /* loaded; the new epoch is not durable yet */
    HF_PHASE_SERVING,
    HF_PHASE_LEAVING,  /* silent; the last batch, then the addresses */
    HF_PHASE_DROPPING, /* silent; the addresses go, then everything else */
    HF_PHASE_CLOSING,  /* all is closing on the loop */
};

struct hf_cluster_ops {
    /* The lease was taken: listens. On failure the reason is in the log. */
    int (*open)(void *ctx);
    /* The core was loaded and started; its first batch waits to be committed. */
    void (*adopt)(void *ctx, struct hf_core *core, struct hf_export_rules *rules);
    /* The new epoch is durable. */
    void (*serve)(void *ctx);
    /* The gate was shut for a while and has opened. */
    void (*resume)(void *ctx);
    /* The core is told nothing more and submits no batch. */
    void (*leave)(void *ctx);
    /* Closes everything; hf_cluster_closed() is called when that is done. */
    void (*close)(void *ctx);
    /* What people see has changed. */
    void (*changed)(void *ctx);
    /* After hf_cluster_stop(): the service is given up, or that failed. */
    void (*stopped)(void *ctx);
    void *ctx;
};

/* For people: REST, metrics, holdfastctl cluster. */
struct hf_cluster_view {
    char owner[HF_STORE_NODE_MAX]; /* the node that took the lease last */
    int64_t taken_at_ms;
    struct hf_store_node nodes[HF_STORE_NODES_MAX];
    unsigned n_nodes;
    uint64_t looked_ms;    /* when that was read */
    uint64_t takeovers;    /* by this process */
    uint64_t losses;       /* leases lost to another node */
    uint64_t expiries;     /* times that the lease ran out */
    uint64_t alarms;       /* times that the database was found to have gone back */
    uint64_t last_take_ms; /* how long the last takeover took, from the take to the first answer */
    uint64_t last_silence_ms; /* and for how long the standby had seen no beat before */
};

struct hf_cluster {
    uv_loop_t *loop;
    const struct hf_config *config;
    const struct hf_hash_key *hash_key;
    const struct hf_store_settings *settings;
    struct hf_commit_pump *pump;
    struct hf_cluster_ops ops;
    struct hf_commit_lessee lessee;
    struct hf_rpc_gate gate;
    struct hf_addresses *addresses; /* NULL: an outside manager has them */

    struct hf_lease lease;
    struct hf_store_lease_call call; /* with the store's thread while `calling` */
    bool calling;
    uint64_t tried_look_ms; /* when the other nodes were last looked for */
    uv_timer_t timer;

    enum hf_cluster_phase phase;
    struct hf_loading *loading;
    struct hf_lease_row row; /* the newest that was acknowledged */
    uint64_t began_ms;       /* when the lease of this life was taken */
    uint64_t retry_ms;       /* loading failed: not before this moment; 0: no */
    bool addresses_taken;    /* asked for, and not reported down since */
    bool was_valid;          /* the gate, when it was last looked at */
    bool was_alarm;          /* the state, likewise */
    bool released;           /* the life ended because the service was given up */
    bool served;             /* this life began an epoch: a release is a clean stop of it */
    bool stopping;
    bool stopped;
    struct hf_silence silence; /* the core's clock */
    struct hf_cluster_view view;
};

/* CLOCK_BOOTTIME, in milliseconds. */
uint64_t hf_cluster_now_ms(void);

/* pump is not attached yet. What is pointed to outlives the cluster. */
int hf_cluster_init(struct hf_cluster *cluster, uv_loop_t *loop, const struct hf_config *config,
                    const struct hf_hash_key *hash_key, const struct hf_store_settings *settings,
                    struct hf_commit_pump *pump, struct hf_addresses *addresses,
                    const struct hf_cluster_ops *ops);

/* Begins to poll; the store's thread runs. */
void hf_cluster_start(struct hf_cluster *cluster);

/* The life that ops.close ended is gone. */
void hf_cluster_closed(struct hf_cluster *cluster);

/* Gives the service up and holds back; ops.stopped follows. */
void hf_cluster_stop(struct hf_cluster *cluster);
void hf_cluster_close(struct hf_cluster *cluster); /* its handle */

/* ---- what an operator or an outside manager asks for ---- */

/* Takes the service as soon as it can be had, and accepts a database that went back in time. */
void hf_cluster_take(struct hf_cluster *cluster);
/* Gives the service up until hf_cluster_take(). */
void hf_cluster_release(struct hf_cluster *cluster);
/* Gives it up to another node; HF_ENOENT if no other was seen lately, HF_EDENIED if it is not ours.
 */
int hf_cluster_move(struct hf_cluster *cluster);

/* The time that the core is given (core/lease/silence.h). */
uint64_t hf_cluster_core_ms(void *ctx, uint64_t mono_ms);

/* "standby", "active", "suspended", ... */
const char *hf_cluster_role(const struct hf_cluster *cluster);

static inline bool hf_cluster_is_serving(const struct hf_cluster *cluster)
{
    return cluster->phase == HF_PHASE_SERVING;
}

#endif
