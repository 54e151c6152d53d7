/*
 * Objects of one size, handed out and taken back without a trip to the allocator once warm. Memory
 * is got in chunks and kept until the slab is freed. A slab that has grown gets many chunks at
 * once, in blocks large enough for the allocator to put on huge pages: a walk through a million
 * objects then misses the cache, but not the TLB as well.
 *
 * Every object begins with a uint64_t that its user keeps non-zero while the object is in use; the
 * slab clears it when the object is given back. That makes a slab a table as well: slots can be
 * visited by number, in steps, while objects come and go, and an object never changes its slot.
 */
#ifndef HF_BASE_SLAB_H
#define HF_BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

struct hf_slab_free;

struct hf_slab {
    const struct hf_alloc *alloc;
    size_t size;   /* of an object, rounded up for alignment */
    char **chunks; /* where the objects of each begin */
    size_t n_chunks;
    size_t chunks_room;
    void **blocks; /* as allocated */
    size_t n_blocks;
    size_t blocks_room;
    size_t used; /* slots ever handed out; those beyond are untouched memory */
    size_t live;
    struct hf_slab_free *free;
};

/* Allocates nothing yet. size is at least 16. */
void hf_slab_init(struct hf_slab *slab, const struct hf_alloc *alloc, size_t size);
void hf_slab_free(struct hf_slab *slab);

/* An object with undefined content, or NULL. */
void *hf_slab_take(struct hf_slab *slab);
void hf_slab_give(struct hf_slab *slab, void *object);

/* The object in slot index < slab->used, or NULL if the slot is free. */
void *hf_slab_at(const struct hf_slab *slab, size_t index);

#endif
