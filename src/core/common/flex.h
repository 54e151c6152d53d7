/*
 * Objects that end in a few bytes from the wire (an owner handle, a file handle). They come from
 * one of several slabs, chosen by the number of those bytes, so that a lock on a new file allocates
 * nothing once the slabs are warm. Up to 64 bytes, the longest NFSv3 file handle, there is a slab
 * for every eight; beyond, one for every doubling up to the longest handle that the wire allows.
 */
#ifndef HF_CORE_COMMON_FLEX_H
#define HF_CORE_COMMON_FLEX_H

#include "base/slab.h"

enum {
    HF_FLEX_STEP = 8,
    HF_FLEX_STEPS = 8,
    HF_FLEX_MAX = 1024,
    HF_FLEX_SLABS = 1 + HF_FLEX_STEPS + 4
};

struct hf_flex {
    struct hf_slab slabs[HF_FLEX_SLABS];
};

/* base: the size of an object without its bytes from the wire. */
void hf_flex_init(struct hf_flex *flex, const struct hf_alloc *alloc, size_t base);
void hf_flex_free(struct hf_flex *flex);

/* len: how many bytes from the wire the object ends in, at most HF_FLEX_MAX; hf_flex_give() needs
 * the len that hf_flex_take() had. */
void *hf_flex_take(struct hf_flex *flex, size_t len);
void hf_flex_give(struct hf_flex *flex, void *object, size_t len);

#endif
