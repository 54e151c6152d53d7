#include "store/lmdb_env.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "store/backend.h"
#include "store/lmdb_verify.h"

#define DATA_NAME "data.mdb" /* LMDB itself chose the name of its file */
#define NEW_NAME  "data.new"

enum {
    FORMAT_NEWEST = HF_LMDB_FORMAT_SIDES,
    N_TREES = 3,
    MAP_BYTES_FIRST = 64 << 20,
};

/* Sets the error text for an error of LMDB, which returns errno values and codes of its own. */
int hf_lmdb_fail(struct hf_store *store, const struct hf_lmdb_dir *dir, int error, const char *what)
{
    switch (error) {
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_BAD_VALSIZE:
    case MDB_INCOMPATIBLE:
        return hf_store_fail(store, HF_EFORMAT,
                             "%s in %s: the store is damaged (%s); restore it from a backup, or "
                             "move it away to start empty",
                             what, dir->path, mdb_strerror(error));
    case MDB_VERSION_MISMATCH:
        return hf_store_fail(store, HF_EVERSION, "%s in %s: written by a newer LMDB", what,
                             dir->path);
    case MDB_MAP_FULL:
        return hf_store_fail(store, HF_ELIMIT, "%s in %s: the map is full", what, dir->path);
    default:
        if (error > 0)
            return hf_lmdb_dir_fail(store, dir, error, what);
        return hf_store_fail(store, HF_EIO, "%s in %s: %s", what, dir->path, mdb_strerror(error));
    }
}

int hf_lmdb_env_fail(struct hf_lmdb_env *env, int error, const char *what)
{
    return hf_lmdb_fail(env->store, &env->dir, error, what);
}

