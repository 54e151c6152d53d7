/*
 * Opens the administration interface (src/admin) as configured, and gives it what only the daemon
 * knows: the state of the store, metrics of all rooms, checks of the path to a client, and backups.
 */
#ifndef HF_DAEMON_ADMINISTRATION_H
#define HF_DAEMON_ADMINISTRATION_H

#include "admin/admin.h"
#include "daemon/callback_path.h"
#include "daemon/cluster.h"
#include "daemon/config.h"
#include "daemon/engine.h"
#include "daemon/recorder.h"
#include "rpc/server.h"
#include "rpcbind/watch.h"

/* Where holdfastctl looks for the socket. */
#define HF_RUN_DIRECTORY "/run/holdfast"

/* How clients find us, as the daemon set it up. */
struct hf_finding {
    /* NULL: we are not registered with the system's rpcbind. */
    const struct hf_rpcbind_watch *watch;
    /* What there is instead of a watch on rpcbind: "embedded", "none" or "missing". */
    const char *without;
};

struct hf_administration {
    struct hf_engine *engine;
    struct hf_finding finding;
    const struct hf_rpc_server *server; /* NULL: this is a standby */
    struct hf_cluster *cluster;         /* NULL: there are no standbys */
    struct hf_path_checks checks;
    struct hf_recorder recorder;
    struct hf_backup_request backup;
    struct hf_admin_backup *asked; /* the request that gets the backup in progress */
    struct hf_admin *admin;        /* NULL: administration is off */
    char socket[HF_CONFIG_TEXT_MAX + 16];
};

/*
 * Returns false if administration is switched off: then requests need not be timed either (ADM-02).
 */
bool hf_administration_wanted(const struct hf_config *config);

/* Opens it; engine, server and config must outlive it. */
int hf_administration_open(struct hf_administration *a, struct hf_engine *engine,
                           const struct hf_rpc_server *server, const struct hf_config *config,
                           struct hf_finding finding);

/* With standbys: the first is called when a term has ended, and its engine is not to be used any
 * more; the second when another engine takes its place, and later its server. */
void hf_administration_suspend(struct hf_administration *a);
void hf_administration_switch(struct hf_administration *a, struct hf_engine *engine,
                              const struct hf_rpc_server *server);

void hf_administration_reload(struct hf_administration *a);

/* Closes it after the engine was stopped: then no request waits for a commit. */
void hf_administration_close(struct hf_administration *a);

#endif
