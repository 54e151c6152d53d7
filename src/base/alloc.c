#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static void *heap_resize(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    return realloc(ptr, size);
}

static void heap_release(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

const struct hf_alloc hf_alloc_heap = {heap_resize, heap_release, NULL};

void *hf_calloc(const struct hf_alloc *alloc, size_t count, size_t size)
{
    size_t total;
    void *ptr;

    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    ptr = hf_malloc(alloc, total);
    if (ptr)
        memset(ptr, 0, total);
    return ptr;
}
