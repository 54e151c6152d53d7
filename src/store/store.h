/*
 * The store: clients, locks and the server's own state on stable storage (SPEC STO-01, STO-02).
 *
 * Three backends implement one interface: memory (nothing survives a restart; for tests and
 * trials), LMDB (embedded, the default) and PostgreSQL. All of them keep the records of
 * core/record.h and change them only by whole batches: hf_store_apply() returns 0 when everything
 * in the batch is on stable storage, and not before. Applying a batch twice has the same effect as
 * once.
 *
 * A store belongs to one daemon at a time. A second daemon is refused with HF_EBUSY. A daemon that
 * lost its store to another gets HF_EFENCED from then on and cannot write another record. With
 * standbys (store/lease.h) all daemons of a service open the store, and the lease says which daemon
 * owns it.
 *
 * Every failure sets a text, hf_store_error(), that says what happened and what the operator can
 * do. It never contains a password.
 *
 * Ownership: the caller owns struct hf_store, and the strings of config, which open copies. Only
 * one thread at a time may use a store; while a committer (store/commit.h) runs, that is the commit
 * thread. Other threads may meanwhile call hf_store_write() and, with a handle of their own
 * (hf_store_share), hf_store_move() and, where hf_store_is_shared() says so, hf_store_load().
 */
#ifndef HF_STORE_STORE_H
#define HF_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "core/record.h"

enum { HF_STORE_ERROR_MAX = 512 };

struct hf_store_config {
    const char *backend; /* the kind of store: "memory", "lmdb" or "postgres" */
    const char *path;    /* lmdb: the store's directory, created if it does not exist */
    const char *dsn;     /* postgres: libpq's connection string; NULL or "": PG* environment */
    /* postgres: the service whose schema is used; NULL or "default": the role's default schema. */
    const char *service;
    /* postgres: set in a service with standbys (store/lease.h), else NULL */
    const struct hf_store_cluster *cluster;
    /* postgres: the time limit of one attempt at any operation; 0: the default, 3 s */
    uint32_t timeout_ms;
    size_t map_bytes;  /* lmdb: the initial size of the memory map, which grows; 0: the default */
    bool unflushed;    /* lmdb: the caller will use hf_store_write() (DUR-02) */
    size_t side_bytes; /* lmdb, unflushed: the size of each side of the journal; 0: the default */
    /* The id of this boot of the host; needed if unflushed is set. */
    uint8_t boot_id[HF_BOOT_ID_SIZE];
    struct hf_alloc const *alloc; /* NULL: hf_alloc_heap */
};

struct hf_store_backend;
struct hf_store_cluster;

struct hf_store {
    /* the backend's functions; NULL when the store is not open */
    const struct hf_store_backend *backend;
    const struct hf_alloc *alloc;
    void *state; /* the backend's own data */
    bool in_doubt;
    bool untidy; /* hf_store_tidy() has work to do */
    bool leased; /* each batch, even an empty one, renews the lease (store/lease.h) */
    char error[HF_STORE_ERROR_MAX];
};

/* Receives one encoded record, which is valid only during the call. A negative return value ends
 * the walk over the records, which then returns that value. */
typedef int (*hf_store_visit)(void *ctx, enum hf_record_kind kind, struct hf_bytes record);

/*
 * Opens the store exclusively for this daemon and creates or upgrades the schema. After a failure
 * there is nothing to close, and the error text is set.
 *
 *   HF_EBUSY     another daemon has it          HF_EVERSION  written by a newer Holdfast
 *   HF_EFORMAT   damaged                        HF_EINVAL    configuration
 *   HF_EROFS, HF_ENOSPC, HF_EDENIED, HF_EIO, HF_EUNREACH, HF_ETIMEDOUT, HF_ENOMEM
 */
int hf_store_open(struct hf_store *store, const struct hf_store_config *config);
void hf_store_close(struct hf_store *store);

/* Returns another handle on an open store, for another thread. The handle has an error text of its
 * own, and must not be closed. */
