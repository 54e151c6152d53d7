/*
 * The LMDB environment of a store: opening and verifying it, write transactions, fencing.
 *
 * There are three named trees:
 *  - state: the keys are those of enum hf_lmdb_key; the values are the format's version, the owner,
 *    the journal's key and id, and the server's record;
 *  - clients: an encoded record for each id;
 *  - locks: an encoded record for each id.
 *
 * Durability is LMDB's own: pages are copied on write, written and synced (fdatasync) before a meta
 * page that refers to them is written through (O_DSYNC). If either flush is cut short at any byte,
 * the older tree is still complete. MDB_WRITEMAP would save the copy of each page, but then a full
 * disk would show as SIGBUS, and a stray store instruction anywhere in the daemon could damage
 * durable data; so the map is read-only. MDB_NOSYNC and MDB_NOMETASYNC would give up durability.
 *
 * Fencing: the flock on holdfast.lock keeps a second daemon out. If an operator removes that file
 * and starts a second daemon nevertheless, that daemon stores another number under HF_LMDB_OWNER.
 * The first daemon sees the number inside its next write transaction, which LMDB serialises with
 * those of the second, and writes nothing more. A data.mdb that was replaced is recognised by its
 * inode.
 *
 * A failed commit leaves the environment in doubt (LMDB may refuse to use it), so it is closed, and
 * opened again before the next use. Opening always commits the owner's number again: after that,
 * pages that an interrupted commit left only in the page cache are on the disk.
 *
 * Only one thread at a time uses an environment, with one exception: a snapshot, once begun, is
 * read while another thread uses the environment.
 */
#ifndef HF_STORE_LMDB_ENV_H
#define HF_STORE_LMDB_ENV_H

#include <lmdb.h>
#include <pthread.h>

#include "store/lmdb_dir.h"
#include "store/lmdb_parts.h"

/* LMDB keys that are stored on disk: never renumber them. */
enum hf_lmdb_key {
    HF_LMDB_FORMAT = 1,
    HF_LMDB_OWNER = 2,
    HF_LMDB_SERVER = 3,
    HF_LMDB_JOURNAL_KEY = 4,
    HF_LMDB_PARTS = 5,
    HF_LMDB_SIDES = 6,
    HF_LMDB_HOME = 7,
};

/* The values that are stored under HF_LMDB_FORMAT. */
enum {
    HF_LMDB_FORMAT_PLAIN = 1,
    HF_LMDB_FORMAT_SIDES = 2, /* the format of a store whose journal has two sides (lmdb_parts.h) */
};

struct hf_lmdb_env {
    struct hf_store *store; /* the store that receives the error texts */
    struct hf_lmdb_dir dir;
    MDB_env *env; /* the open environment; NULL after a failed commit, until the next use */
    /* A thread that reads a snapshot holds this lock for reading; a thread that moves or removes
     * the map holds it for writing. */
    pthread_rwlock_t mapped;
    MDB_dbi state;
    MDB_dbi clients;
    MDB_dbi locks;
    size_t map_bytes;
    /* Our random owner number: the store is ours while it is stored under HF_LMDB_OWNER. */
    uint64_t owner;
    /* The store has held our owner number: if it holds another one, we are fenced. */
    bool owned;
    struct hf_lmdb_parts parts; /* the parts of the store, as the first transaction found them */
};

/* Locks the directory and opens the LMDB environment. After a failure there is nothing to close. */
int hf_lmdb_env_open(struct hf_lmdb_env *env, struct hf_store *store,
                     const struct hf_store_config *config);
void hf_lmdb_env_close(struct hf_lmdb_env *env);

/* Opens the environment only to read, without changing any file but the lock. Returns HF_ENOENT if
 * there is no store. */
int hf_lmdb_env_open_to_read(struct hf_lmdb_env *env, struct hf_store *store, const char *path);

/* Opens the environment again if a failed commit closed it. To be called before each use. */
int hf_lmdb_env_ready(struct hf_lmdb_env *env);

/*
 * Runs body in a write transaction and commits it. The map grows as needed, so body may run more
 * than once. Returns HF_EFENCED if the store is no longer ours, which is detected before body runs,
 * or if data.mdb was replaced, which is detected after. A failed commit sets store->in_doubt,
 * unless it is certain that nothing was committed.
 */
typedef int (*hf_lmdb_body)(struct hf_lmdb_env *env, MDB_txn *txn, void *ctx);
int hf_lmdb_env_write(struct hf_lmdb_env *env, hf_lmdb_body body, void *ctx);

/*
 * Begins to read what is in LMDB at this moment, while other threads write. The thread that begins
 * a snapshot must end it; until then the map can neither grow nor be closed, and a write that needs
 * that waits.
 */
int hf_lmdb_env_begin_snapshot(struct hf_lmdb_env *env, MDB_txn **out);
void hf_lmdb_env_end_snapshot(struct hf_lmdb_env *env, MDB_txn *txn);

/* Sets an error text and returns our code for an error of LMDB, which may be an errno. */
int hf_lmdb_fail(struct hf_store *store, const struct hf_lmdb_dir *dir, int error,
                 const char *what);
int hf_lmdb_env_fail(struct hf_lmdb_env *env, int error, const char *what);

static inline MDB_val hf_lmdb_number(uint64_t *number)
{
    return (MDB_val){sizeof(*number), number};
}

#endif
