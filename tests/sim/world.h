/*
 * A whole simulated world: clients, network, server, disk and time, from one seed. The loop takes
 * the next event, lets the host or server that it concerns act, and then checks the invariants; the
 * first one that does not hold ends the run.
 *
 *     config rng queue trace      what a seed decides; chance, time, history
 *     client process work         machines, the kernel's lock call, what programs want
 *     net message                 between the two
 *     server answers calls door   the process around the core and its handlers
 *     wire decided speak xdr      the handlers and codecs themselves, and XDR written by hand
 *     disk pages                  what the core has written, and what of it is not flushed
 *     trouble operator            faults, and the operator's hand
 *     oracle model look predict   the naive model, how the core is read, what it must answer
 *     invariants beliefs          what must be true
 *     run exhaustive faults hunt   the modes of hf-sim
 */
#ifndef HF_SIM_WORLD_H
#define HF_SIM_WORLD_H

#include "base/alloc.h"
#include "beliefs.h"
#include "client.h"
#include "config.h"
#include "model.h"
#include "net.h"
#include "queue.h"
#include "rng.h"
#include "server.h"
#include "support/faulty_heap.h"
#include "trace.h"

enum sim_event_kind {
    SIM_EVENT_MESSAGE, /* what: the slot of the network */
    SIM_EVENT_RESEND,  /* who: the host; what: the slot of its calls */
    SIM_EVENT_PROCESS, /* who: the host; what: the process */
    SIM_EVENT_BOOT,    /* who: host */
    SIM_EVENT_COMMIT,
    SIM_EVENT_FLUSH,
    SIM_EVENT_WAKE,
    SIM_EVENT_CALL,  /* what: the index of an outgoing call that times out */
    SIM_EVENT_FAULT, /* what: enum sim_fault whose next one is due; who: 1 for an extra one */
    /* who: the host; what: the direction; ends a partition or (SIM_FAULT_OUTAGE) a failure of the
       store. */
    SIM_EVENT_HEAL,
    SIM_EVENT_START, /* the server comes up again */
    SIM_EVENT_CALM,  /* the faults stop */
    /* The last restart, by which the server finds out which hosts are dead. */
    SIM_EVENT_LAST_RESTART,
};

/* the fault's name in the summary; those down to PARTITION are scheduled, the others happen by
 * chance */
#define SIM_FAULTS(X)                             \
    X(SERVER_CRASH, "server crashes")             \
    X(SERVER_STOP, "server stops")                \
    X(SIMU_CRASH, "simulated crashes")            \
    X(HOST_CRASH, "crashes of the server's host") \
    X(CLIENT_CRASH, "client crashes")             \
    X(PARTITION, "partitions")                    \
    X(OUTAGE, "store outages")                    \
    X(WALL_JUMP, "wall clock jumps")              \
    X(OPERATOR, "operator interventions")         \
    X(CLIENT_DEATH, "clients dead for good")      \
    X(LOSS, "messages lost")                      \
    X(CUT, "messages cut off")                    \
    X(DUPLICATE, "messages duplicated")           \
    X(REORDER, "messages overtaken")              \
    X(DELAY, "messages late")                     \
    X(COMMIT_FAILED, "commits failed")            \
    X(COMMIT_SLOW, "commits slow")                \
    X(COMMIT_UNKNOWN, "commits in doubt")         \
    X(CRASH_IN_COMMIT, "crashes during a commit") \
    X(TAIL_LOST, "crashes that lost batches")     \
    X(ALLOC_FAILED, "allocations failed")         \
    X(CALL_FAILED, "outgoing calls failed")       \
    X(CALL_REFUSED, "GRANTED refused")            \
    X(STALE, "stale requests executed")           \
    X(RECLAIM_REFUSED, "reclaims refused")        \
    X(LAPSED, "grants lapsed by the rules")       \
    X(LIE, "requests under a false name")         \
    X(FORGED, "notices from a false address")     \
    X(REFUTED, "notices contradicted")            \
    X(RECONFIGURED, "starts configured anew")     \
    X(CONTINUED, "starts that no client notices") \
    X(ADDRESS_LATE, "starts before an address")   \
    X(MONITOR, "starts as a status monitor")

enum sim_fault {
#define X(name, text) SIM_FAULT_##name,
    SIM_FAULTS(X)
#undef X
        SIM_FAULT_KINDS
};

