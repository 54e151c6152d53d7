/*
 * The connection to holdfast-keeper (keeper/client.h), which holds in the kernel what the core
 * claims (core/claim.h): carries claims there and results back, once a turn of the loop. When the
 * connection is lost no lock is granted until it is back, what the keeper holds is listed, and the
 * difference is corrected (COH-13). All of it runs on the loop thread.
 */
#ifndef HF_DAEMON_COHERENCE_H
#define HF_DAEMON_COHERENCE_H

#include <uv.h>

#include "base/buf.h"
#include "base/histogram.h"
#include "daemon/config.h"
#include "keeper/client.h"
#include "service/service.h"

struct hf_coherence {
    struct hf_service *service; /* NULL: coherence is off */
    struct hf_keeper_client *client;
    struct hf_keeper_client_ops ops;
    uv_loop_t *loop;
    const char *socket;
    struct hf_buf waiting; /* of hf_keeper_op: what the client's queue has no room for */
    uint64_t asked_ns; /* when the oldest claims without a result were sent; 0: there are none */
    uint64_t n_open;   /* claims without a result, but for waits */
    struct hf_histogram claims_ns;
    uint64_t lost; /* how often the connection was */
    bool up;       /* connected, and told of what is held */
    bool broken;   /* the connection is to be closed at the end of the turn */
    bool was_ready;
};

/* Connects in the next turn of the loop, if the configuration names a keeper: hf_core_start() comes
 * before that. */
void hf_coherence_start(struct hf_coherence *coherence, struct hf_service *service, uv_loop_t *loop,
                        const struct hf_config *config);

/* Hands out what the core claims: at the end of a turn, after hf_service_settle(). */
void hf_coherence_end_turn(struct hf_coherence *coherence);

/* Its handles on the loop are closing. The keeper holds on. */
void hf_coherence_stop(struct hf_coherence *coherence);

#endif
