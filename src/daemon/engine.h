/*
 * The engine: the core and the two protocols on the loop. It opens and closes them in order, and
 * once a turn of the loop, before the loop sleeps, it carries on what the turn brought about: one
 * batch to the store for all requests of the turn (commit_pump.h), then outgoing calls
 * (outcalls.h), events (events.h), and the next alarm for the core. All of it runs on the loop
 * thread.
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
    const char *store_path; /* the directory of the store; NULL: it has none */
    struct hf_rpc_client *client;
    struct hf_nlm nlm;
    struct hf_nsm nsm;
    struct hf_events events;
    struct hf_coherence coherence;
    struct hf_names *names;       /* names of files for the log; set before the start, or NULL */
    struct hf_recorder *recorder; /* writes the history; set before the start, or NULL */
    struct hf_troubles troubles;
    struct hf_losses_file losses_file;
    uv_prepare_t prepare;
    uv_timer_t alarm;
    uint64_t alarm_ms; /* when the alarm goes off, by the loop's clock; UINT64_MAX: it is off */
    bool more_calls;   /* the core may have more calls to begin in the next turn */
    /* With standbys: the gate that keeps it silent; NULL: there is none. */
    const struct hf_rpc_gate *gate;
    bool started;          /* the core runs */
    unsigned open_handles; /* how many handles are still closing */
};

/*
 * Opens an engine that waits for a core with the records of the store: all that arrives meanwhile
 * is answered DENIED_GRACE_PERIOD or not at all. All that is pointed to must outlive the engine.
 * Returns HF_ENOMEM without memory.
 */
int hf_engine_open(struct hf_engine *engine, uv_loop_t *loop, const struct hf_config *config,
                   const struct hf_hash_key *hash_key, struct hf_commit_pump *pump,
                   const struct hf_rpc_gate *gate);

/*
 * Takes a core that was loaded (loading.h) in the place of the empty one; its turns begin. Then
 * hf_core_start() puts the new epoch into its first batch, and clients hear of nothing before the
 * batch is durable (NSM-06).
 */
void hf_engine_adopt(struct hf_engine *engine, const struct hf_config *config, struct hf_core *core,
                     struct hf_export_rules *rules, const struct hf_coherence_watcher *watcher);

/* Serves: the new epoch is durable, so requests are served, and outgoing calls begin (NSM-07). */
void hf_engine_serve(struct hf_engine *engine);

/* Applies those settings that can change while the daemon runs. */
void hf_engine_reconfigure(struct hf_engine *engine, const struct hf_config *config);

/*
 * Rests, because the service is being given up: nothing is begun any more, and no batch submitted.
 */
void hf_engine_rest(struct hf_engine *engine);

/* Closes the engine, whose memory answers no more. hf_engine_is_gone() tells when nothing on the
 * loop refers to it any more; hf_engine_free() then frees what it holds. */
void hf_engine_close(struct hf_engine *engine);
bool hf_engine_is_gone(const struct hf_engine *engine);
void hf_engine_free(struct hf_engine *engine);

/* Logs how much is durable. */
void hf_engine_log_state(struct hf_engine *engine, const char *text, bool clients_wait);

#endif
