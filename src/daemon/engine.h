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
#include "daemon/commit_pump.h"
#include "daemon/config.h"
#include "daemon/events.h"
#include "daemon/losses_file.h"
#include "nlm/nlm.h"
#include "nsm/nsm.h"
#include "rpc/client.h"
#include "service/service.h"
#include "service/troubles.h"

/* Exports of other services that the core must know, to refuse locks there (HA-09). */
enum { HF_FOREIGN_EXPORTS_MAX = 256 };

/* The export rules of a core, and what they point to. */
struct hf_export_rules {
    struct hf_export_rule list[HF_CONFIG_EXPORT_RULES_MAX + HF_FOREIGN_EXPORTS_MAX];
    unsigned n_own;
    unsigned n_foreign;
    struct hf_store_export foreign[HF_FOREIGN_EXPORTS_MAX];
};

struct hf_engine {
    uv_loop_t *loop;
    struct hf_export_rules *rules; /* of the core */
    struct hf_service service;
    struct hf_commit_pump *commits;
    const char *store_path; /* its directory; NULL: it has none */
    struct hf_rpc_client *client;
    struct hf_nlm nlm;
    struct hf_nsm nsm;
    struct hf_events events;
    struct hf_names *names; /* of files, for the log; set before the start, or NULL */
    struct hf_troubles troubles;
    struct hf_losses_file losses_file;
    uv_prepare_t prepare;
    uv_timer_t alarm;
    uint64_t alarm_ms; /* when it goes off, by the loop's clock; UINT64_MAX: it is off */
    bool more_calls;   /* the core may have more calls to begin in the next turn */
    const struct hf_rpc_gate *gate; /* with standbys: what keeps it silent; NULL: nothing */
    bool started;                   /* the core runs */
    unsigned open_handles;          /* with standbys: of those that are closing */
    void (*begun)(void *ctx);       /* to be called when the new epoch is durable; NULL: it was */
    void *begun_ctx;
};

/*
 * Opens the store, loads it into a new core, and starts that. config, pump and settings outlive the
 * engine. On failure the reason is in the log, and there is nothing to close.
 */
int hf_engine_open(struct hf_engine *engine, uv_loop_t *loop, const struct hf_config *config,
                   const struct hf_hash_key *hash_key, struct hf_commit_pump *pump,
                   const struct hf_store_settings *settings);

/*
 * Starts the store's thread and the outgoing calls. Only when the programs are being served
 * (NSM-07). begun is called, once, when the new epoch is durable; no answer leaves before (NSM-06).
 * HF_EUNAVAIL, with a line in the log, if there can be no thread.
 */
int hf_engine_start(struct hf_engine *engine, void (*begun)(void *ctx), void *ctx);

/* Applies those settings that can change while the daemon runs. */
void hf_engine_reconfigure(struct hf_engine *engine, const struct hf_config *config);

/*
 * Records a clean stop and closes the store. Answers that waited have been given, or refused, when
 * it returns; its handles on the loop are closing.
 */
void hf_engine_stop(struct hf_engine *engine);

/* After the loop has ended. */
void hf_engine_free(struct hf_engine *engine);

/*
 * With standbys (cluster.h) an engine is opened empty, and all that arrives before its core is
 * loaded is answered DENIED_GRACE_PERIOD or not at all. The core is loaded on another thread, by
 * hf_engine_core_new() and hf_core_load(), and adopted. hf_core_start() has put the new epoch into
 * its first batch; nothing but that is told to a client before the batch is durable.
 */
int hf_engine_open_empty(struct hf_engine *engine, uv_loop_t *loop, const struct hf_config *config,
                         const struct hf_hash_key *hash_key, struct hf_commit_pump *pump,
                         const struct hf_rpc_gate *gate);
/*
 * Loading failed with this code: replaces the text if it is because two records do not go together,
 * and returns HF_EFORMAT then, because that is damage.
 */
int hf_engine_blame_records(const struct hf_core *core, int code, char error[HF_STORE_ERROR_MAX]);

struct hf_core *hf_engine_core_new(const struct hf_config *config,
                                   const struct hf_hash_key *hash_key,
                                   struct hf_export_rules *rules);
void hf_engine_adopt(struct hf_engine *engine, struct hf_core *core, struct hf_export_rules *rules);

/* The new epoch is durable: requests are served. */
void hf_engine_serve(struct hf_engine *engine);

/* The service is being given up: nothing is begun any more, and no batch submitted. */
void hf_engine_rest(struct hf_engine *engine);

/*
 * The lease is lost, or the process ends: this memory answers no more. hf_engine_is_gone() tells
 * when nothing on the loop refers to it any more; hf_engine_free() then frees what it holds.
 */
void hf_engine_abandon(struct hf_engine *engine);
bool hf_engine_is_gone(const struct hf_engine *engine);

#endif
