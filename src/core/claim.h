/*
 * Claims: one truth with the locks of the kernel (SPEC section 15). With config.coherent every byte
 * that an NLM client holds is locked in the kernel of this host as well, so that NFSv4, SMB and
 * programs on the server meet it, and NLM clients meet their locks.
 *
 * The core stays pure. It says what the kernel is to hold, another process (the keeper) holds it,
 * and the results come back:
 *
 *     hf_core_claims_lost()        no keeper is connected; also the state at a start
 *     hf_core_claims_listed()      for each range that a keeper holds, once it is connected
 *     hf_core_claims_begin()       then the difference is corrected
 *     once a turn:
 *         hf_core_claim_done()     for each result, in the order in which the kernel changed
 *         hf_core_next_decision()  until false: requests that waited for a claim are made again
 *         hf_core_claims_flush()   hands out what the kernel is to do next
 *
 * A request whose bytes the kernel does not hold yet in its mode is answered with a claim
 * (hf_answer.claim): it is to be made again, with the same arguments, when that decision is taken
 * out. Requests that wait for the same decision are made again in the order in which they came.
 *
 * The order: a LOCK is claimed, then decided and committed, then answered. A release is committed,
 * then the kernel lets go, then it is answered: answers wait for hf_core_released() and not for
 * hf_core_durable(). So the kernel holds at least what is durable, and at most what is held or
 * being granted (COH-10).
 */
#ifndef HF_CORE_CLAIM_H
#define HF_CORE_CLAIM_H

#include "core/config.h"

struct hf_core;

enum hf_claim_mode { HF_CLAIM_NONE, HF_CLAIM_SHARED, HF_CLAIM_EXCLUSIVE };

enum hf_claim_kind {
    HF_CLAIM_RAISE,  /* raises every byte to at least the mode: all of them, or none */
    HF_CLAIM_SET,    /* sets every byte to exactly the mode, which is never stronger than before */
    HF_CLAIM_TEST,   /* asks whether a raise would be refused */
    HF_CLAIM_WAIT,   /* is a raise that is made as soon as the holders outside let go */
    HF_CLAIM_CANCEL, /* ends the WAIT with this id, whose result still comes */
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
    HF_CLAIM_HELD,       /* a holder outside holds the range */
    HF_CLAIM_LATER,      /* the keeper cannot do it now, and is to be asked again */
    HF_CLAIM_STALE,      /* the file is gone */
    HF_CLAIM_READ_ONLY,  /* the file cannot be opened for writing */
    HF_CLAIM_UNMIRRORED, /* the kernel's locks on the file cannot be had, or mean nothing */
    HF_CLAIM_CANCELLED,  /* the WAIT was cancelled */
    HF_CLAIM_OUTCOMES,
};

struct hf_claim_holder {
    uint64_t first, last;
    bool exclusive;
    int32_t pid; /* the process; -1: unknown */
};

struct hf_claim_result {
    uint64_t id;
    enum hf_claim_outcome outcome;
    struct hf_claim_holder holder; /* the holder outside, if the outcome is HELD */
};

/* Tells that the connection to the keeper is lost, and with it perhaps every lock in the kernel.
 * New locks are refused for now, and waiters wait. */
void hf_core_claims_lost(struct hf_core *core, struct hf_now now);

/* Tells of a range that a keeper holds, before hf_core_claims_begin(). Returns HF_ENOMEM: begin
 * anew. */
int hf_core_claims_listed(struct hf_core *core, struct hf_bytes fh, uint64_t first, uint64_t last,
                          bool exclusive);
void hf_core_claims_begin(struct hf_core *core, struct hf_now now);

/* True if the kernel holds all that it ought to, or without coherence. Files for which this is not
 * so get no new locks; others do. */
bool hf_core_claims_ready(const struct hf_core *core);

/*
 * Returns when a request came, to be kept with one that must wait (hf_lock_args.asked). What the
 * kernel said before that is no answer to it; and if everything of its client was released since,
 * because the client has crashed, the request ends with it.
 */
uint64_t hf_core_asked(const struct hf_core *core);

/* Takes a result. HF_ENOMEM, HF_EINVAL: what the kernel holds is not known any more; the caller
 * must close the connection, and call hf_core_claims_lost(). */
int hf_core_claim_done(struct hf_core *core, struct hf_now now,
                       const struct hf_claim_result *result);

/* Calls sink for each claim to be made, in order. Views are valid until the sink returns. */
typedef void (*hf_claim_sink)(void *ctx, const struct hf_claim *claim);
void hf_core_claims_flush(struct hf_core *core, struct hf_now now, hf_claim_sink sink, void *ctx);

/* Returns the newest batch that is durable and whose releases the kernel has made. */
uint64_t hf_core_released(const struct hf_core *core);

#endif
