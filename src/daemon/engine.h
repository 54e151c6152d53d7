/*
 * What drives the brain: between the loop, the core and the store it carries batches out and
 * results in, starts the calls the core wants made, wakes it when it asked to be woken, and puts
 * into the log what it has to say. All on the loop thread; the store's thread only commits.
 *
 * Once a turn of the loop, before it sleeps, everything the turn brought about is carried on in one
 * go (pump): one batch for all requests of the turn, then the calls, the events, the next alarm.
 */
#ifndef HF_DAEMON_ENGINE_H
#define HF_DAEMON_ENGINE_H

#include <uv.h>

#include "base/hash.h"
#include "base/histogram.h"
#include "base/later.h"
#include "core/core.h"
#include "daemon/config.h"
#include "nlm/nlm.h"
#include "nsm/nsm.h"
#include "rpc/client.h"
#include "store/commit.h"
#include "store/store.h"

struct hf_engine {
    uv_loop_t *loop;
    struct hf_core *core;
    struct hf_share_rule shares[HF_CONFIG_SHARES_MAX];
    struct hf_store store;
    struct hf_committer committer;
    bool committing; /* the committer has a batch */
    bool store_up;   /* as of the last result; requests are refused while it is not */
    struct hf_later_queue answers;
    struct hf_rpc_client *client;
    struct hf_nlm nlm;
    struct hf_nsm nsm;
    uv_async_t committed;
    uv_prepare_t prepare;
    uv_timer_t alarm;
    int64_t wall_offset_ms;          /* wall clock less the loop's clock */
    bool more_calls;                 /* the core may have more calls to begin, in the next turn */
    uint64_t untold;                 /* clients not yet tried since our restart, at most */
    uint64_t counted_ms;             /* when they were counted */
    int32_t summed_up;               /* the state number whose notices' outcome is in the log */
    struct hf_histogram commits_ns;  /* from submit to durable, or given up */
    struct hf_histogram batch_sizes; /* operations in a batch */
};

/*
 * Opens the store, loads it into a new core, and makes the new epoch durable: nothing is served
 * before that (NSM-06). config outlives the engine. On failure the reason is in the log, and there
 * is nothing to close.
 */
int hf_engine_open(struct hf_engine *engine, uv_loop_t *loop, const struct hf_config *config,
                   const struct hf_hash_key *hash_key);

/* Begins to work: from now on calls go out. Only when the programs are being served (NSM-07). */
void hf_engine_start(struct hf_engine *engine);

/* The store's name for a value of enum hf_backend. */
const char *hf_engine_backend_name(uint32_t backend);

/* The moment of this turn of the loop. */
struct hf_now hf_engine_now(const struct hf_engine *engine);

/* What of a new configuration can change while running. */
void hf_engine_reconfigure(struct hf_engine *engine, const struct hf_config *config);

/*
 * Records a clean stop and closes the store. Answers that waited have been given, or refused, when
 * it returns; its handles on the loop are closing.
 */
void hf_engine_stop(struct hf_engine *engine);

/* After the loop has ended. */
void hf_engine_free(struct hf_engine *engine);

#endif
