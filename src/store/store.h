/*
 * The store: where clients, locks and the server's own state survive (SPEC STO-01, STO-02).
 *
 * Three backends stand behind one interface: memory (nothing survives; for tests and for those who
 * want it), LMDB (embedded, the default) and PostgreSQL. All of them keep the records of
 * core/record.h, and change them only by whole batches: hf_store_apply() returns 0 when everything
 * in the batch is on stable storage, and not before. A batch may be applied twice.
 *
 * A store belongs to one daemon at a time. A second one is refused with HF_EBUSY; one that lost its
 * store to another gets HF_EFENCED from then on, and cannot write one more record.
 *
 * Every failure leaves a sentence in hf_store_error() that says what happened and what to do. No
 * password is ever part of it.
 *
 * Ownership: the caller owns struct hf_store and keeps config's strings only until open returns.
 * One thread at a time may use a store; while a committer (store/commit.h) runs, it is that one.
 */
#ifndef HF_STORE_STORE_H
#define HF_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "core/record.h"

enum { HF_STORE_ERROR_MAX = 512 };

struct hf_store_config {
    const char *backend; /* "memory", "lmdb" or "postgres" */
    const char *path;    /* lmdb: the directory; made if it is not there */
    const char *dsn;     /* postgres: libpq's connection string; NULL or "": PG* environment */
    uint32_t timeout_ms; /* postgres: bound on one attempt at anything; 0: the default, 3 s */
    size_t map_bytes;    /* lmdb: first size of the map, which grows; 0: the default */
    struct hf_alloc const *alloc; /* NULL: the heap */
};

struct hf_store_backend;

struct hf_store {
    const struct hf_store_backend *backend; /* NULL when not open */
    const struct hf_alloc *alloc;
    void *state; /* the backend's own */
    bool in_doubt;
    char error[HF_STORE_ERROR_MAX];
};

/*
 * Sees one record in its encoded form, valid only during the call. A negative return ends the walk
 * and is what the walk returns.
 */
typedef int (*hf_store_visit)(void *ctx, enum hf_record_kind kind, struct hf_bytes record);

/*
 * Opens the store for this daemon alone, makes or upgrades the schema. On failure there is nothing
 * to close, and the error text is still there.
 *
 *   HF_EBUSY     another daemon has it          HF_EVERSION  written by a newer Holdfast
 *   HF_EFORMAT   damaged                        HF_EINVAL    configuration
 *   HF_EROFS, HF_ENOSPC, HF_EDENIED, HF_EIO, HF_EUNREACH, HF_ETIMEDOUT, HF_ENOMEM
 */
int hf_store_open(struct hf_store *store, const struct hf_store_config *config);
void hf_store_close(struct hf_store *store);

/* What the last failure was; "" when nothing failed yet. */
const char *hf_store_error(const struct hf_store *store);

/* False for the backend that forgets everything when it is closed. */
bool hf_store_survives(const struct hf_store *store);

/* Everything in one pass: the server's record first, if there is one, then clients, then locks. */
int hf_store_load(struct hf_store *store, hf_store_visit visit, void *ctx);

/*
 * Makes a batch durable, all of it or nothing. After a failure hf_store_in_doubt() tells whether
 * the batch may nevertheless be found durable later (the connection broke while it committed);
 * applying it again, or applying its opposite, settles that.
 *
 * HF_EUNREACH, HF_ETIMEDOUT and HF_EBUSY may pass by themselves; HF_EFENCED never does.
 */
int hf_store_apply(struct hf_store *store, const struct hf_batch *batch);

static inline bool hf_store_in_doubt(const struct hf_store *store)
{
    return store->in_doubt;
}

/* Is the store usable now? Reconnects or writes, whatever it takes to know, but changes no record.
 */
int hf_store_probe(struct hf_store *store);

/*
 * Single records, for administration and tests; each change is durable when the call returns.
 * Deleting what is not there is no error. The counts are of what was there, and may be NULL.
 */
int hf_store_put_server(struct hf_store *store, const struct hf_record_server *record);
int hf_store_put_client(struct hf_store *store, const struct hf_record_client *record);
int hf_store_put_lock(struct hf_store *store, const struct hf_record_lock *record);
int hf_store_delete(struct hf_store *store, enum hf_record_kind kind, uint64_t id);
int hf_store_delete_all(struct hf_store *store, enum hf_record_kind kind, size_t *count);

/* Registrations for this monitored name; and the locks of every client of this name. */
int hf_store_delete_clients_named(struct hf_store *store, struct hf_bytes name, size_t *count);
int hf_store_delete_locks_named(struct hf_store *store, struct hf_bytes name, size_t *count);

/* Appends the encoded record to out, or HF_ENOENT. */
int hf_store_get(struct hf_store *store, enum hf_record_kind kind, uint64_t id, struct hf_buf *out);
int hf_store_list(struct hf_store *store, enum hf_record_kind kind, hf_store_visit visit,
                  void *ctx);

/*
 * `holdfastd --migrate up|down|status`: PostgreSQL's schema, without opening the store. Up applies
 * all that are missing, down takes back the newest, each in one transaction; report sees one line
 * per migration done, or, for status, per migration known. HF_EINVAL for a backend that has none,
 * HF_EBUSY while a daemon has the store. error is filled on failure.
 */
enum hf_migrate { HF_MIGRATE_UP, HF_MIGRATE_DOWN, HF_MIGRATE_STATUS };

typedef void (*hf_migrate_report)(void *ctx, const char *line);

int hf_store_migrate(const struct hf_store_config *config, enum hf_migrate what,
                     hf_migrate_report report, void *ctx, char error[HF_STORE_ERROR_MAX]);

#endif
