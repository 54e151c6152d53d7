/*
 * The default store: one LMDB environment with three named trees.
 *
 *     state    keys from enum state_key    format version, owner, the server's record
 *     clients  id                          encoded record
 *     locks    id                          encoded record
 *
 * Durability is LMDB's own: pages are copied on write, written and synced (fdatasync) before a meta
 * page that refers to them is written through (O_DSYNC). Either flush may be cut short at any byte
 * and the older tree is still whole. MDB_WRITEMAP would save the copy of each page, but a full disk
 * would then arrive as SIGBUS, and a stray store instruction anywhere in the daemon could damage
 * what is durable; so the map stays read-only. MDB_NOSYNC, MDB_NOMETASYNC: never.
 *
 * Fencing. The flock on holdfast.lock keeps a second daemon out. Should somebody remove that file
 * and start one nevertheless, another number stands under KEY_OWNER, and we see it inside our next
 * write transaction, which LMDB runs alone: nothing more is written. A data.mdb replaced beneath us
 * is noticed by its inode.
 *
 * A failed commit leaves the environment in doubt (LMDB may refuse it from then on), so it is
 * closed, and opened again before the next use. Opening always commits our number once more: what
 * an interrupted commit left only in the page cache is on the disk after that.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <lmdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/error.h"
#include "store/backend.h"
#include "store/changes.h"
#include "store/lmdb_check.h"
#include "store/lmdb_dir.h"

#define DATA_NAME "data.mdb" /* LMDB's own choice */
#define NEW_NAME  "data.new"

enum {
    FORMAT_VERSION = 1,
    N_TREES = 3,
    MAP_BYTES_FIRST = 64 << 20,
};

/* Stored: never renumber. */
enum state_key { KEY_FORMAT = 1, KEY_OWNER = 2, KEY_SERVER = 3 };

struct lmdb {
    struct hf_lmdb_dir dir;
    MDB_env *env; /* NULL between a failed commit and the next use */
    MDB_dbi state;
    MDB_dbi clients;
    MDB_dbi locks;
    size_t map_bytes;
    uint64_t owner; /* drawn at open; the store is ours while this is what it says */
    bool owned;     /* it said so once: another number there now means that we are fenced */
    struct hf_changes changes;
};

/* LMDB mixes errno values and codes of its own. */
static int fail(struct hf_store *store, int error, const char *what)
{
    struct lmdb *lmdb = store->state;

    switch (error) {
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_BAD_VALSIZE:
    case MDB_INCOMPATIBLE:
        return hf_store_fail(store, HF_EFORMAT,
                             "%s in %s: the store is damaged (%s); restore it from a backup, or "
                             "move it away to start empty",
                             what, lmdb->dir.path, mdb_strerror(error));
    case MDB_VERSION_MISMATCH:
        return hf_store_fail(store, HF_EVERSION, "%s in %s: written by a newer LMDB", what,
                             lmdb->dir.path);
    case MDB_MAP_FULL:
        return hf_store_fail(store, HF_ELIMIT, "%s in %s: the map is full", what, lmdb->dir.path);
    default:
        if (error > 0)
            return hf_lmdb_dir_fail(store, &lmdb->dir, error, what);
        return hf_store_fail(store, HF_EIO, "%s in %s: %s", what, lmdb->dir.path,
                             mdb_strerror(error));
    }
}

/* Looks at the file before LMDB maps it; see lmdb_check.h. HF_ENOENT if there is none. */
static int check_file(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;
    char reason[HF_LMDB_REASON_MAX];
    int fd = openat(lmdb->dir.fd, DATA_NAME, O_RDONLY | O_CLOEXEC);
    int rv;

    if (fd < 0)
        return fail(store, errno, "cannot open " DATA_NAME);
    rv = hf_lmdb_check(fd, store->alloc, reason);
    close(fd);
    switch (rv) {
    case 0:
        return 0;
    case HF_EFORMAT:
        return hf_store_fail(store, rv,
                             "%s/" DATA_NAME
                             " is damaged: %s; nothing was changed; restore it from a "
                             "backup, or move it away to start empty",
                             lmdb->dir.path, reason);
    case HF_EVERSION:
        return hf_store_fail(store, rv, "%s/" DATA_NAME ": %s is newer than this program knows",
                             lmdb->dir.path, reason);
    default:
        return hf_store_fail(store, rv, "cannot read %s/" DATA_NAME ": %s", lmdb->dir.path,
                             hf_strerror(rv));
    }
}

