/*
 * Busy polling: looking for work for a few tens of microseconds before a thread sleeps (RPC-04).
 *
 * A client that sends one request at a time waits for a processor that has gone to sleep: waking it
 * takes several times as long as the request. If requests have lately come fast, the loop therefore
 * looks on for a moment after each answer, and the store's thread after each commit. A thread
 * begins only after a row of short gaps, and stops at the first look that finds nothing; after each
 * such miss it wants a longer row before it looks again. So an idle daemon, or one with a client
 * now and then, never looks, and requests that come in bursts cost one look for each burst at most.
 *
 * A request that waits for the store is the same case for the loop, which would sleep until the
 * store's thread wakes it. While requests come fast and this one is the only one in progress, its
 * client waits and needs no processor, so the loop looks for its answer. If an answer takes too
 * long, the loop sleeps while the next one waits; after each further one in a row, as on a disk
 * whose flushes are slow, it sleeps for twice as many.
 *
 * Times are arguments, so that this can be tested without a clock.
 */
#ifndef HF_BASE_BUSY_POLL_H
#define HF_BASE_BUSY_POLL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HF_BUSY_POLL_ROW = 8, /* how many short gaps in a row must come before the first look */
    /* How many short gaps in a row are wanted at most, after misses. */
    HF_BUSY_POLL_ROW_MAX = 1024,
    /* After this many looks in a row that found input, misses are forgotten. */
    HF_BUSY_POLL_FORGIVE = 64,
    /* A gap in which the thread sleeps is this many times as long as one in which it looks, because
     * of the time to wake. */
    HF_BUSY_POLL_SLEEP = 4,
    HF_BUSY_POLL_ANSWER = 4, /* an answer is looked for this many times as long as a request */
    /* How many answers are not looked for at most, after some in a row that took too long. */
    HF_BUSY_POLL_SKIP_MAX = 1024,
};

struct hf_busy_poll {
    uint64_t bound_ns; /* how long one look lasts; 0: the thread never looks */
    uint64_t idle_ns;  /* since when there is nothing to do; 0: there is something */
    unsigned row;      /* how many short gaps there were in a row so far */
    unsigned wanted;   /* how many short gaps the thread wants before it looks */
    unsigned found;    /* looks in a row that found input */
    bool looking;
    uint64_t wait_ns;   /* since when one request alone waits for its answer; 0: none does */
    unsigned skip;      /* how many answers are not looked for from now on */
    unsigned skip_next; /* how many will not be, after the next that takes too long */
    bool awaiting;      /* the answer is being looked for */
    uint64_t looked_ns; /* how long the thread has looked in all, for metrics */
};

void hf_busy_poll_init(struct hf_busy_poll *poll, uint64_t bound_ns);

/* Call when work has come. */
void hf_busy_poll_found(struct hf_busy_poll *poll, uint64_t now_ns);

/* Call when there is nothing to do, and again after each look. Returns true if the thread shall
 * look once more before it sleeps. */
bool hf_busy_poll_idle(struct hf_busy_poll *poll, uint64_t now_ns);

/*
 * For a loop that hands requests to other threads: replaces hf_busy_poll_found() and _idle(). Call
 * it once in each turn, before the loop may sleep. input: requests have arrived since the last
 * call. waiting: how many requests wait for another thread or host; if there are several, those
 * threads and the clients need the processors more. Returns true if the loop shall not sleep.
 */
bool hf_busy_poll_turn(struct hf_busy_poll *poll, uint64_t now_ns, bool input, unsigned waiting);

#endif
