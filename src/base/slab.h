/*
 * A pool of objects of one size. The objects live in blocks of the arena (base/arena.h), so a link
 * to one takes 32 bits. A block that has become empty goes back to the arena, except for one, so
 * that a slab whose size hardly changes never asks for memory. New objects are taken from blocks
 * that already contain objects, so that other blocks can become empty.
 *
 * Every object begins with a uint64_t that its user keeps non-zero while the object is in use; the
 * slab clears it when the object is given back. That makes the slab a table, too: slots can be
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
    size_t per_block; /* how many objects a block has room for */
    /* The blocks in the order of their slots; NULL: the block was given back. */
    struct hf_slab_block **blocks;
    size_t n_blocks; /* the length of the table of blocks, up to the last one that is not NULL */
    size_t blocks_room;
    size_t vacant;       /* all places of the table before this one have a block */
    struct hf_list room; /* the list of blocks with a free slot */
    size_t n_empty;      /* how many blocks contain no object */
    size_t live;
};

/* Initialises a slab, without allocating memory. The size of an object is at least 16, and less
 * than a block. */
void hf_slab_init(struct hf_slab *slab, const struct hf_alloc *alloc, size_t size);
void hf_slab_free(struct hf_slab *slab);

/* Takes an object with undefined content; NULL if memory runs out. */
void *hf_slab_take(struct hf_slab *slab);
void hf_slab_give(struct hf_slab *slab, void *object);

/* Returns an upper bound of the slot numbers: all objects are in slots below it. */
size_t hf_slab_slots(const struct hf_slab *slab);

/* Returns the object in slot index < hf_slab_slots(), or NULL if the slot is free. */
void *hf_slab_at(const struct hf_slab *slab, size_t index);

#endif
