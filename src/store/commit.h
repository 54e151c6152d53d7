/*
 * The group-commit thread. The loop thread hands over one batch, and goes on gathering the next
 * while that one is made durable; when it is done, wake() tells the loop to collect the result.
 * There is no delay to wait for company: a batch that is submitted is committed at once, and what
 * arrives meanwhile makes up the next one (SPEC section 4).
 *
 * When the store cannot be reached the thread sends the same batch again, with growing pauses, for
 * give_up_ms; only then is the batch refused and the store down (SPEC section 5). While it is down
 * each batch gets one try, and the thread looks by itself whether the store is back, so that it
 * heals without a restart and without a request. A store taken over by another daemon
 * (HF_EFENCED) stays down.
 *
 * A batch whose outcome is not known (the connection broke while it committed) is not refused, for
 * it may be durable: the store counts as down after give_up_ms, but the batch stays in flight until
 * a later try has settled it. So what is reported as failed is certain not to be durable.
 *
 * Ownership: store and batch are the committer's between submit (for the store: init) and collect
 * (for the store: stop). It allocates nothing.
 */
#ifndef HF_STORE_COMMIT_H
#define HF_STORE_COMMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

/* What the daemon uses: nobody is refused for an outage of 5 s, and a reconnect takes a moment. */
enum { HF_COMMIT_GIVE_UP_MS = 6000 };

struct hf_committer_config {
    uint32_t give_up_ms;     /* how long an unreachable store is waited for; 0: not at all */
    void (*wake)(void *ctx); /* from the commit thread, e.g. uv_async_send; must not block */
    void *ctx;
};

/*
 * What became of a batch. One that failed is not durable; in_doubt is the exception, possible only
 * when the committer was stopped, or the store lost to another daemon, before the outcome was
 * known.
 */
struct hf_commit_result {
    const struct hf_batch *batch;
    int status; /* 0: all of it is durable */
    bool in_doubt;
    uint64_t duration_ns; /* from submit to durable, or given up */
};

struct hf_store_health {
    bool up;
    int code;                        /* why not, 0 when up */
    char reason[HF_STORE_ERROR_MAX]; /* for people, "" when up */
};

struct hf_committer {
    struct hf_store *store; /* the commit thread's */
    struct hf_committer_config config;
    pthread_t thread;

    pthread_mutex_t mutex; /* guards all that follows */
    pthread_cond_t changed;
    const struct hf_batch *batch; /* in flight */
    uint64_t submitted_ns;
    bool done; /* result waits to be collected */
    bool stopping;
    struct hf_commit_result result;
    struct hf_store_health health;
};

/* Starts the thread. HF_ENOMEM or HF_EUNAVAIL if there can be none. */
int hf_committer_init(struct hf_committer *committer, struct hf_store *store,
                      const struct hf_committer_config *config);

/*
 * Waits for the batch in flight, if any, to be durable or given up (now also one in doubt), ends
 * the thread and gives the store back. The result can be collected afterwards.
 */
void hf_committer_stop(struct hf_committer *committer);

/* After stop. */
void hf_committer_free(struct hf_committer *committer);

/* One batch at a time: the one before must have been collected. */
void hf_committer_submit(struct hf_committer *committer, const struct hf_batch *batch);

/* True once for each batch, when it is done; false while there is nothing to collect. */
bool hf_committer_collect(struct hf_committer *committer, struct hf_commit_result *out);

/* wake() is called when this changes, too. */
void hf_committer_health(struct hf_committer *committer, struct hf_store_health *out);

#endif