/*
 * The cases in which the model lets something pass that it cannot judge. Each is counted; in a run
 * of many seeds there is a ceiling for its share (run.c), so that an excuse cannot grow until
 * nothing is checked. name, what is excused, of what (a field of sim_stats), the ceiling in parts
 * of 10,000
 */
#define SIM_EXCUSES(X)                                                                      \
    X(SLEEPS_AT_LIMIT, "waiters that sleep near a limit", waiters_seen, 10)                 \
    X(SLEEPS_IN_SLICES, "waiters that sleep until the next slice", waiters_seen, 40)        \
    X(NO_ROOM, "refusals that one lock more would not explain", requests, 5)                \
    X(NO_ROOM_CLIENTS, "refusals of a client more", requests, 600)                          \
    X(GRACE_EITHER, "LOCKs in grace that may be granted or refused", requests, 40)          \
    X(CANCEL_EITHER, "CANCELs of a part that may be granted or denied", requests, 2)        \
    X(RECLAIM_EITHER, "reclaims checked by client, granted or denied", requests, 100)       \
    X(SILENT_EARLY, "hosts thought silent before the last try", requests, 1)                \
    X(LATE_GRANT, "grants of an earlier server that came too late", requests, 2)            \
    X(LAST_RECLAIM, "cells whose reclaim ended grace, and that record failed", requests, 1) \
    X(FREE_ALL_DOUBTFUL, "FREE_ALLs after a notice that was never verified", requests, 2)

enum sim_excuse {
#define X(name, text, of, ceiling) SIM_EXCUSE_##name,
    SIM_EXCUSES(X)
#undef X
        SIM_EXCUSE_KINDS
};

struct sim_stats {
    uint64_t events;
    uint64_t requests;
    uint64_t grants;
    uint64_t waits;
    uint64_t reclaims;
    uint64_t deadlocks;
    uint64_t beliefs;      /* cells that a client believed to hold, looked at after each event */
    uint64_t waiters_seen; /* waiters that could be granted, looked at after each event */
    uint64_t excuses[SIM_EXCUSE_KINDS];
    uint64_t lapsed[SIM_LAPSE_KINDS]; /* of the beliefs */
    uint64_t faults[SIM_FAULT_KINDS];
};

struct sim_world {
    struct sim_config config;
    struct sim_rng rng;
    struct sim_queue queue;
    struct sim_trace trace;
    struct sim_stats stats;
    struct sim_net net;
    struct sim_server server;
    struct sim_host hosts[SIM_HOSTS];
    struct sim_model model;
    struct sim_seen scratch[2]; /* too large for the stack of every check */
    struct sim_oracle believed; /* the locks that clients believe their owners to have */
    /* Not SIM_FREE: believed by NM_LOCK, so a restart of the server ends it. */
    struct sim_oracle unrecorded;
    struct sim_beliefs beliefs; /* about shares */
    struct faulty_heap heap;    /* the core's memory */
    struct hf_alloc alloc;
    uint32_t call_attempts; /* as in the core's configuration */
    uint64_t fail_commit;   /* the number of the first commit that fails; 0: none */
    uint64_t fail_commits;  /* how many commits in a row fail */

    uint64_t now_ms;
    int64_t wall_offset_ms;
    bool calm; /* the faults have stopped */
    uint64_t calm_since_ms;
    bool restart_due;      /* SIM_EVENT_LAST_RESTART is still to come */
    const char *violation; /* the invariant that did not hold; NULL: none so far */
    char detail[256];
};

static inline void sim_excuse(struct sim_world *world, enum sim_excuse excuse)
{
    world->stats.excuses[excuse]++;
}

void sim_world_init(struct sim_world *world, const struct sim_config *config, FILE *trace);
void sim_world_free(struct sim_world *world);

/* Runs to the end, or to the first violation; true if there was none. */
bool sim_world_run(struct sim_world *world);

/* Counts a fault. */
static inline void sim_world_fault(struct sim_world *world, enum sim_fault fault)
{
    world->stats.faults[fault]++;
}

/* Only the first violation counts; what comes after it may be its consequence. */
__attribute__((format(printf, 3, 4))) void
sim_world_violation(struct sim_world *world, const char *invariant, const char *format, ...);

/* Notes that a process of a client accepted a GRANTED callback. */
void sim_world_callback_taken(struct sim_world *world, unsigned proc,
                              const struct sim_message *call);

#define SIM_WORLD_TRACE(world, a, b, c, ...) \
    SIM_TRACE(&(world)->trace, (world)->now_ms, a, b, c, __VA_ARGS__)

#endif
