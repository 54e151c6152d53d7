/*
 * The default store: LMDB (lmdb_env.h) behind a journal (journal.h).
 *
 * A batch is durable as soon as it is in the journal. Its operations are also kept in memory. The
 * journal has two sides, and batches go to one of them until it is full, then to the other. A move
 * brings the operations of the full side into LMDB in one transaction, which also stores the number
 * of the first record that counts from then on. At any moment LMDB and the valid part of the
 * journal together hold everything that was acknowledged.
 *
 * A checkpoint of everything, both sides, empties the journal by replacing its key. It happens at
 * the start, at a clean stop, after a failure, and for a batch too large for the journal, which
 * goes to LMDB in the same transaction.
 *
 * Three threads use a store at the same time, and none waits for the other two:
 *  - the loop thread appends batches that may be lost when the host crashes (DUR-02);
 *  - the commit thread appends and flushes batches, and flushes those that the loop thread
 *    appended;
 *  - the mover brings a full side into LMDB.
 *
 * A backup, on a thread of its own, reads LMDB beside them.
 *
 * There are two mutexes. A thread holds "tree" for as long as its LMDB transaction takes; the
 * commit thread needs it only if both sides are full, for a large batch, or after a failure. A
 * thread holds "mutex" for moments, to change the fields that say where the next batch goes, and
 * may take it while it holds "tree". While the commit thread appends, it excludes the loop thread,
 * which then submits its batches instead of writing them.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "store/backend.h"
#include "store/changes.h"
#include "store/journal.h"
#include "store/lmdb_env.h"
#include "store/lmdb_read.h"
#include "store/lmdb_write.h"

/*
 * Which thread or lock a field belongs to:
 *   (open)  set when the store is opened, not changed afterwards
 *   (tree)  the mutex `tree`
 *   (mutex) the mutex `mutex`; the commit thread reads without it while it excludes the loop
 *           thread, and so does any thread as long as no other has been started
 */
struct lmdb {
    struct hf_journal_layout layout; /* (open) */
    /* (open) The id of this boot of the host; zeros if every batch is flushed before its
     * acknowledgement. */
    uint8_t boot_id[HF_BOOT_ID_SIZE];
    /*
     * (open) The journal is ours. Until then a checkpoint could void the previous daemon's journal.
     */
    bool recovered;

    pthread_mutex_t tree;
    struct hf_lmdb_env env;    /* (tree) */
    struct hf_changes changes; /* (tree) */
    /* (tree) The new key of the last checkpoint of everything that was attempted. */
    struct hf_hash_key next_key;

    pthread_mutex_t mutex;
    struct hf_journal journal; /* (mutex) */
    /* (mutex) for each side, the operations that are in the journal but not in LMDB */
    struct hf_batch pending[2];
    bool excluded; /* (mutex) the loop thread must not touch the journal */
    /* (mutex) The last record of the journal is in doubt, or a move failed: nothing may be appended
     * before the next checkpoint of everything. */
    bool stale;

    _Atomic bool full; /* a side of the journal is full, so lmdb_move() has work */
};

static bool is_unflushed(const struct lmdb *lmdb)
{
    static const uint8_t none[HF_BOOT_ID_SIZE];

    return memcmp(lmdb->boot_id, none, sizeof(none)) != 0;
}

static void exclude_writer(struct lmdb *lmdb, bool excluded)
{
    pthread_mutex_lock(&lmdb->mutex);
    lmdb->excluded = excluded;
    pthread_mutex_unlock(&lmdb->mutex);
}

static void set_stale(struct lmdb *lmdb, bool stale)
{
    pthread_mutex_lock(&lmdb->mutex);
    lmdb->stale = stale;
    pthread_mutex_unlock(&lmdb->mutex);
}

/* Locks the tree. Until the thread unlocks it, LMDB's failures are reported to the thread's own
 * store handle. */
static void lock_tree(struct lmdb *lmdb, struct hf_store *store)
{
    pthread_mutex_lock(&lmdb->tree);
    lmdb->env.store = store;
}

