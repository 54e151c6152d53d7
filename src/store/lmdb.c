/*
 * The default store: LMDB (lmdb_env.h) behind a journal (journal.h).
 *
 * A batch is durable as soon as it is in the journal. Its operations are also kept in memory. When
 * the journal is full, or when the store is read, one transaction brings all of them into LMDB: a
 * checkpoint. That transaction also stores a new key for the journal, which empties it. At any
 * moment LMDB and the valid part of the journal together hold everything that was acknowledged.
 *
 * A batch too large for the journal goes to LMDB directly, together with the pending operations.
 *
 * Batches that may be lost when the host crashes (DUR-02) are appended to the journal without a
 * flush, by another thread than the one that flushes and makes checkpoints. They share the journal
 * like this: the writer appends to one side, and turns to the other side when that is full; then
 * the store's thread brings the full side into LMDB. All else that concerns the side in use (a
 * checkpoint of everything, a batch that must be flushed) the store's thread does while it excludes
 * the writer, whose batches then go to the store's thread instead.
 */
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/error.h"
#include "store/backend.h"
#include "store/changes.h"
#include "store/journal.h"
#include "store/lmdb_env.h"
#include "store/lmdb_read.h"
#include "store/lmdb_write.h"

struct lmdb {
    struct hf_lmdb_env env;
    struct hf_journal journal;
    struct hf_batch pending[2]; /* by side: operations that are in the journal only */
    struct hf_changes changes;
    struct hf_journal_layout layout; /* of the journal that is made when the store is opened */
    uint8_t boot_id[HF_BOOT_ID_SIZE];
    bool recovered;        /* the journal is ours; before, a checkpoint could void the old one */
    pthread_mutex_t mutex; /* held by the writer; by the store's thread to change what follows */
    bool excluded;         /* the writer must not touch anything */
    bool stale; /* the last record of the journal is in doubt: append nothing before the next
                   checkpoint of everything */
};

static void exclude_writer(struct lmdb *lmdb, bool excluded)
{
    pthread_mutex_lock(&lmdb->mutex);
    lmdb->excluded = excluded;
    pthread_mutex_unlock(&lmdb->mutex);
}

/* The operations on the side that takes records. */
static struct hf_batch *newest(struct lmdb *lmdb)
{
    return &lmdb->pending[lmdb->journal.side];
}

struct checkpoint {
    const struct hf_changes *changes;
    struct hf_lmdb_parts parts;
};

static int write_checkpoint(struct hf_lmdb_env *env, MDB_txn *txn, void *ctx)
{
    const struct checkpoint *checkpoint = ctx;
    int error = hf_lmdb_parts_write(txn, env->state, &checkpoint->parts);

    if (!error)
        error = hf_lmdb_write(env, txn, checkpoint->changes);
    return error ? hf_lmdb_env_fail(env, error, "cannot write") : 0;
}

/* Brings operations into LMDB; from then on the journal begins as parts say. */
static int bring_in(struct lmdb *lmdb, const struct hf_batch *batch,
                    const struct hf_lmdb_parts *parts)
{
    struct checkpoint checkpoint = {.changes = &lmdb->changes, .parts = *parts};

    memcpy(checkpoint.parts.boot_id, lmdb->boot_id, sizeof(lmdb->boot_id));
    if (hf_changes_collapse(&lmdb->changes, batch) < 0)
        return hf_store_fail(lmdb->env.store, HF_ENOMEM, "out of memory");
    return hf_lmdb_env_write(&lmdb->env, write_checkpoint, &checkpoint);
}

/*
 * Brings the side that is full into LMDB, if there is one, while the writer may append to the
 * other. Whether or not the transaction is committed, the journal and LMDB hold everything.
 */
