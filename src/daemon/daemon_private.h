/*
 * What the files of the daemon process share: daemon.c starts and stops it and handles signals,
 * listening.c opens its sockets and registers them with rpcbind, lives.c runs a service that has
 * standbys.
 */
#ifndef HF_DAEMON_DAEMON_PRIVATE_H
#define HF_DAEMON_DAEMON_PRIVATE_H

#include <uv.h>

#include "daemon/administration.h"
#include "daemon/cluster.h"
#include "daemon/confinement.h"
#include "daemon/daemon.h"
#include "daemon/engine.h"
#include "daemon/systemd.h"
#include "rpc/server.h"
#include "rpcbind/server.h"
#include "rpcbind/watch.h"

/*
 * What serves, and ends with the lease. Without standbys there is one, as long as the process. With
 * standbys it is made anew for each life (cluster.h), and the old one stays until nothing on the
 * loop refers to it.
 */
struct life {
    struct hf_engine engine;
    const struct hf_rpc_program *programs[HF_RPCBIND_PROGRAMS_MAX];
    size_t n_programs;
    struct hf_rpc_server *server;
    bool server_open; /* or closing */
    struct hf_rpcbind_server *rpcbind;
    const struct hf_rpc_program *rpcbind_programs[1];
    struct daemon *daemon;
    struct hf_list link; /* in daemon->ended */
};

struct daemon {
    struct hf_daemon_options *options;
    uv_loop_t loop;
    uv_signal_t sigterm, sigint, sighup;
    uv_timer_t overdue; /* ends a stop that takes too long */
    struct hf_systemd systemd;
    struct hf_hash_key hash_key;
    char obstacle[HF_RPCBIND_ERROR_MAX]; /* why it cannot start, for the service manager */
    bool hopeless;                       /* only an operator can remove the obstacle */
    bool stopping;

    struct hf_store_settings settings;
    struct hf_commit_pump pump;
    struct life *life;
    bool engine_open;
    struct hf_administration administration;
    struct hf_confinement confinement;

    struct hf_rpcbind_service services[HF_RPCBIND_SERVICES_MAX];
    size_t n_services;
    struct hf_rpcbind_share share; /* of the registration with other daemons on this host */
    struct hf_rpcbind_watch watch; /* open: registered with the system's rpcbind */

    /* With standbys. */
    bool clustered;
    struct hf_addresses *addresses; /* NULL: no hook */
    struct hf_cluster cluster;
    bool embeds_rpcbind;                  /* in each life */
    bool lacks_rpcbind;                   /* none runs, and we may not serve port 111 */
    struct hf_rpc_client *rpcbind_client; /* for the registration, which outlives a life */
    struct hf_list ended;                 /* lives that are closing */
    uv_timer_t reaper;
};

/* daemon.c */
struct life *life_new(struct daemon *d);
void life_del(struct life *life);
void life_list_programs(struct life *life);
void daemon_shut_down(struct daemon *d);

/* listening.c */
struct hf_rpc_access access_of(const struct hf_config *config);
int open_server(struct daemon *d); /* makes it, and listens everywhere */
int set_up_rpcbind(struct daemon *d);
int serve_rpcbind(struct daemon *d, bool locally);
void list_services(struct daemon *d); /* as if we listened already */

/* lives.c */
int lives_open(struct daemon *d);
int lives_start(struct daemon *d);
void lives_stop(struct daemon *d);  /* daemon_shut_down() follows */
void lives_close(struct daemon *d); /* part of that */
void lives_free(struct daemon *d);

#endif