static void unlock_tree(struct lmdb *lmdb)
{
    pthread_mutex_unlock(&lmdb->tree);
}

/* Returns the operations on the journal side that takes records. */
static struct hf_batch *newest(struct lmdb *lmdb)
{
    return &lmdb->pending[lmdb->journal.side];
}

/* Returns the operations on the side that is not in use; if there are none, the journal can turn to
 * that side. */
static struct hf_batch *oldest(struct lmdb *lmdb)
{
    return &lmdb->pending[lmdb->journal.side ^ 1];
}

/* ---- into LMDB: the caller has the tree ---- */

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

/* Commits the operations of a batch to LMDB, together with the given parts, which say where the
 * journal begins from then on. */
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
 * Brings the full side of the journal, if there is one, into LMDB, while other threads append to
 * the other side. Whether or not the transaction commits, the journal and LMDB together hold
 * everything.
 */
static int bring_full_side(struct lmdb *lmdb)
{
    struct hf_lmdb_parts parts = {
        .journal_id = lmdb->journal.id, .layout = lmdb->layout, .home = lmdb->env.dir.home};
    struct hf_batch *full;
    bool empty;
    int rv;

    pthread_mutex_lock(&lmdb->mutex);
    full = oldest(lmdb);
    /* Another thread may turn to an empty side as soon as the mutex is released. */
    empty = full->n_ops == 0;
    parts.journal_key = lmdb->journal.key;
    parts.layout.first_index = lmdb->journal.first_index;
    pthread_mutex_unlock(&lmdb->mutex);
    if (empty)
        return 0;
    rv = bring_in(lmdb, full, &parts);
    if (rv < 0) {
        set_stale(lmdb, true);
        return rv;
    }
    pthread_mutex_lock(&lmdb->mutex);
    hf_batch_clear(full); /* with no operations left, the journal may turn to this side again */
    pthread_mutex_unlock(&lmdb->mutex);
    return 0;
}

/* Makes a checkpoint of the whole store, which empties the journal, and gives the journal this
 * layout. No thread may append to the journal meanwhile. */
static int checkpoint_as(struct lmdb *lmdb, const struct hf_journal_layout *layout)
{
    struct hf_lmdb_parts parts = {
        .journal_id = lmdb->journal.id, .layout = *layout, .home = lmdb->env.dir.home};
    struct hf_hash_key *key = &lmdb->next_key;
    int rv = bring_full_side(lmdb);

    if (rv < 0)
        return rv;
    if (getrandom(key, sizeof(*key), 0) != sizeof(*key))
        return hf_store_fail(lmdb->env.store, HF_EIO, "the kernel gives no random number");
    parts.journal_key = *key;
    rv = bring_in(lmdb, newest(lmdb), &parts);
    /* After a failure the transaction may still have been committed, and with it a new key for the
     * journal. */
    set_stale(lmdb, rv < 0);
    if (rv < 0)
        return rv;
    pthread_mutex_lock(&lmdb->mutex);
    hf_batch_clear(newest(lmdb));
    hf_journal_restart(&lmdb->journal, key);
    pthread_mutex_unlock(&lmdb->mutex);
    return 0;
}

static int checkpoint(struct lmdb *lmdb)
{
    int rv = hf_lmdb_env_ready(&lmdb->env);

    return rv < 0 ? rv : checkpoint_as(lmdb, &lmdb->layout);
}

/* Runs on the mover's thread. If it fails, the commit thread's probe repairs the store. */
static int lmdb_move(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;
    int rv;

    atomic_store(&lmdb->full, false);
    lock_tree(lmdb, store);
    rv = lmdb->env.env ? bring_full_side(lmdb) : hf_store_fail(store, HF_EIO, "LMDB is closed");
    unlock_tree(lmdb);
    return rv;
}

static bool lmdb_is_full(const struct hf_store *store)
{
    return atomic_load(&((struct lmdb *)store->state)->full);
}

/* ---- into the journal ---- */

/* Reserves memory for the operations of a batch before the batch is written. */
static bool reserve(struct lmdb *lmdb, const struct hf_batch *batch)
{
    return hf_buf_reserve(&newest(lmdb)->buf, hf_buf_len(&batch->buf)) != NULL;
}

