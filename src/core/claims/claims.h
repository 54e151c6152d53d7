/*
 * Claims (core/claim.h): for each file with locks, what the kernel holds, what it has been asked,
 * and what it ought to hold. That is the sum of all owners: for each byte the strongest mode in
 * which any of them holds it, or held it until a release that is not durable yet.
 *
 * Rounds. What one file wants of the kernel in a turn is a round: releases first, then what
 * requests and waiters ask for. One round of a file is in flight at a time; a request that comes
 * meanwhile waits for its end and is decided anew, and what it will need is asked for in the next
 * round. The results of a round are kept until the next flush, so that such a request finds its
 * own.
 *
 * What a release leaves in the kernel, and what was claimed for a request that was refused after
 * all, is found by comparing: a file whose locks went is dirty, and at the next flush its bytes are
 * compared with what they ought to be. The comparison also finds what is missing, which happens
 * when a keeper is new, and when a lock that was lost comes back with a failed batch.
 *
 * The kernel searches the ranges of a file one by one, so a file has few of them
 * (config.claim_ranges). A request that needs one more is refused. A release that would leave one
 * more is not made: the kernel holds these bytes for nobody, which excludes too much and never too
 * little, until enough ranges have gone (`coarse`).
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

enum { HF_DEPARTURES = 256 };

/* A stretch of bytes; none if `any` is false. It grows to hold what is added. */
struct hf_stretch {
    uint64_t first, last;
    bool any;
};

struct hf_claim_file {
    uint64_t id; /* the slab's word */
    struct hf_map_node node;
    struct hf_file *file;
    struct hf_sum held;         /* by the kernel, as far as results have come */
    struct hf_sum unmirrored;   /* what it cannot hold, and the mode in which it refused to */
    struct hf_itree leaving[2]; /* shared and exclusive locks whose removal is not final */
    struct hf_list due;         /* to be looked at by the next flush */
    struct hf_list in_flight;   /* in the order of base */
    struct hf_list decided;     /* requests that waited for `told` are to be made again */
    struct hf_list unreleased;  /* answers of batch release_seq wait for it; in that order */
    struct hf_list later_link;  /* in claims->later, if `later` is not empty */
    struct hf_asks next;        /* what requests and waiters ask for in the next round */
    struct hf_asks asks;        /* of the round in flight */
    struct hf_asks answers;     /* of the last one */
    struct hf_list waits;
    uint64_t round; /* its id, for which requests wait; 0: there is none */
    uint64_t base;  /* the id of its first ask, while it is in flight */
    uint64_t told;
    uint64_t release_seq;
    uint64_t dirty_seq;       /* the batch of the last release */
    struct hf_stretch dirty;  /* to be compared with what it ought to be */
    struct hf_stretch later;  /* missing, and the keeper was not ready: compared at the retry */
    struct hf_stretch coarse; /* has bytes that the kernel holds and no client asked for (COH-14) */
    uint32_t n_open;          /* results that are to come */
    bool has_released;        /* by a batch, and the kernel has not been told yet */
    bool parked;              /* a request waits for the round: later ones must not overtake it */
    bool correcting;          /* the keeper is new, and may not hold all of it yet */
    bool crowded;             /* the next round had no room for a waiter: it asks again after it */
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
    bool has_holder; /* the kernel named the one that was in the way when the wait began */
    struct hf_claim_holder holder;
};

struct hf_claims {
    bool up;             /* there is a keeper */
    struct hf_map files; /* by the address of their hf_file */
    struct hf_map by_wait;
    struct hf_slab file_slab, wait_slab;
    struct hf_list due, in_flight, decided, unreleased;
    struct hf_list waits, cancels;
    struct hf_list later, waits_later; /* due again at the next retry */
    bool serving;                      /* waiters are, at this flush: no strict grace, no hold */
    bool unknown;      /* clients may hold locks that are not recorded: nothing is released */
    uint64_t next_ask; /* counts asks; what happens between two of them is dated by this number */
    uint64_t departed[HF_DEPARTURES];
    uint64_t asking;   /* when the request at work came (hf_core_asked()); 0: there is none */
    uint64_t n_ranges; /* in all files */
    uint64_t n_unmirrored, n_coarse, n_correcting; /* files */
};

/* The clients of this address lose all they have; when they last did (hf_core_asked()). Addresses
 * share a few moments: a request that is dropped for another host's sake is repeated. */
void hf_claims_departed(struct hf_core *core, const struct hf_addr *addr);
uint64_t hf_claims_departed_at(const struct hf_core *core, const struct hf_addr *addr);

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

/* The request waits for the round that is in progress, or has just ended: its id. */
uint64_t hf_claim_park(struct hf_core *core, const struct hf_file *file);

/* The request waits for a round, and will ask for this when it is made again: the next round asks
 * for it already, so that many requests for one file need one round and not one each. */
void hf_claim_foresee(struct hf_core *core, struct hf_file *file, const struct hf_want *want,
                      enum hf_claim_kind kind);

/* There is a keeper, and it holds all that it ought to of this file. */
bool hf_claim_is_ready(const struct hf_core *core, const struct hf_file *file);

/* The kernel is being asked about the file, or will be. */
bool hf_claim_is_awaited(const struct hf_core *core, const struct hf_file *file);

/* Of all files. */
bool hf_claims_are_ready(const struct hf_core *core);

/* The kernel holds the range in this mode or a stronger one, or it is granted unmirrored. */
bool hf_claim_covers(const struct hf_core *core, const struct hf_file *file, uint64_t first,
                     uint64_t last, bool exclusive);

/* A waiter waits for a holder outside from now on; *of is where it keeps the wait. holder: NULL if
 * it is not known. HF_ENOMEM. */
int hf_claim_wait_begin(struct hf_core *core, struct hf_file *file, const struct hf_want *want,
                        const struct hf_claim_holder *holder, struct hf_claim_wait **of);
void hf_claim_wait_end(struct hf_core *core, struct hf_claim_wait **of);

/* The functions of claim.h, without what they mean for locks and waiters. result: the file whose
 * round has ended, NULL if none has. */
int hf_claims_result(struct hf_core *core, struct hf_now now, const struct hf_claim_result *result,
                     struct hf_claim_file **ended);
void hf_claims_lost(struct hf_core *core);
int hf_claims_listed(struct hf_core *core, struct hf_bytes fh, uint64_t first, uint64_t last,
                     bool exclusive);

/* unknown: clients may hold locks that are not recorded. What the kernel holds for them is spared
 * until they had their time to reclaim. */
void hf_claims_set_unknown(struct hf_core *core, bool unknown);
void hf_claims_begin(struct hf_core *core);
void hf_claims_flush(struct hf_core *core, hf_claim_sink sink, void *ctx);

/* The lock is held and the kernel does not hold it: it is asked to, once more. */
void hf_claim_missing(struct hf_core *core, const struct hf_lock *lock);

/* Asks again for what the keeper was not ready for. */
void hf_claims_retry(struct hf_core *core);
bool hf_claims_next_decision(struct hf_core *core, uint64_t *round);

/* What the file ought to hold: the mode of a byte, and up to where it is that (at most last). */
enum hf_claim_mode hf_claim_wanted(const struct hf_claim_file *cf, uint64_t byte, uint64_t last,
                                   uint64_t *end);
struct hf_claim_file *hf_claim_file_find(const struct hf_core *core, const struct hf_file *file);

#endif
