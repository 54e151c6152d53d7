/*
 * A simulated host on which NLM clients and other programs lock the same files (SPEC section 15):
 * the real core, a keeper, a kernel, and programs outside that lock, wait and die. Each step is one
 * thing that happens, drawn from the seed: a request, a commit's result, an operation that reaches
 * the keeper, a result that reaches the daemon, a crash. After each step the invariants are
 * checked.
 *
 *     nlm.c       clients of NLM, the requests that wait for the kernel, and their answers
 *     daemon.c    the process around the core: turns, commits, the connection to the keeper,
 * crashes kernel.c    the kernel's locks, the keeper, and the programs outside check.c     the
 * invariants
 */
#ifndef HF_COHERENCE_WORLD_H
#define HF_COHERENCE_WORLD_H

#include <stdio.h>

#include "core/core.h"
#include "rng.h"
#include "support/faulty_heap.h"
#include "support/records.h"

enum {
    FILES = 2,
    CELLS = 6, /* cells of one byte each; the last one reaches to the end */
    PROCS = 4, /* NLM clients, each a host with one process */
    OUTSIDE = 3,
    HOLDERS = 1 + OUTSIDE, /* all who may hold locks of the kernel; the keeper is the first */
    PIPE = 256,
    WAITS = 32,
    GHOSTS = 4,
    LATE_MS = 1500,
};

struct range {
    uint8_t file, first, last;
};

enum what { NOTHING, LOCK, UNLOCK, CANCEL, TEST };

struct ask {
    enum what what;
    struct range range;
    bool exclusive, block, reclaim;
};

/* A process of an NLM client. */
struct proc {
    /* The mode in which the process believes to hold each cell (enum hf_claim_mode). */
    uint8_t believes[FILES][CELLS];
    /* The keeper died after the process got the lock, so the lock may be lost. */
    bool shaky[FILES][CELLS];
    bool unreclaimed[FILES][CELLS]; /* locks not reclaimed since the daemon's restart */
    struct ask ask;                 /* the process's request; NOTHING: it asks for nothing now */
    struct ask again;               /* a request that a dead daemon had, to be repeated */
    bool asked;         /* the daemon has the request; otherwise it is still to be sent */
    bool blocked;       /* the process was told to wait */
    uint64_t claim;     /* the decision that the request waits for */
    uint64_t parked_at; /* the request's place among those that wait */
    uint64_t came;      /* hf_core_asked() when the request was first tried; 0: no request waits */
    bool answered;      /* the answer waits for its batch to be durable */
    struct hf_answer answer;
    int32_t life;
    uint64_t since; /* step */
};

/* A request that the daemon still has, though its client has rebooted since. */
struct ghost {
    unsigned proc;
    struct ask ask;
    int32_t life;
    uint64_t came, claim; /* claim 0: none */
    uint64_t parked_at;
};

/* A program outside. */
struct outsider {
    bool waits;
    struct range range;
    uint8_t mode;
    uint64_t since[FILES][CELLS]; /* the step at which the program got the cell */
};

struct wait {
    uint64_t id; /* 0: none */
    struct range range;
    uint8_t mode;
};

struct op {
    struct hf_claim claim;
    struct range range;
};

struct world {
    struct sim_rng rng;
    struct hf_alloc alloc;
    struct faulty_heap heap;
    FILE *trace;
    uint64_t seed, step;
    struct hf_now now;

    /* The rates and sizes that a seed decides. */
    unsigned crashes, keeper_deaths, commit_fails, outside, no_memory, later, unmirrored; /* 1 in */
    unsigned simulated; /* likewise */
    unsigned ranges;    /* of a file */
    bool durable, grant_unmirrored;

    uint8_t kernel[FILES][CELLS][HOLDERS];
    struct outsider outsiders[OUTSIDE];

    struct hf_core *core; /* NULL: down */
    struct records records;
    const struct hf_batch *committing;
    struct proc procs[PROCS];
    struct ghost ghosts[GHOSTS];
    uint64_t parked; /* counter */

    bool keeper_up, connected;
    struct wait waits[WAITS];
    struct op ops[PIPE]; /* operations on their way to the keeper */
    unsigned n_ops;
    struct hf_claim_result results[PIPE]; /* results on their way to the daemon */
    unsigned n_results;

    bool refused[FILES][CELLS]; /* the kernel could not hold this cell (UNMIRRORED) in this world */

    bool synced;        /* since the keeper's start, the kernel once held every durable lock */
    bool started;       /* the daemon's epoch is durable */
    uint64_t unsettled; /* the latest step in which a client booted, or stopped waiting */
    bool calm;          /* the faults have ended, and all locks are being released */
    uint64_t repeats, ghosts_made, simulated_made, coarse_made;
    uint64_t grants, outside_grants, refusals, losses, waits_made, crashes_made;
    const char *violation;
    char detail[160];
};

bool world_run(struct world *w, uint64_t seed, FILE *trace);
void world_free(struct world *w);
__attribute__((format(printf, 3, 4))) void violate(struct world *w, const char *what,
                                                   const char *format, ...);
#define TRACE(w, ...)                                                     \
    do {                                                                  \
        if ((w)->trace) {                                                 \
            fprintf((w)->trace, "%6llu ", (unsigned long long)(w)->step); \
            fprintf((w)->trace, __VA_ARGS__);                             \
            fputc('\n', (w)->trace);                                      \
        }                                                                 \
    } while (0)

static inline uint64_t first_byte(struct range r)
{
    return r.first;
}

static inline uint64_t last_byte(struct range r)
{
    return r.last == CELLS - 1 ? UINT64_MAX : r.last;
}

struct hf_bytes handle_of(unsigned file);
int file_of(struct hf_bytes fh);
struct range range_of(unsigned file, uint64_t first, uint64_t last);
struct range any_range(struct world *w);

/* kernel.c */
int kernel_conflict(const struct world *w, unsigned holder, struct range r, uint8_t mode);
void kernel_changed(struct world *w);
bool kernel_covers(const struct world *w, struct range r, uint8_t mode);
void keeper_step(struct world *w);
void keeper_die(struct world *w);
void keeper_disconnect(struct world *w);
void outsider_step(struct world *w);
void outsiders_leave(struct world *w);

/* nlm.c */
void nlm_step(struct world *w);
/* Handles requests whose decision is made, and answers that may leave. */
void nlm_settle(struct world *w);
void nlm_daemon_gone(struct world *w);
bool nlm_granted(struct world *w, const struct hf_outcall_attempt *call);
void nlm_lost(struct world *w, struct hf_bytes name);
bool nlm_is_idle(const struct world *w);
bool nlm_is_reclaiming(const struct world *w);
void nlm_reboot(struct world *w, unsigned p);
void nlm_simulate_crash(struct world *w);
bool is_coarse(const struct world *w);

/* daemon.c */
void daemon_start(struct world *w);
void daemon_crash(struct world *w);
void daemon_turn(struct world *w);
void daemon_commit_done(struct world *w, bool fails);
void daemon_result(struct world *w);
void daemon_connect(struct world *w);
void daemon_disconnected(struct world *w);

/* check.c */
void check(struct world *w);
void check_rest(struct world *w);
void sum_of_locks(const struct world *w, uint8_t sum[FILES][CELLS]);

#endif
