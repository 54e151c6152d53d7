/*
 * What the files of the daemon process share: daemon.c starts and stops it and handles signals,
 * term.c is what serves, listening.c opens its sockets and registers them with rpcbind.
 */
#ifndef HF_DAEMON_DAEMON_PRIVATE_H
#define HF_DAEMON_DAEMON_PRIVATE_H

#include <uv.h>

#include "daemon/administration.h"
#include "daemon/cluster.h"
#include "daemon/confinement.h"
#include "daemon/daemon.h"
#include "daemon/engine.h"
#include "daemon/loading.h"
#include "daemon/store_settings.h"
#include "daemon/systemd.h"
#include "daemon/term.h"
#include "rpc/server.h"
#include "rpcbind/server.h"
#include "rpcbind/watch.h"

struct hf_term {
    struct hf_daemon *daemon;
    enum hf_term_phase phase;
    bool recorded; /* the new epoch is durable */
    struct hf_engine engine;
    struct hf_loading *loading; /* NULL: not now */
    const struct hf_rpc_program *programs[HF_RPCBIND_PROGRAMS_MAX];
    size_t n_programs;
    struct hf_rpc_server *server;
    bool server_open; /* or closing */
    struct hf_rpcbind_server *rpcbind;
    const struct hf_rpc_program *rpcbind_programs[1];
    struct hf_list link; /* in daemon->ended */
};

struct hf_daemon {
    struct hf_daemon_options *options;
    uv_loop_t loop;
    uv_signal_t sigterm, sigint, sighup;
    uv_timer_t overdue; /* ends a stop that takes too long */
    struct hf_systemd systemd;
    struct hf_hash_key hash_key;
    char obstacle[HF_RPCBIND_ERROR_MAX]; /* why it cannot start, for the service manager */
    bool hopeless;                       /* only an operator can remove the obstacle */
    bool stopping;
    bool shut_down;
    int status; /* the exit status of the process */

    struct hf_store_settings settings;
    struct hf_commit_pump pump;
    struct hf_term *term;
    struct hf_list ended; /* terms that are closing */
    uv_timer_t reaper;    /* frees them */
    struct hf_administration administration;
    struct hf_confinement confinement;

    struct hf_rpcbind_service services[HF_RPCBIND_SERVICES_MAX];
    size_t n_services;
    struct hf_rpcbind_share share;        /* of the registration with other daemons on this host */
    struct hf_rpcbind_watch watch;        /* open: registered with the system's rpcbind */
    struct hf_rpc_client *rpcbind_client; /* for the registration, which outlives a term */
    bool embeds_rpcbind;                  /* in each term */
    bool lacks_rpcbind;                   /* none runs, and we may not serve port 111 */

    struct hf_addresses *addresses; /* NULL: no hook */
    struct hf_cluster cluster;
    bool clustered; /* has standbys: the cluster drives the lease */
};

/* daemon.c */

/* Without standbys: the store cannot be used. Ends the process. */
void hf_daemon_cannot_start(struct hf_daemon *d, int error);

/* listening.c */
struct hf_rpc_access hf_listening_access(const struct hf_config *config);
/* Makes the term's server, and listens everywhere. */
int hf_listening_open(struct hf_daemon *d);
/* With standbys: what will be served, to be registered before that. */
void hf_listening_list_services(struct hf_daemon *d);
/* Registers with the system's rpcbind, or is one; with standbys, in each term. */
int hf_listening_set_up_rpcbind(struct hf_daemon *d);
int hf_listening_serve_rpcbind(struct hf_daemon *d, bool locally);

#endif
