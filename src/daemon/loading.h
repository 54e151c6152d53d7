/*
 * Loading a core from the store on a thread of libuv's, on a connection of its own (SPEC HA-05):
 * the loop goes on answering, and the store's thread goes on renewing the lease. No other thread
 * knows the core before it is loaded.
 */
#ifndef HF_DAEMON_LOADING_H
#define HF_DAEMON_LOADING_H

#include <uv.h>

#include "daemon/engine.h"

struct hf_loading;

/* What was loaded, on the loop thread: the receiver owns core and rules if status is 0. */
struct hf_loaded {
    int status;
    const char *reason; /* of a failure; valid during the call */
    struct hf_core *core;
    struct hf_export_rules *rules;
    uint64_t clients, locks;
};

typedef void hf_loading_done(void *ctx, const struct hf_loaded *loaded);

/* config, key and settings outlive it. NULL: out of memory. */
struct hf_loading *hf_loading_start(uv_loop_t *loop, const struct hf_config *config,
                                    const struct hf_hash_key *hash_key,
                                    const struct hf_store_settings *settings,
                                    const struct hf_lease_row *lease, hf_loading_done *done,
                                    void *ctx);

/* The result is not wanted any more: done will not be called. */
void hf_loading_abandon(struct hf_loading *loading);

#endif
