/*
 * How values are spread, in buckets whose upper bounds are powers of two: finding the bucket is one
 * instruction, so that timing a request costs no more than reading the clock (ADM-02). Owned by
 * whoever observes; read by whoever shows it, on the same thread.
 */
#ifndef HF_BASE_HISTOGRAM_H
#define HF_BASE_HISTOGRAM_H

#include <stdint.h>

enum { HF_HISTOGRAM_BUCKETS = 36 }; /* the last one takes everything beyond 2^34: 17 s in ns */

struct hf_histogram {
    uint64_t counts[HF_HISTOGRAM_BUCKETS]; /* [i]: more than 2^(i-1), at most 2^i */
    uint64_t sum;
};

/* The same value, n times. */
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
