/*
 * The default store: LMDB (lmdb_env.h) behind a journal (journal.h).
 *
 * A batch is durable as soon as it is in the journal. Its operations are kept in memory as well,
 * and when the journal is full, or somebody wants to read, all of them go to LMDB in one
 * transaction: a checkpoint. That transaction also stores a new key for the journal, which empties
 * it. So at any moment LMDB and what is valid of the journal add up to everything acknowledged.
 *
 * A batch too large for the journal goes to LMDB directly, together with what is pending.
 */
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/error.h"
#include "store/backend.h"
#include "store/changes.h"
#include "store/journal.h"
#include "store/lmdb_env.h"

struct lmdb {
    struct hf_lmdb_env env;
    struct hf_journal journal;
    struct hf_batch pending; /* what is durable in the journal alone */
    struct hf_changes changes;
    bool stale; /* the journal's last record is in doubt: nothing goes there before a checkpoint */
};

static MDB_dbi tree_of(const struct hf_lmdb_env *env, enum hf_record_kind kind)
{
    switch (kind) {
    case HF_RECORD_SERVER:
        return env->state;
    case HF_RECORD_CLIENT:
        return env->clients;
    case HF_RECORD_LOCK:
        return env->locks;
    }
    HF_UNREACHABLE();
}

static uint64_t key_of(enum hf_record_kind kind, uint64_t id)
{
    return kind == HF_RECORD_SERVER ? HF_LMDB_SERVER : id;
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
    MDB_val key = hf_lmdb_number(&id);
    MDB_val value = {op->value.len, (void *)op->value.data};
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

static int write_journal_key(struct hf_lmdb_env *env, MDB_txn *txn, const struct hf_hash_key *key)
{
    uint64_t which = HF_LMDB_JOURNAL_KEY;
    MDB_val name = hf_lmdb_number(&which);
    MDB_val value = {sizeof(*key), (void *)key};

    return mdb_put(txn, env->state, &name, &value, 0);
}

struct checkpoint {
    const struct hf_changes *changes;
    struct hf_hash_key key;
};

static int write_checkpoint(struct hf_lmdb_env *env, MDB_txn *txn, void *ctx)
{
    const struct checkpoint *checkpoint = ctx;
    const struct hf_changes *changes = checkpoint->changes;
    int error = write_journal_key(env, txn, &checkpoint->key);

    for (size_t from = 0; from < changes->count && !error;) {
        const struct hf_op *ops = &changes->ops[from];
        error = write_run(txn, tree_of(env, ops->kind), ops, hf_changes_run(changes, &from));
    }
    return error ? hf_lmdb_env_fail(env, error, "cannot write") : 0;
}

/* Brings all that is pending into LMDB, and so empties the journal. */
static int checkpoint(struct lmdb *lmdb)
{
    struct checkpoint checkpoint = {.changes = &lmdb->changes};
    struct hf_store *store = lmdb->env.store;
    int rv;

    if (getrandom(&checkpoint.key, sizeof(checkpoint.key), 0) != sizeof(checkpoint.key))
        return hf_store_fail(store, HF_EIO, "the kernel gives no random number");
    if (hf_changes_collapse(&lmdb->changes, &lmdb->pending) < 0)
        return hf_store_fail(store, HF_ENOMEM, "out of memory");
    rv = hf_lmdb_env_write(&lmdb->env, write_checkpoint, &checkpoint);
    lmdb->stale = rv < 0; /* perhaps it was committed, and the journal's key is another now */
    if (rv < 0)
        return rv;
    hf_batch_clear(&lmdb->pending);
    hf_journal_restart(&lmdb->journal, &checkpoint.key);
    return 0;
}

static int remember(struct lmdb *lmdb, const struct hf_batch *batch)
{
    struct hf_bytes bytes = hf_buf_view(&batch->buf);

    if (hf_buf_append(&lmdb->pending.buf, bytes.data, bytes.len) < 0)
        return hf_store_fail(lmdb->env.store, HF_ENOMEM, "out of memory");
    lmdb->pending.n_ops += batch->n_ops;
    return 0;
}

static void forget(struct lmdb *lmdb, const struct hf_batch *batch)
{
    lmdb->pending.buf.end -= hf_buf_len(&batch->buf);
    lmdb->pending.n_ops -= batch->n_ops;
}

/*
 * Nobody is told that a batch is durable before it is certain that the next daemon will find it:
 * neither file may have been moved away beneath us while it was written.
 */
static int check_files(struct lmdb *lmdb)
{
    const struct hf_lmdb_dir *dir = &lmdb->env.dir;
    int rv = hf_lmdb_dir_check(lmdb->env.store, dir);

    /* With the database in its place, a journal that is not ours is that of another daemon. */
    if (rv == 0 && !hf_journal_is_ours(&lmdb->journal, dir->path))
        rv = hf_lmdb_env_fail_fenced(&lmdb->env);
    return rv;
}

static int write_journal(struct lmdb *lmdb, const struct hf_batch *batch)
{
    int error = hf_journal_append(&lmdb->journal, batch);
    int rv =
        error ? hf_lmdb_env_fail(&lmdb->env, error, "cannot write the journal") : check_files(lmdb);

    if (rv < 0) {
        lmdb->stale = true;
        lmdb->env.store->in_doubt = true;
    }
    return rv;
}

static int lmdb_apply(struct hf_store *store, const struct hf_batch *batch)
{
    struct lmdb *lmdb = store->state;
    bool large = hf_buf_len(&batch->buf) > HF_JOURNAL_BATCH_MAX;
    int rv = hf_lmdb_env_ready(&lmdb->env);

    /* What is pending must go first, and must not be blamed on this batch. */
    if (rv == 0 && (lmdb->stale || (!large && !hf_journal_has_room(&lmdb->journal, batch)))) {
        rv = checkpoint(lmdb);
        store->in_doubt = false;
    }
    if (rv == 0)
        rv = remember(lmdb, batch);
    if (rv < 0)
        return rv;
    rv = large ? checkpoint(lmdb) : write_journal(lmdb, batch);
    if (rv < 0)
        forget(lmdb, batch);
    return rv;
}

/* The only way to know whether the disk takes writes is to write. */
static int lmdb_probe(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;
    int rv = hf_lmdb_env_ready(&lmdb->env);

    return rv < 0 ? rv : checkpoint(lmdb);
}

/* Whoever reads, reads LMDB. */
static int begin_read(struct lmdb *lmdb, MDB_txn **out)
{
    int rv = hf_lmdb_env_ready(&lmdb->env);

    if (rv == 0 && lmdb->pending.n_ops > 0)
        rv = checkpoint(lmdb);
    return rv < 0 ? rv : hf_lmdb_env_begin_read(&lmdb->env, out);
}

static int lmdb_get(struct hf_store *store, enum hf_record_kind kind, uint64_t id,
                    struct hf_buf *out)
{
    struct lmdb *lmdb = store->state;
    uint64_t number = key_of(kind, id);
    MDB_val key = hf_lmdb_number(&number);
    MDB_val value;
    MDB_txn *txn;
    int error;
    int rv = begin_read(lmdb, &txn);

    if (rv < 0)
        return rv;
    error = mdb_get(txn, tree_of(&lmdb->env, kind), &key, &value);
    if (error == MDB_NOTFOUND)
        rv = hf_store_fail(store, HF_ENOENT, "there is no such record under \"%s\"",
                           hf_store_kind_name(kind));
    else if (error)
        rv = hf_lmdb_env_fail(&lmdb->env, error, "cannot read");
    else if (hf_buf_append(out, value.mv_data, value.mv_size) < 0)
        rv = hf_store_fail(store, HF_ENOMEM, "out of memory");
    mdb_txn_abort(txn);
    return rv;
}

static int list_tree(struct lmdb *lmdb, MDB_txn *txn, enum hf_record_kind kind,
                     hf_store_visit visit, void *ctx)
{
    MDB_cursor *cursor;
    MDB_val key;
    MDB_val value;
    int rv = 0;
    int error = mdb_cursor_open(txn, tree_of(&lmdb->env, kind), &cursor);

    if (error)
        return hf_lmdb_env_fail(&lmdb->env, error, "cannot read");
    while (rv == 0 && !(error = mdb_cursor_get(cursor, &key, &value, MDB_NEXT))) {
        uint64_t number;

        memcpy(&number, key.mv_data, sizeof(number));
        if (kind != HF_RECORD_SERVER || number == HF_LMDB_SERVER)
            rv = visit(ctx, kind, hf_bytes(value.mv_data, value.mv_size));
    }
    mdb_cursor_close(cursor);
    return rv == 0 && error != MDB_NOTFOUND ? hf_lmdb_env_fail(&lmdb->env, error, "cannot read")
                                            : rv;
}

static int lmdb_list(struct hf_store *store, enum hf_record_kind kind, hf_store_visit visit,
                     void *ctx)
{
    MDB_txn *txn;
    int rv = begin_read(store->state, &txn);

    if (rv < 0)
        return rv;
    rv = list_tree(store->state, txn, kind, visit, ctx);
    mdb_txn_abort(txn);
    return rv;
}

/* Best effort: what does not get into LMDB now is in the journal, and is found at the next start.
 */
static void lmdb_close(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;

    if (lmdb->env.env && lmdb->pending.n_ops > 0)
        (void)checkpoint(lmdb);
    hf_journal_close(&lmdb->journal);
    hf_lmdb_env_close(&lmdb->env);
    hf_changes_free(&lmdb->changes);
    hf_batch_free(&lmdb->pending);
    hf_free(store->alloc, lmdb);
}

/*
 * What the last owner left in its journal goes to LMDB, under a new key; from then on the old
 * journal is void, and a new one can take its place.
 */
static int recover(struct lmdb *lmdb)
{
    int dir_fd = lmdb->env.dir.fd;
    int error = hf_journal_recover(dir_fd, &lmdb->env.journal_key, &lmdb->pending);
    int rv =
        error ? hf_lmdb_env_fail(&lmdb->env, error, "cannot read the journal") : checkpoint(lmdb);

    if (rv < 0)
        return rv;
    error = hf_journal_create(&lmdb->journal, dir_fd);
    return error ? hf_lmdb_env_fail(&lmdb->env, error, "cannot make the journal") : 0;
}

static int lmdb_open(struct hf_store *store, const struct hf_store_config *config)
{
    struct lmdb *lmdb = hf_calloc(store->alloc, 1, sizeof(*lmdb));
    int rv;

    if (!lmdb)
        return hf_store_fail(store, HF_ENOMEM, "out of memory");
    store->state = lmdb;
    hf_journal_init(&lmdb->journal);
    hf_batch_init(&lmdb->pending, store->alloc);
    hf_changes_init(&lmdb->changes, store->alloc);
    rv = hf_lmdb_env_open(&lmdb->env, store, config);
    if (rv < 0) {
        hf_changes_free(&lmdb->changes);
        hf_batch_free(&lmdb->pending);
        hf_free(store->alloc, lmdb);
        return rv;
    }
    rv = recover(lmdb);
    if (rv < 0)
        lmdb_close(store);
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
