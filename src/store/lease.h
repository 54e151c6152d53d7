/*
 * The lease of a service that has standbys (SPEC HA-01 to HA-03, HA-08, HA-09): one row of the
 * database says which daemon owns the service. core/lease decides when to poll, take and renew; this
 * does it. Only PostgreSQL has a lease.
 *
 * All daemons of a service open the store (hf_store_config.cluster). None of them owns it then: a
 * batch is refused with HF_EFENCED until HF_LEASE_TAKE has succeeded, and again after another daemon
 * took the lease. Every batch that becomes durable renews the lease, as HF_LEASE_RENEW does alone.
 *
 * Exports belong to one service (HA-09). Opening the store claims those of the configuration, and
 * fails with HF_EINVAL if another service has one of them.
 */
#ifndef HF_STORE_LEASE_H
#define HF_STORE_LEASE_H

#include "store/store.h"

#define HF_STORE_SERVICE_DEFAULT "default"

enum {
    HF_STORE_SERVICE_MAX = 40,
    HF_STORE_NODE_MAX = 64,
    HF_STORE_NODES_MAX = 16,
    HF_STORE_EXPORT_NAME_MAX = 40,
    HF_STORE_EXPORT_BYTES_MAX = 64,
};

/* An export, and the bytes at an offset of a file handle that tell its files. */
struct hf_store_export {
    char name[HF_STORE_EXPORT_NAME_MAX];
    char service[HF_STORE_SERVICE_MAX]; /* whose it is */
    uint32_t offset;
    uint32_t len;
    uint8_t bytes[HF_STORE_EXPORT_BYTES_MAX];
};

/* How this daemon takes part in the service. It outlives the store. */
struct hf_store_cluster {
    const char *node;    /* what this host is called */
    const char *version; /* of this program, for people */
    bool require_sync;   /* refuse a database without a synchronous standby */
    const struct hf_store_export *exports;
    unsigned n_exports;
};

/* The row. */
struct hf_store_lease {
    uint64_t epoch;
    uint64_t nonce;
    uint64_t beat;
    uint64_t acked;
    bool released;
    char node[HF_STORE_NODE_MAX]; /* that took it last */
    int64_t taken_at_ms;          /* Unix time, by the database's clock; 0: never */
};

/* A daemon of the service that reported lately. */
struct hf_store_node {
    char name[HF_STORE_NODE_MAX];
    char version[HF_STORE_NODE_MAX];
    uint32_t seen_ms; /* ago */
};

enum hf_store_lease_what {
    HF_LEASE_POLL,    /* reads the row */
    HF_LEASE_TAKE,    /* if epoch and beat are still those; HF_EBUSY if not */
    HF_LEASE_RENEW,   /* HF_EFENCED, HF_EBEHIND */
    HF_LEASE_RELEASE, /* the owner's last transaction */
    HF_LEASE_ACCEPT,  /* an operator accepts a database that went back in time */
};

struct hf_store_lease_call {
    enum hf_store_lease_what what;
    uint64_t epoch; /* TAKE: the row as it was seen */
    uint64_t beat;
    uint64_t nonce;            /* TAKE: a new random number */
    struct hf_store_lease row; /* filled on success; by RENEW only epoch, nonce and acked */
    struct hf_store_node nodes[HF_STORE_NODES_MAX]; /* POLL */
    unsigned n_nodes;
};

/*
 * On the thread that uses the store. The codes of hf_store_apply(). After a failure
 * hf_store_in_doubt() tells whether a TAKE may turn out to have succeeded; a POLL that finds epoch
 * and nonce of that take in the row makes the store ours.
 */
int hf_store_lease(struct hf_store *store, struct hf_store_lease_call *call);

/* Receives what is loaded. A negative return value ends the walk, which then returns it. */
struct hf_store_loading {
    hf_store_visit record;
    int (*foreign)(void *ctx, const struct hf_store_export *other); /* of another service */
    void *ctx;
};

/*
 * Loads everything on a connection of its own, while the store's connection goes on renewing the
 * lease: any thread may call it. HF_EFENCED if the lease is not ours any more, HF_EBEHIND if the
 * database is older than what was taken.
 */
int hf_store_load_owned(const struct hf_store_config *config, const struct hf_store_lease *mine,
                        const struct hf_store_loading *to, char error[HF_STORE_ERROR_MAX]);

/* Names of services are parts of names in the database, the file system and the unit. */
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
