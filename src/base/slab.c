#include "base/slab.h"

#include "base/check.h"

enum {
    PER_CHUNK = 64,
    ALIGN = 64, /* objects of a cache line or more start on one */
    SMALL_ALIGN = 16,
};

struct hf_slab_chunk {
    void *memory;  /* as allocated */
    char *objects; /* aligned, inside memory */
};

/* What a free object holds: the cleared word, and the next free one. */
struct hf_slab_free {
    uint64_t in_use;
    struct hf_slab_free *next;
};

static size_t align_up(size_t n, size_t align)
{
    return (n + align - 1) & ~(align - 1);
}

void hf_slab_init(struct hf_slab *slab, const struct hf_alloc *alloc, size_t size)
{
    HF_ASSERT(size >= sizeof(struct hf_slab_free));
    *slab = (struct hf_slab){.alloc = alloc, .size = align_up(size, SMALL_ALIGN)};
}

void hf_slab_free(struct hf_slab *slab)
{
    for (size_t i = 0; i < slab->n_chunks; i++)
        hf_free(slab->alloc, slab->chunks[i].memory);
    hf_free(slab->alloc, slab->chunks);
    *slab = (struct hf_slab){.alloc = slab->alloc, .size = slab->size};
}

static int add_chunk(struct hf_slab *slab)
{
    struct hf_slab_chunk chunk;

    if (slab->n_chunks == slab->chunks_room) {
        size_t room = slab->chunks_room ? slab->chunks_room * 2 : 8;
        void *chunks = hf_realloc(slab->alloc, slab->chunks, room * sizeof(slab->chunks[0]));
        if (!chunks)
            return -1;
        slab->chunks = chunks;
        slab->chunks_room = room;
    }
    chunk.memory = hf_malloc(slab->alloc, slab->size * PER_CHUNK + ALIGN);
    if (!chunk.memory)
        return -1;
    chunk.objects = (char *)align_up((uintptr_t)chunk.memory, ALIGN);
    slab->chunks[slab->n_chunks++] = chunk;
    return 0;
}

static void *slot(const struct hf_slab *slab, size_t index)
{
    return slab->chunks[index / PER_CHUNK].objects + index % PER_CHUNK * slab->size;
}

void *hf_slab_take(struct hf_slab *slab)
{
    struct hf_slab_free *object = slab->free;

    if (object) {
        slab->free = object->next;
    } else {
        if (slab->used == slab->n_chunks * PER_CHUNK && add_chunk(slab) < 0)
            return NULL;
        object = slot(slab, slab->used++);
    }
    slab->live++;
    return object;
}

void hf_slab_give(struct hf_slab *slab, void *object)
{
    struct hf_slab_free *entry = object;

    HF_ASSERT(slab->live > 0);
    entry->in_use = 0;
    entry->next = slab->free;
    slab->free = entry;
    slab->live--;
}

void *hf_slab_at(const struct hf_slab *slab, size_t index)
{
    struct hf_slab_free *object;

    HF_ASSERT(index < slab->used);
    object = slot(slab, index);
    return object->in_use ? object : NULL;
}
