/*
 * Busy polling: looking for input for a few tens of microseconds before the loop sleeps.
 *
 * A client that sends one request at a time waits for a processor that has gone to sleep: waking it
 * takes several times as long as the request. If requests have lately come fast, the server
 * therefore looks on for a moment after each answer. It begins only after a row of short gaps, and
 * stops at the first look that finds nothing; after each such miss it wants a longer row before it
 * looks again. So an idle daemon, or one with a client now and then, never looks, and requests that
 * come in bursts cost one look for each burst at most.
 *
 * Times are arguments, so that this can be tested without a clock.
 */
#ifndef HF_RPC_BUSY_POLL_H
#define HF_RPC_BUSY_POLL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HF_BUSY_POLL_ROW = 8,        /* short gaps in a row before the first look */
    HF_BUSY_POLL_ROW_MAX = 1024, /* and at most, after misses */
    HF_BUSY_POLL_FORGIVE = 64,   /* looks in a row that found input: misses are forgotten */
    HF_BUSY_POLL_SLEEP = 4,      /* a gap in which the server sleeps is so many times as long as
                                    one in which it looks, because of the time to wake */
};

struct hf_busy_poll {
    uint64_t bound_ns; /* how long one look lasts; 0: never looks */
    uint64_t idle_ns;  /* since when there is nothing to do; 0: there is */
    unsigned row;      /* short gaps so far */
    unsigned wanted;   /* of them, before it looks */
    unsigned found;    /* looks in a row that found input */
    bool looking;
    uint64_t looked_ns; /* in all, for metrics */
};

void hf_busy_poll_init(struct hf_busy_poll *poll, uint64_t bound_ns);

/*
 * Call once in each turn of the loop, before it may sleep. input: requests have arrived since the
 * last call. waits: some request waits for another thread or host, which then needs the processor
 * more. Returns true if the loop shall not sleep.
 */
bool hf_busy_poll_turn(struct hf_busy_poll *poll, uint64_t now_ns, bool input, bool waits);

#endif
