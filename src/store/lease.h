/*
 * The lease of a service that has standbys (SPEC HA-01 to HA-03, HA-08, HA-09): one row of the
 * database says which daemon owns the service. core/lease decides when to poll, take and renew;
 * these functions do it. Only PostgreSQL has a lease.
 *
 * All daemons of a service open the store (hf_store_config.cluster). None of them owns it then: a
 * batch is refused with HF_EFENCED until a TAKE has succeeded, and again after another daemon took
 * the lease. Every batch that becomes durable renews the lease, as RENEW does alone.
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

/* An export, with the bytes at an offset of a file handle that identify its files. */
struct hf_store_export {
    char name[HF_STORE_EXPORT_NAME_MAX];
    char service[HF_STORE_SERVICE_MAX]; /* the service that the export belongs to */
    uint32_t offset;
    uint32_t len;
    uint8_t bytes[HF_STORE_EXPORT_BYTES_MAX];
};

/* How this daemon takes part in the service. It outlives the store. */
struct hf_store_cluster {
    const char *node;    /* the name of this host */
    const char *version; /* the version of this program, for people */
    bool require_sync;   /* a database without a synchronous standby is refused */
    const struct hf_store_export *exports;
    unsigned n_exports;
};

/* A daemon of the service that reported lately. */
struct hf_store_node {
    char name[HF_STORE_NODE_MAX];
    char version[HF_STORE_NODE_MAX];
    uint32_t seen_ms; /* how long ago the node reported */
};

/* A transaction on the lease, and what it found. */
struct hf_store_lease_call {
    struct hf_lease_order order; /* any but HF_LEASE_COMMIT, which is hf_store_apply() */
    /* RELEASE: records a clean stop of the epoch that this daemon began (NSM-06). */
    bool clean_stop;

    /* These fields, for people, are filled in by POLL and sometimes by RENEW. */
    char owner[HF_STORE_NODE_MAX]; /* the node that took the lease last */
    int64_t taken_at_ms;           /* when, as Unix time by the database's clock; 0: never */
    struct hf_store_node nodes[HF_STORE_NODES_MAX];
    unsigned n_nodes; /* 0: the nodes were not asked for this time */
};

/*
 * Makes a transaction on the lease, on the thread that uses the store. Returns 0, HF_EFENCED,
 * HF_EBEHIND, HF_EBUSY (a TAKE that came second), or the codes of hf_store_apply(). A POLL that
 * finds the nonce of an earlier TAKE, whose outcome was in doubt, makes the store ours.
 */
int hf_store_lease(struct hf_store *store, struct hf_store_lease_call *call);

/* Returns the row as the last transaction, which may have been a batch, left or found it. False if
 * that transaction failed or is in doubt. */
bool hf_store_lease_row(const struct hf_store *store, struct hf_lease_row *out);

/* True if the backend of this configuration can be read beside the store that is open. */
bool hf_store_can_read_aside(const struct hf_store_config *config);

/* Receives what is loaded, exports first. A negative return value ends the walk, which then returns
 * it. */
struct hf_store_loading {
    hf_store_visit record;
    /* Receives an export of another service. */
    int (*foreign)(void *ctx, const struct hf_store_export *other);
    void *ctx;
    /*
     * Is called when all were visited; it fails as a visit of a lock does. NULL: nothing is called.
     */
    int (*end)(void *ctx);
};

/*
 * Loads everything on a connection of its own, which the backend must be able to do
 * (hf_store_can_read_aside()), while the store's connection goes on renewing the lease: any thread
 * may call it. Returns HF_EFENCED if the lease is not ours any more, HF_EBEHIND if the database is
 * older than when the lease was taken. If mine is NULL, it loads all that is durable at this
 * moment, whichever daemon has the store; that serves for a backup.
 */
int hf_store_load_owned(const struct hf_store_config *config, const struct hf_lease_row *mine,
                        const struct hf_store_loading *to, char error[HF_STORE_ERROR_MAX]);

/* True if the name can be that of a service: it becomes a part of names in the database, the file
 * system and the unit. */
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
