#include "support/faulty_heap.h"

#include <stdlib.h>

static void fail(struct faulty_heap *heap)
{
    heap->failed = true;
    if (heap->fail_n > 0 && --heap->fail_n == 0)
        heap->after = -1;
    if (heap->on_failure)
        heap->on_failure(heap->ctx);
}

static void *resize(void *ctx, void *ptr, size_t size)
{
    struct faulty_heap *heap = ctx;
    void *out;

    heap->count++;
    if (heap->after == 0) {
        fail(heap);
        return NULL;
    }
    if (heap->after > 0)
        heap->after--;
    out = realloc(ptr, size);
    if (out && !ptr)
        heap->live++;
    return out;
}

static void release(void *ctx, void *ptr)
{
    struct faulty_heap *heap = ctx;

    heap->live--;
    free(ptr);
}

struct hf_alloc faulty_alloc(struct faulty_heap *heap)
{
    return (struct hf_alloc){resize, release, heap};
}
