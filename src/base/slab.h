/*
 * A pool of objects of one size. They live in blocks of the arena (base/arena.h), so a link to one
 * takes 32 bits. A block that has become empty goes back to the arena, except for one, so that a
 * slab whose size hardly changes never asks for memory. Objects are taken from blocks that
 * have others already, so that empty blocks can go.
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
#include "base/arena.h"
#include "base/list.h"

struct hf_slab_block;

struct hf_slab {
    const struct hf_alloc *alloc;
    size_t size;      /* the size of one object, rounded up for alignment */
    size_t per_block; /* how many objects a block has */
    /* the blocks in the order of their slots; NULL: the block was given back */
    struct hf_slab_block **blocks;
    size_t n_blocks; /* the length of the table, up to the last block that is not NULL */
    size_t blocks_room;
    size_t vacant;       /* all places before this one have a block */
    struct hf_list room; /* the blocks with a free slot */
    size_t n_empty;      /* how many blocks have no object */
    size_t live;
};

/* Makes a slab that allocates nothing yet. size is at least 16, and less than a block. */
void hf_slab_init(struct hf_slab *slab, const struct hf_alloc *alloc, size_t size);
void hf_slab_free(struct hf_slab *slab);

/* Returns an object with undefined content, or NULL. */
void *hf_slab_take(struct hf_slab *slab);
void hf_slab_give(struct hf_slab *slab, void *object);

/* All objects are in slots below this number. */
size_t hf_slab_slots(const struct hf_slab *slab);

/* Returns the object in slot index < hf_slab_slots(), or NULL if the slot is free. */
void *hf_slab_at(const struct hf_slab *slab, size_t index);

#endif