static void remember(struct lmdb *lmdb, const struct hf_batch *batch)
{
    struct hf_bytes bytes = hf_buf_view(&batch->buf);

    HF_ASSERT(hf_buf_append(&newest(lmdb)->buf, bytes.data, bytes.len) == 0);
    newest(lmdb)->n_ops += batch->n_ops;
}

static void forget(struct lmdb *lmdb, const struct hf_batch *batch)
{
    newest(lmdb)->buf.end -= hf_buf_len(&batch->buf);
    newest(lmdb)->n_ops -= batch->n_ops;
}

/*
 * Checks that neither data.mdb nor the journal was moved away while the batch was written. Only
 * then is it certain that the next daemon will find the batch, so this comes before the
 * acknowledgement.
 */
static int check_files(struct lmdb *lmdb, struct hf_store *store)
{
    const struct hf_lmdb_dir *dir = &lmdb->env.dir;
    int rv = hf_lmdb_dir_check(store, dir);

    /* data.mdb is in its place, so a journal that is not ours belongs to another daemon. */
    if (rv == 0 && !hf_journal_is_ours(&lmdb->journal, dir->path))
        rv = hf_lmdb_dir_fail_fenced(store, dir);
    return rv;
}

static int sync_journal(struct lmdb *lmdb, struct hf_store *store)
{
    int error = hf_journal_sync(&lmdb->journal);

    return error ? hf_lmdb_dir_fail(store, &lmdb->env.dir, error, "cannot flush the journal")
                 : check_files(lmdb, store);
}

/* Flushes the journal. After a failed flush the kernel may have forgotten which pages are not on
 * the disk, so only a checkpoint to LMDB can make the records durable. */
static int lmdb_flush(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;
    int rv = sync_journal(lmdb, store);

    if (rv < 0)
        set_stale(lmdb, true);
    return rv;
}

static int write_journal(struct lmdb *lmdb, struct hf_store *store, const struct hf_batch *batch)
{
    int error = hf_journal_append(&lmdb->journal, batch);
    int rv = error ? hf_lmdb_dir_fail(store, &lmdb->env.dir, error, "cannot write the journal")
                   : sync_journal(lmdb, store);

    if (rv < 0) {
        set_stale(lmdb, true);
        store->in_doubt = true;
    }
    return rv;
}

static bool is_large(const struct lmdb *lmdb, const struct hf_batch *batch)
{
    return hf_buf_len(&batch->buf) > hf_journal_batch_max(&lmdb->layout);
}

/* True if the side in use has room for the batch, or if the journal could turn to the other side.
 * The caller holds the mutex. */
static bool find_room(struct lmdb *lmdb, const struct hf_batch *batch)
{
    if (lmdb->stale)
        return false;
    if (hf_journal_has_room(&lmdb->journal, batch))
        return true;
    if (oldest(lmdb)->n_ops > 0)
        return false; /* both sides of the journal are full */
    hf_journal_turn(&lmdb->journal);
    atomic_store(&lmdb->full, true);
    return true;
}

/* Makes room in the journal for a batch. It waits for the tree mutex only if both sides are full or
 * something failed before; batches that were appended and not flushed do not wait meanwhile. */
static int make_room(struct lmdb *lmdb, struct hf_store *store, const struct hf_batch *batch)
{
    bool found;
    bool stale;
    int rv = 0;

    for (;;) {
        pthread_mutex_lock(&lmdb->mutex);
        found = find_room(lmdb, batch);
        stale = lmdb->stale;
        if (found && !reserve(lmdb, batch))
            rv = hf_store_fail(store, HF_ENOMEM, "out of memory");
        pthread_mutex_unlock(&lmdb->mutex);
        if (found || rv < 0)
            return rv;
        if (!stale && is_unflushed(lmdb) && lmdb_flush(store) < 0)
            stale = true;
        lock_tree(lmdb, store);
        rv = hf_lmdb_env_ready(&lmdb->env);
        if (rv == 0)
            rv = stale ? checkpoint(lmdb) : bring_full_side(lmdb);
        unlock_tree(lmdb);
        store->in_doubt = false; /* an earlier operation failed, not this batch */
    }
}

