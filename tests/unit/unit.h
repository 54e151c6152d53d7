/* What every unit test includes: cmocka in the order it wants, and a failing allocator. */
#ifndef HF_TESTS_UNIT_H
#define HF_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/check.h"

/* Fails every allocation from the after-th on (0: the first), until after is set again. */
struct faulty_heap {
    long after;
    long live; /* blocks not yet released: 0 at the end of a test that leaks nothing */
};

static inline void *faulty_resize(void *ctx, void *ptr, size_t size)
{
    struct faulty_heap *heap = ctx;
    void *out;

    if (heap->after == 0)
        return NULL;
    heap->after--;
    out = realloc(ptr, size);
    if (out && !ptr)
        heap->live++;
    return out;
}

static inline void faulty_release(void *ctx, void *ptr)
{
    struct faulty_heap *heap = ctx;

    heap->live--;
    free(ptr);
}

static inline struct hf_alloc faulty_alloc(struct faulty_heap *heap)
{
    return (struct hf_alloc){faulty_resize, faulty_release, heap};
}

#endif
