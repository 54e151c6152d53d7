/*
 * Records what the kernel holds of one file, as an ordered array of ranges that neither overlap nor
 * touch in the same mode. A file has few of them (config.claim_ranges), so a change that moves the
 * rest of the array costs less than a tree would.
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

/* Returns the mode of a byte, and the last byte up to which it is the same. */
enum hf_claim_mode hf_sum_at(const struct hf_sum *sum, uint64_t byte, uint64_t *last);

/* True if every byte of the range is held in this mode or a stronger one. */
bool hf_sum_covers(const struct hf_sum *sum, uint64_t first, uint64_t last,
                   enum hf_claim_mode mode);

/* Returns how many ranges the sum will have, at most, when hf_sum_set() has given a part of one of
 * its ranges a weaker mode. */
uint32_t hf_sum_n_lowered(const struct hf_sum *sum, uint64_t first, uint64_t last,
                          enum hf_claim_mode mode);

/* Makes room for n changes by hf_sum_set(), which cannot fail then. Returns HF_ENOMEM without
 * memory. */
int hf_sum_reserve(struct hf_sum *sum, const struct hf_alloc *alloc, uint32_t n);

/* hf_sum_raise() gives every byte of the range at least the mode, hf_sum_set() exactly the mode.
 * HF_ENOMEM: nothing changed. */
int hf_sum_raise(struct hf_sum *sum, const struct hf_alloc *alloc, uint64_t first, uint64_t last,
                 enum hf_claim_mode mode);
int hf_sum_set(struct hf_sum *sum, const struct hf_alloc *alloc, uint64_t first, uint64_t last,
               enum hf_claim_mode mode);

#endif
