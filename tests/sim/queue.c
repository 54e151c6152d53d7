#include "queue.h"

#include <stdlib.h>

#include "base/assert.h"

void sim_queue_init(struct sim_queue *queue)
{
    *queue = (struct sim_queue){0};
}

void sim_queue_free(struct sim_queue *queue)
{
    free(queue->heap);
    *queue = (struct sim_queue){0};
}

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static void grow(struct sim_queue *queue)
{
    size_t size = queue->size ? queue->size * 2 : 64;
    struct sim_event *heap = realloc(queue->heap, size * sizeof(heap[0]));

    HF_ASSERT(heap); /* only the core's memory is made to fail, never the simulator's own */
    queue->heap = heap;
    queue->size = size;
}

void sim_queue_push(struct sim_queue *queue, struct sim_event event)
{
    size_t i = queue->count;

    if (queue->count == queue->size)
        grow(queue);
    queue->count++;
    event.order = queue->pushed++;
    while (i > 0 && before(&event, &queue->heap[(i - 1) / 2])) {
        queue->heap[i] = queue->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    queue->heap[i] = event;
}

bool sim_queue_pop(struct sim_queue *queue, struct sim_event *out)
{
    struct sim_event last;
    size_t i = 0;

    if (queue->count == 0)
        return false;
    *out = queue->heap[0];
    last = queue->heap[--queue->count];
    for (size_t child = 1; child < queue->count; child = 2 * i + 1) {
        if (child + 1 < queue->count && before(&queue->heap[child + 1], &queue->heap[child]))
            child++;
        if (!before(&queue->heap[child], &last))
            break;
        queue->heap[i] = queue->heap[child];
        i = child;
    }
    if (queue->count > 0)
        queue->heap[i] = last;
    return true;
}
