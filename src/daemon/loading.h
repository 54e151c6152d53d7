/* Loads a core from the store on a thread of libuv's pool (SPEC HA-05). Meanwhile the loop goes on
 * and, with standbys, the commit thread renews the lease. No other thread uses the core before it
 * is loaded. */
#ifndef HF_DAEMON_LOADING_H
#define HF_DAEMON_LOADING_H

#include <uv.h>

#include "daemon/new_core.h"
#include "store/store.h"

struct hf_loading;

/* The result of loading, delivered on the loop thread: the receiver owns core and rules if status
 * is 0. */
struct hf_loaded {
    int status;
    const char *reason; /* the reason of a failure; valid during the call */
    struct hf_core *core;
    struct hf_export_rules *rules;
    uint64_t clients, locks;
};

typedef void hf_loading_done(void *ctx, const struct hf_loaded *loaded);

/* The source of the records. All that it points to but lease must outlive the load. */
struct hf_loading_source {
    /* without standbys: receives the server's record, if the store has one */
    struct hf_batch *rehearsal;
    /* Without standbys: the open store, which no other thread uses during the load. */
    const struct hf_store *store;
    /* with standbys: the configuration for a second connection to the store */
    const struct hf_store_config *config;
    /* With standbys: the lease under which the store is loaded; NULL: there are no standbys. */
    const struct hf_lease_row *lease;
};

/* Starts to load. Returns NULL if memory runs out. */
struct hf_loading *hf_loading_start(uv_loop_t *loop, const struct hf_config *config,
                                    const struct hf_hash_key *hash_key,
                                    struct hf_loading_source source, hf_loading_done *done,
                                    void *ctx);

/* Ends a load soon: done is called with HF_ECANCELED, unless all was loaded before. */
void hf_loading_cancel(struct hf_loading *loading);

/* Abandons a load: its done function will not be called. */
void hf_loading_abandon(struct hf_loading *loading);

/* Explains why loading records into this core failed with code. If two records contradict each
 * other, that is damage: the function replaces the error text and returns HF_EFORMAT. */
int hf_loading_blame_records(const struct hf_core *core, int code, char error[HF_STORE_ERROR_MAX]);

#endif
