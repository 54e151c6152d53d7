/* Declarations that only the files of core/table share. */
#ifndef HF_CORE_TABLE_PRIVATE_H
#define HF_CORE_TABLE_PRIVATE_H

#include "core/table/table.h"

void hf_file_queue_init(struct hf_file_queue *queue, struct hf_file *file);

/* Returns the hash of a handle in table->files. */
uint64_t hf_file_hash(const struct hf_core *core, struct hf_bytes fh);

/* Returns the hash of an owner in table->owners. */
uint64_t hf_owner_hash(const struct hf_core *core, uint64_t client_id, int32_t svid,
                       struct hf_bytes oh);

/* Add a lock to its owner's ring of newest locks, or remove a lock from that ring or the owner's
 * tree (own.c). */
void hf_own_insert(struct hf_core *core, struct hf_lock *lock);
void hf_own_remove(const struct hf_core *core, struct hf_lock *lock);

/* Add and remove a lock in a transaction, with its record if it has one. keep_record: another lock
 * takes over the id and the record. They return 0 or HF_ENOMEM. */
int hf_lock_add(struct hf_txn *txn, struct hf_file *file, const struct hf_want *want, uint64_t id,
                int64_t acquired_at_ms);
int hf_lock_take_out(struct hf_txn *txn, struct hf_lock *lock, bool keep_record);

/* Tells that the lock, which was taken out, is no longer held as before in this range
 * (ending.h). */
void hf_lock_ends(const struct hf_core *core, struct hf_lock *lock, uint64_t first, uint64_t last,
                  enum hf_end end);

/*
 * Returns by how many hf_table_set() would increase the number of the owner's locks, which may be
 * negative.
 */
enum { HF_TABLE_GROWTH_MAX = 2 };
int hf_table_growth(const struct hf_core *core, const struct hf_file *file,
                    const struct hf_want *want);

/* True if an UNLOCK of this range would split one lock into two. */
bool hf_table_splits(const struct hf_core *core, const struct hf_file *file,
                     const struct hf_want *want);

#endif
