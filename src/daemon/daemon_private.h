/* Declarations that the files of the daemon process share: daemon.c starts and stops the process
 * and handles signals, term.c serves, listening.c opens the sockets and registers them with
 * rpcbind. */
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
    bool recorded; /* the new epoch of this term is durable */
    struct hf_engine engine;
    struct hf_loading *loading; /* the load in progress; NULL: there is none */
    const struct hf_rpc_program *programs[HF_RPCBIND_PROGRAMS_MAX];
    size_t n_programs;
    struct hf_rpc_server *server;
    bool server_open; /* the RPC server is open or closing */
    struct hf_rpcbind_server *rpcbind;
    const struct hf_rpc_program *rpcbind_programs[1];
    struct hf_list link; /* links an ended term into daemon->ended */
};

struct hf_daemon {
    struct hf_daemon_options *options;
    uv_loop_t loop;
    uv_signal_t sigterm, sigint, sighup;
    uv_timer_t overdue; /* the timer that ends a stop which takes too long */
    struct hf_systemd systemd;
    struct hf_hash_key hash_key;
    /* Why the daemon cannot start, as a text for the service manager. */
    char obstacle[HF_RPCBIND_ERROR_MAX];
    bool hopeless; /* only an operator can remove the obstacle to the start */
    bool stopping;
    bool shut_down;
    int status; /* the exit status of the process */

    struct hf_store_settings settings;
    struct hf_commit_pump pump;
    struct hf_term *term;
    struct hf_list ended; /* the list of ended terms that are still closing */
    uv_timer_t reaper;    /* the timer that frees closed terms */
    struct hf_administration administration;
    struct hf_confinement confinement;

    struct hf_rpcbind_service services[HF_RPCBIND_SERVICES_MAX];
    size_t n_services;
    struct hf_rpcbind_share share; /* shares one registration with the other daemons on this host */
    /* watches the registration with the system's rpcbind; open if there is one */
    struct hf_rpcbind_watch watch;
    /* The RPC client for the registration with rpcbind, which outlives a term. */
    struct hf_rpc_client *rpcbind_client;
    bool embeds_rpcbind; /* each term serves an embedded rpcbind */
    bool lacks_rpcbind;  /* no rpcbind runs, and the daemon may not serve port 111 itself */

    struct hf_addresses *addresses; /* moves the service's addresses; NULL: no hook is configured */
    struct hf_cluster cluster;
    bool clustered; /* the service has standbys: the cluster drives the lease */
};

/* daemon.c */

/* Ends the process of a daemon without standbys, because the store cannot be used. */
void hf_daemon_cannot_start(struct hf_daemon *d, int error);

/* listening.c */
/* Raises the limit of open files as far as allowed. The process must do this before it confines
 * itself: a standby begins to listen much later, when it may not change limits any more. */
void hf_listening_raise_file_limit(void);
struct hf_rpc_access hf_listening_access(const struct hf_config *config);
/* Makes the term's RPC server, and listens on all addresses. */
int hf_listening_open(struct hf_daemon *d);
/* With standbys: lists the programs that will be served, because they are registered with rpcbind
 * before a term serves them. */
void hf_listening_list_services(struct hf_daemon *d);
/*
 * hf_listening_set_up_rpcbind() registers our programs with the system's rpcbind, or serves an
 * embedded one. With standbys, each term serves the embedded one by hf_listening_serve_rpcbind().
 */
int hf_listening_set_up_rpcbind(struct hf_daemon *d);
int hf_listening_serve_rpcbind(struct hf_daemon *d, bool locally);

#endif
