#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 * 1024 * 1024 };

/* Allocates a large block on huge pages: large tables are accessed at random, and on small pages
 * each access would miss the TLB, too. */
static void *huge_alloc(size_t size)
{
    void *ptr = aligned_alloc(HUGE_PAGE, size);

    if (ptr)
        (void)madvise(ptr, size, MADV_HUGEPAGE);
    return ptr;
}

static void *heap_resize(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    if (!ptr && size >= HUGE_PAGE && size % HUGE_PAGE == 0)
        return huge_alloc(size);
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
