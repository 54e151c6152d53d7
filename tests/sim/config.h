/*
 * What a seed decides before the first event: how the server is configured, how bad network and
 * store are, what goes wrong and how often. Rates are chosen so that most worlds are bad in a few
 * ways and quiet in the others; a world where everything fails at once shows little.
 */
#ifndef HF_SIM_CONFIG_H
#define HF_SIM_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"

/*
 * Hosts 2n and 2n + 1 may be two mounts of one machine, which a Linux kernel keeps apart as two
 * servers: svids are numbered for each, and the machine lives and dies as one.
 */
enum sim_twins {
    SIM_TWINS_NONE,
    SIM_TWINS_TRANSPORT, /* one mount uses TCP, the other UDP */
    SIM_TWINS_SERVER,    /* the mounts use two addresses of the server */
    SIM_TWINS_ADDRESS,   /* the mounts come from two addresses of the machine */
    SIM_TWINS_KINDS,
};

struct sim_config {
    uint64_t seed;

    /* The world. */
    uint8_t hosts;
    uint8_t files;
    uint8_t layout;       /* sim_layouts: where the cells begin */
    uint32_t busy_ms;     /* how long clients work and faults happen; then everything heals */
    uint32_t think_ms;    /* longest pause of a process between two requests */
    bool duplicate_cache; /* only without it must the network keep the order */
    uint8_t check_every;  /* hf_core_verify_invariants() is called after every n-th event */

    /* The server's configuration (SPEC section 6). */
    bool durable;
    bool process;   /* locks.durable=process, if durable (DUR-02) */
    bool continues; /* recovery.notify=needed (REC-01) */
    bool verify;    /* crash notices are verified (SEC-04) */
    bool conflict_mode;
    bool keep_on_failure;
    uint32_t grace_ms;
    uint32_t linger_ms;
    uint32_t in_flight;
    int8_t drift; /* how much the server's clock is too fast or too slow, per mille */
    uint32_t max_clients;
    uint32_t max_locks;
    uint32_t max_locks_per_client;
    uint32_t max_locks_per_file;
    uint32_t max_locks_per_host;
    uint32_t max_waiters;
    bool new_limits;         /* limits are high at first, and change at each start */
    uint32_t release_budget; /* how much work one slice of a release does */
    uint32_t serve_budget;   /* how much work one tick spends on serving waiters */

    /* The network. Chances are per mille and message. */
    uint16_t loss;
    uint16_t duplicate;
    bool ordered;
    uint32_t delay_ms;
    uint32_t late_ms; /* how late a few messages come, at most */
    uint32_t resend_ms;

    /* The store. Chances are per mille and commit. */
    uint32_t commit_ms;
    uint16_t commit_slow;
    uint16_t commit_fails;
    uint16_t commit_unknown;

    /* What clients do besides locking: chances per mille and step. */
    uint16_t signals;
    uint16_t nm_locks;
    uint16_t shares;
    uint16_t tests;
    uint16_t mons;
    uint16_t lies; /* a stranger uses another host's name */
    uint16_t free_alls;
    bool threads; /* the processes of every second host are threads of one: one owner */
    /* Chance of a LOCK that takes more than the process has, or the same in another mode. */
    uint16_t grows;
    uint16_t mixed; /* chance that a monitored host repeats a LOCK as NM_LOCK, or the reverse */
    enum sim_twins twins;
    bool stateless; /* every second host tells no state number in its LOCKs */

    /* Mean pauses between faults of each kind; 0: never. */
    uint32_t server_crash_ms;
    uint32_t host_crash_ms; /* mean pause between crashes of the server's host */
    uint32_t server_stop_ms;
    uint32_t simu_crash_ms;
    uint32_t client_crash_ms;
    uint32_t partition_ms;
    uint32_t store_outage_ms;
    uint32_t wall_jump_ms;
    uint32_t operator_ms;
    bool monitor;      /* the server is a status monitor only: the kernel serves the locks */
    bool roles;        /* the role (monitor or lock manager) may change at each start */
    bool reconfigures; /* a start may have another durability and grace mode than the run before */
    /* The longest time after a start that some of our addresses are not up; 0: all are up at once.
     */
    uint32_t late_ms_max;
    uint8_t dead_for_good; /* one in n client crashes is for good; 0: every host comes back */
};

void sim_config_draw(struct sim_config *config, uint64_t seed);

/* Changes the limits, as an operator may between two runs of the server. */
void sim_config_new_limits(struct sim_config *config, struct sim_rng *rng);

#endif
