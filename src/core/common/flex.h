/*
 * Objects that end in a few bytes from the wire (an owner handle, a file handle). They come from
 * one of several slabs, chosen by the number of those bytes, so that a lock on a new file allocates
 * nothing once the slabs are warm; only objects with very many bytes come from the heap.
 */
#ifndef HF_CORE_COMMON_FLEX_H
#define HF_CORE_COMMON_FLEX_H

#include "base/slab.h"

enum { HF_FLEX_STEP = 8, HF_FLEX_SLABS = 9 /* up to 64 bytes, the longest NFSv3 file handle */ };

struct hf_flex {
    size_t base; /* size without the bytes */
    struct hf_slab slabs[HF_FLEX_SLABS];
};

void hf_flex_init(struct hf_flex *flex, const struct hf_alloc *alloc, size_t base);
void hf_flex_free(struct hf_flex *flex);

/* len: number of bytes at the end of the object, the same for give as for take. */
void *hf_flex_take(struct hf_flex *flex, size_t len);
void hf_flex_give(struct hf_flex *flex, void *object, size_t len);

#endif