static MDB_val number_key(uint64_t *key)
{
    return (MDB_val){sizeof(*key), key};
}

/* A number under a key of the state tree; 0 if there is none. */
static int get_number(MDB_txn *txn, MDB_dbi tree, uint64_t which, uint64_t *out)
{
    MDB_val key = number_key(&which);
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
    MDB_val key = number_key(&which);
    MDB_val value = {sizeof(number), &number};

    return mdb_put(txn, tree, &key, &value, 0);
}

static int open_trees(struct lmdb *lmdb, MDB_txn *txn)
{
    const unsigned flags = MDB_CREATE | MDB_INTEGERKEY;
    int error = mdb_dbi_open(txn, "state", flags, &lmdb->state);

    if (!error)
        error = mdb_dbi_open(txn, "clients", flags, &lmdb->clients);
    if (!error)
        error = mdb_dbi_open(txn, "locks", flags, &lmdb->locks);
    return error;
}

static int fail_fenced(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;

    return hf_store_fail(store, HF_EFENCED,
                         "another holdfastd has taken over %s; this one writes nothing more, and "
                         "should be stopped",
                         lmdb->dir.path);
}

static int check_owner(struct hf_store *store, MDB_txn *txn)
{
    struct lmdb *lmdb = store->state;
    uint64_t owner;
    int error = get_number(txn, lmdb->state, KEY_OWNER, &owner);

    if (error)
        return fail(store, error, "cannot read the store");
    return owner == lmdb->owner ? 0 : fail_fenced(store);
}

static int write_owner(struct hf_store *store, MDB_txn *txn)
{
    struct lmdb *lmdb = store->state;
    int error = put_number(txn, lmdb->state, KEY_OWNER, lmdb->owner);

    return error ? fail(store, error, "cannot write the store") : 0;
}

static int check_format(struct hf_store *store, MDB_txn *txn)
{
    struct lmdb *lmdb = store->state;
    uint64_t format;
    int error = get_number(txn, lmdb->state, KEY_FORMAT, &format);

    if (!error && format > FORMAT_VERSION)
        return hf_store_fail(store, HF_EVERSION,
                             "%s has format %" PRIu64 ", this program knows %d; run the newer "
                             "Holdfast that wrote it",
                             lmdb->dir.path, format, FORMAT_VERSION);
    if (!error && format < FORMAT_VERSION)
        error = put_number(txn, lmdb->state, KEY_FORMAT, FORMAT_VERSION);
    return error ? fail(store, error, "cannot read the store") : 0;
}

/* The first transaction of an environment: makes what is missing, and the store ours. */
static int take_over(struct hf_store *store, MDB_txn *txn)
{
    struct lmdb *lmdb = store->state;
    int error = open_trees(lmdb, txn);
    int rv = error ? fail(store, error, "cannot read the store") : check_format(store, txn);

    if (rv == 0 && lmdb->owned)
        rv = check_owner(store, txn);
    return rv < 0 ? rv : write_owner(store, txn);
}

static void close_env(struct lmdb *lmdb)
{
    if (lmdb->env)
        mdb_env_close(lmdb->env);
    lmdb->env = NULL;
}

static int begin(struct hf_store *store, unsigned flags, MDB_txn **out)
{
    struct lmdb *lmdb = store->state;
    int error = mdb_txn_begin(lmdb->env, NULL, flags, out);

    return error ? fail(store, error, "cannot begin a transaction") : 0;
}