struct hf_store hf_store_share(const struct hf_store *store);

/* True if hf_store_load() may run on another thread beside all other functions of the store. */
bool hf_store_is_shared(const struct hf_store *store);

/* Returns the error text of the last failure; "" if there was none. */
const char *hf_store_error(const struct hf_store *store);

/* Visits all records: the server's, if the store has one, then clients, then locks. */
int hf_store_load(struct hf_store *store, hf_store_visit visit, void *ctx);

/* Sets the error text for a wrong record of this kind, as a failed walk would, and returns code,
 * which may be 0. A visitor that checks records only after the walk calls it. */
int hf_store_blame_record(struct hf_store *store, enum hf_record_kind kind, int code);

/*
 * Checks a store that no daemon has open, and visits all its records in the order of
 * hf_store_load(). An LMDB store is not changed. Returns the codes of hf_store_open(), and
 * HF_ENOENT if there is no store. Afterwards the store is not open in any case; its error text is
 * set on failure.
 */
int hf_store_read(struct hf_store *store, const struct hf_store_config *config,
                  hf_store_visit visit, void *ctx);

/*
 * Makes a batch durable, completely or not at all. After a failure hf_store_in_doubt() tells
 * whether the batch may turn out to be durable nevertheless, because the connection broke during
 * the commit. Applying the batch again, or its opposite, removes the doubt.
 *
 * A batch without operations is durable at once. With a lease (store/lease.h) even that batch
 * renews the lease, and is refused when the lease is lost.
 *
 * HF_EUNREACH, HF_ETIMEDOUT and HF_EBUSY may pass by themselves; HF_EFENCED never does.
 */
int hf_store_apply(struct hf_store *store, const struct hf_batch *batch);

/*
 * Writes a batch that may be lost when the host crashes (DUR-02) where it survives the end of this
 * process, and returns at once. Another thread may be in any other function of the store meanwhile.
 * Returns false if the batch was not written, and must be applied.
 */
bool hf_store_write(struct hf_store *store, const struct hf_batch *batch);

/* Makes all written batches durable. After a failure the store accepts no more writes; the next
 * success of any of its functions makes durable what was written before. */
int hf_store_flush(struct hf_store *store);

/*
 * Moves a full part of the store to where it takes longer to write (LMDB: from a side of the
 * journal to the tree). Writing and applying go on meanwhile; without moves they would have to do
 * this work themselves. After a failure nothing is lost, and hf_store_probe() shows whether the
 * store is usable.
 */
bool hf_store_is_full(const struct hf_store *store);
int hf_store_move(struct hf_store *store);

static inline bool hf_store_in_doubt(const struct hf_store *store)
{
    return store->in_doubt;
}

/*
 * Does the work that the store put off under load, if store->untidy says that there is some; to be
 * called in moments without load. It changes no record, and returns the codes of hf_store_apply().
 */
int hf_store_tidy(struct hf_store *store);

/*
 * Finds out whether the store is usable now, by reconnecting or writing, without changing a record.
 */
int hf_store_probe(struct hf_store *store);

/* Returns why libpq does not understand this connection string; NULL if it does. It does not
 * connect. */
const char *hf_store_dsn_obstacle(const char *dsn);

/*
 * `holdfastd --migrate up|down|status`: migrates PostgreSQL's schema without opening the store. Up
 * applies all missing migrations, down reverts the newest, each in one transaction. report receives
 * one line per migration that was applied or reverted or, for status, that the program knows.
 * Returns HF_EINVAL for a backend without migrations, HF_EBUSY while a daemon has the store. error
 * is set on failure.
 */
enum hf_migrate { HF_MIGRATE_UP, HF_MIGRATE_DOWN, HF_MIGRATE_STATUS };

typedef void (*hf_migrate_report)(void *ctx, const char *line);

int hf_store_migrate(const struct hf_store_config *config, enum hf_migrate what,
                     hf_migrate_report report, void *ctx, char error[HF_STORE_ERROR_MAX]);

#endif
