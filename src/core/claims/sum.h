/*
 * A sum records which ranges of one file the kernel holds: an ordered array of spans that neither
 * overlap nor touch in the same mode. A file has few of them (config.claim_ranges), so moving the
 * rest of the array at a change costs less than a tree would.
 */
#ifndef HF_CORE_CLAIMS_SUM_H
#define HF_CORE_CLAIMS_SUM_H

#include "base/alloc.h"
#include "core/claim.h"

struct hf_span {
    uint64_t first, last;
    enum hf_claim_mode mode; /* never NONE */
};

struct hf_sum {
    struct hf_span *at;
    uint32_t n, room;
};

void hf_sum_free(struct hf_sum *sum, const struct hf_alloc *alloc);

/* Returns the mode of a byte; *last is the last byte up to which the mode is the same. */
enum hf_claim_mode hf_sum_at(const struct hf_sum *sum, uint64_t byte, uint64_t *last);

/* True if every byte of the range has this mode in the sum, or a stronger one. */
bool hf_sum_covers(const struct hf_sum *sum, uint64_t first, uint64_t last,
                   enum hf_claim_mode mode);

/* Returns how many spans the sum will have at most after hf_sum_set() has weakened the mode of a
 * part of one span. */
uint32_t hf_sum_n_lowered(const struct hf_sum *sum, uint64_t first, uint64_t last,
                          enum hf_claim_mode mode);

/* Makes room for n calls of hf_sum_set(), which then cannot fail. Returns 0 or HF_ENOMEM. */
int hf_sum_reserve(struct hf_sum *sum, const struct hf_alloc *alloc, uint32_t n);

/* hf_sum_raise() gives every byte of the range at least this mode, hf_sum_set() exactly this mode.
 * On HF_ENOMEM nothing has changed. */
int hf_sum_raise(struct hf_sum *sum, const struct hf_alloc *alloc, uint64_t first, uint64_t last,
                 enum hf_claim_mode mode);
int hf_sum_set(struct hf_sum *sum, const struct hf_alloc *alloc, uint64_t first, uint64_t last,
               enum hf_claim_mode mode);

#endif
