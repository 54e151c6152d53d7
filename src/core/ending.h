/*
 * What has ended: a lock that is no longer held, a request that no longer waits. Whoever keeps a
 * history of them (src/history) is told at that moment, by a function that must not call into the
 * core. Without one, an ending costs a test of a pointer.
 *
 * An ending is told before it is durable. Where its batch fails, the lock is held on, and that is
 * told, too.
 */
#ifndef HF_CORE_ENDING_H
#define HF_CORE_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/bytes.h"

enum hf_end {
    HF_END_UNLOCKED,    /* the zero value: what a transaction that clears a range does */
    HF_END_CONVERTED,   /* the owner asked for the range in the other mode */
    HF_END_NOT_TAKEN,   /* its GRANTED callback was refused or stayed unanswered */
    HF_END_CRASHED,     /* the client has restarted */
    HF_END_RELEASED,    /* by FREE_ALL, or with its client by the operator */
    HF_END_UNREACHABLE, /* lost: the client could not be told of our restart */
    HF_END_UNRECLAIMED, /* lost: not reclaimed when grace ended */
    HF_END_OUTSIDE,     /* lost: a holder outside has it (claim.h) */
    HF_END_OPERATOR,
    HF_END_RESTART, /* of ours, simulated (SM_SIMU_CRASH), of what is not recorded */
    HF_END_UNDONE,  /* it did not end, although that was told: its batch failed */
    /* Of waits only. */
    HF_END_GRANTED,
    HF_END_CANCELLED,
    HF_END_DEADLOCK,
    HF_END_SILENT, /* the client does not answer callbacks or probes */
    HF_END_REFUSED /* the kernel can hold nothing for it (claim.h) */
};

/* Views are valid during the call. */
struct hf_ending {
    enum hf_end end;
    bool wait; /* else a lock */
    bool exclusive;
    uint64_t id;
    uint64_t first, last;
    int64_t since_ms; /* wall clock */
    struct hf_bytes client;
    struct hf_addr addr;
    struct hf_bytes fh, oh;
    int32_t svid;
};

struct hf_core;
typedef void (*hf_ending_told)(void *ctx, const struct hf_ending *ending);

/* told NULL: nothing is told, as at first. */
void hf_core_tell_endings(struct hf_core *core, hf_ending_told told, void *ctx);

#endif