/* One write transaction. HF_ELIMIT: the map is too small for it, and nothing was written. */
static int write_once(struct hf_store *store, int (*body)(struct hf_store *store, MDB_txn *txn))
{
    MDB_txn *txn;
    int error;
    int rv = begin(store, 0, &txn);

    if (rv < 0)
        return rv;
    rv = body(store, txn);
    if (rv < 0) {
        mdb_txn_abort(txn);
        return rv;
    }
    error = mdb_txn_commit(txn);
    if (!error)
        return 0;
    rv = fail(store, error, "cannot commit");
    if (rv != HF_ELIMIT) {
        close_env(store->state);
        store->in_doubt = true;
    }
    return rv;
}

static int grow_map(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;
    int error = mdb_env_set_mapsize(lmdb->env, lmdb->map_bytes * 2);

    if (error)
        return fail(store, error, "cannot enlarge the map");
    lmdb->map_bytes *= 2;
    return 0;
}

static int write_growing(struct hf_store *store, int (*body)(struct hf_store *store, MDB_txn *txn))
{
    int rv;

    do {
        rv = write_once(store, body);
    } while (rv == HF_ELIMIT && (rv = grow_map(store)) == 0);
    return rv;
}

static size_t first_map_bytes(const struct lmdb *lmdb)
{
    struct stat st;
    size_t bytes = lmdb->map_bytes;

    if (fstatat(lmdb->dir.fd, DATA_NAME, &st, 0) == 0) {
        while (bytes / 2 < (size_t)st.st_size)
            bytes *= 2;
    }
    return bytes;
}

static int start_env(struct lmdb *lmdb, const char *path, unsigned flags)
{
    int error = mdb_env_create(&lmdb->env);

    lmdb->map_bytes = first_map_bytes(lmdb);
    if (!error)
        error = mdb_env_set_maxdbs(lmdb->env, N_TREES);
    if (!error)
        error = mdb_env_set_mapsize(lmdb->env, lmdb->map_bytes);
    if (!error)
        error = mdb_env_open(lmdb->env, path, MDB_NOTLS | flags, 0600);
    return error;
}

/*
 * A new file is made whole under another name, and only then gets its own: whatever is called
 * data.mdb was once complete, and if it is not so now, it is damaged.
 */
static int create_file(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;
    char path[PATH_MAX];
    int error;
    int rv;

    if (snprintf(path, sizeof(path), "%s/" NEW_NAME, lmdb->dir.path) >= (int)sizeof(path))
        return hf_store_fail(store, HF_EINVAL, "store.path is too long");
    if (unlinkat(lmdb->dir.fd, NEW_NAME, 0) < 0 && errno != ENOENT)
        return fail(store, errno, "cannot remove " NEW_NAME);
    error = start_env(lmdb, path, MDB_NOSUBDIR | MDB_NOLOCK);
    rv = error ? fail(store, error, "cannot make the store") : write_growing(store, take_over);
    close_env(lmdb);
    if (rv == 0 && renameat(lmdb->dir.fd, NEW_NAME, lmdb->dir.fd, DATA_NAME) < 0)
        rv = fail(store, errno, "cannot rename " NEW_NAME);
    return rv;
}

/* Opens the environment; also after a failed commit, which closed it. */
static int open_env(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;
    int error;
    int rv = check_file(store);

    if (rv == HF_ENOENT && !lmdb->owned)
        rv = create_file(store);
    if (rv < 0)
        return rv;
    error = start_env(lmdb, lmdb->dir.path, 0);
    rv = error ? fail(store, error, "cannot open the store") : write_growing(store, take_over);
    if (rv == 0)
        rv = hf_lmdb_dir_settle(store, &lmdb->dir);
    if (rv < 0)
        close_env(lmdb);
    else
        lmdb->owned = true;
    return rv;
}

/* The environment is there, and the file is still the one we opened. */
static int ready(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;

    return lmdb->env ? hf_lmdb_dir_check(store, &lmdb->dir) : open_env(store);
}

