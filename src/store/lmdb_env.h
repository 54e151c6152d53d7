/*
 * The LMDB environment of a store: opening and checking it, write transactions, fencing.
 *
 * Three named trees:
 *     state    keys from enum hf_lmdb_key   format version, owner, journal's key, server's record
 *     clients  id                           encoded record
 *     locks    id                           encoded record
 *
 * Durability is LMDB's own: pages are copied on write, written and synced (fdatasync) before a meta
 * page that refers to them is written through (O_DSYNC). Either flush may be cut short at any byte
 * and the older tree is still whole. MDB_WRITEMAP would save the copy of each page, but a full disk
 * would then arrive as SIGBUS, and a stray store instruction anywhere in the daemon could damage
 * what is durable; so the map stays read-only. MDB_NOSYNC, MDB_NOMETASYNC: never.
 *
 * Fencing. The flock on holdfast.lock keeps a second daemon out. Should somebody remove that file
 * and start one nevertheless, another number stands under HF_LMDB_OWNER, and we see it inside our
 * next write transaction, which LMDB runs alone: nothing more is written. A data.mdb replaced
 * beneath us is noticed by its inode.
 *
 * A failed commit leaves the environment in doubt (LMDB may refuse it from then on), so it is
 * closed, and opened again before the next use. Opening always commits our number once more: what
 * an interrupted commit left only in the page cache is on the disk after that.
 */
#ifndef HF_STORE_LMDB_ENV_H
#define HF_STORE_LMDB_ENV_H

#include <lmdb.h>

#include "base/hash.h"
#include "store/lmdb_dir.h"

/* Stored: never renumber. */
enum hf_lmdb_key {
    HF_LMDB_FORMAT = 1,
    HF_LMDB_OWNER = 2,
    HF_LMDB_SERVER = 3,
    HF_LMDB_JOURNAL_KEY = 4,
};

struct hf_lmdb_env {
    struct hf_store *store; /* where error texts go */
    struct hf_lmdb_dir dir;
    MDB_env *env; /* NULL between a failed commit and the next use */
    MDB_dbi state;
    MDB_dbi clients;
    MDB_dbi locks;
    size_t map_bytes;
    uint64_t owner; /* drawn at open; the store is ours while this is what it says */
    bool owned;     /* it said so once: another number there now means that we are fenced */
    struct hf_hash_key journal_key; /* as found by the first transaction; zeros if there was none */
};

/* Locks the directory and opens the environment. Nothing to close after a failure. */
int hf_lmdb_env_open(struct hf_lmdb_env *env, struct hf_store *store,
                     const struct hf_store_config *config);
void hf_lmdb_env_close(struct hf_lmdb_env *env);

/* Before each use: opens the environment again if a failed commit closed it. */
int hf_lmdb_env_ready(struct hf_lmdb_env *env);

/*
 * Runs body in a write transaction and commits it; the map grows as needed, and body may run more
 * than once. HF_EFENCED if the store is no longer ours, which is found before body runs, or if the
 * file is no longer in its place, which is found after. A failure to commit sets in_doubt, unless
 * it is certain that nothing was committed.
 */
typedef int (*hf_lmdb_body)(struct hf_lmdb_env *env, MDB_txn *txn, void *ctx);
int hf_lmdb_env_write(struct hf_lmdb_env *env, hf_lmdb_body body, void *ctx);

int hf_lmdb_env_begin_read(struct hf_lmdb_env *env, MDB_txn **out);

/* Our code and a sentence for an error of LMDB's, which may be an errno. */
int hf_lmdb_env_fail(struct hf_lmdb_env *env, int error, const char *what);
int hf_lmdb_env_fail_fenced(struct hf_lmdb_env *env);

static inline MDB_val hf_lmdb_number(uint64_t *number)
{
    return (MDB_val){sizeof(*number), number};
}

#endif
