/* Busy polling: before a thread sleeps, it polls for work for a few tens of microseconds (RPC-04).
 *
 * A client that sends one request at a time waits for a processor that has gone to sleep: waking it
 * takes several times as long as the request. If requests have lately come fast, the loop thread
 * therefore polls for a moment after each answer, and the commit thread after each commit. A thread
 * begins to poll only after a row of short gaps, and stops at the first poll that finds nothing;
 * after each such miss it demands a longer row before it polls again. So an idle daemon, or one
 * with a client now and then, never polls, and requests that come in bursts cost at most one poll
 * for each burst.
 *
 * A request that waits for the store is a similar case for the loop thread, which would sleep until
 * the commit thread wakes it. While requests come fast and only one is in progress, its client
 * waits and needs no processor, so the loop thread polls for the answer. If an answer takes too
 * long, the loop thread sleeps during the next request; after each further slow answer in a row, as
 * on a disk whose flushes are slow, it sleeps during twice as many.
 *
 * Times are arguments, so that busy polling can be tested without a clock. */
#ifndef HF_BASE_BUSY_POLL_H
#define HF_BASE_BUSY_POLL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HF_BUSY_POLL_ROW = 8, /* how many short gaps in a row must come before the first poll */
    /* The longest row of short gaps that a thread demands after misses. */
    HF_BUSY_POLL_ROW_MAX = 1024,
    /* After this many polls in a row that found input, earlier misses are forgotten. */
    HF_BUSY_POLL_FORGIVE = 64,
    /* A gap during which the thread slept counts as short up to this many times bound_ns, because
     * waking the thread takes time. */
    HF_BUSY_POLL_SLEEP = 4,
    /* the loop polls for an answer this many times as long as for a request */
    HF_BUSY_POLL_ANSWER = 4,
    /* After slow answers in a row, the loop polls for none of at most this many next answers. */
    HF_BUSY_POLL_SKIP_MAX = 1024,
};

struct hf_busy_poll {
    uint64_t bound_ns; /* how long one poll lasts; 0: the thread never polls */
    uint64_t idle_ns;  /* when the current gap without work began; 0: there is work */
    unsigned row;      /* how many short gaps have come in a row */
    unsigned wanted;   /* how many short gaps in a row the thread demands before it polls */
    unsigned found;    /* how many polls in a row found input */
    bool looking;
    /* when one request alone began to wait for its answer; 0: no request waits alone */
    uint64_t wait_ns;
    unsigned skip;      /* for how many of the next answers the loop does not poll */
    unsigned skip_next; /* the value that `skip` gets when the next answer takes too long */
    bool awaiting;      /* the loop is polling for an answer */
    uint64_t looked_ns; /* how long the thread has polled in all, for metrics */
};

void hf_busy_poll_init(struct hf_busy_poll *poll, uint64_t bound_ns);

/* To be called when work has come. */
void hf_busy_poll_found(struct hf_busy_poll *poll, uint64_t now_ns);

/* To be called when there is no work, and again after each poll. Returns true if the thread should
 * poll once more before it sleeps. */
bool hf_busy_poll_idle(struct hf_busy_poll *poll, uint64_t now_ns);

/* For a loop that hands requests to other threads: replaces hf_busy_poll_found() and _idle(). To be
 * called once in each turn, before the loop may sleep. input: requests have arrived since the last
 * call. waiting: how many requests wait for another thread or host; if there are several, those
 * threads and the clients need the processors more. Returns true if the loop should not sleep. */
bool hf_busy_poll_turn(struct hf_busy_poll *poll, uint64_t now_ns, bool input, unsigned waiting);

#endif