static int apply_small(struct lmdb *lmdb, struct hf_store *store, const struct hf_batch *batch)
{
    int rv = make_room(lmdb, store, batch);

    if (rv == 0)
        rv = write_journal(lmdb, store, batch);
    if (rv < 0)
        return rv;
    pthread_mutex_lock(&lmdb->mutex);
    remember(lmdb, batch);
    pthread_mutex_unlock(&lmdb->mutex);
    return 0;
}

/* Ends the doubt after a commit failed, perhaps after it took effect. Opening the environment again
 * makes a commit: once that succeeds, it is certain which of the two trees counts. */
static void resolve_doubt(struct lmdb *lmdb, struct hf_store *store)
{
    const struct hf_hash_key *key = &lmdb->env.parts.journal_key;

    if (hf_lmdb_env_ready(&lmdb->env) == 0 && memcmp(key, &lmdb->next_key, sizeof(*key)) != 0)
        store->in_doubt = false;
}

/* Commits everything in the journal, and the batch, to LMDB. The caller holds the tree mutex. */
static int checkpoint_with(struct lmdb *lmdb, struct hf_store *store, const struct hf_batch *batch)
{
    int rv;

    pthread_mutex_lock(&lmdb->mutex);
    rv = reserve(lmdb, batch) ? 0 : hf_store_fail(store, HF_ENOMEM, "out of memory");
    if (rv == 0)
        remember(lmdb, batch);
    pthread_mutex_unlock(&lmdb->mutex);
    if (rv == 0) {
        rv = checkpoint(lmdb);
        if (rv < 0)
            forget(lmdb, batch);
    }
    return rv;
}

static int apply_large(struct lmdb *lmdb, struct hf_store *store, const struct hf_batch *batch)
{
    int rv = is_unflushed(lmdb) ? lmdb_flush(store) : 0;

    lock_tree(lmdb, store);
    /* If an earlier batch is in doubt, it is committed first, so that its failure is not taken for
     * this batch's. */
    if (rv < 0 || lmdb->stale) {
        rv = checkpoint(lmdb);
        store->in_doubt = false;
    }
    if (rv == 0)
        rv = checkpoint_with(lmdb, store, batch);
    if (rv < 0 && store->in_doubt)
        resolve_doubt(lmdb, store);
    unlock_tree(lmdb);
    return rv;
}

static int lmdb_apply(struct hf_store *store, const struct hf_batch *batch)
{
    struct lmdb *lmdb = store->state;
    int rv;

    exclude_writer(lmdb, true);
    rv = is_large(lmdb, batch) ? apply_large(lmdb, store, batch) : apply_small(lmdb, store, batch);
    exclude_writer(lmdb, false);
    return rv;
}

/* ---- batches that may be lost ---- */

/*
 * Appends a batch to the journal. The loop thread reports no failure: it submits the batch to the
 * commit thread instead, which meets the same obstacle. Bytes that may have reached the file are
 * void after the checkpoint that `stale` demands.
 */
static bool append(struct lmdb *lmdb, const struct hf_batch *batch)
{
    if (!find_room(lmdb, batch) || !reserve(lmdb, batch))
        return false;
    /* The next flush checks that data.mdb and the journal are in their places. */
    if (hf_journal_append(&lmdb->journal, batch) == 0 && !hf_journal_is_taken(&lmdb->journal)) {
        remember(lmdb, batch);
        return true;
    }
    lmdb->stale = true;
    return false;
}

static bool lmdb_write(struct hf_store *store, const struct hf_batch *batch)
{
    struct lmdb *lmdb = store->state;
    bool written;

    if (!is_unflushed(lmdb) || is_large(lmdb, batch))
        return false;
    pthread_mutex_lock(&lmdb->mutex);
    written = !lmdb->excluded && append(lmdb, batch);
    pthread_mutex_unlock(&lmdb->mutex);
    return written;
}

/* ---- */

