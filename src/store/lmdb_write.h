/* Writes records to the trees of an LMDB environment. */
#ifndef HF_STORE_LMDB_WRITE_H
#define HF_STORE_LMDB_WRITE_H

#include "store/changes.h"
#include "store/lmdb_env.h"

/* Applies the operations of a batch, ordered by kind and id, to the trees. Returns 0, or a code of
 * LMDB. */
int hf_lmdb_write(struct hf_lmdb_env *env, MDB_txn *txn, const struct hf_changes *changes);

#endif
