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
 * Bytes that a release leaves in the kernel, and bytes that were claimed for a request that was
 * refused after all, are found by comparing: a file whose locks went is dirty, and at the next
 * flush its bytes are compared with what they ought to be. The comparison also finds what is
 * missing, which happens when a keeper is new, and when a lock that was lost comes back with a
 * failed batch.
 *
 * The kernel searches the ranges of a file one by one, so a file has few of them
 * (config.claim_ranges). A request that needs one more is refused. A release that would leave one
 * more is not made: the kernel holds these bytes for no client, which excludes too much and never
 * too little, until enough ranges have gone (`coarse`).
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

/* One question that a round asks the kernel, and its result. */
struct hf_claim_ask {
    uint64_t first, last;
    enum hf_claim_kind kind;
    enum hf_claim_mode mode;
    enum hf_claim_outcome outcome;
    struct hf_claim_holder holder;
    bool corrects; /* the ask is for bytes that the kernel ought to hold already, and does not */
    bool answered;
};

struct hf_asks {
    struct hf_claim_ask *at;
    uint32_t n, room;
};

enum { HF_DEPARTURES = 256, HF_SPARE_ASKS = 256 };

/* A stretch of bytes; none if `any` is false. It grows to hold what is added. */
struct hf_stretch {
    uint64_t first, last;
    bool any;
};

struct hf_claim_file {
    uint64_t id; /* the first word, which the slab uses */
    struct hf_map_node node;
    struct hf_file *file;
    struct hf_sum held; /* what the kernel holds, as far as results have come */
    /* What the kernel cannot hold, and the mode in which it refused to. */
    struct hf_sum unmirrored;
    struct hf_itree leaving[2]; /* shared and exclusive locks whose removal is not final */
    struct hf_list due;         /* links the file to be looked at by the next flush */
    struct hf_list in_flight;   /* links the file with a round in flight, in the order of base */
    /* Links the file whose requests that waited for `told` are to be made again. */
    struct hf_list decided;
    /* Links the file, in the order of release_seq, for whose release answers of that batch wait. */
    struct hf_list unreleased;
    struct hf_list later_link; /* links the file into claims->later, if `later` is not empty */
    struct hf_asks next;       /* what requests and waiters ask for in the next round */
    struct hf_asks asks;       /* the asks of the round in flight */
    struct hf_asks answers;    /* the asks of the last round, with their answers */
    struct hf_list waits;
    uint64_t round; /* the id of the round, for which requests wait; 0: there is none */
    uint64_t base;  /* the id of the round's first ask, while it is in flight */
    uint64_t told;
    uint64_t release_seq;
    uint64_t dirty_seq;      /* the batch of the last release */
    struct hf_stretch dirty; /* the bytes whose claims are to be compared with our locks */
    /* Bytes that are missing, because the keeper was not ready: they are compared at the retry. */
    struct hf_stretch later;
    /* A stretch with bytes that the kernel holds and no client asked for (COH-14). */
    struct hf_stretch coarse;
    uint32_t n_open;   /* how many results are still to come */
    bool has_released; /* a batch has released bytes, and the kernel has not been told yet */
    bool parked;       /* a request waits for the round: later ones must not overtake it */
    bool correcting;   /* the keeper is new, and may not hold all of the file's locks yet */
    bool crowded;      /* the next round had no room for a waiter, which asks again after it */
};

/* A waiter behind a holder outside. */
struct hf_claim_wait {
    uint64_t id;
    struct hf_map_node node; /* in the map of waits by id, once the wait is handed out */
    struct hf_list in_file;
    /* Links the wait into claims->waits or claims->cancels, to be handed out. */
    struct hf_list link;
    struct hf_claim_file *cf;
    struct hf_claim_wait **of; /* where the waiter keeps its wait; NULL: the waiter has gone */
    uint64_t first, last;
    enum hf_claim_mode mode;
    bool handed_out;
    bool has_holder; /* the kernel named the holder that was in the way when the wait began */
    struct hf_claim_holder holder;
};

struct hf_claims {
    bool up;             /* a keeper is connected */
    struct hf_map files; /* the files by the address of their hf_file */
    struct hf_map by_wait;
    struct hf_slab file_slab, wait_slab;
    /* Memory for the first asks of files, so that a request seldom allocates. */
    struct hf_claim_ask *spare[HF_SPARE_ASKS];
    uint32_t n_spare;
    struct hf_list due, in_flight, decided, unreleased;
    struct hf_list waits, cancels;
    struct hf_list later, waits_later; /* files and waits that are due again at the next retry */
    bool serving;      /* waiters are served at this flush: there is no strict grace and no hold */
    bool unknown;      /* clients may hold locks that are not recorded, so nothing is released */
    uint64_t next_ask; /* counts asks; an event between two of them is dated by this number */
    uint64_t departed[HF_DEPARTURES];
    /* When the request that is being served came (hf_core_asked()); 0: there is none. */
    uint64_t asking;
    uint64_t n_ranges; /* how many ranges all files have */
    /* How many files have bytes that the kernel cannot hold, have a coarse stretch, or are being
     * brought to a new keeper. */
    uint64_t n_unmirrored, n_coarse, n_correcting;
};

