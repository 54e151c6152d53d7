/*
 * Claims (core/claim.h): for each file with locks, what the kernel holds, what it has been asked,
 * and what it ought to hold. It ought to hold the sum of all owners: each byte in the strongest
 * mode in which any owner holds it, or held it until a release that is not durable yet.
 *
 * Rounds. What one file wants of the kernel in a turn is a round: releases first, then what
 * requests and waiters ask for. One round of a file is in flight at a time. A request that comes
 * meanwhile waits for the end of the round and is decided anew; the next round asks for what it
 * needs. The results of a round are kept until the next flush, so that such a request finds its
 * own.
 *
 * Some bytes stay in the kernel after a release, or were claimed for a request that was refused
 * after all. A comparison finds them: a file that lost locks is dirty, and the next flush compares
 * its bytes with what the kernel ought to hold. The comparison also finds missing bytes: when a
 * keeper is new, and when the undo of a failed batch brings a lock back.
 *
 * The kernel searches the ranges of a file one by one, so a file may have only a few
 * (config.claim_ranges). A request that needs one more is refused. A release that would leave one
 * more is postponed: the kernel holds these bytes for no client, which excludes too much and never
 * too little, until enough ranges have gone (`coarse`).
 *
 * A waiter behind a holder outside NLM has a wait, which the keeper makes in the kernel's own
 * queue.
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

/* An ask: one question that a round puts to the kernel, and its result. */
struct hf_claim_ask {
    uint64_t first, last;
    enum hf_claim_kind kind;
    enum hf_claim_mode mode;
    enum hf_claim_outcome outcome;
    struct hf_claim_holder holder;
    bool corrects; /* the kernel ought to hold these bytes already, but lacks them */
    bool answered;
};

struct hf_asks {
    struct hf_claim_ask *at;
    uint32_t n, room;
};

enum { HF_DEPARTURES = 256, HF_SPARE_ASKS = 256 };

/* A range of bytes, empty if `any` is false. Adding bytes extends the stretch to include them. */
struct hf_stretch {
    uint64_t first, last;
    bool any;
};

struct hf_claim_file {
    uint64_t id; /* a claim's id comes first, because the slab requires an id there */
    struct hf_map_node node;
    struct hf_file *file;
    struct hf_sum held; /* ranges of this file that the kernel holds, by the results so far */
    /* Ranges that the kernel cannot hold, each with the mode that it refused. */
    struct hf_sum unmirrored;
    /* Removed locks, shared and exclusive, until the removal is durable. */
    struct hf_itree leaving[2];
    struct hf_list due;       /* links the file into claims->due: the next flush looks at it */
    struct hf_list in_flight; /* links the file into claims->in_flight, ordered by base */
    /* Links the file into claims->decided: requests that waited for round `told` are to be made
     * again. */
    struct hf_list decided;
    /* Links the file into claims->unreleased, ordered by release_seq: answers of that batch wait
     * until the kernel has released this file's bytes. */
    struct hf_list unreleased;
    /* Links the file into claims->later, while stretch `later` is not empty. */
    struct hf_list later_link;
    /* Links the file into claims->full: the keeper had no room for it. */
    struct hf_list full;
    struct hf_asks next;    /* what requests and waiters will ask for in the next round */
    struct hf_asks asks;    /* what the round in flight asks for */
    struct hf_asks answers; /* what the last round asked for, with the kernel's answers */
    struct hf_list waits;
    uint64_t round; /* id of the current round, for which requests wait; 0: no round */
    uint64_t base;  /* id of the first ask of the newest round that was handed out */
    uint64_t told;
    uint64_t release_seq;
    uint64_t dirty_seq;      /* the batch of the last release on this file */
    struct hf_stretch dirty; /* bytes whose claims must be compared with our locks */
    /* Bytes that the kernel lacks because the keeper could not lock them: compared at the next
     * retry. */
    struct hf_stretch later;
    /* A stretch with bytes that the kernel holds for no client (COH-14). */
    struct hf_stretch coarse;
    uint32_t n_open;   /* how many results of the round are still to come */
    bool has_released; /* a batch released bytes of the file, and the kernel does not know yet */
    bool parked;       /* a request waits for the round: later requests must not overtake it */
    bool correcting;   /* a new keeper may not hold all of the file's locks yet */
    bool crowded;      /* the next round was full: waiters ask again after it */
};

/* A waiter's place in the kernel's own queue, behind a holder outside NLM. */
struct hf_claim_wait {
    uint64_t id;
    struct hf_map_node node; /* links the wait into claims->by_wait, once the keeper has it */
    struct hf_list in_file;
    /* Links the wait into claims->waits, waits_later or cancels until it is handed out. */
    struct hf_list link;
    struct hf_claim_file *cf;
    struct hf_claim_wait **of; /* the waiter's pointer to this wait; NULL: the waiter has gone */
    uint64_t first, last;
    enum hf_claim_mode mode;
    bool handed_out;
    bool has_holder; /* the kernel named the holder in the way when the wait began */
    struct hf_claim_holder holder;
};

struct hf_claims {
    bool up;             /* a keeper is connected to the daemon */
    struct hf_map files; /* maps each hf_file, by its address, to its claims */
    struct hf_map by_wait;
    struct hf_slab file_slab, wait_slab;
    /* Spare memory for the first asks of a file, so that a request seldom allocates. */
    struct hf_claim_ask *spare[HF_SPARE_ASKS];
    uint32_t n_spare;
    struct hf_list due, in_flight, decided, unreleased;
    struct hf_list waits, cancels;
    struct hf_list later, waits_later; /* files and waits that the next retry asks for again */
    struct hf_list full; /* each file that is released in the kernel makes room for one of these */
    bool serving;        /* waiters may be served: neither strict grace nor a hold is in force */
    /* Clients may hold locks that no record shows: the kernel releases nothing. */
    bool unknown;
    uint64_t next_ask; /* numbers what the kernel is asked; also dates events in between */
    uint64_t departed[HF_DEPARTURES];
    /* When the request that is being served arrived (hf_core_asked()); 0: no request is served. */
    uint64_t asking;
    uint64_t n_ranges; /* how many ranges the kernel holds, in all files */
    /* How many files have bytes that the kernel cannot hold; have a coarse stretch; wait for a new
     * keeper to take their locks. */
    uint64_t n_unmirrored, n_coarse, n_correcting;
};

