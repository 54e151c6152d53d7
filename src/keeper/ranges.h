/*
 * Records which bytes of one file are held in which mode, as spans in the order of their offsets,
 * none overlapping, neighbours of one mode joined. It mirrors what the kernel has for one open file
 * description, so that the keeper knows without asking the kernel what a claim changes. This
 * module makes no system call.
 *
 *     bytes   0          10         20         30
 *             ├──shared──┤├exclusive┤          ├──shared── ... to the end
 *
 * Offsets are those of the kernel, 63 bits; first and last are inclusive.
 */
#ifndef HF_KEEPER_RANGES_H
#define HF_KEEPER_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "keeper/protocol.h"

#define HF_RANGE_LAST ((uint64_t)INT64_MAX)

struct hf_span {
    uint64_t first, last;
    enum hf_keeper_mode mode; /* the mode of the bytes, never NONE */
};

struct hf_ranges {
    struct hf_span *spans; /* points to `one`, or to allocated memory */
    uint32_t count, capacity;
    struct hf_span one; /* the span of a file with one lock, as most have */
};

void hf_ranges_init(struct hf_ranges *ranges);
void hf_ranges_free(struct hf_ranges *ranges);

/* Makes room for this many spans in all. Returns HF_ENOMEM without memory. */
int hf_ranges_reserve(struct hf_ranges *ranges, uint32_t count);

/* Returns how many spans there would be after hf_ranges_set(). */
uint32_t hf_ranges_count_after(const struct hf_ranges *ranges, const struct hf_span *part);

/* Sets part to exactly its mode, which may be NONE. There must be room for hf_ranges_count_after()
 * spans. */
void hf_ranges_set(struct hf_ranges *ranges, const struct hf_span *part);

/* Returns the longest stretch from `at` on, up to `last`, that has one mode (NONE: a gap). */
struct hf_span hf_ranges_at(const struct hf_ranges *ranges, uint64_t at, uint64_t last);

/* True if every byte of part is held in its mode or a stronger one. */
bool hf_ranges_cover(const struct hf_ranges *ranges, const struct hf_span *part);

/* True if any byte is held exclusively. */
bool hf_ranges_any_exclusive(const struct hf_ranges *ranges);

/* Converts the numbers of the protocol to inclusive ones of 63 bits. False: the kernel can lock no
 * byte of the range, so there is nothing to lock. */
bool hf_range_clamp(uint64_t offset, uint64_t length, struct hf_span *out);

#endif
