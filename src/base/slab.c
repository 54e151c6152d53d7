#include "base/slab.h"

#include "base/assert.h"

/*
 * A free object: its first word is cleared, and a link leads to the next free object of its block.
 */
struct free_object {
    uint64_t in_use;
    struct free_object *next;
};

struct hf_slab_block {
    struct hf_list link; /* links the block into slab->room */
    char *memory;
    struct free_object *free;
    size_t index; /* the block's index in slab->blocks */
    /* How many slots of the block were ever handed out; the memory of the others is untouched. */
    uint32_t used;
    uint32_t live;
};

void hf_slab_init(struct hf_slab *slab, const struct hf_alloc *alloc, size_t size)
{
    size = (size + HF_REF_UNIT - 1) / HF_REF_UNIT * HF_REF_UNIT;
    HF_ASSERT(size >= sizeof(struct free_object) && size <= HF_ARENA_BLOCK);
    *slab = (struct hf_slab){.alloc = alloc, .size = size, .per_block = HF_ARENA_BLOCK / size};
    hf_list_init(&slab->room);
}

static void free_block(struct hf_slab *slab, struct hf_slab_block *block)
{
    hf_arena_give(block->memory);
    hf_free(slab->alloc, block);
}

void hf_slab_free(struct hf_slab *slab)
{
    for (size_t i = 0; i < slab->n_blocks; i++) {
        if (slab->blocks[i])
            free_block(slab, slab->blocks[i]);
    }
    hf_free(slab->alloc, slab->blocks);
    hf_slab_init(slab, slab->alloc, slab->size);
}

/* Returns the first free index of the slab's table of blocks, and enlarges the table if there is
 * none. */
static int find_vacant(struct hf_slab *slab)
{
    size_t room = slab->blocks_room ? slab->blocks_room * 2 : 8;
    void *bigger;

    while (slab->vacant < slab->n_blocks && slab->blocks[slab->vacant])
        slab->vacant++;
    if (slab->vacant < slab->blocks_room)
        return 0;
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): it is an array of pointers */
    bigger = hf_realloc(slab->alloc, slab->blocks, room * sizeof(slab->blocks[0]));
    if (!bigger)
        return -1;
    slab->blocks = bigger;
    slab->blocks_room = room;
    return 0;
}

/* Adds a block to the slab. Not inlined: blocks are added rarely, and this code would slow
 * hf_slab_take() down. */
__attribute__((noinline)) static struct hf_slab_block *add_block(struct hf_slab *slab)
{
    struct hf_slab_block *block;

    if (find_vacant(slab) < 0)
        return NULL;
    block = hf_malloc(slab->alloc, sizeof(*block));
    if (!block)
        return NULL;
    *block = (struct hf_slab_block){.memory = hf_arena_take(block), .index = slab->vacant};
    if (!block->memory) {
        hf_free(slab->alloc, block);
        return NULL;
    }
    slab->blocks[block->index] = block;
    if (slab->n_blocks == block->index)
        slab->n_blocks++;
    hf_list_add_head(&slab->room, &block->link);
    slab->n_empty++;
    return block;
}

__attribute__((noinline)) static void remove_block(struct hf_slab *slab,
                                                   struct hf_slab_block *block)
{
    hf_list_remove(&block->link);
    slab->n_empty--;
    slab->blocks[block->index] = NULL;
    if (block->index < slab->vacant)
        slab->vacant = block->index;
    while (slab->n_blocks > 0 && !slab->blocks[slab->n_blocks - 1])
        slab->n_blocks--;
    free_block(slab, block);
}

static char *slot(const struct hf_slab *slab, const struct hf_slab_block *block, size_t i)
{
    return block->memory + i * slab->size;
}

void *hf_slab_take(struct hf_slab *slab)
{
    struct hf_slab_block *block = hf_list_empty(&slab->room)
                                      ? add_block(slab)
                                      : hf_list_first(&slab->room, struct hf_slab_block, link);
    void *object;

    if (!block)
        return NULL;
    object = block->free;
    if (block->free)
        block->free = block->free->next;
    else
        object = slot(slab, block, block->used++);
    if (block->live++ == 0)
        slab->n_empty--;
    if (block->live == slab->per_block)
        hf_list_remove(&block->link);
    slab->live++;
    return object;
}

/* Called when a block has become empty. The slab keeps only one empty block: of two, the one with
 * the smaller slot numbers. That one goes to the end of the list, so that it is used last. */
static void keep_one_empty(struct hf_slab *slab, struct hf_slab_block *block)
{
    struct hf_slab_block *other = hf_list_entry(slab->room.prev, struct hf_slab_block, link);

    if (slab->n_empty++ > 0) {
        struct hf_slab_block *later = other->index > block->index ? other : block;
        block = later == block ? other : block;
        remove_block(slab, later);
    }
    if (slab->room.prev != &block->link) {
        hf_list_remove(&block->link);
        hf_list_add_tail(&slab->room, &block->link);
    }
}

void hf_slab_give(struct hf_slab *slab, void *object)
{
    struct hf_slab_block *block = hf_arena_note(object);
    struct free_object *entry = object;

    HF_ASSERT(slab->live > 0 && block->live > 0);
    entry->in_use = 0;
    entry->next = block->free;
    block->free = entry;
    slab->live--;
    if (block->live-- == slab->per_block)
        hf_list_add_head(&slab->room, &block->link);
    if (block->live > 0)
        return;
    keep_one_empty(slab, block);
}

size_t hf_slab_slots(const struct hf_slab *slab)
{
    return slab->n_blocks == 0
               ? 0
               : (slab->n_blocks - 1) * slab->per_block + slab->blocks[slab->n_blocks - 1]->used;
}

void *hf_slab_at(const struct hf_slab *slab, size_t index)
{
    const struct hf_slab_block *block;
    size_t i = index % slab->per_block;
    struct free_object *object;

    HF_ASSERT(index < hf_slab_slots(slab));
    block = slab->blocks[index / slab->per_block];
    if (!block || i >= block->used)
        return NULL;
    object = (struct free_object *)(void *)slot(slab, block, i);
    return object->in_use ? object : NULL;
}
