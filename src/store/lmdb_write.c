#include "store/lmdb_write.h"

#include <string.h>

#include "store/lmdb_read.h"

/* The greatest id of an LMDB tree. New records have greater ids and can be appended. */
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
    uint64_t id = hf_lmdb_key_of(op->kind, op->id);
    MDB_val key = hf_lmdb_number(&id);
    MDB_val value = {op->value.len, (void *)op->value.data};
    int error;

    if (op->type == HF_OP_PUT) {
        /* MDB_APPEND fills pages completely; a plain put would leave each page half empty. */
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

/* Applies all operations on records of one kind, which must be ordered by id. */
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

int hf_lmdb_write(struct hf_lmdb_env *env, MDB_txn *txn, const struct hf_changes *changes)
{
    int error = 0;

    for (size_t from = 0; from < changes->count && !error;) {
        const struct hf_op *ops = &changes->ops[from];
        error = write_run(txn, hf_lmdb_tree(env, ops->kind), ops, hf_changes_run(changes, &from));
    }
    return error;
}
