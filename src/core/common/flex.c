#include "core/common/flex.h"

#include "base/assert.h"

/* Returns how many bytes from the wire an object of the i-th slab has room for. */
static size_t bytes_of(size_t i)
{
    size_t even = i < HF_FLEX_STEPS ? i : HF_FLEX_STEPS;

    return even * HF_FLEX_STEP << (i - even);
}

void hf_flex_init(struct hf_flex *flex, const struct hf_alloc *alloc, size_t base)
{
    HF_ASSERT(bytes_of(HF_FLEX_SLABS - 1) == HF_FLEX_MAX);
    for (size_t i = 0; i < HF_FLEX_SLABS; i++)
        hf_slab_init(&flex->slabs[i], alloc, base + bytes_of(i));
}

void hf_flex_free(struct hf_flex *flex)
{
    for (size_t i = 0; i < HF_FLEX_SLABS; i++)
        hf_slab_free(&flex->slabs[i]);
}

static struct hf_slab *slab_for(struct hf_flex *flex, size_t len)
{
    size_t i = (len + HF_FLEX_STEP - 1) / HF_FLEX_STEP;

    HF_ASSERT(len <= HF_FLEX_MAX);
    if (i > HF_FLEX_STEPS) {
        i = HF_FLEX_STEPS + 1;
        while (bytes_of(i) < len)
            i++;
    }
    return &flex->slabs[i];
}

void *hf_flex_take(struct hf_flex *flex, size_t len)
{
    return hf_slab_take(slab_for(flex, len));
}

void hf_flex_give(struct hf_flex *flex, void *object, size_t len)
{
    hf_slab_give(slab_for(flex, len), object);
}
