/*
 * A batch boiled down to what it comes to: the last operation on each record, ordered by kind and
 * id. A lock taken and given back within one batch costs a store one delete of something that is
 * not there, instead of a write and a delete; and ascending ids touch each page of a tree once.
 *
 * A delete stays a delete even where the same batch put the record: an older put may be durable.
 *
 * The array is reused from batch to batch; the operations in it are views of the batch.
 */
#ifndef HF_STORE_CHANGES_H
#define HF_STORE_CHANGES_H

#include <stddef.h>

#include "base/alloc.h"
#include "core/record.h"

struct hf_changes {
    struct hf_op *ops;
    size_t count;
    size_t size; /* operations allocated */
    const struct hf_alloc *alloc;
};

void hf_changes_init(struct hf_changes *changes, const struct hf_alloc *alloc);
void hf_changes_free(struct hf_changes *changes);

/* HF_ENOMEM, or 0. */
int hf_changes_collapse(struct hf_changes *changes, const struct hf_batch *batch);

/* The run of operations of one kind that starts at *from; *from then stands behind it. */
size_t hf_changes_run(const struct hf_changes *changes, size_t *from);

#endif