static int bring_full_side(struct lmdb *lmdb)
{
    struct hf_lmdb_parts parts = {.journal_id = lmdb->journal.id, .layout = lmdb->layout};
    struct hf_batch *full;
    bool empty;
    int rv;

    pthread_mutex_lock(&lmdb->mutex);
    full = &lmdb->pending[lmdb->journal.side ^ 1];
    empty = full->n_ops == 0; /* to an empty one the writer may turn as soon as we let it */
    parts.journal_key = lmdb->journal.key;
    parts.layout.first_index = lmdb->journal.first_index;
    pthread_mutex_unlock(&lmdb->mutex);
    if (empty)
        return 0;
    rv = bring_in(lmdb, full, &parts);
    if (rv < 0)
        return rv;
    pthread_mutex_lock(&lmdb->mutex);
    hf_batch_clear(full); /* the writer may turn to this side again */
    pthread_mutex_unlock(&lmdb->mutex);
    return 0;
}

/* A checkpoint of everything: empties the journal, which then has this layout. */
static int checkpoint_as(struct lmdb *lmdb, const struct hf_journal_layout *layout)
{
    struct hf_lmdb_parts parts = {.journal_id = lmdb->journal.id, .layout = *layout};
    struct hf_hash_key *key = &parts.journal_key;
    int rv = bring_full_side(lmdb);

    if (rv < 0)
        return rv;
    if (getrandom(key, sizeof(*key), 0) != sizeof(*key))
        return hf_store_fail(lmdb->env.store, HF_EIO, "the kernel gives no random number");
    rv = bring_in(lmdb, newest(lmdb), &parts);
    lmdb->stale =
        rv < 0; /* the transaction may have been committed, and with it a new key for the journal */
    if (rv < 0)
        return rv;
    hf_batch_clear(newest(lmdb));
    hf_journal_restart(&lmdb->journal, key);
    return 0;
}

static int checkpoint(struct lmdb *lmdb)
{
    return checkpoint_as(lmdb, &lmdb->layout);
}

static int remember(struct lmdb *lmdb, const struct hf_batch *batch)
{
    struct hf_bytes bytes = hf_buf_view(&batch->buf);

    if (hf_buf_append(&newest(lmdb)->buf, bytes.data, bytes.len) < 0)
        return HF_ENOMEM;
    newest(lmdb)->n_ops += batch->n_ops;
    return 0;
}

