/*
 * An allocator for code under test: it counts what is live, to find leaks, and fails the
 * allocations that a test chooses. The test's own memory comes from malloc() and never fails.
 */
#ifndef HF_TESTS_FAULTY_HEAP_H
#define HF_TESTS_FAULTY_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"

struct faulty_heap {
    long after;      /* this many allocations succeed, then they fail; negative: none fails */
    uint64_t fail_n; /* how many fail in a row; 0: all, until `after` is set again */
    bool failed;     /* an allocation has failed since the test last cleared this */
    uint64_t count;  /* counts allocations and resizes, the failed ones included */
    long live;       /* blocks not yet released: 0 at the end of a test that leaks nothing */

    void (*on_failure)(void *ctx); /* NULL: not called */
    void *ctx;
};

struct hf_alloc faulty_alloc(struct faulty_heap *heap);

#endif
