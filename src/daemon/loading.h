/*
 * Loads a core from the store on a thread of libuv's (SPEC HA-05). The loop goes on, and with
 * standbys the store's thread goes on renewing the lease. No other thread knows the core before it
 * is loaded.
 */
#ifndef HF_DAEMON_LOADING_H
#define HF_DAEMON_LOADING_H

#include <uv.h>

#include "daemon/new_core.h"
#include "store/store.h"

struct hf_loading;

/* The result, on the loop thread: the receiver owns core and rules if status is 0. */
struct hf_loaded {
    int status;
    const char *reason; /* the reason of a failure; valid during the call */
    struct hf_core *core;
    struct hf_export_rules *rules;
    uint64_t clients, locks;
};

typedef void hf_loading_done(void *ctx, const struct hf_loaded *loaded);

/* Where the records are. All but lease must outlive the loading. */
struct hf_loading_source {
    struct hf_batch *rehearsal; /* without standbys: gets the server's record, if there is one */
    /* Without standbys: the open store, which no other thread uses meanwhile. */
    const struct hf_store *store;
    const struct hf_store_config *config; /* with standbys: opens a connection of its own */
    /* With standbys: the lease under which to load; NULL: there are no standbys. */
    const struct hf_lease_row *lease;
};

/* Returns NULL without memory. */
struct hf_loading *hf_loading_start(uv_loop_t *loop, const struct hf_config *config,
                                    const struct hf_hash_key *hash_key,
                                    struct hf_loading_source source, hf_loading_done *done,
                                    void *ctx);

/* Ends the loading soon: done is called with HF_ECANCELED, unless all was loaded before. */
void hf_loading_cancel(struct hf_loading *loading);

/* Tells that the result is not wanted any more: done will not be called. */
void hf_loading_abandon(struct hf_loading *loading);

/* Explains why loading into this core failed with code. If two records contradict each other, it
 * replaces the text and returns HF_EFORMAT, because that is damage. */
int hf_loading_blame_records(const struct hf_core *core, int code, char error[HF_STORE_ERROR_MAX]);

#endif
