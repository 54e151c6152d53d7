/*
 * Loading a core from the store on a thread of libuv's (SPEC HA-05): the loop goes on, and with
 * standbys the store's thread goes on renewing the lease. No other thread knows the core before it
 * is loaded.
 */
#ifndef HF_DAEMON_LOADING_H
#define HF_DAEMON_LOADING_H

#include <uv.h>

#include "daemon/new_core.h"
#include "store/store.h"

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

/* Where the records are. All but lease outlives the loading. */
struct hf_loading_source {
    struct hf_batch *rehearsal;           /* alone: gets the server's record, if there is one */
    const struct hf_store *store;         /* alone: open, and used by no other thread meanwhile */
    const struct hf_store_config *config; /* with standbys: opens a connection of its own */
    const struct hf_lease_row *lease;     /* with standbys: loads under this lease; NULL: alone */
};

/* NULL: out of memory. */
struct hf_loading *hf_loading_start(uv_loop_t *loop, const struct hf_config *config,
                                    const struct hf_hash_key *hash_key,
                                    struct hf_loading_source source, hf_loading_done *done,
                                    void *ctx);

/* Ends it soon: done is called with HF_ECANCELED, unless all was loaded before. */
void hf_loading_cancel(struct hf_loading *loading);

/* The result is not wanted any more: done will not be called. */
void hf_loading_abandon(struct hf_loading *loading);

/*
 * Loading into this core failed with code: replaces the text if it is because two records do not go
 * together, and returns HF_EFORMAT then, because that is damage.
 */
int hf_loading_blame_records(const struct hf_core *core, int code, char error[HF_STORE_ERROR_MAX]);

#endif
