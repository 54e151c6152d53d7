/*
 * The engine: the core and the protocols NLM and NSM on the loop. It opens and closes them in
 * order. At the end of each turn of the loop it carries on what the turn brought about: one batch
 * to the store for all requests of the turn (commit_pump.h), then outgoing calls (outcalls.h),
 * events (events.h), and the next timer for the core. All of it runs on the loop thread.
 */
#ifndef HF_DAEMON_ENGINE_H
#define HF_DAEMON_ENGINE_H

#include <uv.h>

#include "base/hash.h"
#include "daemon/coherence.h"
#include "daemon/commit_pump.h"
#include "daemon/config.h"
#include "daemon/events.h"
#include "daemon/losses_file.h"
#include "daemon/new_core.h"
#include "nlm/nlm.h"
#include "nsm/nsm.h"
#include "rpc/client.h"
#include "service/service.h"
#include "service/troubles.h"

struct hf_engine {
    uv_loop_t *loop;
    struct hf_export_rules *rules; /* the export rules of the core */
    struct hf_service service;
    struct hf_commit_pump *commits;
    const char *store_path; /* the directory of the store; NULL: the store has no directory */
    struct hf_rpc_client *client;
    struct hf_nlm nlm;
    struct hf_nsm nsm;
    struct hf_events events;
    struct hf_coherence coherence;
    /* looks up the names of files for the log; set before the start, or NULL */
    struct hf_names *names;
    struct hf_recorder *recorder; /* writes the history; set before the start, or NULL */
    struct hf_troubles troubles;
    struct hf_losses_file losses_file;
    uv_prepare_t prepare;
    uv_timer_t alarm;
    /* when the core's timer expires, by the loop's clock; UINT64_MAX: it is not set */
    uint64_t alarm_ms;
    bool more_calls; /* the core may have more outgoing calls to begin in the next turn */
    /* With standbys: the gate that keeps the service silent without a valid lease; NULL: no
     * standbys. */
    const struct hf_rpc_gate *gate;
    bool started;          /* the core runs */
    unsigned open_handles; /* how many handles on the loop are still closing */
};

/*
 * Opens an engine with an empty core, which waits for the records of the store: a request that
 * arrives meanwhile is answered DENIED_GRACE_PERIOD or not at all. All that the arguments point to
 * must outlive the engine. Returns HF_ENOMEM if memory runs out.
 */
int hf_engine_open(struct hf_engine *engine, uv_loop_t *loop, const struct hf_config *config,
                   const struct hf_hash_key *hash_key, struct hf_commit_pump *pump,
                   const struct hf_rpc_gate *gate);

/*
 * Replaces the empty core by one that was loaded (loading.h), and starts the engine's turns.
 * hf_core_start() then puts the new epoch into the core's first batch, and clients get no notice
 * before that batch is durable (NSM-06).
 */
void hf_engine_adopt(struct hf_engine *engine, const struct hf_config *config, struct hf_core *core,
                     struct hf_export_rules *rules, const struct hf_coherence_watcher *watcher);

/*
 * Begins to serve requests and to make outgoing calls, now that the new epoch is durable (NSM-07).
 */
void hf_engine_serve(struct hf_engine *engine);

/* Applies the settings that can change while the daemon runs. */
void hf_engine_reconfigure(struct hf_engine *engine, const struct hf_config *config);

/* Puts the engine to rest, because the service is being given up: it begins no calls and submits no
 * batch. */
void hf_engine_rest(struct hf_engine *engine);

/* hf_engine_close() closes the engine, which then answers no request. hf_engine_is_gone() tells
 * when no handle on the loop refers to it any more; hf_engine_free() then frees what it holds. */
void hf_engine_close(struct hf_engine *engine);
bool hf_engine_is_gone(const struct hf_engine *engine);
void hf_engine_free(struct hf_engine *engine);

/* Logs how many clients and locks are durable. */
void hf_engine_log_state(struct hf_engine *engine, const char *text, bool clients_wait);

#endif