static void forget(struct lmdb *lmdb, const struct hf_batch *batch)
{
    newest(lmdb)->buf.end -= hf_buf_len(&batch->buf);
    newest(lmdb)->n_ops -= batch->n_ops;
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

static int sync_journal(struct lmdb *lmdb)
{
    int error = hf_journal_sync(&lmdb->journal);

    return error ? hf_lmdb_env_fail(&lmdb->env, error, "cannot flush the journal")
                 : check_files(lmdb);
}

static int write_journal(struct lmdb *lmdb, const struct hf_batch *batch)
{
    int error = hf_journal_append(&lmdb->journal, batch);
    int rv = error ? hf_lmdb_env_fail(&lmdb->env, error, "cannot write the journal")
                   : sync_journal(lmdb);

    if (rv < 0) {
        lmdb->stale = true;
        lmdb->env.store->in_doubt = true;
    }
    return rv;
}

static bool is_large(const struct lmdb *lmdb, const struct hf_batch *batch)
{
    size_t len = hf_buf_len(&batch->buf);

    return len > HF_JOURNAL_BATCH_MAX || len > lmdb->layout.side_bytes / 8;
}

static int apply(struct lmdb *lmdb, const struct hf_batch *batch)
{
    struct hf_store *store = lmdb->env.store;
    bool large = is_large(lmdb, batch);
    int rv = hf_lmdb_env_ready(&lmdb->env);

    /*
     * Bring the pending operations in first, so that their failure is not reported as this batch's.
     */
    if (rv == 0 && (lmdb->stale || (!large && !hf_journal_has_room(&lmdb->journal, batch)))) {
        rv = checkpoint(lmdb);
        store->in_doubt = false;
    }
    if (rv == 0 && remember(lmdb, batch) < 0)
        rv = hf_store_fail(store, HF_ENOMEM, "out of memory");
    if (rv < 0)
        return rv;
    rv = large ? checkpoint(lmdb) : write_journal(lmdb, batch);
    if (rv < 0)
        forget(lmdb, batch);
    return rv;
}

static int lmdb_apply(struct hf_store *store, const struct hf_batch *batch)
{
    struct lmdb *lmdb = store->state;
    int rv;

    exclude_writer(lmdb, true);
    rv = apply(lmdb, batch);
    exclude_writer(lmdb, false);
    return rv;
}

/* What a failure leaves in the file is void after the checkpoint that stale demands. */
static enum hf_store_written lmdb_write_through(struct hf_store *store,
                                                const struct hf_batch *batch)
{
    struct lmdb *lmdb = store->state;

    if (!lmdb->env.env || lmdb->stale || is_large(lmdb, batch) ||
        !hf_journal_has_room(&lmdb->journal, batch) || remember(lmdb, batch) < 0)
        return HF_STORE_NOT_WRITTEN;
    if (write_journal(lmdb, batch) == 0)
        return HF_STORE_WRITTEN;
    forget(lmdb, batch);
    return HF_STORE_NOT_WRITTEN;
}

/* ---- batches that may be lost ---- */

/*
 * The writer reports no failure: the store's thread, which gets the batch instead, meets the same
 * obstacle. What may have reached the file is void after the checkpoint that stale demands.
 */
static enum hf_store_written append(struct lmdb *lmdb, const struct hf_batch *batch)
{
    if (remember(lmdb, batch) < 0)
        return HF_STORE_NOT_WRITTEN;
    /* That both files are in their places is checked with the next flush. */
    if (hf_journal_append(&lmdb->journal, batch) == 0 && !hf_journal_is_taken(&lmdb->journal))
        return HF_STORE_WRITTEN;
    forget(lmdb, batch);
    lmdb->stale = true;
    return HF_STORE_NOT_WRITTEN;
}

static enum hf_store_written append_or_turn(struct lmdb *lmdb, const struct hf_batch *batch)
{
    if (hf_journal_has_room(&lmdb->journal, batch))
        return append(lmdb, batch);
    if (lmdb->pending[lmdb->journal.side ^ 1].n_ops > 0)
        return HF_STORE_NOT_WRITTEN; /* both sides are full: wait for the checkpoint of one */
    hf_journal_turn(&lmdb->journal);
    return append(lmdb, batch) == HF_STORE_WRITTEN ? HF_STORE_WRITTEN_HURRY : HF_STORE_NOT_WRITTEN;
}

static enum hf_store_written lmdb_write(struct hf_store *store, const struct hf_batch *batch)
{
    struct lmdb *lmdb = store->state;
    enum hf_store_written written = HF_STORE_NOT_WRITTEN;

    if (lmdb->layout.n_sides != 2 || is_large(lmdb, batch))
        return HF_STORE_NOT_WRITTEN;
    pthread_mutex_lock(&lmdb->mutex);
    if (!lmdb->excluded && !lmdb->stale)
        written = append_or_turn(lmdb, batch);
    pthread_mutex_unlock(&lmdb->mutex);
    return written;
}

/*
 * After a failed flush the kernel may have forgotten which pages are not on the disk, so only LMDB
 * can make them durable.
 */
static int lmdb_flush(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;
    int rv = hf_lmdb_env_ready(&lmdb->env);

    if (rv == 0)
        rv = sync_journal(lmdb);
    if (rv == 0)
        rv = bring_full_side(lmdb);
    if (rv == 0)
        return 0;
    pthread_mutex_lock(&lmdb->mutex);
    lmdb->stale = true;
    pthread_mutex_unlock(&lmdb->mutex);
    return rv;
}

/* ---- */

/* Only a write can tell whether the disk accepts writes. */
static int lmdb_probe(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;
    int rv;

    exclude_writer(lmdb, true);
    rv = hf_lmdb_env_ready(&lmdb->env);
    if (rv == 0)
        rv = checkpoint(lmdb);
    exclude_writer(lmdb, false);
    return rv;
}

static bool has_pending(const struct lmdb *lmdb)
{
    return lmdb->pending[0].n_ops > 0 || lmdb->pending[1].n_ops > 0;
}

/* Begins a read transaction. Reads go to LMDB only, so pending operations must be there first. */
static int begin_read(struct lmdb *lmdb, MDB_txn **out)
{
    int rv;

    exclude_writer(lmdb, true);
    rv = hf_lmdb_env_ready(&lmdb->env);
    if (rv == 0 && has_pending(lmdb))
        rv = checkpoint(lmdb);
    exclude_writer(lmdb, false);
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

static void free_state(struct hf_store *store, struct lmdb *lmdb)
{
    hf_changes_free(&lmdb->changes);
    hf_batch_free(&lmdb->pending[0]);
    hf_batch_free(&lmdb->pending[1]);
    pthread_mutex_destroy(&lmdb->mutex);
    hf_free(store->alloc, lmdb);
}

/*
 * Best effort: operations that cannot be brought into LMDB now stay in the journal, and the next
 * start finds them. A journal with two sides is left empty and in no boot of the host, so that any
 * version can read it (lmdb_parts.h).
 */
static void lmdb_close(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;

    if (lmdb->env.env && lmdb->recovered && lmdb->layout.n_sides == 2) {
        lmdb->journal.id = 0;
        (void)checkpoint_as(lmdb, &hf_journal_flushed);
    } else if (lmdb->env.env && has_pending(lmdb)) {
        (void)checkpoint(lmdb);
    }
    hf_journal_close(&lmdb->journal);
    hf_lmdb_env_close(&lmdb->env);
    free_state(store, lmdb);
}

/* Appends what the previous owner's journal holds to pending. */
static int read_journal(struct lmdb *lmdb)
{
    const struct hf_lmdb_dir *dir = &lmdb->env.dir;
    struct hf_journal_reading reading = hf_lmdb_parts_reading(&lmdb->env.parts, lmdb->boot_id);
    int error = hf_journal_move_aside(dir->fd);

    if (error)
        return hf_lmdb_env_fail(&lmdb->env, error, "cannot move the journal aside");
    error = hf_journal_read(dir->fd, &reading, newest(lmdb));
    if (!error || hf_lmdb_parts_loss_accepted(dir, error))
        return 0;
    /* Closing must not commit the part that was read, for that would void the rest. */
    hf_batch_clear(newest(lmdb));
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
        rv = checkpoint_as(lmdb, &hf_journal_flushed);
    if (rv < 0)
        return rv;
    error = hf_journal_create(&lmdb->journal, lmdb->env.dir.fd, &lmdb->layout);
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
    hf_batch_init(&lmdb->pending[0], store->alloc);
    hf_batch_init(&lmdb->pending[1], store->alloc);
    hf_changes_init(&lmdb->changes, store->alloc);
    pthread_mutex_init(&lmdb->mutex, NULL);
    lmdb->layout = config->unflushed ? hf_journal_unflushed : hf_journal_flushed;
    if (config->unflushed && config->side_bytes)
        lmdb->layout.side_bytes = config->side_bytes;
    memcpy(lmdb->boot_id, config->boot_id, sizeof(lmdb->boot_id));
    rv = hf_lmdb_env_open(&lmdb->env, store, config);
    if (rv < 0) {
        free_state(store, lmdb);
        return rv;
    }
    rv = recover(lmdb);
    lmdb->recovered = rv == 0;
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
    .write = lmdb_write,
    .write_through = lmdb_write_through,
    .flush = lmdb_flush,
    .list = lmdb_list,
    .read = hf_lmdb_read,
};
