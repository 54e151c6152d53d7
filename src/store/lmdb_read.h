/* Reading the trees of an LMDB store: by the daemon that has it, and offline without changing it.
 */
#ifndef HF_STORE_LMDB_READ_H
#define HF_STORE_LMDB_READ_H

#include "store/lmdb_env.h"

/* The tree that holds the records of a kind. */
MDB_dbi hf_lmdb_tree(const struct hf_lmdb_env *env, enum hf_record_kind kind);

/* Visits all records of a kind. */
int hf_lmdb_list(struct hf_lmdb_env *env, MDB_txn *txn, enum hf_record_kind kind,
                 hf_store_visit visit, void *ctx);

/*
 * The backend's read (backend.h). Copies all records to memory, applies the journal to the copy and
 * visits that: the files stay as they are.
 */
int hf_lmdb_read(struct hf_store *store, const struct hf_store_config *config, hf_store_visit visit,
                 void *ctx);

#endif
