/*
 * A histogram whose bucket bounds are powers of two. Finding a value's bucket takes one
 * instruction, so that timing a request costs little more than reading the clock (ADM-02). Not
 * thread-safe: one thread updates and reads a histogram.
 */
#ifndef HF_BASE_HISTOGRAM_H
#define HF_BASE_HISTOGRAM_H

#include <stdint.h>

enum { HF_HISTOGRAM_BUCKETS = 36 }; /* the last bucket takes all values above 2^34: 17 s in ns */

struct hf_histogram {
    uint64_t counts[HF_HISTOGRAM_BUCKETS]; /* bucket i counts values above 2^(i-1), up to 2^i */
    uint64_t sum;
};

/* Counts a value n times. */
static inline void hf_histogram_observe_n(struct hf_histogram *histogram, uint64_t value,
                                          uint64_t n)
{
    unsigned bucket = value <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(value - 1);

    if (bucket >= HF_HISTOGRAM_BUCKETS)
        bucket = HF_HISTOGRAM_BUCKETS - 1;
    histogram->counts[bucket] += n;
    histogram->sum += value * n;
}

static inline void hf_histogram_observe(struct hf_histogram *histogram, uint64_t value)
{
    hf_histogram_observe_n(histogram, value, 1);
}

static inline uint64_t hf_histogram_count(const struct hf_histogram *histogram)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < HF_HISTOGRAM_BUCKETS; i++)
        count += histogram->counts[i];
    return count;
}

#endif
