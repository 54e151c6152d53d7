/*
 * Endings: a lock is no longer held, or a request no longer waits. At that moment a function hears
 * the kind of ending and when the lock or the wait began, and says whether a second function is to
 * be told everything; neither may call into the core. So a history (src/history) that keeps only
 * what lasted, and a measure of how long, cost a request a few instructions; without these
 * functions an ending costs a test of a pointer.
 *
 * An ending is told before it is durable. If its batch fails the lock is still held, and that is
 * told as well (HF_END_UNDONE).
 */
#ifndef HF_CORE_ENDING_H
#define HF_CORE_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/bytes.h"

enum hf_end {
    /* The value 0, because a transaction that clears a range ends locks in this way. */
    HF_END_UNLOCKED,
    HF_END_CONVERTED,   /* the owner locked the range anew in the other mode */
    HF_END_NOT_TAKEN,   /* the client refused its GRANTED callback, or did not answer it */
    HF_END_CRASHED,     /* the client has restarted */
    HF_END_RELEASED,    /* FREE_ALL released the client's locks, or an operator did */
    HF_END_UNREACHABLE, /* lost: the client could not be told of our restart */
    HF_END_UNRECLAIMED, /* lost: the client did not reclaim the lock in grace */
    HF_END_OUTSIDE,     /* lost: a holder outside NLM has the range (claim.h) */
    HF_END_OPERATOR,
    HF_END_RESTART, /* a simulated restart of ours (SM_SIMU_CRASH) ended what is not recorded */
    HF_END_UNDONE,  /* the ending of this lock was told, and then its batch failed */
    /* From here on: endings that only waits have. */
    HF_END_GRANTED,
    HF_END_CANCELLED,
    HF_END_DEADLOCK,
    HF_END_SILENT, /* the client answers neither callbacks nor probes */
    HF_END_REFUSED /* the kernel cannot hold the range for this request (claim.h) */
};

/* One ending; its names and handles are valid during the call. */
struct hf_ending {
    enum hf_end end;
    bool wait; /* true: a wait ended; false: a lock ended */
    bool exclusive;
    uint64_t id;
    uint64_t first, last;
    int64_t since_ms; /* when the lock or the wait began, by the wall clock */
    struct hf_bytes client;
    struct hf_addr addr;
    struct hf_bytes fh, oh;
    int32_t svid;
};

struct hf_core;
typedef bool (*hf_ending_heard)(void *ctx, enum hf_end end, bool wait, int64_t since_ms);
typedef void (*hf_ending_told)(void *ctx, const struct hf_ending *ending);

/* Sets the two functions; with heard NULL, the default, endings are not told. */
void hf_core_tell_endings(struct hf_core *core, hf_ending_heard heard, hf_ending_told told,
                          void *ctx);

#endif
