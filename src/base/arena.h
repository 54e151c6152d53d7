/*
 * One range of addresses for all objects that exist in millions, so that a link from one object to
 * another takes 32 bits (hf_ref) instead of 64. A link counts in units of 8 bytes from the
 * beginning of the range, which can therefore be 32 GiB long. 0 is the link to nothing, like NULL.
 *
 * The range is only reserved at first: it takes no memory. Slabs (base/slab.h) take blocks of it
 * and give them back. The arena keeps the memory of a few free blocks for the next taker, and
 * returns that of all others to the system at once, so that a process that once held a million
 * locks does not stay large.
 *
 * There is one arena in a process. Any thread may take and give blocks: a standby loads its locks
 * on another thread than the loop thread. A block's content belongs to the thread that took it.
 */
#ifndef HF_BASE_ARENA_H
#define HF_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { HF_ARENA_BLOCK = 64 * 1024 };

/*
 * hf_arena_take() returns a block with undefined content, aligned to its size, or NULL if memory
 * runs out. The note is a pointer chosen by the caller, not NULL; hf_arena_note() finds it from any
 * address within the block.
 */
void *hf_arena_take(void *note);
void hf_arena_give(void *block);
void *hf_arena_note(const void *address);

/* Returns the size in bytes of all blocks that are taken. */
size_t hf_arena_taken(void);

/* A link to an object in a block, or 0 for none. The object must be aligned to HF_REF_UNIT. */
typedef uint32_t hf_ref;

extern char *hf_arena_base;

enum { HF_REF_UNIT = 8 };

/* Returns the object that a link leads to; the link must not be 0. */
static inline void *hf_at_some(hf_ref ref)
{
    return hf_arena_base + (size_t)ref * HF_REF_UNIT;
}

static inline void *hf_at(hf_ref ref)
{
    return ref ? hf_at_some(ref) : NULL;
}

static inline hf_ref hf_ref_to(const void *object)
{
    return object ? (hf_ref)((size_t)((const char *)object - hf_arena_base) / HF_REF_UNIT) : 0;
}

#endif
