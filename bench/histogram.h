/*
 * How often which latency occurred: buckets that grow with the value, 64 to each power of two, so a
 * percentile is right to within 1.6 %.
 */
#ifndef HF_BENCH_HISTOGRAM_H
#define HF_BENCH_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_SUB = 64, HISTOGRAM_BUCKETS = 64 * HISTOGRAM_SUB };

struct histogram {
    uint64_t count;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

static inline unsigned histogram_index(uint64_t ns)
{
    unsigned log2 = 63U - (unsigned)__builtin_clzll(ns | 1);
    unsigned shift = log2 > 6 ? log2 - 6 : 0;

    return shift * HISTOGRAM_SUB + (unsigned)(ns >> shift);
}

static inline void histogram_add(struct histogram *h, uint64_t ns)
{
    h->count++;
    h->buckets[histogram_index(ns)]++;
}

/* The smallest value that is at least as large as this part of all values. */
static inline uint64_t histogram_quantile(const struct histogram *h, double part)
{
    uint64_t wanted = (uint64_t)((double)h->count * part);
    uint64_t seen = 0;

    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen > wanted) {
            unsigned shift = i >= 2 * HISTOGRAM_SUB ? i / HISTOGRAM_SUB - 1 : 0;
            return (uint64_t)(i - shift * HISTOGRAM_SUB) << shift;
        }
    }
    return 0;
}

#endif
