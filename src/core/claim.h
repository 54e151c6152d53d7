/*
 * Claims: the kernel holds the locks of NLM clients as well (SPEC section 15). With config.coherent
 * every byte that an NLM client has locked is locked in the kernel of this host too, so that NFSv4,
 * SMB and programs on the server respect NLM locks, and NLM clients respect theirs. Whoever locks a
 * file by NFSv4, SMB or a local program is called a holder outside NLM.
 *
 * The core stays pure. It says what the kernel is to hold; another process, the keeper, takes and
 * releases these locks; the caller brings the results back:
 *
 *     hf_core_claims_lost()        no keeper is connected; also the state at a start
 *     hf_core_claims_listed()      for each range that a keeper holds, once it is connected
 *     hf_core_claims_begin()       then the core corrects the difference
 *     once a turn:
 *         hf_core_claim_done()     for each result, in the order in which the kernel changed
 *         hf_core_next_decision()  until false: requests that waited for a claim are made again
 *         hf_core_claims_flush()   hands out what the kernel is to do next
 *
 * A request for bytes that the kernel does not hold yet in the wanted mode is answered with the id
 * of a claim (hf_answer.claim). The caller makes the request again, with the same arguments, when
 * hf_core_next_decision() returns that id. Requests that wait for one claim are made again in the
 * order in which they came.
 *
 * A LOCK is claimed, then decided and committed, then answered. A release is committed, then the
 * kernel lets go, then the release is answered: answers wait for hf_core_released() and not for
 * hf_core_durable(). So the kernel holds at least what is durable, and at most what is held or
 * being granted (COH-10).
 */
#ifndef HF_CORE_CLAIM_H
#define HF_CORE_CLAIM_H

#include "core/config.h"

struct hf_core;

enum hf_claim_mode { HF_CLAIM_NONE, HF_CLAIM_SHARED, HF_CLAIM_EXCLUSIVE };

enum hf_claim_kind {
    HF_CLAIM_RAISE, /* lock every byte of the range in at least this mode, or none of them */
    /* Set every byte of the range to exactly this mode, never a stronger one than before. */
    HF_CLAIM_SET,
    HF_CLAIM_TEST,   /* ask whether a RAISE of the range would be refused */
    HF_CLAIM_WAIT,   /* make a RAISE as soon as the holders outside NLM let go */
    HF_CLAIM_CANCEL, /* end the WAIT with this id; the WAIT still reports a result */
};

struct hf_claim {
    uint64_t id;
    enum hf_claim_kind kind;
    enum hf_claim_mode mode;
    uint64_t first, last;
    struct hf_bytes fh;
};

enum hf_claim_outcome {
    HF_CLAIM_DONE,
    HF_CLAIM_HELD,       /* a holder outside NLM has locked the range */
    HF_CLAIM_LATER,      /* the keeper cannot lock the range now, and is to be asked again */
    HF_CLAIM_STALE,      /* the file no longer exists */
    HF_CLAIM_READ_ONLY,  /* the file cannot be opened for writing */
    HF_CLAIM_UNMIRRORED, /* the kernel cannot lock this file, or its locks there mean nothing */
    HF_CLAIM_FULL,       /* the keeper can open no more files until one is released */
    HF_CLAIM_CANCELLED,  /* the WAIT was cancelled */
    HF_CLAIM_OUTCOMES,
};

struct hf_claim_holder {
    uint64_t first, last;
    bool exclusive;
    int32_t pid; /* process id of the holder; -1: unknown */
};

struct hf_claim_result {
    uint64_t id;
    enum hf_claim_outcome outcome;
    struct hf_claim_holder holder; /* who has locked the range, if the outcome is HF_CLAIM_HELD */
};

/* Tells the core that the connection to the keeper is lost, and with it perhaps every lock in the
 * kernel. Until a keeper is connected again, new locks are refused and waiters go on waiting. */
void hf_core_claims_lost(struct hf_core *core, struct hf_now now);

/* Tells the core of a range that a newly connected keeper holds; call it before
 * hf_core_claims_begin(). After HF_ENOMEM or HF_ELIMIT the caller must connect anew. */
int hf_core_claims_listed(struct hf_core *core, struct hf_bytes fh, uint64_t first, uint64_t last,
                          bool exclusive);
void hf_core_claims_begin(struct hf_core *core, struct hf_now now);

/* True if the kernel holds every lock that it ought to hold, or if coherence is off. With a keeper
 * connected, only a file that lacks locks in the kernel gets no new ones. */
bool hf_core_claims_ready(const struct hf_core *core);

/*
 * Returns a number that dates a request's arrival; a request that must wait keeps it
 * (hf_lock_args.asked). An answer that the kernel gave earlier does not count for the request, and
 * a request that is older than the crash of its client is dropped.
 */
uint64_t hf_core_asked(const struct hf_core *core);

/* Applies a result of the keeper. After HF_ENOMEM or HF_EINVAL the core no longer knows what the
 * kernel holds: the caller must close the connection and call hf_core_claims_lost(). */
int hf_core_claim_done(struct hf_core *core, struct hf_now now,
                       const struct hf_claim_result *result);

/* Calls sink, in order, with each claim that the keeper is to make. The claim's file handle is
 * valid until sink returns. */
typedef void (*hf_claim_sink)(void *ctx, const struct hf_claim *claim);
void hf_core_claims_flush(struct hf_core *core, struct hf_now now, hf_claim_sink sink, void *ctx);

/* Returns the number of the newest durable batch whose releases the kernel has made, too. */
uint64_t hf_core_released(const struct hf_core *core);

#endif
