/* The connection to holdfast-keeper (keeper/client.h), which holds in the kernel the locks that the
 * core claims (core/claim.h). It carries claims to the keeper and results back, once in each turn
 * of the loop. When the connection is lost, no lock is granted until the connection is back, the
 * keeper's locks are listed, and the differences are corrected (COH-13). All of it runs on the loop
 * thread.
 *
 * With standbys (COH-06) the keeper holds locks under the lease of the service: it is told of each
 * renewal, and lets all locks go by itself when the lease ends. When the daemon leaves a term, it
 * tells the keeper to let go at once, and releases the lease only after that. */
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
    /* A start that waits longer than this for the keeper serves without it. */
    HF_COHERENCE_WAIT_MS = 5000,
    /* A keeper that has answered no claim for so long counts as gone. A disk that wakes up, or a
     * first look at many files, may take seconds. */
    HF_COHERENCE_SILENT_MS = 10000,
    HF_COHERENCE_RELEASED_MAX = 16,
    /* The keeper is told of renewals of the lease at most once in this time. */
    HF_COHERENCE_RENEW_MS = 50,
};

/* Functions that coherence calls, once each, on the loop thread and never from inside a function of
 * this header. */
struct hf_coherence_watcher {
    void *ctx;
    /* Called when the kernel holds the recorded locks, or the keeper has been away for too long. */
    void (*may_serve)(void *ctx);
    /* Called when the time of hf_coherence_free_at() has passed. */
    void (*let_go)(void *ctx);
};

struct hf_coherence {
    struct hf_service *service; /* the service that serves; NULL: coherence is off */
    struct hf_keeper_client *client;
    struct hf_keeper_client_ops ops;
    uv_loop_t *loop;
    const char *socket;
    /* Operations (hf_keeper_op) for which the queue to the keeper has no room yet. */
    struct hf_buf waiting;
    uint64_t asked_ns; /* when the oldest claims without a result were sent; 0: all have results */
    /* how many claims have no result yet; those that wait for a lock do not count */
    uint64_t n_open;
    uint64_t heard_ms; /* when the keeper last gave a result, or got the first claim after that */
    struct hf_histogram claims_ns;
    uint64_t lost; /* how often the connection to the keeper was lost */
    /* How many ranges of our locks this keeper did not hold when we connected; n_missed is the sum
     * over all connections. */
    uint64_t missing, n_missed;
    bool compared; /* our locks were compared with the list of those that this keeper holds */
    bool up;       /* connected to the keeper, whose list of locks has arrived */
    bool broken;   /* the connection will be closed at the end of this turn of the loop */
    bool was_ready;
    bool may_serve; /* the watcher has been told that requests may be served */
    uint64_t started_ms;
    struct hf_coherence_watcher watcher;

    /* Exports that the operator has let go (COH-07). A keeper that is started again is told of
     * them. */
    char *released[HF_COHERENCE_RELEASED_MAX];
    unsigned n_released;
    unsigned n_told;                /* how many of the released exports this keeper was told of */
    struct hf_admin_exports *asked; /* the operator's question about exports; NULL: there is none */

    /* The fields from here on are for a service with standbys; times are of CLOCK_BOOTTIME. */
    bool leased;
    bool letting_go; /* the keeper was asked to let all locks go */
    uint64_t valid_until_ms;
    /* until when the keeper was told that it may hold locks; 0: it was told nothing */
    uint64_t told_ms;
};

bool hf_coherence_is_wanted(const struct hf_config *config);

/* Starts coherence: connects in the next turn of the loop, if the configuration names a keeper,
 * because hf_core_start() must come first. */
void hf_coherence_start(struct hf_coherence *coherence, struct hf_service *service, uv_loop_t *loop,
                        const struct hf_config *config, const struct hf_coherence_watcher *watcher);

/* True if requests may be served: the kernel holds the recorded locks, or the keeper did not come
 * in time. */
bool hf_coherence_may_serve(const struct hf_coherence *coherence);

/* With standbys: reports until when the lease is valid. */
void hf_coherence_renew(struct hf_coherence *coherence, uint64_t valid_until_ms);

/* Answers or carries out the operator's request about exports, as hf_admin_ops.exports describes
 * (coherence_exports.c). */
int hf_coherence_exports(struct hf_coherence *coherence, struct hf_admin_exports *asked,
                         const char *path);

/* Sends the core's claims to the keeper; called at the end of a turn of the loop, after
 * hf_service_settle(). Without a keeper this costs nothing. */
void hf_coherence_hand_out(struct hf_coherence *coherence);

static inline void hf_coherence_end_turn(struct hf_coherence *coherence)
{
    if (coherence->service)
        hf_coherence_hand_out(coherence);
}

/* Stops using the core; the keeper goes on holding the locks in the kernel. */
void hf_coherence_rest(struct hf_coherence *coherence);

/* With standbys, after hf_coherence_rest(): asks the keeper to let all locks go. From the time that
 * hf_coherence_free_at() returns (0: now) it holds none, whether it has answered or not. */
void hf_coherence_let_go(struct hf_coherence *coherence);
uint64_t hf_coherence_free_at(const struct hf_coherence *coherence);

/* Closes the connection to the keeper, after hf_coherence_rest(). On return its handles on the loop
 * are closing. */
void hf_coherence_close(struct hf_coherence *coherence);

#endif
