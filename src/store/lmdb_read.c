#include "store/lmdb_read.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "store/backend.h"
#include "store/journal.h"

MDB_dbi hf_lmdb_tree(const struct hf_lmdb_env *env, enum hf_record_kind kind)
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

uint64_t hf_lmdb_key_of(enum hf_record_kind kind, uint64_t id)
{
    return kind == HF_RECORD_SERVER ? HF_LMDB_SERVER : id;
}

void hf_lmdb_snapshot_init(struct hf_lmdb_snapshot *snapshot, struct hf_store *store)
{
    snapshot->txn = NULL;
    hf_batch_init(&snapshot->newer, store->alloc);
    hf_changes_init(&snapshot->changes, store->alloc);
}

void hf_lmdb_snapshot_free(struct hf_lmdb_snapshot *snapshot)
{
    hf_changes_free(&snapshot->changes);
    hf_batch_free(&snapshot->newer);
}

/* Merges the records of an LMDB tree with newer operations on them; both are ordered by key. */
struct merge {
    enum hf_record_kind kind;
    const struct hf_op *op; /* the next operation */
    const struct hf_op *end;
    hf_store_visit visit;
    void *ctx;
};

/* Visits the records that operations put before `key`, which is the tree's next key. With `all`,
 * visits the records of all operations that are left. */
static int visit_newer(struct merge *m, bool all, uint64_t key)
{
    int rv = 0;

    for (; rv == 0 && m->op < m->end && (all || hf_lmdb_key_of(m->kind, m->op->id) < key); m->op++)
        if (m->op->type == HF_OP_PUT)
            rv = m->visit(m->ctx, m->kind, m->op->value);
    return rv;
}

static int visit_entry(struct merge *m, uint64_t key, struct hf_bytes record)
{
    int rv = visit_newer(m, false, key);

    if (rv < 0)
        return rv;
    /* An operation on this key replaces the record in the tree. */
    if (m->op < m->end && hf_lmdb_key_of(m->kind, m->op->id) == key)
        return visit_newer(m, false, key + 1);
    return m->visit(m->ctx, m->kind, record);
}

static int visit_tree(MDB_cursor *cursor, struct merge *m, int *error)
{
    MDB_val key;
    MDB_val value;
    int rv = 0;

    while (rv == 0 && !(*error = mdb_cursor_get(cursor, &key, &value, MDB_NEXT))) {
        uint64_t number;

        memcpy(&number, key.mv_data, sizeof(number));
        if (m->kind != HF_RECORD_SERVER || number == HF_LMDB_SERVER)
            rv = visit_entry(m, number, hf_bytes(value.mv_data, value.mv_size));
    }
    if (rv == 0 && *error == MDB_NOTFOUND) {
        *error = 0;
        rv = visit_newer(m, true, 0);
    }
    return rv;
}

static int visit_kind(const struct hf_lmdb_env *env, MDB_txn *txn, struct merge *m,
                      struct hf_store *store)
{
    MDB_cursor *cursor;
    int error = mdb_cursor_open(txn, hf_lmdb_tree(env, m->kind), &cursor);
    int rv = 0;

    if (!error) {
        rv = visit_tree(cursor, m, &error);
        mdb_cursor_close(cursor);
    }
    return rv == 0 && error ? hf_lmdb_fail(store, &env->dir, error, "cannot read") : rv;
}

int hf_lmdb_snapshot_visit(const struct hf_lmdb_env *env, struct hf_lmdb_snapshot *snapshot,
                           struct hf_store *store, hf_store_visit visit, void *ctx)
{
    static const enum hf_record_kind KINDS[] = {HF_RECORD_SERVER, HF_RECORD_CLIENT, HF_RECORD_LOCK};
    const struct hf_changes *changes = &snapshot->changes;
    size_t from = 0;
    int rv = 0;

    if (hf_changes_collapse(&snapshot->changes, &snapshot->newer) < 0)
        return hf_store_fail(store, HF_ENOMEM, "out of memory");
    for (size_t i = 0; i < HF_COUNT_OF(KINDS) && rv == 0; i++) {
        struct merge m = {KINDS[i], changes->ops + from, NULL, visit, ctx};

        if (from < changes->count && changes->ops[from].kind == KINDS[i])
            (void)hf_changes_run(changes, &from);
        m.end = changes->ops + from;
        rv = visit_kind(env, snapshot->txn, &m, store);
    }
    return rv;
}

/* ---- offline ---- */

static int read_snapshot(struct hf_lmdb_env *env, const uint8_t boot_id[HF_BOOT_ID_SIZE],
                         hf_store_visit visit, void *ctx)
{
    struct hf_journal_reading reading = hf_lmdb_parts_reading(&env->parts, boot_id);
    struct hf_lmdb_snapshot snapshot;
    int error;
    int rv;

    hf_lmdb_snapshot_init(&snapshot, env->store);
    error = hf_journal_read(env->dir.fd, &reading, &snapshot.newer);
    rv = error ? hf_lmdb_parts_fail(env->store, &env->dir, error)
               : hf_lmdb_env_begin_snapshot(env, &snapshot.txn);
    if (rv == 0) {
        rv = hf_lmdb_snapshot_visit(env, &snapshot, env->store, visit, ctx);
        hf_lmdb_env_end_snapshot(env, snapshot.txn);
    }
    hf_lmdb_snapshot_free(&snapshot);
    return rv;
}

int hf_lmdb_read(struct hf_store *store, const struct hf_store_config *config, hf_store_visit visit,
                 void *ctx)
{
    struct hf_lmdb_env env;
    int rv;

    if (config->path && access(config->path, F_OK) < 0 && errno == ENOENT)
        return hf_store_fail(store, HF_ENOENT, "there is no store in %s: it does not exist",
                             config->path);
    rv = hf_lmdb_env_open_to_read(&env, store, config->path);
    if (rv < 0)
        return rv;
    rv = read_snapshot(&env, config->boot_id, visit, ctx);
    hf_lmdb_env_close(&env);
    return rv;
}
