/*
 * Reads the trees of an LMDB store: for the daemon that has it open, and for tools that read a
 * closed store without changing it.
 */
#ifndef HF_STORE_LMDB_READ_H
#define HF_STORE_LMDB_READ_H

#include "store/changes.h"
#include "store/lmdb_env.h"

/* Returns the tree that holds the records of a kind. */
MDB_dbi hf_lmdb_tree(const struct hf_lmdb_env *env, enum hf_record_kind kind);

/* Returns the key of a record in its tree. */
uint64_t hf_lmdb_key_of(enum hf_record_kind kind, uint64_t id);

/* All records of a store: those in LMDB, changed by the operations that only the journal has. */
struct hf_lmdb_snapshot {
    MDB_txn *txn;
    struct hf_batch newer;
    struct hf_changes changes;
};

void hf_lmdb_snapshot_init(struct hf_lmdb_snapshot *snapshot, struct hf_store *store);
void hf_lmdb_snapshot_free(struct hf_lmdb_snapshot *snapshot);

/* Visits all records of the snapshot, in the order of hf_store_load(). `store` receives the text of
 * a failure. */
int hf_lmdb_snapshot_visit(const struct hf_lmdb_env *env, struct hf_lmdb_snapshot *snapshot,
                           struct hf_store *store, hf_store_visit visit, void *ctx);

/* Implements the function `read` of the backend (backend.h). It changes no file. */
int hf_lmdb_read(struct hf_store *store, const struct hf_store_config *config, hf_store_visit visit,
                 void *ctx);

#endif
