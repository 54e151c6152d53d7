/*
 * A pool of objects of one size. Memory is allocated in chunks and kept until the slab is freed, so
 * a slab that has reached its working size never calls the allocator. A slab that has grown large
 * allocates many chunks at once, in blocks that the allocator can put on huge pages: walking
 * through a million objects then misses the cache, but not the TLB as well.
 *
 * Every object begins with a uint64_t that its user keeps non-zero while the object is in use; the
 * slab clears it when the object is given back. That makes the slab a table too: slots can be
 * visited by number, in several steps, while objects come and go, and an object never changes its
 * slot.
 */
#ifndef HF_BASE_SLAB_H
#define HF_BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

struct hf_slab_free;

struct hf_slab {
    const struct hf_alloc *alloc;
    size_t size;   /* of one object, rounded up for alignment */
    char **chunks; /* the first object of each chunk */
    size_t n_chunks;
    size_t chunks_room;
    void **blocks; /* the allocations that hold the chunks */
    size_t n_blocks;
    size_t blocks_room;
    size_t used; /* slots handed out so far; memory beyond them is untouched */
    size_t live;
    struct hf_slab_free *free;
};

/* Allocates nothing yet. size is at least 16. */
void hf_slab_init(struct hf_slab *slab, const struct hf_alloc *alloc, size_t size);
void hf_slab_free(struct hf_slab *slab);

/* Returns an object with undefined content, or NULL. */
void *hf_slab_take(struct hf_slab *slab);
void hf_slab_give(struct hf_slab *slab, void *object);

/* Returns the object in slot index < slab->used, or NULL if the slot is free. */
void *hf_slab_at(const struct hf_slab *slab, size_t index);

#endif
