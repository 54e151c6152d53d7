/*
 * Claims (core/claim.h): for each file with locks, what the kernel holds, what it has been asked,
 * and what it ought to hold. That is the sum of all owners: for each byte the strongest mode in
 * which any of them holds it, or held it until a release that is not durable yet.
 *
 * Rounds. What one file wants of the kernel in a turn is a round: releases first, then what
 * requests and waiters ask for. One round of a file is in flight at a time; a request that comes
 * meanwhile, and needs more, waits for its end and is decided anew. The results of a round are kept
 * until the next flush, so that such a request finds its own.
 *
 * What a release leaves in the kernel, and what was claimed for a request that was refused after
 * all, is found by comparing: a file whose locks went is dirty, and at the next flush its bytes are
 * compared with what they ought to be. The comparison also finds what is missing, which happens
 * when a keeper is new, and when a lock that was lost comes back with a failed batch.
 *
 * A waiter behind a holder outside has a wait, which the keeper makes in the kernel's own queue.
 */
#ifndef HF_CORE_CLAIMS_CLAIMS_H
#define HF_CORE_CLAIMS_CLAIMS_H

#include "base/itree.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slab.h"
#include "core/claim.h"
#include "core/claims/sum.h"
#include "core/request.h"

struct hf_file;
struct hf_lock;
struct hf_want;

/* One thing that a round asks of the kernel, and its result. */
struct hf_claim_ask {
    uint64_t first, last;
    enum hf_claim_kind kind;
    enum hf_claim_mode mode;
    enum hf_claim_outcome outcome;
    struct hf_claim_holder holder;
    bool corrects; /* what the kernel ought to hold already, and does not */
    bool answered;
};

struct hf_asks {
    struct hf_claim_ask *at;
    uint32_t n, room;
};

struct hf_claim_file {
    uint64_t id; /* the slab's word */
    struct hf_map_node node;
    struct hf_file *file;
    struct hf_sum held;           /* by the kernel, as far as results have come */
    struct hf_itree leaving[2];   /* shared and exclusive locks whose removal is not final */
    struct hf_list due;           /* to be looked at by the next flush */
    struct hf_list in_flight;     /* in the order of base */
    struct hf_list decided;       /* requests that waited for `told` are to be made again */
    struct hf_list unreleased;    /* answers of batch release_seq wait for it; in that order */
    struct hf_asks asks, answers; /* of the round that gathers or is in flight; of the last one */
    struct hf_list waits;
    uint64_t round; /* its id, for which requests wait; 0: there is none */
    uint64_t base;  /* the id of its first ask, while it is in flight */
    uint64_t told;
    uint64_t release_seq;
    uint64_t dirty_seq; /* the batch of the last release */
    uint64_t dirty_first, dirty_last;
    uint32_t n_open;   /* results that are to come */
    bool dirty;        /* dirty_first to dirty_last are to be compared */
    bool has_released; /* by a batch, and the kernel has not been told yet */
    bool parked;       /* a request waits for the round: later ones must not overtake it */
    bool later;        /* the keeper was not ready: to be compared at the next retry */
    bool unmirrored;   /* something of it is held here and not in the kernel */
};

/* A waiter behind a holder outside. */
struct hf_claim_wait {
    uint64_t id;
    struct hf_map_node node; /* by id, once it is handed out */
    struct hf_list in_file;
    struct hf_list link; /* in claims->waits or claims->cancels: to be handed out */
    struct hf_claim_file *cf;
    struct hf_claim_wait **of; /* where its waiter keeps it; NULL: the waiter has gone */
    uint64_t first, last;
    enum hf_claim_mode mode;
    bool handed_out;
};

enum hf_claims_state {
    HF_CLAIMS_DOWN,       /* no keeper */
    HF_CLAIMS_CORRECTING, /* the kernel does not hold all that it ought to yet */
    HF_CLAIMS_READY,
};

