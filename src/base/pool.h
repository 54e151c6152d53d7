/* A pool of objects of one size that are used again and again, so that a request allocates memory
 * only until the pool is as large as it ever needs to be. Every object begins with a struct
 * hf_list, which links it into the pool while it is unused.
 *
 * A new object is all zero; a reused one keeps its content, so that a buffer inside it need not be
 * allocated again. */
#ifndef HF_BASE_POOL_H
#define HF_BASE_POOL_H

#include "base/alloc.h"
#include "base/list.h"

struct hf_pool {
    struct hf_list unused;
    const struct hf_alloc *alloc;
    size_t size; /* the size of one object of the pool */
};

static inline void hf_pool_init(struct hf_pool *pool, const struct hf_alloc *alloc, size_t size)
{
    *pool = (struct hf_pool){.alloc = alloc, .size = size};
    hf_list_init(&pool->unused);
}

/* Takes an unused object out of the pool, or returns NULL if there is none. The pool's owner uses
 * it to free all objects. */
static inline void *hf_pool_pop(struct hf_pool *pool)
{
    struct hf_list *object = pool->unused.next;

    if (object == &pool->unused)
        return NULL;
    hf_list_remove(object);
    return object;
}

/* Takes an unused object, or allocates one. Returns NULL if memory runs out. */
static inline void *hf_pool_take(struct hf_pool *pool)
{
    void *object = hf_pool_pop(pool);

    return object ? object : hf_calloc(pool->alloc, 1, pool->size);
}

/* Gives an object back to the pool. The next take returns it, because it is still in the
 * processor's cache. */
static inline void hf_pool_give(struct hf_pool *pool, void *object)
{
    hf_list_add_head(&pool->unused, object);
}

#endif
