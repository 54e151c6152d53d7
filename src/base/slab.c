#include "base/slab.h"

#include "base/assert.h"

enum {
    PER_CHUNK = 64,
    ALIGN = 64, /* alignment of the first object: objects of whole cache lines then start on one */
    SMALL_ALIGN = 8,
    SMALL_CHUNKS = 32, /* so many chunks are allocated one by one */
    BLOCK_SIZE =
        8 * 1024 * 1024, /* then each allocation holds as many chunks as fit in this size */
};

/* A free object: the cleared first word, and the next free object. */
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
    for (size_t i = 0; i < slab->n_blocks; i++)
        hf_free(slab->alloc, slab->blocks[i]);
    hf_free(slab->alloc, slab->blocks);
    hf_free(slab->alloc, slab->chunks);
    *slab = (struct hf_slab){.alloc = slab->alloc, .size = slab->size};
}

/* Makes room for n more pointers in a growing array. */
static int make_room(const struct hf_slab *slab, void **array, size_t used, size_t n, size_t *room)
{
    size_t wanted = *room ? *room : 8;
    void *bigger;

    while (wanted < used + n)
        wanted *= 2;
    if (wanted == *room)
        return 0;
    bigger = hf_realloc(slab->alloc, *array, wanted * sizeof(void *));
    if (!bigger)
        return -1;
    *array = bigger;
    *room = wanted;
    return 0;
}

static int add_block(struct hf_slab *slab)
{
    size_t chunk_size = slab->size * PER_CHUNK;
    size_t n = slab->n_chunks < SMALL_CHUNKS ? 1 : (BLOCK_SIZE - ALIGN) / chunk_size;
    char *memory;

    if (n == 0)
        n = 1;
    if (make_room(slab, (void **)&slab->chunks, slab->n_chunks, n, &slab->chunks_room) < 0 ||
        make_room(slab, (void **)&slab->blocks, slab->n_blocks, 1, &slab->blocks_room) < 0)
        return -1;
    memory = hf_malloc(slab->alloc, n == 1 ? chunk_size + ALIGN : BLOCK_SIZE);
    if (!memory)
        return -1;
    slab->blocks[slab->n_blocks++] = memory;
    memory = (char *)align_up((uintptr_t)memory, ALIGN);
    for (size_t i = 0; i < n; i++)
        slab->chunks[slab->n_chunks++] = memory + i * chunk_size;
    return 0;
}

static void *slot(const struct hf_slab *slab, size_t index)
{
    return slab->chunks[index / PER_CHUNK] + index % PER_CHUNK * slab->size;
}

void *hf_slab_take(struct hf_slab *slab)
{
    struct hf_slab_free *object = slab->free;

    if (object) {
        slab->free = object->next;
    } else {
        if (slab->used == slab->n_chunks * PER_CHUNK && add_block(slab) < 0)
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