/*
 * The first tells that the clients of this address lose all they have, the second when they last
 * did (hf_core_asked()). Addresses share a few moments: a request that is dropped for another
 * host's sake is repeated.
 */
void hf_claims_departed(struct hf_core *core, const struct hf_addr *addr);
uint64_t hf_claims_departed_at(const struct hf_core *core, const struct hf_addr *addr);

int hf_claims_init(struct hf_core *core);
void hf_claims_free(struct hf_core *core);

/* Makes the claims of each file with locks that was loaded. Returns HF_ENOMEM without memory. */
int hf_claims_start(struct hf_core *core);

/* What the kernel says to a request. */
enum hf_claim_say {
    /* The kernel holds all of the range for us; TEST: no holder outside is in the way. */
    HF_SAYS_YES,
    HF_SAYS_WAIT,    /* the kernel is being asked: hf_claim_park() says what to wait for */
    HF_SAYS_HELD,    /* a holder outside holds the range */
    HF_SAYS_LATER,   /* the kernel cannot say now */
    HF_SAYS_REFUSED, /* `stat` is the answer */
    HF_SAYS_NO_MEMORY,
};

struct hf_claim_said {
    enum hf_claim_say say;
    enum hf_stat stat;
    struct hf_claim_holder holder;
};

/* Asks for what the request wants (RAISE or TEST), unless the answer is known. */
struct hf_claim_said hf_claim_want(struct hf_core *core, struct hf_file *file,
                                   const struct hf_want *want, enum hf_claim_kind kind);

/* Returns the id of the round that a request about this file must wait for, so that it does not
 * overtake one that does; 0: it need not wait. */
uint64_t hf_claim_round_of(const struct hf_core *core, const struct hf_file *file);

/* Lets a request wait for the round that is in progress, or has just ended; returns its id. */
uint64_t hf_claim_park(struct hf_core *core, const struct hf_file *file);

/* Tells what a request that waits for a round will ask for when it is made again: the next round
 * asks for it already, so that many requests for one file need one round and not one each. */
void hf_claim_foresee(struct hf_core *core, struct hf_file *file, const struct hf_want *want,
                      enum hf_claim_kind kind);

/* True if there is a keeper, and it holds all that it ought to of this file. */
bool hf_claim_is_ready(const struct hf_core *core, const struct hf_file *file);

/* True if the kernel is being asked about the file, or will be. */
bool hf_claim_is_awaited(const struct hf_core *core, const struct hf_file *file);

/* True if hf_claim_is_ready() is true of all files. */
bool hf_claims_are_ready(const struct hf_core *core);

/* True if the kernel holds the range in this mode or a stronger one, or the range is granted
 * unmirrored. */
bool hf_claim_covers(const struct hf_core *core, const struct hf_file *file, uint64_t first,
                     uint64_t last, bool exclusive);

/* Lets a waiter wait for a holder outside from now on; *of is where it keeps the wait. holder is
 * NULL if it is not known. Returns HF_ENOMEM without memory. */
int hf_claim_wait_begin(struct hf_core *core, struct hf_file *file, const struct hf_want *want,
                        const struct hf_claim_holder *holder, struct hf_claim_wait **of);
void hf_claim_wait_end(struct hf_core *core, struct hf_claim_wait **of);

/* These are the functions of claim.h, without what they mean for locks and waiters.
 * hf_claims_result() tells the file whose round has ended, NULL if none has. */
int hf_claims_result(struct hf_core *core, struct hf_now now, const struct hf_claim_result *result,
                     struct hf_claim_file **ended);
void hf_claims_lost(struct hf_core *core);
int hf_claims_listed(struct hf_core *core, struct hf_bytes fh, uint64_t first, uint64_t last,
                     bool exclusive);

/* unknown: clients may hold locks that are not recorded. Locks that the kernel holds for them are
 * spared until the clients had their time to reclaim. */
void hf_claims_set_unknown(struct hf_core *core, bool unknown);
void hf_claims_begin(struct hf_core *core);
void hf_claims_flush(struct hf_core *core, hf_claim_sink sink, void *ctx);

/* Asks the kernel once more to hold a lock that is held, and that the kernel does not hold. */
void hf_claim_missing(struct hf_core *core, const struct hf_lock *lock);

/* Asks again for what the keeper was not ready to do. */
void hf_claims_retry(struct hf_core *core);
bool hf_claims_next_decision(struct hf_core *core, uint64_t *round);

/* Returns the mode in which the kernel ought to hold a byte of the file, and up to where this is so
 * (at most last). */
enum hf_claim_mode hf_claim_wanted(const struct hf_claim_file *cf, uint64_t byte, uint64_t last,
                                   uint64_t *end);
struct hf_claim_file *hf_claim_file_find(const struct hf_core *core, const struct hf_file *file);

#endif
