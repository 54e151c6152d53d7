/*
 * One range of addresses for all objects that exist in millions, so that a link from one to another
 * takes 32 bits (hf_ref) instead of 64. A link counts in units of 8 bytes from the beginning of the
 * range, which can therefore be 32 GiB long. 0 is the link to nothing, like NULL.
 *
 * The range is only reserved at first: it takes no memory. Slabs (base/slab.h) take blocks of it
 * and give them back. A few free blocks are kept as they are for the next taker, and the memory of
 * all others goes back to the system at once, so that a process that once held a million locks does
 * not stay large.
 *
 * There is one arena in a process. Any thread may take and give blocks: a standby loads its locks
 * on another thread than the loop's. What is in a block is the taker's.
 */
#ifndef HF_BASE_ARENA_H
#define HF_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { HF_ARENA_BLOCK = 64 * 1024 };

/* A block with undefined content, aligned to its size; NULL: no memory. The note is the taker's,
 * and not NULL; hf_arena_note() finds it from any address within the block. */
void *hf_arena_take(void *note);
void hf_arena_give(void *block);
void *hf_arena_note(const void *address);

/* The bytes of all blocks that are taken. */
size_t hf_arena_taken(void);

/* A link to an object in a block, or 0. What is linked to is aligned to HF_REF_UNIT. */
typedef uint32_t hf_ref;

extern char *hf_arena_base;

enum { HF_REF_UNIT = 8 };

static inline void *hf_at(hf_ref ref)
{
    return ref ? hf_arena_base + (size_t)ref * HF_REF_UNIT : NULL;
}

static inline hf_ref hf_ref_to(const void *object)
{
    return object ? (hf_ref)((size_t)((const char *)object - hf_arena_base) / HF_REF_UNIT) : 0;
}

#endif