/* Finds out whether the disk accepts writes, by writing: nothing else can tell. */
static int lmdb_probe(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;
    int rv;

    exclude_writer(lmdb, true);
    lock_tree(lmdb, store);
    rv = checkpoint(lmdb);
    unlock_tree(lmdb);
    exclude_writer(lmdb, false);
    return rv;
}

/* Copies the operations that only the journal has, and begins an LMDB read transaction at the same
 * moment. */
static int begin_snapshot(struct lmdb *lmdb, struct hf_store *store, struct hf_batch *pending,
                          MDB_txn **out)
{
    int rv;

    lock_tree(lmdb, store);
    pthread_mutex_lock(&lmdb->mutex);
    rv = hf_batch_append(pending, oldest(lmdb));
    if (rv == 0)
        rv = hf_batch_append(pending, newest(lmdb));
    pthread_mutex_unlock(&lmdb->mutex);
    if (rv < 0)
        rv = hf_store_fail(store, rv, "out of memory");
    else
        rv = hf_lmdb_env_begin_snapshot(&lmdb->env, out);
    unlock_tree(lmdb);
    return rv;
}

/*
 * Visits all records as of one moment, on any thread, while others use the store.
 */
static int lmdb_load(struct hf_store *store, hf_store_visit visit, void *ctx)
{
    struct lmdb *lmdb = store->state;
    struct hf_lmdb_snapshot snapshot;
    int rv;

    hf_lmdb_snapshot_init(&snapshot, store);
    rv = begin_snapshot(lmdb, store, &snapshot.newer, &snapshot.txn);
    if (rv == 0) {
        rv = hf_lmdb_snapshot_visit(&lmdb->env, &snapshot, store, visit, ctx);
        hf_lmdb_env_end_snapshot(&lmdb->env, snapshot.txn);
    }
    hf_lmdb_snapshot_free(&snapshot);
    return rv;
}

static void free_state(struct hf_store *store, struct lmdb *lmdb)
{
    hf_changes_free(&lmdb->changes);
    hf_batch_free(&lmdb->pending[0]);
    hf_batch_free(&lmdb->pending[1]);
    pthread_mutex_destroy(&lmdb->mutex);
    pthread_mutex_destroy(&lmdb->tree);
    hf_free(store->alloc, lmdb);
}

/* Finds the newest record of the server: in the operations read from the journal, or else in the
 * LMDB tree. */
static int find_server(struct lmdb *lmdb, struct hf_record_server *out)
{
    uint64_t id = HF_LMDB_SERVER;
    MDB_val key = hf_lmdb_number(&id);
    struct hf_op op;
    MDB_val value;
    MDB_txn *txn;
    int rv = HF_ENOENT;

    if (hf_lmdb_env_begin_snapshot(&lmdb->env, &txn) == 0) {
        if (mdb_get(txn, lmdb->env.state, &key, &value) == 0)
            rv = hf_record_decode_server(hf_bytes(value.mv_data, value.mv_size), out);
        hf_lmdb_env_end_snapshot(&lmdb->env, txn);
    }
    for (size_t cursor = 0; hf_batch_next(newest(lmdb), &cursor, &op);) {
        if (op.kind == HF_RECORD_SERVER && op.type == HF_OP_PUT)
            rv = hf_record_decode_server(op.value, out);
    }
    return rv;
}

/* Records in the server's record that locks were lost, so that the next start does not continue as
 * if nothing had happened (REC-01). */
static int note_loss(struct lmdb *lmdb)
{
    struct hf_record_server server;

    if (find_server(lmdb, &server) < 0 || server.continuity == HF_CONTINUITY_NONE)
        return 0;
    server.continuity = HF_CONTINUITY_LOST;
    return hf_batch_put_server(newest(lmdb), &server) < 0
               ? hf_store_fail(lmdb->env.store, HF_ENOMEM, "out of memory")
               : 0;
}

