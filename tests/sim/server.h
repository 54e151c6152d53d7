/*
 * The server's process around the core and its handlers: what src/daemon, src/rpc and src/store
 * are. It lets answers go when a batch is durable, commits one batch at a time, makes the outgoing
 * calls that the core wants made, wakes it when it asks to be woken, and dies and comes back.
 *
 * The simulated disk (records) and nothing else survives a crash; of what was not flushed a crash
 * of the host may take the newest (pages.h).
 */
#ifndef HF_SIM_SERVER_H
#define HF_SIM_SERVER_H

#include "core/core.h"
#include "message.h"
#include "model.h"
#include "pages.h"
#include "support/records.h"
#include "wire.h"

struct sim_world;

enum {
    SIM_CACHE = 64, /* entries of the duplicate request cache */
    SIM_CALLS_OUT = 64,
};

/* An entry of the duplicate request cache: the request, and its answer once there is one. */
struct sim_cached {
    bool used;
    bool answered;
    struct sim_message answer;
};

/* An attempt of an outgoing call. */
struct sim_call_out {
    bool used;
    bool async;
    uint8_t host;
    uint8_t kind;  /* enum hf_outcall_kind */
    bool sent;     /* the message may arrive; otherwise it certainly does not */
    bool answered; /* GRANTED_RES came before the attempt timed out */
    bool untried;  /* no packet can leave, because our address is not up */
    /* The call goes to a lockd on the server's own host, which is not simulated and answers at
     * once. */
    bool local;
    int32_t state; /* SM_STAT: the answer */
    uint32_t attempt;
    uint64_t call_id;
    uint64_t cookie; /* the cookie of this attempt, unique in the world */
    unsigned owner;
    struct sim_range range;
    /* The function of the handler, or of its name lookup, that is told how the call ended. */
    hf_rpc_done done;
    sim_resolved resolved;
    void *done_ctx;
};

struct sim_server {
    struct hf_core *core; /* NULL: down */
    uint32_t run;         /* counts starts; events of an earlier run are ignored */
    struct records records;
    struct sim_pages pages;
    struct sim_wire wire; /* the handlers, and what they have in flight */
    struct sim_cached cache[SIM_CACHE];
    unsigned next_cached;
    struct sim_call_out calls[SIM_CALLS_OUT];
    /* A ring: how many attempts of an outcall failed although they may have arrived. */
    struct sim_outcall {
        uint64_t call_id;
        unsigned arrived;
        uint8_t host; /* of a GRANTED; otherwise SIM_HOSTS */
        /* The host was given up meanwhile: the next attempt that fails is the last. */
        bool cut_short;
    } outcalls[SIM_CALLS_OUT];
    unsigned n_outcalls;
    uint64_t next_cookie;

    const struct hf_batch *committing; /* belongs to the core; NULL: none */
    uint64_t committing_since;         /* the number of the event in which the batch was taken */
    bool writing;                      /* the batch is only written, and flushed later */
    int commit_result;
    bool commit_twice; /* the batch's outcome is in doubt, so it will be sent again */
    bool outage;       /* the store fails every call */
    bool stopping;
    uint64_t stop_seq;

    uint64_t started_ms; /* the world's time and the server's own time at its start */
    uint64_t mono_base_ms;
    uint64_t epoch;          /* in memory */
    uint64_t durable_epoch;  /* on the disk */
    uint64_t number_epoch;   /* the epoch in which our state number was due, and was taken */
    uint64_t durable_number; /* on the disk */
    uint64_t start_epoch;    /* of this run, before any SM_SIMU_CRASH, and the number due then */
    uint64_t start_number;
    bool was_monitor; /* the server was a status monitor in the run whose epoch is on the disk */
    struct sim_oracle disk;     /* the locks on the disk */
    bool registered[SIM_HOSTS]; /* clients on the disk */
    bool clean;                 /* the disk says that the server was stopped cleanly */
    struct sim_recorded {       /* What the disk has besides locks (REC-02, REC-03). */
        struct sim_waiter waiters[SIM_WAITERS], granting[SIM_WAITERS];
        unsigned n_waiters, n_granting;
        struct sim_share shares[SIM_SHARES];
        unsigned n_shares;
    } besides;
    bool records_all;       /* the run whose epoch is on the disk records waiters and shares */
    bool complete;          /* that run had nothing left to recover */
    bool continued;         /* this run continues where the last one ended, as it must */
    bool recorded;          /* the run whose epoch is on the disk records locks */
    uint32_t late_hosts;    /* hosts that know us by an address which is not up yet */
    uint64_t late_until_ms; /* when the addresses that are late come up */
    bool tail_lost;         /* a crash of the host: until grace ends, locks may be unknown */
    /* Locks that became unknown in such a crash, and were not reclaimed since. */
    struct sim_oracle lost;
    uint64_t wake_at_ms; /* when the next wake-up is queued; 0: none is */
    uint64_t commits;    /* counts all commits of the world, so that the n-th can fail */

    bool grace;              /* as last seen */
    uint64_t grace_until_ms; /* the end of the full grace period, counted from the start */
    /* How many attempts at a notice have failed in this epoch. */
    uint32_t notices_failed[SIM_HOSTS];
    uint64_t grace_ended_epoch; /* the newest epoch that was seen without grace; 0: none */
    uint32_t grace_ended_run;
    /* The highest state number that a notice carried, and the run in which it did. */
    int32_t highest_state;
    uint32_t highest_run;
    uint64_t idle_digest;   /* the core's digest at the crash, if nothing was in flight */
    uint64_t loaded_digest; /* after loading; a start that continues may grant at once */
    bool idle_at_crash;
};

/* Starts from what is on the disk; tries again later when memory runs out. */
void sim_server_start(struct sim_world *world);
void sim_server_crash(struct sim_world *world);
void sim_server_host_crash(struct sim_world *world);
void sim_server_stop(struct sim_world *world);
void sim_server_simu_crash(struct sim_world *world);

/* Handles a request or an answer from the network. */
void sim_server_on_message(struct sim_world *world, const struct sim_message *message);
void sim_server_on_commit(struct sim_world *world, uint32_t run);
void sim_server_on_wake(struct sim_world *world, uint32_t run);

/* Does what the core wants done after a call into it: commits, calls, events, wake-up. */
void sim_server_pump(struct sim_world *world);

/* True until grace is over, if the server does not know all the locks that clients have. */
bool sim_server_is_blind(const struct sim_world *world);

struct hf_now sim_now(const struct sim_world *world);

#endif
