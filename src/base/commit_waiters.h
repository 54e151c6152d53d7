/* A queue of objects that wait for a batch to become durable: answers that may leave only when the
 * change they promise is in the store. Batches have ascending numbers and become durable in that
 * order, so the queue needs no sorting and completing its head needs no search.
 *
 * A waiter is part of the object that waits. Its done function is called once and may reuse or free
 * the object. */
#ifndef HF_BASE_COMMIT_WAITERS_H
#define HF_BASE_COMMIT_WAITERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/ticket.h"

struct hf_commit_waiter;
typedef void (*hf_commit_done)(struct hf_commit_waiter *waiter, bool durable);

struct hf_commit_waiter {
    struct hf_list link;
    struct hf_ticket ticket; /* what the object waits for; all 0: done was called at once */
    hf_commit_done done;
    /* While the object waits for a decision, it counts for the account with this place
     * (service.h). */
    uint32_t place;
};

struct hf_commit_waiters {
    struct hf_list list;
};

static inline void hf_commit_waiters_init(struct hf_commit_waiters *waiters)
{
    hf_list_init(&waiters->list);
}

static inline void hf_commit_waiters_add(struct hf_commit_waiters *waiters,
                                         struct hf_commit_waiter *waiter, uint64_t seq,
                                         hf_commit_done done)
{
    uint64_t last =
        hf_list_empty(&waiters->list)
            ? 0
            : hf_list_entry(waiters->list.prev, struct hf_commit_waiter, link)->ticket.seq;

    /* An answer may depend on an older batch than the answer queued before it. It then waits for
     * that answer's batch, a little longer than necessary, so that the queue stays sorted. */
    waiter->ticket = (struct hf_ticket){.seq = last > seq ? last : seq};
    waiter->done = done;
    hf_list_add_tail(&waiters->list, &waiter->link);
}

/* Completes all waiters whose batch is durable, now that all batches up to seq are. */
static inline void hf_commit_waiters_reached(struct hf_commit_waiters *waiters, uint64_t seq)
{
    struct hf_commit_waiter *waiter;

    while ((waiter = hf_list_first(&waiters->list, struct hf_commit_waiter, link)) &&
           waiter->ticket.seq <= seq) {
        hf_list_remove(&waiter->link);
        waiter->done(waiter, true);
    }
}

/*
 * Fails every waiter, because a batch failed: the core has undone that batch and all later changes.
 */
static inline void hf_commit_waiters_failed(struct hf_commit_waiters *waiters)
{
    struct hf_commit_waiter *waiter;

    while ((waiter = hf_list_first(&waiters->list, struct hf_commit_waiter, link))) {
        hf_list_remove(&waiter->link);
        waiter->done(waiter, false);
    }
}

#endif