struct hf_claims {
    enum hf_claims_state state;
    struct hf_map files; /* by the address of their hf_file */
    struct hf_map by_wait;
    struct hf_slab file_slab, wait_slab;
    struct hf_list due, in_flight, decided, unreleased;
    struct hf_list waits, cancels;
    struct hf_list later, waits_later; /* due again at the next retry */
    bool unknown; /* clients may hold locks that are not recorded: nothing is released */
    uint64_t next_ask;
    uint64_t n_ranges, n_unmirrored; /* in all files; files with something unmirrored */
};

int hf_claims_init(struct hf_core *core);
void hf_claims_free(struct hf_core *core);

/* For each file with locks that was loaded, what belongs to its claims. HF_ENOMEM. */
int hf_claims_start(struct hf_core *core);

/* What the kernel has to say to a request. */
enum hf_claim_say {
    HF_SAYS_YES,     /* it holds all of the range for us; TEST: no holder outside is in the way */
    HF_SAYS_WAIT,    /* it is being asked: hf_claim_park() says what to wait for */
    HF_SAYS_HELD,    /* by a holder outside */
    HF_SAYS_LATER,   /* not now */
    HF_SAYS_REFUSED, /* `stat` is the answer */
    HF_SAYS_NO_MEMORY,
};

struct hf_claim_said {
    enum hf_claim_say say;
    enum hf_stat stat;
    struct hf_claim_holder holder;
};

/* Asks for what the request wants, unless the answer is known. RAISE, or TEST. */
struct hf_claim_said hf_claim_want(struct hf_core *core, struct hf_file *file,
                                   const struct hf_want *want, enum hf_claim_kind kind);

/* A request about this file must wait for a round, so that it does not overtake one that does: its
 * id; 0: it need not. */
uint64_t hf_claim_round_of(const struct hf_core *core, const struct hf_file *file);

/* The request waits for the round that is under way, or has just ended: its id. */
uint64_t hf_claim_park(struct hf_core *core, const struct hf_file *file);

/* The kernel holds the range in this mode or a stronger one, or its file is granted unmirrored. */
bool hf_claim_covers(const struct hf_core *core, const struct hf_file *file, uint64_t first,
                     uint64_t last, bool exclusive);

/* A waiter waits for a holder outside from now on; *of is where it keeps the wait. HF_ENOMEM. */
int hf_claim_wait_begin(struct hf_core *core, struct hf_file *file, const struct hf_want *want,
                        struct hf_claim_wait **of);
void hf_claim_wait_end(struct hf_core *core, struct hf_claim_wait **of);

/* The functions of claim.h, without what they mean for locks and waiters. result: the file whose
 * round has ended, NULL if none has. */
int hf_claims_result(struct hf_core *core, struct hf_now now, const struct hf_claim_result *result,
                     struct hf_claim_file **ended);
void hf_claims_lost(struct hf_core *core);
int hf_claims_listed(struct hf_core *core, struct hf_bytes fh, uint64_t first, uint64_t last,
                     bool exclusive);

/* unknown: clients may hold locks that are not recorded. What the kernel holds for them is spared
 * until they had their time to reclaim, which is then told by hf_claims_all_known(). */
void hf_claims_begin(struct hf_core *core, bool unknown);
void hf_claims_all_known(struct hf_core *core);
void hf_claims_flush(struct hf_core *core, struct hf_now now, hf_claim_sink sink, void *ctx);

/* The lock is held and the kernel does not hold it: it is asked to, once more. */
void hf_claim_missing(struct hf_core *core, const struct hf_lock *lock);

/* True once, when all is corrected. */
bool hf_claims_corrected(struct hf_core *core);

/* Asks again for what the keeper was not ready for. */
void hf_claims_retry(struct hf_core *core);
bool hf_claims_next_decision(struct hf_core *core, uint64_t *round);

/* What the file ought to hold: the mode of a byte, and up to where it is that (at most last). */
enum hf_claim_mode hf_claim_wanted(const struct hf_claim_file *cf, uint64_t byte, uint64_t last,
                                   uint64_t *end);
struct hf_claim_file *hf_claim_file_find(const struct hf_core *core, const struct hf_file *file);

#endif
