/*
 * The net effect of a batch: the last operation on each record, ordered by kind and id. A lock that
 * is granted and released within one batch costs the store one delete of a record that does not
 * exist, instead of a write and a delete; and with ascending ids, each page of a tree is touched
 * once.
 *
 * A delete stays a delete even if its batch also put the record, because an older version of the
 * record may be durable.
 *
 * The arrays are reused from batch to batch; the operations in them point into the batch.
 */
#ifndef HF_STORE_CHANGES_H
#define HF_STORE_CHANGES_H

#include <stddef.h>

#include "base/alloc.h"
#include "core/record.h"

struct hf_change;

struct hf_changes {
    struct hf_op *ops;
    size_t count;
    size_t size;             /* how many operations the arrays have room for */
    struct hf_change *space; /* room to sort the operations: two places for each */
    const struct hf_alloc *alloc;
};

void hf_changes_init(struct hf_changes *changes, const struct hf_alloc *alloc);
void hf_changes_free(struct hf_changes *changes);

/* Computes the net effect of the batch. Returns 0 or HF_ENOMEM. */
int hf_changes_collapse(struct hf_changes *changes, const struct hf_batch *batch);

/* True if the net effect contains an operation on this record. */
bool hf_changes_find(const struct hf_changes *changes, enum hf_record_kind kind, uint64_t id);

/* Returns the operations of one kind that begin at index *from, and moves *from behind them. */
size_t hf_changes_run(const struct hf_changes *changes, size_t *from);

#endif