static void lmdb_close(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;

    close_env(lmdb);
    hf_changes_free(&lmdb->changes);
    hf_lmdb_dir_close(store, &lmdb->dir);
    hf_free(store->alloc, lmdb);
}

static int lmdb_open(struct hf_store *store, const struct hf_store_config *config)
{
    struct lmdb *lmdb = hf_calloc(store->alloc, 1, sizeof(*lmdb));
    int rv;

    if (!lmdb)
        return hf_store_fail(store, HF_ENOMEM, "out of memory");
    store->state = lmdb;
    lmdb->map_bytes = config->map_bytes ? config->map_bytes : MAP_BYTES_FIRST;
    hf_changes_init(&lmdb->changes, store->alloc);
    lmdb->dir = (struct hf_lmdb_dir){.fd = -1, .lock_fd = -1};
    if (getrandom(&lmdb->owner, sizeof(lmdb->owner), 0) != sizeof(lmdb->owner))
        rv = hf_store_fail(store, HF_EIO, "the kernel gives no random number");
    else
        rv = hf_lmdb_dir_open(store, config->path, &lmdb->dir);
    if (rv == 0)
        rv = open_env(store);
    if (rv < 0)
        lmdb_close(store);
    return rv;
}

static MDB_dbi tree_of(const struct lmdb *lmdb, enum hf_record_kind kind)
{
    switch (kind) {
    case HF_RECORD_SERVER:
        return lmdb->state;
    case HF_RECORD_CLIENT:
        return lmdb->clients;
    case HF_RECORD_LOCK:
        return lmdb->locks;
    }
    HF_UNREACHABLE();
}

static uint64_t key_of(enum hf_record_kind kind, uint64_t id)
{
    return kind == HF_RECORD_SERVER ? KEY_SERVER : id;
}

/* The end of a tree: new records come with greater ids than any before, and are appended. */
struct tail {
    bool empty;
    uint64_t last;
};

static int find_tail(MDB_cursor *cursor, struct tail *out)
{
    MDB_val key;
    int error = mdb_cursor_get(cursor, &key, NULL, MDB_LAST);

    *out = (struct tail){.empty = error == MDB_NOTFOUND};
    if (!error)
        memcpy(&out->last, key.mv_data, sizeof(out->last));
    return out->empty ? 0 : error;
}

static bool beyond(const struct tail *tail, uint64_t id)
{
    return tail->empty || id > tail->last;
}

static int write_op(MDB_cursor *cursor, struct tail *tail, const struct hf_op *op)
{
    uint64_t id = key_of(op->kind, op->id);
    MDB_val key = number_key(&id);
    MDB_val value = {op->value.len, (void *)(uintptr_t)op->value.data};
    int error;

    if (op->type == HF_OP_PUT) {
        /* MDB_APPEND fills pages to the brim, where a plain put would leave each half empty. */
        error = mdb_cursor_put(cursor, &key, &value, beyond(tail, id) ? MDB_APPEND : 0);
        if (!error && beyond(tail, id))
            *tail = (struct tail){.last = id};
        return error;
    }
    if (beyond(tail, id))
        return 0;
    error = mdb_cursor_get(cursor, &key, NULL, MDB_SET);
    if (error)
        return error == MDB_NOTFOUND ? 0 : error;
    return mdb_cursor_del(cursor, 0);
}

/* All operations of one kind; they are ordered by id. */
static int write_run(MDB_txn *txn, MDB_dbi tree, const struct hf_op *ops, size_t count)
{
    MDB_cursor *cursor;
    struct tail tail;
    int error = mdb_cursor_open(txn, tree, &cursor);

    if (error)
        return error;
    error = find_tail(cursor, &tail);
    for (size_t i = 0; i < count && !error; i++)
        error = write_op(cursor, &tail, &ops[i]);
    mdb_cursor_close(cursor);
    return error;
}

