/* Carries out each operation of the daemon (protocol.h), and knows the lease under which it holds
 * everything. Results gather here; server.h sends them. */
#ifndef HF_KEEPER_KEEPER_H
#define HF_KEEPER_KEEPER_H

#include "keeper/files.h"
#include "keeper/waits.h"

struct hf_keeper_limits {
    size_t files, waits, threads;
    uint32_t ranges; /* how many ranges one file may have */
};

struct hf_keeper {
    struct hf_keeper_files files;
    struct hf_waits waits;
    uint64_t incarnation;
    bool has_lease;          /* the daemon has sent a RENEW, because its service has standbys */
    uint64_t valid_until_ms; /* when the lease ends, on CLOCK_BOOTTIME */
    /* The lease has ended and everything was let go; no RENEW has told of it yet. */
    bool lease_ended;
    bool silent; /* no daemon is connected to hear results */
    struct hf_keeper_result *results;
    /* There is room for one result of each operation in a message and of each wait. */
    size_t n_results, results_max;
};

/* Initialises the keeper. The exports are empty and the limits are zero until the caller sets them
 * in keeper->files. */
int hf_keeper_init(struct hf_keeper *keeper);

/* Starts the threads that wait for locks. Returns HF_ENOMEM, HF_EUNAVAIL. */
int hf_keeper_start(struct hf_keeper *keeper, const struct hf_keeper_limits *limits);
void hf_keeper_free(struct hf_keeper *keeper);

/* Carries out the operations in their order. There must be room for a result of each. */
void hf_keeper_execute(struct hf_keeper *keeper, int64_t now_ms, uint64_t boot_ms,
                       const struct hf_keeper_op *ops, size_t n);
void hf_keeper_execute_path(struct hf_keeper *keeper, const struct hf_keeper_path *path);

/* Tells the keeper that the daemon is gone: its waits end, its claims stay. */
void hf_keeper_disconnected(struct hf_keeper *keeper);

/* Lets everything go if the lease is over; true if it did so in this call. */
bool hf_keeper_check_lease(struct hf_keeper *keeper, uint64_t boot_ms);

#endif
