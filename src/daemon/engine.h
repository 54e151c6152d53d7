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
#include "nlm/nlm.h"
#include "nsm/nsm.h"
#include "rpc/client.h"
#include "service/service.h"

struct hf_engine {
    uv_loop_t *loop;
    struct hf_export_rule shares[HF_CONFIG_EXPORT_RULES_MAX];
    struct hf_service service;
    struct hf_commit_pump commits;
    struct hf_rpc_client *client;
    struct hf_nlm nlm;
    struct hf_nsm nsm;
    struct hf_events events;
    struct hf_names *names; /* of files, for the log; set before the start, or NULL */
    uv_prepare_t prepare;
    uv_timer_t alarm;
    bool more_calls; /* the core may have more calls to begin in the next turn */
};

/*
 * Opens the store, loads it into a new core, and makes the new epoch durable: nothing is served
 * before that (NSM-06). config outlives the engine. On failure the reason is in the log, and there
 * is nothing to close.
 */
int hf_engine_open(struct hf_engine *engine, uv_loop_t *loop, const struct hf_config *config,
                   const struct hf_hash_key *hash_key);

/*
 * Starts the store's thread and the outgoing calls. Only when the programs are being served
 * (NSM-07). HF_EUNAVAIL, with a line in the log, if there can be no thread.
 */
int hf_engine_start(struct hf_engine *engine);

/* Applies those settings that can change while the daemon runs. */
void hf_engine_reconfigure(struct hf_engine *engine, const struct hf_config *config);

/*
 * Records a clean stop and closes the store. Answers that waited have been given, or refused, when
 * it returns; its handles on the loop are closing.
 */
void hf_engine_stop(struct hf_engine *engine);

/* After the loop has ended. */
void hf_engine_free(struct hf_engine *engine);

#endif
