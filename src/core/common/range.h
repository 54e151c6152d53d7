/*
 * Byte ranges. On the wire a range is offset and length, with length 0 for "to the end"; in the
 * core it is its first and last byte, both included, so that the end of a 64-bit file needs no 65th
 * bit (NLM-02).
 */
#ifndef HF_CORE_COMMON_RANGE_H
#define HF_CORE_COMMON_RANGE_H

#include <stdbool.h>
#include <stdint.h>

struct hf_range {
    uint64_t first, last;
};

/* Returns false if the range would end beyond 2^64 - 1 (NLM4_FBIG). */
bool hf_range_from_wire(uint64_t offset, uint64_t length, struct hf_range *out);
uint64_t hf_range_wire_length(uint64_t first, uint64_t last);

static inline bool hf_range_overlap(uint64_t a_first, uint64_t a_last, uint64_t b_first,
                                    uint64_t b_last)
{
    return a_first <= b_last && b_first <= a_last;
}

#endif
