/*
 * What the files of the daemon process share: daemon.c starts and stops it and handles signals,
 * term.c serves, listening.c opens its sockets and registers them with rpcbind.
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
    struct hf_loading *loading; /* loads the store; NULL: nothing is being loaded */
    const struct hf_rpc_program *programs[HF_RPCBIND_PROGRAMS_MAX];
    size_t n_programs;
    struct hf_rpc_server *server;
    bool server_open; /* the server is open or closing */
    struct hf_rpcbind_server *rpcbind;
    const struct hf_rpc_program *rpcbind_programs[1];
    struct hf_list link; /* links the term into daemon->ended */
};

struct hf_daemon {
    struct hf_daemon_options *options;
    uv_loop_t loop;
    uv_signal_t sigterm, sigint, sighup;
    uv_timer_t overdue; /* ends a stop that takes too long */
    struct hf_systemd systemd;
    struct hf_hash_key hash_key;
    /* Why the daemon cannot start, for the service manager. */
    char obstacle[HF_RPCBIND_ERROR_MAX];
    bool hopeless; /* only an operator can remove the obstacle */
    bool stopping;
    bool shut_down;
    int status; /* the exit status of the process */

    struct hf_store_settings settings;
    struct hf_commit_pump pump;
    struct hf_term *term;
    struct hf_list ended; /* terms that are closing */
    uv_timer_t reaper;    /* frees terms that are closed */
    struct hf_administration administration;
    struct hf_confinement confinement;

    struct hf_rpcbind_service services[HF_RPCBIND_SERVICES_MAX];
    size_t n_services;
    struct hf_rpcbind_share share; /* shares the registration with other daemons on this host */
    struct hf_rpcbind_watch watch; /* is open if we are registered with the system's rpcbind */
    /* Is used for the registration, which outlives a term. */
    struct hf_rpc_client *rpcbind_client;
    bool embeds_rpcbind; /* each term embeds an rpcbind */
    bool lacks_rpcbind;  /* no rpcbind runs, and we may not serve port 111 */

    struct hf_addresses *addresses; /* moves the addresses; NULL: there is no hook */
    struct hf_cluster cluster;
    bool clustered; /* there are standbys: the cluster drives the lease */
};

/* daemon.c */

/* Ends the process, without standbys, because the store cannot be used. */
void hf_daemon_cannot_start(struct hf_daemon *d, int error);

/* listening.c */
/* Raises the limit of open files as far as allowed. The process must do this before it confines
 * itself: a standby begins to listen much later, and may not change limits then. */
void hf_listening_raise_file_limit(void);
struct hf_rpc_access hf_listening_access(const struct hf_config *config);
/* Makes the term's server, and listens at all addresses. */
int hf_listening_open(struct hf_daemon *d);
/* With standbys: lists what will be served, which is registered before it is served. */
void hf_listening_list_services(struct hf_daemon *d);
/* Registers with the system's rpcbind, or sets up our own; with standbys, in each term. */
int hf_listening_set_up_rpcbind(struct hf_daemon *d);
int hf_listening_serve_rpcbind(struct hf_daemon *d, bool locally);

#endif
