#include "core/common/flex.h"

void hf_flex_init(struct hf_flex *flex, const struct hf_alloc *alloc, size_t base)
{
    flex->base = base;
    for (size_t i = 0; i < HF_FLEX_SLABS; i++)
        hf_slab_init(&flex->slabs[i], alloc, base + i * HF_FLEX_STEP);
}

void hf_flex_free(struct hf_flex *flex)
{
    for (size_t i = 0; i < HF_FLEX_SLABS; i++)
        hf_slab_free(&flex->slabs[i]);
}

/* The slab for so many bytes; NULL: they are too many for any. */
static struct hf_slab *slab_for(struct hf_flex *flex, size_t len)
{
    size_t i = (len + HF_FLEX_STEP - 1) / HF_FLEX_STEP;

    return i < HF_FLEX_SLABS ? &flex->slabs[i] : NULL;
}

void *hf_flex_take(struct hf_flex *flex, size_t len)
{
    struct hf_slab *slab = slab_for(flex, len);

    return slab ? hf_slab_take(slab) : hf_malloc(flex->slabs[0].alloc, flex->base + len);
}

void hf_flex_give(struct hf_flex *flex, void *object, size_t len)
{
    struct hf_slab *slab = slab_for(flex, len);

    if (slab)
        hf_slab_give(slab, object);
    else
        hf_free(flex->slabs[0].alloc, object);
}
