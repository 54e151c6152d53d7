/*
 * Opens the administration interface (src/admin) as configured, and supplies what only the daemon
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

/* The directory in which holdfastctl looks for the admin socket. */
#define HF_RUN_DIRECTORY "/run/holdfast"

/* How clients find our programs: the outcome of the registration with rpcbind. */
struct hf_finding {
    /*
     * The watch on our registration with the system's rpcbind; NULL: we are not registered there.
     */
    const struct hf_rpcbind_watch *watch;
    /* Without that registration: "embedded", "none" or "missing", as administration shows it. */
    const char *without;
};

struct hf_administration {
    struct hf_engine *engine;
    struct hf_finding finding;
    /* the RPC server of the current term; NULL while the daemon is a standby */
    const struct hf_rpc_server *server;
    struct hf_cluster *cluster; /* the lease's driver; NULL: the service has no standbys */
    struct hf_path_checks checks;
    struct hf_recorder recorder;
    struct hf_backup_request backup;
    struct hf_admin_backup *asked; /* the admin request that waits for the backup in progress */
    struct hf_admin *admin;        /* the admin interface; NULL: it is switched off */
    char socket[HF_CONFIG_TEXT_MAX + 16];
};

/* Returns false if administration is switched off; requests need not be timed then (ADM-02). */
bool hf_administration_wanted(const struct hf_config *config);

/* Opens the administration interface. engine, server and config must outlive it. */
int hf_administration_open(struct hf_administration *a, struct hf_engine *engine,
                           const struct hf_rpc_server *server, const struct hf_config *config,
                           struct hf_finding finding);

/*
 * With standbys: hf_administration_suspend() is called when a term has ended, whose engine must not
 * be used any more. hf_administration_switch() is called when the next term's engine takes its
 * place, and again when that term has a server.
 */
void hf_administration_suspend(struct hf_administration *a);
void hf_administration_switch(struct hf_administration *a, struct hf_engine *engine,
                              const struct hf_rpc_server *server);

void hf_administration_reload(struct hf_administration *a);

/* Closes the administration interface. The engine must have been stopped before, so that no admin
 * request waits for a commit. */
void hf_administration_close(struct hf_administration *a);

#endif