static int write_changes(struct hf_store *store, MDB_txn *txn)
{
    struct lmdb *lmdb = store->state;
    const struct hf_changes *changes = &lmdb->changes;
    int error = 0;
    int rv = check_owner(store, txn);

    if (rv < 0)
        return rv;
    for (size_t from = 0; from < changes->count && !error;) {
        const struct hf_op *ops = &changes->ops[from];
        error = write_run(txn, tree_of(lmdb, ops->kind), ops, hf_changes_run(changes, &from));
    }
    return error ? fail(store, error, "cannot write") : 0;
}

static int lmdb_apply(struct hf_store *store, const struct hf_batch *batch)
{
    struct lmdb *lmdb = store->state;
    int rv = ready(store);

    if (rv == 0 && hf_changes_collapse(&lmdb->changes, batch) < 0)
        rv = hf_store_fail(store, HF_ENOMEM, "out of memory");
    return rv < 0 ? rv : write_growing(store, write_changes);
}

static int rewrite_owner(struct hf_store *store, MDB_txn *txn)
{
    int rv = check_owner(store, txn);

    return rv < 0 ? rv : write_owner(store, txn);
}

/* The only way to know whether the disk takes writes is to write. */
static int lmdb_probe(struct hf_store *store)
{
    int rv = ready(store);

    return rv < 0 ? rv : write_growing(store, rewrite_owner);
}

static int lmdb_get(struct hf_store *store, enum hf_record_kind kind, uint64_t id,
                    struct hf_buf *out)
{
    struct lmdb *lmdb = store->state;
    uint64_t number = key_of(kind, id);
    MDB_val key = number_key(&number);
    MDB_val value;
    MDB_txn *txn;
    int error;
    int rv = ready(store);

    if (rv == 0)
        rv = begin(store, MDB_RDONLY, &txn);
    if (rv < 0)
        return rv;
    error = mdb_get(txn, tree_of(lmdb, kind), &key, &value);
    if (error == MDB_NOTFOUND)
        rv = hf_store_fail(store, HF_ENOENT, "there is no such record under \"%s\"",
                           hf_store_kind_name(kind));
    else if (error)
        rv = fail(store, error, "cannot read");
    else if (hf_buf_append(out, value.mv_data, value.mv_size) < 0)
        rv = hf_store_fail(store, HF_ENOMEM, "out of memory");
    mdb_txn_abort(txn);
    return rv;
}

static int list_tree(struct hf_store *store, MDB_txn *txn, enum hf_record_kind kind,
                     hf_store_visit visit, void *ctx)
{
    MDB_cursor *cursor;
    MDB_val key;
    MDB_val value;
    int rv = 0;
    int error = mdb_cursor_open(txn, tree_of(store->state, kind), &cursor);

    if (error)
        return fail(store, error, "cannot read");
    while (rv == 0 && !(error = mdb_cursor_get(cursor, &key, &value, MDB_NEXT))) {
        uint64_t number;

        memcpy(&number, key.mv_data, sizeof(number));
        if (kind != HF_RECORD_SERVER || number == KEY_SERVER)
            rv = visit(ctx, kind, hf_bytes(value.mv_data, value.mv_size));
    }
    mdb_cursor_close(cursor);
    return rv == 0 && error != MDB_NOTFOUND ? fail(store, error, "cannot read") : rv;
}

static int lmdb_list(struct hf_store *store, enum hf_record_kind kind, hf_store_visit visit,
                     void *ctx)
{
    MDB_txn *txn;
    int rv = ready(store);

    if (rv == 0)
        rv = begin(store, MDB_RDONLY, &txn);
    if (rv < 0)
        return rv;
    rv = list_tree(store, txn, kind, visit, ctx);
    mdb_txn_abort(txn);
    return rv;
}

const struct hf_store_backend hf_store_lmdb = {
    .name = "lmdb",
    .survives = true,
    .open = lmdb_open,
    .close = lmdb_close,
    .apply = lmdb_apply,
    .probe = lmdb_probe,
    .get = lmdb_get,
    .list = lmdb_list,
};
