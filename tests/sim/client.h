/*
 * A simulated client machine that behaves as a Linux kernel's lockd and rpc.statd do
 * (docs/internals/PROTOCOL-NOTES.md): it repeats what is not answered, polls a blocking lock every
 * 30 s, may hear GRANTED before BLOCKED, cancels when its process is signalled, waits 5 s on
 * DENIED_GRACE_PERIOD, reclaims one lock after the other when told that the server restarted, and
 * drops without a word what it is not given back. When it is killed hard it comes back with a new
 * NSM state number and says so, by its long and by its short name, until answered. Its status
 * monitor answers SM_STAT with that number; after a boot not always at once.
 *
 * What a client believes to hold is kept in the world (struct sim_world, believed): that is what
 * the invariants are about.
 */
#ifndef HF_SIM_CLIENT_H
#define HF_SIM_CLIENT_H

#include "message.h"

struct sim_world;

/* One call that is in flight; it is repeated until answered. */
struct sim_slot {
    bool active;
    uint32_t generation; /* generation of the timer that repeats the call */
    uint32_t pause_ms;
    uint64_t since_ms;
    struct sim_message call;
};

enum {
    SIM_SLOT_RECLAIM = SIM_PROCS, /* the slot of the reclaimer, behind one slot per process */
    SIM_SLOT_NOTIFY_LONG,
    SIM_SLOT_NOTIFY_SHORT,
    SIM_SLOT_MISC,
    SIM_SLOTS,
};

enum sim_phase {
    SIM_IDLE,
    SIM_CALLING, /* a call of the process is in flight in its slot */
    SIM_WAITING, /* told BLOCKED; polls */
    SIM_PAUSED,  /* the process was answered DENIED_GRACE_PERIOD and waits before it asks again */
};

/* A process, which does one thing at a time. */
struct sim_process {
    enum sim_phase phase;
    struct sim_message want; /* the request of the process, ready to be sent again */
    uint64_t since_ms;       /* when the process began to ask for `want` */
    /* The process is on the kernel's list of waiting requests, where GRANTED finds it. */
    bool listed;
    bool granted; /* GRANTED came while the LOCK was still in flight */
    /* That GRANTED was for a LOCK, and not for an NM_LOCK, as far as the server knew. */
    bool granted_recorded;
    /* The operator has released what the process asked for since it asked: a grant that it hears of
     * later may be gone, with its record. */
    bool released;
    /* The epoch of the server that sent GRANTED; the client itself does not know it. */
    uint64_t granted_epoch;
    uint32_t op;            /* the running number of the request in `want` */
    uint32_t timer;         /* generation of the process's only timer */
    uint64_t poll_ms;       /* when the next LOCK of a waiting process is due */
    int32_t asked_at_state; /* the server's state, as known when the LOCK was sent */
    struct sim_message
        shared;     /* its last SHARE, even of an earlier life: programs repeat themselves */
    bool again;     /* the host was booted after that SHARE */
    bool shy;       /* the process was told of a deadlock, and releases everything next */
    uint8_t tidied; /* how many files the process has released at the end */
    bool finished;  /* the world is calm and this process has nothing left to do */
};

struct sim_reclaim {
    uint8_t proc;
    uint8_t mode; /* enum sim_mode */
    struct sim_range range;
};

struct sim_host {
    bool up;
    bool dead;        /* the host stays down for good */
    bool unmonitored; /* uses NM_LOCK and SHARE only, as DOS clients do */
    /* The host's processes are threads of one process, and share its locks and its svid. */
    bool threaded;
    uint32_t life;  /* counts reboots */
    uint32_t timer; /* generation of the boot timer */
    int32_t state;  /* the host's own NSM state number, odd */
    /* The moment after a boot at which the host's status monitor begins to answer. */
    uint64_t monitor_ms;
    int32_t server_state; /* the server's state number in the last notice; 0: no notice came yet */
    uint32_t xid;
    struct sim_process procs[SIM_PROCS];
    struct sim_slot slots[SIM_SLOTS];
    struct sim_reclaim reclaims[SIM_PROCS * SIM_FILES * SIM_CELLS];
    unsigned n_reclaims;
    unsigned next_reclaim;
};

/* The svid of a process; threads have the svid of their process. */
static inline unsigned sim_svid(const struct sim_host *host, unsigned proc)
{
    return host->threaded ? 0 : proc;
}

void sim_client_start(struct sim_world *world, unsigned host);

/* The machine is killed hard. It comes back after down_ms, or never when that is 0. */
void sim_client_crash(struct sim_world *world, unsigned host, uint32_t down_ms);
/* A machine goes up and down with all its mounts. */
bool sim_client_is_up(const struct sim_world *world, unsigned host);

void sim_client_on_message(struct sim_world *world, const struct sim_message *message);
void sim_client_on_resend(struct sim_world *world, unsigned host, unsigned slot,
                          uint32_t generation);
void sim_client_on_process(struct sim_world *world, unsigned host, unsigned proc,
                           uint32_t generation);
void sim_client_on_boot(struct sim_world *world, unsigned host, uint32_t generation);

/* True when this host has nothing in flight and believes to hold nothing. */
bool sim_client_is_done(const struct sim_world *world, unsigned host);

#endif
