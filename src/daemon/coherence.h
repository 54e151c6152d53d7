/*
 * The connection to holdfast-keeper (keeper/client.h), which holds in the kernel what the core
 * claims (core/claim.h). It carries claims there and results back, once a turn of the loop. When
 * the connection is lost, no lock is granted until it is back, the locks of the keeper are listed,
 * and the difference is corrected (COH-13). All of it runs on the loop thread.
 *
 * With standbys (COH-06) the keeper holds under the lease of the service: it is told of each
 * renewal, and lets everything go by itself when the lease ends. When a term is left, the keeper is
 * told and lets go at once; the lease is not released before that.
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

/* These are called once each, on the loop, and not from inside a call of this header. */
struct hf_coherence_watcher {
    void *ctx;
    /*
     * Is called when the kernel holds what is recorded, or the keeper has been away for too long.
     */
    void (*may_serve)(void *ctx);
    /* Is called when hf_coherence_free_at() has passed. */
    void (*let_go)(void *ctx);
};

struct hf_coherence {
    struct hf_service *service; /* the service; NULL: coherence is off */
    struct hf_keeper_client *client;
    struct hf_keeper_client_ops ops;
    uv_loop_t *loop;
    const char *socket;
    /* Operations (hf_keeper_op) that the queue to the keeper has no room for. */
    struct hf_buf waiting;
    uint64_t asked_ns; /* when the oldest claims without a result were sent; 0: there are none */
    uint64_t n_open;   /* how many claims, except for waits, have no result yet */
    struct hf_histogram claims_ns;
    uint64_t lost; /* how often the connection was lost */
    /* How many ranges of our locks this keeper did not hold when we connected; the sum of all
     * keepers. */
    uint64_t missing, n_missed;
    bool compared; /* our locks were compared with what this keeper held */
    bool up;       /* connected, and told of what is held */
    bool broken;   /* the connection is to be closed at the end of the turn */
    bool was_ready;
    bool may_serve; /* the watcher was told that requests may be served */
    uint64_t started_ms;
    struct hf_coherence_watcher watcher;

    /* Exports that the operator has let go (COH-07), for a keeper that is started again. */
    char *released[HF_COHERENCE_RELEASED_MAX];
    unsigned n_released;
    unsigned n_told;                /* how many of those this keeper was told of */
    struct hf_admin_exports *asked; /* a question of the operator; NULL: there is none */

    /* These fields are for a service with standbys; times are of CLOCK_BOOTTIME. */
    bool leased;
    bool letting_go; /* the keeper was asked to let go */
    uint64_t valid_until_ms;
    uint64_t told_ms; /* until when the keeper was told that it may hold; 0: it was not told */
};

bool hf_coherence_is_wanted(const struct hf_config *config);

/* Connects in the next turn of the loop, if the configuration names a keeper: hf_core_start() comes
 * before that. */
void hf_coherence_start(struct hf_coherence *coherence, struct hf_service *service, uv_loop_t *loop,
                        const struct hf_config *config, const struct hf_coherence_watcher *watcher);

/*
 * True if requests may be served: the kernel holds what is recorded, or the keeper was waited for.
 */
bool hf_coherence_may_serve(const struct hf_coherence *coherence);

/* With standbys: tells that the lease is valid until this moment. */
void hf_coherence_renew(struct hf_coherence *coherence, uint64_t valid_until_ms);

/* Does what hf_admin_ops.exports says (coherence_exports.c). */
int hf_coherence_exports(struct hf_coherence *coherence, struct hf_admin_exports *asked,
                         const char *path);

/* Hands out what the core claims: at the end of a turn, after hf_service_settle(). Without a keeper
 * this costs nothing. */
void hf_coherence_hand_out(struct hf_coherence *coherence);

static inline void hf_coherence_end_turn(struct hf_coherence *coherence)
{
    if (coherence->service)
        hf_coherence_hand_out(coherence);
}

/* Stops using the core; the keeper still holds the locks in the kernel. */
void hf_coherence_rest(struct hf_coherence *coherence);

/* With standbys, after hf_coherence_rest(): the keeper lets everything go. From
 * hf_coherence_free_at() on (0: now) it holds nothing, whether it has answered or not. */
void hf_coherence_let_go(struct hf_coherence *coherence);
uint64_t hf_coherence_free_at(const struct hf_coherence *coherence);

/* Closes the connection, after hf_coherence_rest(). Its handles on the loop are closing when it
 * returns. */
void hf_coherence_close(struct hf_coherence *coherence);

#endif
