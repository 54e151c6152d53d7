/*
 * What waits for a number to be reached: answers that may leave only when the batch they depend on
 * is durable. Numbers are given out in ascending order, so the queue is in order by itself, and
 * releasing what is due costs no search.
 *
 * A node is part of the object that waits, which its finish function owns from then on.
 */
#ifndef HF_BASE_LATER_H
#define HF_BASE_LATER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"

struct hf_later {
    struct hf_list link;
    uint64_t seq;
    void (*finish)(struct hf_later *later, bool reached);
};

struct hf_later_queue {
    struct hf_list list;
};

static inline void hf_later_init(struct hf_later_queue *queue)
{
    hf_list_init(&queue->list);
}

static inline void hf_later_add(struct hf_later_queue *queue, struct hf_later *later, uint64_t seq,
                                void (*finish)(struct hf_later *later, bool reached))
{
    uint64_t last = hf_list_empty(&queue->list)
                        ? 0
                        : hf_list_entry(queue->list.prev, struct hf_later, link)->seq;

    /* An answer may depend on an older batch than the one before it: then it waits a little longer
     * than it must, and the order stays. */
    later->seq = last > seq ? last : seq;
    later->finish = finish;
    hf_list_add_tail(&queue->list, &later->link);
}

/* Finishes all that waits for seq or less. */
static inline void hf_later_reach(struct hf_later_queue *queue, uint64_t seq)
{
    struct hf_later *later;

    while ((later = hf_list_first(&queue->list, struct hf_later, link)) && later->seq <= seq) {
        hf_list_remove(&later->link);
        later->finish(later, true);
    }
}

/* Finishes all that waits: what it waits for will not come. */
static inline void hf_later_fail(struct hf_later_queue *queue)
{
    struct hf_later *later;

    while ((later = hf_list_first(&queue->list, struct hf_later, link))) {
        hf_list_remove(&later->link);
        later->finish(later, false);
    }
}

#endif