/*
 * hf_claims_departed() notes that the clients at this address lose everything they have now;
 * hf_claims_departed_at() returns when they last did, as hf_core_asked() counts. Addresses share a
 * few slots by their hash: a request that is dropped for another host's crash is repeated by its
 * client.
 */
void hf_claims_departed(struct hf_core *core, const struct hf_addr *addr);
uint64_t hf_claims_departed_at(const struct hf_core *core, const struct hf_addr *addr);

int hf_claims_init(struct hf_core *core);
void hf_claims_free(struct hf_core *core);

/* Makes claims for each file with loaded locks. Returns 0 or HF_ENOMEM. */
int hf_claims_start(struct hf_core *core);

/* What the kernel's locks mean for a request. */
enum hf_claim_say {
    /* The kernel holds the whole range for us; to a TEST: no holder outside NLM is in the way. */
    HF_SAYS_YES,
    HF_SAYS_WAIT,    /* the kernel is being asked: hf_claim_park() names the round to wait for */
    HF_SAYS_HELD,    /* a holder outside NLM has locked the range */
    HF_SAYS_LATER,   /* the keeper cannot tell now: the client must ask again */
    HF_SAYS_REFUSED, /* `stat` refuses the request */
    HF_SAYS_NO_MEMORY,
};

struct hf_claim_said {
    enum hf_claim_say say;
    enum hf_stat stat;
    struct hf_claim_holder holder;
};

/* Asks the kernel to lock (RAISE) or to test (TEST) the range that a request wants, unless the
 * answer is known. */
struct hf_claim_said hf_claim_want(struct hf_core *core, struct hf_file *file,
                                   const struct hf_want *want, enum hf_claim_kind kind);

/* Returns the id of the round that a new request about this file must wait for, so that it does not
 * overtake requests that wait already; 0: no round. */
uint64_t hf_claim_round_of(const struct hf_core *core, const struct hf_file *file);

/* Makes a request wait for the file's round, which is in progress or has just ended; returns the
 * round's id. */
uint64_t hf_claim_park(struct hf_core *core, const struct hf_file *file);

/* Announces what a waiting request will ask for when it is made again: the next round asks for it
 * already, so that many requests for one file need one round in all. */
void hf_claim_foresee(struct hf_core *core, struct hf_file *file, const struct hf_want *want,
                      enum hf_claim_kind kind);

/* True if a keeper is connected and holds everything of this file that it ought to. */
bool hf_claim_is_ready(const struct hf_core *core, const struct hf_file *file);

/* True if the file's claims may still change: it is not ready, or the kernel is being asked about
 * it or will be. */
bool hf_claim_is_awaited(const struct hf_core *core, const struct hf_file *file);

/* True if hf_claim_is_ready() is true of every file. */
bool hf_claims_are_ready(const struct hf_core *core);

/* True if the kernel holds the range in this mode or a stronger one, or if the range may be granted
 * although the kernel cannot hold it (config.grant_unmirrored). */
bool hf_claim_covers(const struct hf_core *core, const struct hf_file *file, uint64_t first,
                     uint64_t last, bool exclusive);

/* Puts a waiter into the kernel's queue behind a holder outside NLM; *of is the waiter's pointer to
 * its wait. holder is NULL if the kernel did not name it. Returns 0 or HF_ENOMEM. */
int hf_claim_wait_begin(struct hf_core *core, struct hf_file *file, const struct hf_want *want,
                        const struct hf_claim_holder *holder, struct hf_claim_wait **of);
void hf_claim_wait_end(struct hf_core *core, struct hf_claim_wait **of);

/* What the functions of claim.h do about claims, without what these mean for locks and waiters.
 * hf_claims_result() sets *ended to the file whose round this result ended, else to NULL. */
int hf_claims_result(struct hf_core *core, struct hf_now now, const struct hf_claim_result *result,
                     struct hf_claim_file **ended);
void hf_claims_lost(struct hf_core *core);
int hf_claims_listed(struct hf_core *core, struct hf_bytes fh, uint64_t first, uint64_t last,
                     bool exclusive);

/* unknown: clients may hold locks that no record shows, so the kernel keeps all locks until the
 * clients have had time to reclaim theirs. */
void hf_claims_set_unknown(struct hf_core *core, bool unknown);
void hf_claims_begin(struct hf_core *core);
void hf_claims_flush(struct hf_core *core, hf_claim_sink sink, void *ctx);

/* Asks the kernel again to hold a lock that our table has and the kernel lacks. */
void hf_claim_missing(struct hf_core *core, const struct hf_lock *lock);

/* Asks the keeper again for what it was not ready to do. */
void hf_claims_retry(struct hf_core *core);
bool hf_claims_next_decision(struct hf_core *core, uint64_t *round);

/* Returns the mode in which the kernel ought to hold a byte of the file; *end is the last byte, at
 * most `last`, up to which the kernel ought to hold that mode. */
enum hf_claim_mode hf_claim_wanted(const struct hf_claim_file *cf, uint64_t byte, uint64_t last,
                                   uint64_t *end);
struct hf_claim_file *hf_claim_file_find(const struct hf_core *core, const struct hf_file *file);

#endif
