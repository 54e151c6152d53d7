/*
 * The lease of a service that has standbys (SPEC HA-01 to HA-03, HA-08, HA-09): one row of the
 * database says which daemon owns the service. core/lease decides when to poll, take and renew;
 * these functions do it. Only PostgreSQL has a lease.
 *
 * All daemons of a service open the store (hf_store_config.cluster). Opening does not make a daemon
 * the owner: its batches are refused with HF_EFENCED until a TAKE has succeeded, and again after
 * another daemon took the lease. Every batch that becomes durable renews the lease, as a RENEW
 * does.
 *
 * Exports belong to one service (HA-09). Opening the store claims those of the configuration, and
 * fails with HF_EINVAL if another service has one of them.
 */
#ifndef HF_STORE_LEASE_H
#define HF_STORE_LEASE_H

#include "core/lease/row.h"
#include "store/store.h"

#define HF_STORE_SERVICE_DEFAULT "default"

enum {
    HF_STORE_SERVICE_MAX = 40,
    HF_STORE_NODE_MAX = 64,
    HF_STORE_NODES_MAX = 16,
    HF_STORE_EXPORT_NAME_MAX = 40,
    HF_STORE_EXPORT_BYTES_MAX = 64,
};

/*
 * An export, and how its files are recognised: by these bytes at this offset of their file handles.
 */
struct hf_store_export {
    char name[HF_STORE_EXPORT_NAME_MAX];
    char service[HF_STORE_SERVICE_MAX]; /* the service that the export belongs to */
    uint32_t offset;
    uint32_t len;
    uint8_t bytes[HF_STORE_EXPORT_BYTES_MAX];
};

/* How this daemon takes part in the service. The structure must outlive the store. */
struct hf_store_cluster {
    const char *node;    /* the name of this cluster node */
    const char *version; /* the version of this program, which operators see */
    bool require_sync;   /* the daemon refuses a database without a synchronous standby */
    const struct hf_store_export *exports;
    unsigned n_exports;
};

/* A daemon of the service that wrote to the database lately. */
struct hf_store_node {
    char name[HF_STORE_NODE_MAX];
    char version[HF_STORE_NODE_MAX];
    uint32_t seen_ms; /* how long ago the node wrote to the database */
};

/* A transaction on the lease, and what the transaction found. */
struct hf_store_lease_call {
    /* any order but HF_LEASE_COMMIT, for which hf_store_apply() is called */
    struct hf_lease_order order;
    /* With a RELEASE: records a clean stop of the epoch that this daemon began (NSM-06). */
    bool clean_stop;

    /* A POLL fills in these fields, for operators, and so does a RENEW from time to time. */
    char owner[HF_STORE_NODE_MAX]; /* the cluster node that took the lease last */
    /* when that node took the lease: Unix time by the database's clock; 0: never */
    int64_t taken_at_ms;
    struct hf_store_node nodes[HF_STORE_NODES_MAX];
    unsigned n_nodes; /* 0: this transaction did not read the nodes */
};

/*
 * Makes a transaction on the lease, on the thread that uses the store. Returns 0, HF_EFENCED,
 * HF_EBEHIND, HF_EBUSY (another node's TAKE came first), or the codes of hf_store_apply(). A POLL
 * that finds the nonce of an earlier TAKE of ours, whose outcome was in doubt, makes the store
 * ours.
 */
int hf_store_lease(struct hf_store *store, struct hf_store_lease_call *call);

/* Returns the lease's row as the last transaction, which may have been a batch, found or left it.
 * False if that transaction failed or is in doubt. */
bool hf_store_lease_row(const struct hf_store *store, struct hf_lease_row *out);

/* True if a store of this configuration can be read on a second connection while it is open. */
bool hf_store_can_read_aside(const struct hf_store_config *config);

/* Receives what hf_store_load_owned() loads, exports first. A negative return value ends the load,
 * which then returns that value. */
struct hf_store_loading {
    hf_store_visit record;
    /* Receives an export that belongs to another service. */
    int (*foreign)(void *ctx, const struct hf_store_export *other);
    void *ctx;
    /* Called after the last record was loaded; a negative return value makes the load fail. May be
     * NULL. */
    int (*end)(void *ctx);
};

/*
 * Loads everything on a connection of its own, while the store's connection goes on renewing the
 * lease; any thread may call it. The backend must be able to do that (hf_store_can_read_aside()).
 * Returns HF_EFENCED if the lease is not ours any more, HF_EBEHIND if the database is older than
 * when the lease was taken. If mine is NULL, it loads all that is durable at this moment, whichever
 * daemon owns the store; backups use that.
 */
int hf_store_load_owned(const struct hf_store_config *config, const struct hf_lease_row *mine,
                        const struct hf_store_loading *to, char error[HF_STORE_ERROR_MAX]);

/* True if the name can be that of a service: it becomes a part of names in the database, of file
 * names and of the systemd unit's name. */
static inline bool hf_store_service_is_valid(const char *name)
{
    size_t n = 0;

    for (; name[n]; n++) {
        char c = name[n];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
            return false;
    }
    return n > 0 && n < HF_STORE_SERVICE_MAX;
}

#endif
