/*
 * Endings: a lock is no longer held, or a request no longer waits. At that moment a function hears
 * since when it was, and says whether all of it is to be told to another one; neither may call into
 * the core. So a history (src/history) that keeps only what lasted, and a measure of how long, cost
 * a request a few instructions; without them, a test of a pointer.
 *
 * An ending is told before it is durable. Where its batch fails, the lock is still held, and that
 * is told, too.
 */
#ifndef HF_CORE_ENDING_H
#define HF_CORE_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/bytes.h"

enum hf_end {
    /* The zero value, because a transaction that clears a range ends locks in this way. */
    HF_END_UNLOCKED,
    HF_END_CONVERTED,   /* the owner asked for the range in the other mode */
    HF_END_NOT_TAKEN,   /* the client refused its GRANTED callback, or did not answer it */
    HF_END_CRASHED,     /* the client has restarted */
    HF_END_RELEASED,    /* FREE_ALL released the lock, or the operator did with its client */
    HF_END_UNREACHABLE, /* lost: the client could not be told of our restart */
    HF_END_UNRECLAIMED, /* lost: the client had not reclaimed it when grace ended */
    HF_END_OUTSIDE,     /* lost: a holder outside has it (claim.h) */
    HF_END_OPERATOR,
    HF_END_RESTART, /* a restart of ours, simulated (SM_SIMU_CRASH), ended what is not recorded */
    HF_END_UNDONE,  /* the lock did not end, although that was told: its batch failed */
    /* The next endings are those of waits only. */
    HF_END_GRANTED,
    HF_END_CANCELLED,
    HF_END_DEADLOCK,
    HF_END_SILENT, /* the client does not answer callbacks or probes */
    HF_END_REFUSED /* the kernel can hold nothing for the request (claim.h) */
};

/* Views are valid during the call. */
struct hf_ending {
    enum hf_end end;
    bool wait; /* true: a wait has ended; false: a lock */
    bool exclusive;
    uint64_t id;
    uint64_t first, last;
    int64_t since_ms; /* since when the lock was held or waited for, by the wall clock */
    struct hf_bytes client;
    struct hf_addr addr;
    struct hf_bytes fh, oh;
    int32_t svid;
};

struct hf_core;
typedef bool (*hf_ending_heard)(void *ctx, enum hf_end end, bool wait, int64_t since_ms);
typedef void (*hf_ending_told)(void *ctx, const struct hf_ending *ending);

/* Sets the functions; heard NULL, which is the default: nothing is told. */
void hf_core_tell_endings(struct hf_core *core, hf_ending_heard heard, hf_ending_told told,
                          void *ctx);

#endif
