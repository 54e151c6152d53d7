/*
 * Memory allocation through a table of functions, so that a test can count allocations and make the
 * n-th one fail. Code that runs per request takes objects from pools filled earlier; this interface
 * is for what grows: tables, records, buffers.
 *
 * The allocator must outlive everything allocated with it. hf_free(NULL) is allowed.
 */
#ifndef HF_BASE_ALLOC_H
#define HF_BASE_ALLOC_H

#include <stddef.h>

struct hf_alloc {
    /* Resizes a block, or allocates one if ptr is NULL; returns NULL on failure. */
    void *(*resize)(void *ctx, void *ptr, size_t size);
    void (*release)(void *ctx, void *ptr);
    void *ctx;
};

/* The C library's allocator. */
extern const struct hf_alloc hf_alloc_heap;

static inline void *hf_malloc(const struct hf_alloc *alloc, size_t size)
{
    return alloc->resize(alloc->ctx, NULL, size);
}

static inline void *hf_realloc(const struct hf_alloc *alloc, void *ptr, size_t size)
{
    return alloc->resize(alloc->ctx, ptr, size);
}

static inline void hf_free(const struct hf_alloc *alloc, void *ptr)
{
    if (ptr)
        alloc->release(alloc->ctx, ptr);
}

/* Returns zeroed memory; NULL on failure or when count * size overflows. */
void *hf_calloc(const struct hf_alloc *alloc, size_t count, size_t size);

#endif
