/*
 * The default store: LMDB (lmdb_env.h) behind a journal (journal.h).
 *
 * A batch is durable as soon as it is in the journal. Its operations are also kept in memory. When
 * the journal is full, or when the store is read, one transaction brings all of them into LMDB: a
 * checkpoint. That transaction also stores a new key for the journal, which empties it. At any
 * moment LMDB and the valid part of the journal together hold everything that was acknowledged.
 *
 * A batch too large for the journal goes to LMDB directly, together with the pending operations.
 */
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/error.h"
#include "store/backend.h"
#include "store/changes.h"
#include "store/journal.h"
#include "store/lmdb_env.h"
#include "store/lmdb_read.h"

struct lmdb {
    struct hf_lmdb_env env;
    struct hf_journal journal;
    struct hf_batch pending; /* operations that are durable in the journal only */
    struct hf_changes changes;
    bool stale; /* the last record of the journal is in doubt: append nothing before the next
                   checkpoint */
};

static uint64_t key_of(enum hf_record_kind kind, uint64_t id)
{
    return kind == HF_RECORD_SERVER ? HF_LMDB_SERVER : id;
}

/* The greatest id of a tree. New records have greater ids and can be appended. */
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
        /* MDB_APPEND fills pages completely, where a plain put would leave each half empty. */
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

/* Applies all operations of one kind, which are ordered by id. */
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

struct checkpoint {
    const struct hf_changes *changes;
    struct hf_lmdb_parts parts;
};

static int write_checkpoint(struct hf_lmdb_env *env, MDB_txn *txn, void *ctx)
{
    const struct checkpoint *checkpoint = ctx;
    const struct hf_changes *changes = checkpoint->changes;
    int error = hf_lmdb_parts_write(txn, env->state, &checkpoint->parts);

    for (size_t from = 0; from < changes->count && !error;) {
        const struct hf_op *ops = &changes->ops[from];
        error = write_run(txn, hf_lmdb_tree(env, ops->kind), ops, hf_changes_run(changes, &from));
    }
    return error ? hf_lmdb_env_fail(env, error, "cannot write") : 0;
}

/* Brings all pending operations into LMDB, which empties the journal. */
static int checkpoint(struct lmdb *lmdb)
{
    struct checkpoint checkpoint = {.changes = &lmdb->changes,
                                    .parts = {.journal_id = lmdb->journal.id}};
    struct hf_hash_key *key = &checkpoint.parts.journal_key;
    struct hf_store *store = lmdb->env.store;
    int rv;

    if (getrandom(key, sizeof(*key), 0) != sizeof(*key))
        return hf_store_fail(store, HF_EIO, "the kernel gives no random number");
    if (hf_changes_collapse(&lmdb->changes, &lmdb->pending) < 0)
        return hf_store_fail(store, HF_ENOMEM, "out of memory");
    rv = hf_lmdb_env_write(&lmdb->env, write_checkpoint, &checkpoint);
    lmdb->stale =
        rv < 0; /* the transaction may have been committed, and with it a new key for the journal */
    if (rv < 0)
        return rv;
    hf_batch_clear(&lmdb->pending);
    hf_journal_restart(&lmdb->journal, key);
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
 * Before a batch is acknowledged it must be certain that the next daemon will find it: neither file
 * may have been moved away while the batch was written.
 */
static int check_files(struct lmdb *lmdb)
{
    const struct hf_lmdb_dir *dir = &lmdb->env.dir;
    int rv = hf_lmdb_dir_check(lmdb->env.store, dir);

    /* The database is in its place, so a journal that is not ours belongs to another daemon. */
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

    /*
     * Bring the pending operations in first, so that their failure is not reported as this batch's.
     */
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

/* Only a write can tell whether the disk accepts writes. */
static int lmdb_probe(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;
    int rv = hf_lmdb_env_ready(&lmdb->env);

    return rv < 0 ? rv : checkpoint(lmdb);
}

/* Begins a read transaction. Reads go to LMDB only, so pending operations must be there first. */
static int begin_read(struct lmdb *lmdb, MDB_txn **out)
{
    int rv = hf_lmdb_env_ready(&lmdb->env);

    if (rv == 0 && lmdb->pending.n_ops > 0)
        rv = checkpoint(lmdb);
    return rv < 0 ? rv : hf_lmdb_env_begin_read(&lmdb->env, out);
}

static int lmdb_list(struct hf_store *store, enum hf_record_kind kind, hf_store_visit visit,
                     void *ctx)
{
    struct lmdb *lmdb = store->state;
    MDB_txn *txn;
    int rv = begin_read(lmdb, &txn);

    if (rv < 0)
        return rv;
    rv = hf_lmdb_list(&lmdb->env, txn, kind, visit, ctx);
    mdb_txn_abort(txn);
    return rv;
}

/*
 * Best effort: operations that cannot be brought into LMDB now stay in the journal, and the next
 * start finds them.
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

/* Appends what the previous owner's journal holds to pending. */
static int read_journal(struct lmdb *lmdb)
{
    const struct hf_lmdb_dir *dir = &lmdb->env.dir;
    const struct hf_lmdb_parts *parts = &lmdb->env.parts;
    int error = hf_journal_move_aside(dir->fd);

    if (error)
        return hf_lmdb_env_fail(&lmdb->env, error, "cannot move the journal aside");
    error = hf_journal_read(dir->fd, &parts->journal_key, parts->journal_id, &lmdb->pending);
    if (!error || hf_lmdb_parts_loss_accepted(dir, error))
        return 0;
    /* Closing must not commit the part that was read, for that would void the rest. */
    hf_batch_clear(&lmdb->pending);
    return hf_lmdb_parts_fail(lmdb->env.store, dir, error);
}

/*
 * Brings the journal of the previous owner into LMDB under a new key. After that the old journal is
 * void, and a new one can replace it; the second checkpoint records its id (lmdb_parts.h).
 */
static int recover(struct lmdb *lmdb)
{
    int rv = read_journal(lmdb);
    int error;

    if (rv == 0)
        rv = checkpoint(lmdb);
    if (rv < 0)
        return rv;
    error = hf_journal_create(&lmdb->journal, lmdb->env.dir.fd);
    if (error)
        return hf_lmdb_env_fail(&lmdb->env, error, "cannot make the journal");
    rv = checkpoint(lmdb);
    if (rv == 0)
        hf_lmdb_parts_forget_loss(&lmdb->env.dir);
    return rv;
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
    else
        hf_lmdb_dir_give(&lmdb->env.dir);
    return rv;
}

const struct hf_store_backend hf_store_lmdb = {
    .name = "lmdb",
    .survives = true,
    .open = lmdb_open,
    .close = lmdb_close,
    .apply = lmdb_apply,
    .probe = lmdb_probe,
    .list = lmdb_list,
    .read = hf_lmdb_read,
};
