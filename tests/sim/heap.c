#include "heap.h"

#include <stdlib.h>

#include "world.h"

static void *resize(void *ctx, void *ptr, size_t size)
{
    struct sim_world *world = ctx;
    struct sim_heap *heap = &world->heap;
    void *out;

    heap->count++;
    if (heap->fail_at && heap->count - heap->fail_at < heap->fail_n) {
        heap->failed = true;
        sim_world_fault(world, SIM_FAULT_ALLOC_FAILED);
        return NULL;
    }
    out = realloc(ptr, size);
    if (out && !ptr)
        heap->live++;
    return out;
}

static void release(void *ctx, void *ptr)
{
    struct sim_world *world = ctx;

    world->heap.live--;
    free(ptr);
}

struct hf_alloc sim_heap_alloc(struct sim_world *world)
{
    return (struct hf_alloc){resize, release, world};
}