/* Reads the previous daemon's journal and appends its operations to pending. */
static int read_journal(struct lmdb *lmdb, const uint8_t boot_id[HF_BOOT_ID_SIZE])
{
    const struct hf_lmdb_dir *dir = &lmdb->env.dir;
    struct hf_journal_reading reading = hf_lmdb_parts_reading(&lmdb->env.parts, boot_id);
    int error = hf_journal_move_aside(dir->fd);

    if (error)
        return hf_lmdb_env_fail(&lmdb->env, error, "cannot move the journal aside");
    error = hf_journal_read(dir->fd, &reading, newest(lmdb));
    if (!error)
        return 0;
    if (hf_lmdb_parts_loss_accepted(dir, error))
        return note_loss(lmdb);
    /*
     * Do not commit the part that was read when closing: that would void the rest of the journal.
     */
    hf_batch_clear(newest(lmdb));
    return hf_lmdb_parts_fail(lmdb->env.store, dir, error);
}

/*
 * Commits all pending operations to LMDB under a new key and with no journal. That voids the old
 * journal, so a new file can replace it; a second checkpoint records the new file's id
 * (lmdb_parts.h).
 */
static int renew_journal(struct lmdb *lmdb, const struct hf_journal_layout *layout)
{
    int error;
    int rv;

    lmdb->journal.id = 0;
    rv = checkpoint_as(lmdb, &hf_journal_single);
    if (rv < 0)
        return rv;
    hf_journal_close(&lmdb->journal);
    error = hf_journal_create(&lmdb->journal, lmdb->env.dir.fd, layout);
    if (error)
        return hf_lmdb_env_fail(&lmdb->env, error, "cannot make the journal");
    return checkpoint_as(lmdb, layout);
}

/* Locks may have been granted since the store's files were copied, and their clients hold them. */
static int note_copy(struct lmdb *lmdb)
{
    if (!hf_lmdb_parts_is_copy(&lmdb->env.parts, &lmdb->env.dir))
        return 0;
    hf_log(HF_LOG_WARN, "the store's files were copied here: what was locked since is unknown",
           HF_STR("path", lmdb->env.dir.path),
           HF_STR("advice", "holdfastctl backup and holdfastd --restore keep more of it"));
    return note_loss(lmdb);
}

static int recover(struct lmdb *lmdb, const uint8_t boot_id[HF_BOOT_ID_SIZE])
{
    int rv = read_journal(lmdb, boot_id);

    if (rv == 0)
        rv = note_copy(lmdb);
    if (rv == 0)
        rv = renew_journal(lmdb, &lmdb->layout);
    if (rv == 0)
        hf_lmdb_parts_forget_loss(&lmdb->env.dir);
    return rv;
}

/*
 * Closes the store. Operations that cannot be brought into LMDB now stay in the journal, where the
 * next start finds them. Otherwise the journal is left empty, with one side, so that any version
 * can read it (lmdb_parts.h). One case is excepted: a daemon run by root in the directory of
 * another user would leave a journal that belongs to root and that, once confined, it cannot give
 * away.
 */
static void lmdb_close(struct hf_store *store)
{
    struct lmdb *lmdb = store->state;

    lmdb->env.store = store;
    if (lmdb->env.env && lmdb->recovered && !hf_lmdb_dir_is_of_another(&lmdb->env.dir))
        (void)renew_journal(lmdb, &hf_journal_single);
    hf_journal_close(&lmdb->journal);
    hf_lmdb_env_close(&lmdb->env);
    free_state(store, lmdb);
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
    pthread_mutex_init(&lmdb->tree, NULL);
    lmdb->layout = config->unflushed ? hf_journal_unflushed : hf_journal_flushed;
    if (config->side_bytes)
        lmdb->layout.side_bytes = config->side_bytes;
    if (config->unflushed)
        memcpy(lmdb->boot_id, config->boot_id, sizeof(lmdb->boot_id));
    rv = hf_lmdb_env_open(&lmdb->env, store, config);
    if (rv < 0) {
        free_state(store, lmdb);
        return rv;
    }
    rv = recover(lmdb, config->boot_id);
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
    .flush = lmdb_flush,
    .move = lmdb_move,
    .is_full = lmdb_is_full,
    .load = lmdb_load,
    .read = hf_lmdb_read,
};
