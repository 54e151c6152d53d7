/*
 * The connection to holdfast-keeper (keeper/client.h), which holds in the kernel what the core
 * claims (core/claim.h): carries claims there and results back, once a turn of the loop. When the
 * connection is lost no lock is granted until it is back, what the keeper holds is listed, and the
 * difference is corrected (COH-13). All of it runs on the loop thread.
 *
 * With standbys (COH-06) the keeper holds under the lease of the service: it is told of each
 * renewal, and lets everything go by itself when the lease ends. A term that is left says so: the
 * keeper lets go at once, and the lease is not released before.
 */
#ifndef HF_DAEMON_COHERENCE_H
#define HF_DAEMON_COHERENCE_H

#include <uv.h>

#include "admin/admin.h"
#include "base/buf.h"
#include "base/histogram.h"
#include "daemon/config.h"
#include "keeper/client.h"
#include "service/service.h"

enum {
    HF_COHERENCE_WAIT_MS = 5000, /* a start that waits longer for the keeper serves without it */
    HF_COHERENCE_RELEASED_MAX = 16,
    HF_COHERENCE_RENEW_MS = 50, /* renewals of the lease that are closer together are told as one */
};

/* Called once each, on the loop; not from inside a call of this header. */
struct hf_coherence_watcher {
    void *ctx;
    /* The kernel holds what is recorded, or the keeper has been away for too long. */
    void (*may_serve)(void *ctx);
    /* hf_coherence_free_at() has passed. */
    void (*let_go)(void *ctx);
};

struct hf_coherence {
    struct hf_service *service; /* NULL: coherence is off */
    struct hf_keeper_client *client;
    struct hf_keeper_client_ops ops;
    uv_loop_t *loop;
    const char *socket;
    struct hf_buf waiting; /* hf_keeper_op that the queue to the keeper has no room for */
    uint64_t asked_ns; /* when the oldest claims without a result were sent; 0: there are none */
    uint64_t n_open;   /* claims without a result, but for waits */
    struct hf_histogram claims_ns;
    uint64_t lost; /* how often the connection was */
    bool up;       /* connected, and told of what is held */
    bool broken;   /* the connection is to be closed at the end of the turn */
    bool was_ready;
    bool may_serve; /* the watcher was told */
    uint64_t started_ms;
    struct hf_coherence_watcher watcher;

    /* Exports that the operator has let go (COH-07), for a keeper that is started again. */
    char *released[HF_COHERENCE_RELEASED_MAX];
    unsigned n_released;
    unsigned n_told;                /* of those, this keeper was told */
    struct hf_admin_exports *asked; /* a question of the operator; NULL: none */

    /* With standbys, by CLOCK_BOOTTIME. */
    bool leased;
    bool letting_go; /* the keeper was asked to */
    uint64_t valid_until_ms;
    uint64_t told_ms; /* until when the keeper may hold, as it was told; 0: it was not */
};

bool hf_coherence_is_wanted(const struct hf_config *config);

/* Connects in the next turn of the loop, if the configuration names a keeper: hf_core_start() comes
 * before that. */
void hf_coherence_start(struct hf_coherence *coherence, struct hf_service *service, uv_loop_t *loop,
                        const struct hf_config *config, const struct hf_coherence_watcher *watcher);

/* Requests may be served: the kernel holds what is recorded, or the keeper was waited for. */
bool hf_coherence_may_serve(const struct hf_coherence *coherence);

/* With standbys: the lease is valid until this moment. */
void hf_coherence_renew(struct hf_coherence *coherence, uint64_t valid_until_ms);

/* As hf_admin_ops.exports (coherence_exports.c). */
int hf_coherence_exports(struct hf_coherence *coherence, struct hf_admin_exports *asked,
                         const char *path);

/* Hands out what the core claims: at the end of a turn, after hf_service_settle(). */
void hf_coherence_end_turn(struct hf_coherence *coherence);

/* The core is not used any more. The keeper holds on. */
void hf_coherence_rest(struct hf_coherence *coherence);

/* With standbys, after rest: the keeper lets everything go. From hf_coherence_free_at() on (0: now)
 * it holds nothing, whether it has answered or not. */
void hf_coherence_let_go(struct hf_coherence *coherence);
uint64_t hf_coherence_free_at(const struct hf_coherence *coherence);

/* After rest. Its handles on the loop are closing. */
void hf_coherence_close(struct hf_coherence *coherence);

#endif
