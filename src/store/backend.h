/*
 * A backend is a table of functions. store.c implements store.h once for all backends, on top of
 * this table. Private to this room.
 */
#ifndef HF_STORE_BACKEND_H
#define HF_STORE_BACKEND_H

#include "store/lease.h"
#include "store/store.h"

struct hf_store_backend {
    const char *name;
    bool survives;

    /* Sets store->state. After a failure there is nothing to close, and the error text is set. */
    int (*open)(struct hf_store *store, const struct hf_store_config *config);
    void (*close)(struct hf_store *store);

    int (*apply)(struct hf_store *store, const struct hf_batch *batch);
    int (*probe)(struct hf_store *store);
    /* Does what was put off; NULL: store->untidy is never set. */
    int (*tidy)(struct hf_store *store);

    /* Both are NULL in a backend whose batches can only be applied. */
    bool (*write)(struct hf_store *store, const struct hf_batch *batch);
    int (*flush)(struct hf_store *store);

    /* Both are NULL in a backend that has nothing to move. */
    int (*move)(struct hf_store *store);
    bool (*is_full)(const struct hf_store *store);

    /*
     * Visits all records in the order of hf_store_load(), as of one moment, on any thread (see
     * hf_store_share()). NULL: list does that on the thread that uses the store.
     */
    int (*load)(struct hf_store *store, hf_store_visit visit, void *ctx);

    /*
     * Visits all records of one kind, in no particular order. NULL if there is load.
     */
    int (*list)(struct hf_store *store, enum hf_record_kind kind, hf_store_visit visit, void *ctx);

    /*
     * Visits all records of a store that is not open, in the order of hf_store_load(), without
     * changing it. NULL: open, list and close do that.
     */
    int (*read)(struct hf_store *store, const struct hf_store_config *config, hf_store_visit visit,
                void *ctx);

    /* store/lease.h explains these functions. NULL: this backend has no lease. */
    int (*lease)(struct hf_store *store, struct hf_store_lease_call *call);
    bool (*lease_row)(const struct hf_store *store, struct hf_lease_row *out);
    int (*load_owned)(struct hf_store *store, const struct hf_store_config *config,
                      const struct hf_lease_row *mine, const struct hf_store_loading *to);
};

extern const struct hf_store_backend hf_store_memory;
extern const struct hf_store_backend hf_store_lmdb;
extern const struct hf_store_backend hf_store_postgres;

/* Sets the error text and returns code, so that reporting a failure takes one statement. */
int hf_store_fail(struct hf_store *store, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns "server", "clients" or "locks". */
const char *hf_store_kind_name(enum hf_record_kind kind);

#endif