/* Verifies data.mdb before LMDB maps it (lmdb_verify.h). Returns HF_ENOENT if there is no file. */
static int check_file(struct hf_lmdb_env *env)
{
    char reason[HF_LMDB_REASON_MAX];
    int fd = openat(env->dir.fd, DATA_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int rv;

    if (fd < 0)
        return hf_lmdb_env_fail(env, errno, "cannot open " DATA_NAME);
    rv = hf_lmdb_verify(fd, env->store->alloc, reason);
    close(fd);
    switch (rv) {
    case 0:
        return 0;
    case HF_EFORMAT:
        return hf_store_fail(env->store, rv,
                             "%s/" DATA_NAME
                             " is damaged: %s; nothing was changed; restore it from a "
                             "backup, or move it away to start empty",
                             env->dir.path, reason);
    case HF_EUNAVAIL:
        return hf_store_fail(
            env->store, HF_EFORMAT,
            "%s/" DATA_NAME " was written on a machine of %s, and cannot be read on this one; "
            "nothing was changed; make a backup there (holdfastctl backup FILE), and restore it "
            "here into an empty directory (holdfastd --restore FILE)",
            env->dir.path, reason);
    case HF_EVERSION:
        return hf_store_fail(env->store, rv,
                             "%s/" DATA_NAME ": %s is newer than this program knows", env->dir.path,
                             reason);
    default:
        return hf_store_fail(env->store, rv, "cannot read %s/" DATA_NAME ": %s", env->dir.path,
                             hf_strerror(rv));
    }
}

/* Reads the number under a key of the state tree; a missing key reads as 0. */
static int get_number(MDB_txn *txn, MDB_dbi tree, uint64_t which, uint64_t *out)
{
    MDB_val key = hf_lmdb_number(&which);
    MDB_val value;
    int error = mdb_get(txn, tree, &key, &value);

    if (error == MDB_NOTFOUND) {
        *out = 0;
        return 0;
    }
    if (error)
        return error;
    if (value.mv_size != sizeof(*out))
        return MDB_CORRUPTED;
    memcpy(out, value.mv_data, sizeof(*out));
    return 0;
}

static int put_number(MDB_txn *txn, MDB_dbi tree, uint64_t which, uint64_t number)
{
    MDB_val key = hf_lmdb_number(&which);
    MDB_val value = {sizeof(number), &number};

    return mdb_put(txn, tree, &key, &value, 0);
}

static int open_trees(struct hf_lmdb_env *env, MDB_txn *txn, unsigned flags)
{
    int error = mdb_dbi_open(txn, "state", flags | MDB_INTEGERKEY, &env->state);

    if (!error)
        error = mdb_dbi_open(txn, "clients", flags | MDB_INTEGERKEY, &env->clients);
    if (!error)
        error = mdb_dbi_open(txn, "locks", flags | MDB_INTEGERKEY, &env->locks);
    return error;
}

static int check_owner(struct hf_lmdb_env *env, MDB_txn *txn)
{
    uint64_t owner;
    int error = get_number(txn, env->state, HF_LMDB_OWNER, &owner);

    if (error)
        return hf_lmdb_env_fail(env, error, "cannot read the store");
    return owner == env->owner ? 0 : hf_lmdb_dir_fail_fenced(env->store, &env->dir);
}

static int check_format(struct hf_lmdb_env *env, MDB_txn *txn, uint64_t *out)
{
    uint64_t format;
    int error = get_number(txn, env->state, HF_LMDB_FORMAT, &format);

    if (!error && format > FORMAT_NEWEST)
        return hf_store_fail(env->store, HF_EVERSION,
                             "%s has format %" PRIu64 ", this program knows %d; run the newer "
                             "Holdfast that wrote it",
                             env->dir.path, format, FORMAT_NEWEST);
    if (error)
        return hf_lmdb_env_fail(env, error, "cannot read the store");
    *out = format;
    return 0;
}

static int read_parts(struct hf_lmdb_env *env, MDB_txn *txn)
{
    int error = hf_lmdb_parts_read(txn, env->state, &env->parts);

    return error ? hf_lmdb_env_fail(env, error, "cannot read the store") : 0;
}

/* Runs as the first transaction of an environment: creates the missing trees and makes the store
 * ours. */
static int take_over(struct hf_lmdb_env *env, MDB_txn *txn, void *ctx)
{
    int error = open_trees(env, txn, MDB_CREATE);
    uint64_t format = 0;
    int rv = error ? hf_lmdb_env_fail(env, error, "cannot read the store")
                   : check_format(env, txn, &format);

    (void)ctx;
    if (rv == 0 && env->owned)
        rv = check_owner(env, txn);
    if (rv == 0)
        rv = read_parts(env, txn);
    if (rv < 0)
        return rv;
    error = put_number(txn, env->state, HF_LMDB_OWNER, env->owner);
    if (!error && format == 0)
        error = put_number(txn, env->state, HF_LMDB_FORMAT, HF_LMDB_FORMAT_PLAIN);
    return error ? hf_lmdb_env_fail(env, error, "cannot write the store") : 0;
}

/* Closes the environment. It waits until no thread reads a snapshot, because the map must not
 * vanish under a reader. */
static void close_env(struct hf_lmdb_env *env)
{
    pthread_rwlock_wrlock(&env->mapped);
    if (env->env)
        mdb_env_close(env->env);
    env->env = NULL;
    pthread_rwlock_unlock(&env->mapped);
}

static int begin(struct hf_lmdb_env *env, unsigned flags, MDB_txn **out)
{
    int error = mdb_txn_begin(env->env, NULL, flags, out);

    return error ? hf_lmdb_env_fail(env, error, "cannot begin a transaction") : 0;
}

/* Runs one write transaction. Returns HF_ELIMIT, with nothing written, if the map is too small. */
static int write_once(struct hf_lmdb_env *env, hf_lmdb_body body, void *ctx)
{
    MDB_txn *txn;
    int error;
    int rv = begin(env, 0, &txn);

    if (rv < 0)
        return rv;
    rv = body(env, txn, ctx);
    if (rv < 0) {
        mdb_txn_abort(txn);
        return rv;
    }
    error = mdb_txn_commit(txn);
    if (!error)
        return 0;
    rv = hf_lmdb_env_fail(env, error, "cannot commit");
    if (rv != HF_ELIMIT) {
        close_env(env);
        /*
         * A full disk leaves no doubt: LMDB notices it while it writes pages, before the meta page
         * that would make them valid. Other errors may come from the meta page; LMDB calls a short
         * write EIO, as it does a failed write of the meta page.
         */
        env->store->in_doubt = error != ENOSPC && error != EDQUOT;
    }
    return rv;
}

static int grow_map(struct hf_lmdb_env *env)
{
    int error;

    pthread_rwlock_wrlock(&env->mapped);
    error = mdb_env_set_mapsize(env->env, env->map_bytes * 2);
    pthread_rwlock_unlock(&env->mapped);
    if (error) {
        /* LMDB unmaps the old map before it asks for the larger one, so there is none left */
        close_env(env);
        return hf_lmdb_env_fail(env, error, "cannot enlarge the map");
    }
    env->map_bytes *= 2;
    return 0;
}

static int write_growing(struct hf_lmdb_env *env, hf_lmdb_body body, void *ctx)
{
    int rv;

    do {
        rv = write_once(env, body, ctx);
    } while (rv == HF_ELIMIT && (rv = grow_map(env)) == 0);
    return rv;
}

static size_t first_map_bytes(const struct hf_lmdb_env *env)
{
    struct stat st;
    size_t bytes = env->map_bytes;

    if (fstatat(env->dir.fd, DATA_NAME, &st, 0) == 0) {
        while (bytes / 2 < (size_t)st.st_size)
            bytes *= 2;
    }
    return bytes;
}

static int start_env(struct hf_lmdb_env *env, const char *path, unsigned flags)
{
    int error = mdb_env_create(&env->env);

    env->map_bytes = first_map_bytes(env);
    if (!error)
        error = mdb_env_set_maxdbs(env->env, N_TREES);
    if (!error)
        error = mdb_env_set_mapsize(env->env, env->map_bytes);
    if (!error)
        error = mdb_env_open(env->env, path, MDB_NOTLS | flags, 0600);
    return error;
}

/* Creates a new data.mdb completely under another name and then renames it. So a file of the name
 * data.mdb was complete once, and if it is incomplete now, it is damaged. */
static int create_file(struct hf_lmdb_env *env)
{
    char path[PATH_MAX];
    int error;
    int rv;

    hf_format(path, sizeof(path), "%s/" NEW_NAME, env->dir.path);
    if (unlinkat(env->dir.fd, NEW_NAME, 0) < 0 && errno != ENOENT)
        return hf_lmdb_env_fail(env, errno, "cannot remove " NEW_NAME);
    error = start_env(env, path, MDB_NOSUBDIR | MDB_NOLOCK);
    rv = error ? hf_lmdb_env_fail(env, error, "cannot make the store")
               : write_growing(env, take_over, NULL);
    close_env(env);
    if (rv == 0 && renameat(env->dir.fd, NEW_NAME, env->dir.fd, DATA_NAME) < 0)
        rv = hf_lmdb_env_fail(env, errno, "cannot rename " NEW_NAME);
    return rv;
}

/* Opens the LMDB environment, at the start or after a failed commit has closed it. */
static int open_env(struct hf_lmdb_env *env)
{
    int error;
    int rv = check_file(env);

    if (rv == HF_ENOENT && !env->owned) {
        rv = hf_lmdb_parts_check_new(env->store, &env->dir);
        if (rv == 0)
            rv = create_file(env);
    }
    if (rv < 0)
        return rv;
    error = start_env(env, env->dir.path, 0);
    rv = error ? hf_lmdb_env_fail(env, error, "cannot open the store")
               : write_growing(env, take_over, NULL);
    if (rv == 0)
        rv = env->owned ? hf_lmdb_dir_check(env->store, &env->dir)
                        : hf_lmdb_dir_settle(env->store, &env->dir);
    if (rv < 0)
        close_env(env);
    else
        env->owned = true;
    return rv;
}

int hf_lmdb_env_ready(struct hf_lmdb_env *env)
{
    return env->env ? 0 : open_env(env);
}

/* A transaction that checks that the store is still ours before it runs the caller's body. */
struct owned_body {
    hf_lmdb_body body;
    void *ctx;
};

static int run_if_owned(struct hf_lmdb_env *env, MDB_txn *txn, void *ctx)
{
    const struct owned_body *owned = ctx;
    int rv = check_owner(env, txn);

    return rv < 0 ? rv : owned->body(env, txn, owned->ctx);
}

int hf_lmdb_env_write(struct hf_lmdb_env *env, hf_lmdb_body body, void *ctx)
{
    struct owned_body owned = {body, ctx};
    int n_dead;
    int rv;

    /* Drop the reader slots of dead processes: one that was killed while it read (mdb_copy) would
     * keep LMDB from reusing all later pages. */
    (void)mdb_reader_check(env->env, &n_dead);
    rv = write_growing(env, run_if_owned, &owned);
    return rv < 0 ? rv : hf_lmdb_dir_check(env->store, &env->dir);
}

int hf_lmdb_env_begin_snapshot(struct hf_lmdb_env *env, MDB_txn **out)
{
    int rv = hf_lmdb_env_ready(env);

    if (rv < 0)
        return rv;
    pthread_rwlock_rdlock(&env->mapped);
    rv = begin(env, MDB_RDONLY, out);
    if (rv < 0)
        pthread_rwlock_unlock(&env->mapped);
    return rv;
}

void hf_lmdb_env_end_snapshot(struct hf_lmdb_env *env, MDB_txn *txn)
{
    mdb_txn_abort(txn);
    pthread_rwlock_unlock(&env->mapped);
}

void hf_lmdb_env_close(struct hf_lmdb_env *env)
{
    close_env(env);
    hf_lmdb_dir_close(env->store, &env->dir);
    pthread_rwlock_destroy(&env->mapped);
}

int hf_lmdb_env_open(struct hf_lmdb_env *env, struct hf_store *store,
                     const struct hf_store_config *config)
{
    int rv;

    *env = (struct hf_lmdb_env){
        .store = store, .map_bytes = config->map_bytes ? config->map_bytes : MAP_BYTES_FIRST};
    if (getrandom(&env->owner, sizeof(env->owner), 0) != sizeof(env->owner))
        return hf_store_fail(store, HF_EIO, "the kernel gives no random number");
    rv = hf_lmdb_dir_open(store, config->path, &env->dir);
    if (rv < 0)
        return rv;
    pthread_rwlock_init(&env->mapped, NULL);
    rv = open_env(env);
    if (rv < 0)
        hf_lmdb_env_close(env);
    return rv;
}

/* Opens the named trees and leaves them open for later transactions. */
static int look_inside(struct hf_lmdb_env *env)
{
    uint64_t format;
    MDB_txn *txn;
    int error;
    int rv = begin(env, MDB_RDONLY, &txn);

    if (rv < 0)
        return rv;
    error = open_trees(env, txn, 0);
    if (error == MDB_NOTFOUND)
        error = MDB_CORRUPTED; /* trees are missing, although the first commit makes all of them */
    rv = error ? hf_lmdb_env_fail(env, error, "cannot read the store")
               : check_format(env, txn, &format);
    if (rv == 0)
        rv = read_parts(env, txn);
    (void)mdb_txn_commit(txn);
    return rv;
}

int hf_lmdb_env_open_to_read(struct hf_lmdb_env *env, struct hf_store *store, const char *path)
{
    int error;
    int rv;

    *env = (struct hf_lmdb_env){.store = store, .map_bytes = MAP_BYTES_FIRST};
    rv = hf_lmdb_dir_open(store, path, &env->dir);
    if (rv < 0)
        return rv;
    pthread_rwlock_init(&env->mapped, NULL);
    rv = check_file(env);
    if (rv == HF_ENOENT && hf_lmdb_parts_check_new(store, &env->dir) < 0)
        rv = HF_EFORMAT;
    if (rv == 0) {
        error = start_env(env, env->dir.path, MDB_RDONLY | MDB_NOLOCK);
        rv = error ? hf_lmdb_env_fail(env, error, "cannot open the store") : look_inside(env);
    }
    if (rv < 0)
        hf_lmdb_env_close(env);
    return rv;
}
