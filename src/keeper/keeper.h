/*
 * What the keeper does with each operation of the daemon (protocol.h), and the lease under which it
 * holds everything. Results gather here; server.h sends them.
 */
#ifndef HF_KEEPER_KEEPER_H
#define HF_KEEPER_KEEPER_H

#include "keeper/files.h"
#include "keeper/waits.h"

struct hf_keeper_limits {
    size_t files, waits, threads;
    uint32_t ranges; /* of one file */
};

struct hf_keeper {
    struct hf_keeper_files files;
    struct hf_waits waits;
    uint64_t incarnation;
    bool has_lease;          /* a service with standbys: the daemon has sent a RENEW */
    uint64_t valid_until_ms; /* CLOCK_BOOTTIME */
    bool lease_ended;        /* and everything was let go; no RENEW has told of it yet */
    bool silent;             /* no daemon is there to hear results */
    struct hf_keeper_result *results;
    size_t n_results, results_max; /* one for each operation of a message and for each wait */
};

/* The exports are empty and the limits are zero until the caller sets them in keeper->files. */
int hf_keeper_init(struct hf_keeper *keeper);

/* Starts the threads for waits. HF_ENOMEM, HF_EUNAVAIL. */
int hf_keeper_start(struct hf_keeper *keeper, const struct hf_keeper_limits *limits);
void hf_keeper_free(struct hf_keeper *keeper);

/* Carries out the operations in their order. There must be room for a result of each. */
void hf_keeper_execute(struct hf_keeper *keeper, int64_t now_ms, uint64_t boot_ms,
                       const struct hf_keeper_op *ops, size_t n);
void hf_keeper_execute_path(struct hf_keeper *keeper, const struct hf_keeper_path *path);

/* The daemon is gone: its waits end, its claims stay. */
void hf_keeper_disconnected(struct hf_keeper *keeper);

/* Lets everything go once the lease is over; true: it did so now. */
bool hf_keeper_check_lease(struct hf_keeper *keeper, uint64_t boot_ms);

#endif
