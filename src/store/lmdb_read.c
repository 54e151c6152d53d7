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

int hf_lmdb_list(struct hf_lmdb_env *env, MDB_txn *txn, enum hf_record_kind kind,
                 hf_store_visit visit, void *ctx)
{
    MDB_cursor *cursor;
    MDB_val key;
    MDB_val value;
    int rv = 0;
    int error = mdb_cursor_open(txn, hf_lmdb_tree(env, kind), &cursor);

    if (error)
        return hf_lmdb_env_fail(env, error, "cannot read");
    while (rv == 0 && !(error = mdb_cursor_get(cursor, &key, &value, MDB_NEXT))) {
        uint64_t number;

        memcpy(&number, key.mv_data, sizeof(number));
        if (kind != HF_RECORD_SERVER || number == HF_LMDB_SERVER)
            rv = visit(ctx, kind, hf_bytes(value.mv_data, value.mv_size));
    }
    mdb_cursor_close(cursor);
    return rv == 0 && error != MDB_NOTFOUND ? hf_lmdb_env_fail(env, error, "cannot read") : rv;
}

/* ---- offline ---- */

static int add_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    return hf_batch_put_encoded(ctx, kind, record);
}

/* Appends all that is in the trees, then all that is in the journal. */
static int gather(struct hf_lmdb_env *env, const uint8_t boot_id[HF_BOOT_ID_SIZE],
                  struct hf_batch *out)
{
    static const enum hf_record_kind KINDS[] = {HF_RECORD_SERVER, HF_RECORD_CLIENT, HF_RECORD_LOCK};
    struct hf_journal_reading reading = hf_lmdb_parts_reading(&env->parts, boot_id);
    MDB_txn *txn;
    int error;
    int rv = hf_lmdb_env_begin_read(env, &txn);

    if (rv < 0)
        return rv;
    for (size_t i = 0; i < HF_COUNT_OF(KINDS) && rv == 0; i++) {
        rv = hf_lmdb_list(env, txn, KINDS[i], add_record, out);
        if (rv == HF_EFORMAT || rv == HF_EVERSION)
            rv = hf_store_blame_record(env->store, KINDS[i], rv);
    }
    mdb_txn_abort(txn);
    if (rv < 0)
        return rv;
    error = hf_journal_read(env->dir.fd, &reading, out);
    return error ? hf_lmdb_parts_fail(env->store, &env->dir, error) : 0;
}

/* A store in memory resolves what the batch puts and deletes again. */
static int visit_net_effect(const struct hf_alloc *alloc, const struct hf_batch *batch,
                            hf_store_visit visit, void *ctx)
{
    static const struct hf_store_config config = {.backend = "memory"};
    struct hf_store copy = {.alloc = alloc};
    int rv = hf_store_memory.open(&copy, &config);

    if (rv < 0)
        return rv;
    copy.backend = &hf_store_memory;
    rv = hf_store_apply(&copy, batch);
    if (rv == 0)
        rv = hf_store_load(&copy, visit, ctx);
    hf_store_close(&copy);
    return rv;
}

int hf_lmdb_read(struct hf_store *store, const struct hf_store_config *config, hf_store_visit visit,
                 void *ctx)
{
    struct hf_lmdb_env env;
    struct hf_batch batch;
    int rv;

    if (config->path && access(config->path, F_OK) < 0 && errno == ENOENT)
        return hf_store_fail(store, HF_ENOENT, "there is no store in %s: it does not exist",
                             config->path);
    rv = hf_lmdb_env_open_to_read(&env, store, config->path);
    if (rv < 0)
        return rv;
    hf_batch_init(&batch, store->alloc);
    hf_lmdb_dir_give(&env.dir);
    rv = gather(&env, config->boot_id, &batch);
    if (rv == 0)
        rv = visit_net_effect(store->alloc, &batch, visit, ctx);
    hf_batch_free(&batch);
    hf_lmdb_env_close(&env);
    return rv;
}
