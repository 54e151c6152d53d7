/*
 * What a backend is: a table of functions (the manner of OpenSMTPD's queue_backend). Everything
 * else of store.h is written once, in store.c, in these terms. Private to this room.
 */
#ifndef HF_STORE_BACKEND_H
#define HF_STORE_BACKEND_H

#include "store/store.h"

struct hf_store_backend {
    const char *name;
    bool survives;

    /* Sets store->state; on failure leaves nothing behind but the error text. */
    int (*open)(struct hf_store *store, const struct hf_store_config *config);
    void (*close)(struct hf_store *store);

    int (*apply)(struct hf_store *store, const struct hf_batch *batch);
    int (*probe)(struct hf_store *store);
    int (*get)(struct hf_store *store, enum hf_record_kind kind, uint64_t id, struct hf_buf *out);

    /* All records of one kind, in no particular order. */
    int (*list)(struct hf_store *store, enum hf_record_kind kind, hf_store_visit visit, void *ctx);
};

extern const struct hf_store_backend hf_store_memory;
extern const struct hf_store_backend hf_store_lmdb;
extern const struct hf_store_backend hf_store_postgres;

/* Sets the error text and returns code, so that a failure is one statement. */
int hf_store_fail(struct hf_store *store, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "server", "clients", "locks" */
const char *hf_store_kind_name(enum hf_record_kind kind);

#endif
