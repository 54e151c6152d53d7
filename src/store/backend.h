/*
 * The table of functions that each store backend (LMDB, PostgreSQL, memory) fills in. store.c
 * implements store.h on top of it, once for all backends. Private to src/store.
 */
#ifndef HF_STORE_BACKEND_H
#define HF_STORE_BACKEND_H

#include "store/lease.h"
#include "store/store.h"

struct hf_store_backend {
    const char *name;
    bool survives;

    /* Opens the backend and sets store->state. After a failure there is nothing to close, and the
     * store's error text is set. */
    int (*open)(struct hf_store *store, const struct hf_store_config *config);
    void (*close)(struct hf_store *store);

    int (*apply)(struct hf_store *store, const struct hf_batch *batch);
    int (*probe)(struct hf_store *store);
    /* Does the work that the backend put off under load. A backend where this is NULL never sets
     * store->untidy. */
    int (*tidy)(struct hf_store *store);

    /*
     * write and flush are NULL in a backend that has no way to write a batch without flushing it.
     */
    bool (*write)(struct hf_store *store, const struct hf_batch *batch);
    int (*flush)(struct hf_store *store);

    /* move and is_full are NULL in a backend whose batches stay where they were first written. */
    int (*move)(struct hf_store *store);
    bool (*is_full)(const struct hf_store *store);

    /* Visits all records as of one moment, in the order of hf_store_load(), on any thread (see
     * hf_store_share()). If load is NULL, store.c calls list on the thread that uses the store. */
    int (*load)(struct hf_store *store, hf_store_visit visit, void *ctx);

    /* Visits all records of one kind, in no particular order. A backend that has load leaves list
     * NULL. */
    int (*list)(struct hf_store *store, enum hf_record_kind kind, hf_store_visit visit, void *ctx);

    /* Visits all records of a store that is not open, in the order of hf_store_load(), without
     * changing it. If read is NULL, store.c calls open, list and close instead. */
    int (*read)(struct hf_store *store, const struct hf_store_config *config, hf_store_visit visit,
                void *ctx);

    /* The lease functions (store/lease.h explains them); NULL in a backend that has no lease. */
    int (*lease)(struct hf_store *store, struct hf_store_lease_call *call);
    bool (*lease_row)(const struct hf_store *store, struct hf_lease_row *out);
    int (*load_owned)(struct hf_store *store, const struct hf_store_config *config,
                      const struct hf_lease_row *mine, const struct hf_store_loading *to);
};

extern const struct hf_store_backend hf_store_memory;
extern const struct hf_store_backend hf_store_lmdb;
extern const struct hf_store_backend hf_store_postgres;

/* Sets the store's error text and returns code, so that a caller reports a failure in one
 * statement. */
int hf_store_fail(struct hf_store *store, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the name of a kind of record: "server", "clients" or "locks". */
const char *hf_store_kind_name(enum hf_record_kind kind);

#endif
