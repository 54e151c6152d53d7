/*
 * The group-commit thread. The loop thread submits one batch and collects the next while that one
 * is made durable; then wake() tells the loop to fetch the result. A batch is committed at once,
 * without waiting for further requests to join it: the requests that arrive meanwhile form the next
 * batch (SPEC section 4).
 *
 * When the store cannot be reached, the thread sends the same batch again, with growing pauses, for
 * give_up_ms. Only then does it report the batch as failed and the store as down (SPEC section 5).
 * While the store is down, each batch gets one attempt, and the thread probes the store by itself,
 * so that service resumes without a restart and without a request. A store taken over by another
 * daemon (HF_EFENCED) stays down.
 *
 * A batch whose outcome is unknown (the connection broke during the commit) is not reported as
 * failed, because it may be durable. After give_up_ms the store counts as down, but the batch stays
 * in flight until a later attempt has decided its outcome. A batch reported as failed is therefore
 * certain not to be durable.
 *
 * With a lease (store/lease.h) the owner of the committer decides when to poll, take and renew; the
 * thread does it between two batches. Each batch is then a renewal, too, and reports the lease's
 * row. The thread does not probe the store by itself: the lease does that all the time.
 *
 * Batches that may be lost when the host crashes (DUR-02) need not change threads: the loop thread
 * writes them itself (hf_committer_write). This thread flushes them soon after, so that they are
 * durable within HF_COMMIT_FLUSH_MS of having been written, or as soon as the disk can.
 *
 * A thread that sleeps costs the next request the time to wake it. If batches come one at a time
 * and fast, this thread looks for the next one for a moment (base/busy_poll.h).
 *
 * Work that a store puts off under load (hf_store_tidy) is done when there has been no batch for a
 * while.
 *
 * Each thread has one job. Where the store can do it beside commits, a second thread, the mover,
 * moves what is full (hf_store_move), and a third, which lives as long as a backup, reads the store
 * for that. Neither delays a batch or a flush. A failed move is followed by a probe on the commit
 * thread, which reports how the store is.
 *
 * Ownership: the committer owns the batch from submit to collect, and the store from init to stop.
 * It allocates memory only for a backup.
 */
#ifndef HF_STORE_COMMIT_H
#define HF_STORE_COMMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/busy_poll.h"
#include "store/lease.h"
#include "store/store.h"

/* The daemon's value: an outage of 5 s, plus the time of a reconnect, makes no request fail. */
enum { HF_COMMIT_GIVE_UP_MS = 6000 };

/* A written batch is durable after this time, unless a flush takes longer. */
enum { HF_COMMIT_FLUSH_MS = 10 };

struct hf_committer_config {
    uint32_t give_up_ms; /* how long to keep trying to reach the store; 0: one attempt */
    void (*wake)(
        /* Is called on the commit thread, for example uv_async_send; must not block. */
        void *ctx);
    void *ctx;
    bool leased; /* the store has a lease */
    /* How long the thread looks for the next batch before it sleeps (base/busy_poll.h); 0: never.
     */
    uint64_t busy_poll_ns;
};

/*
 * The result of a batch. A failed batch is not durable, except that in_doubt says its outcome is
 * unknown. That is possible only when the committer was stopped, or another daemon took the store,
 * before the outcome was known.
 */
struct hf_commit_result {
    const struct hf_batch *batch;
    int status; /* 0: the whole batch is durable */
    bool in_doubt;
    /* The time from submit until the batch was durable or reported as failed. */
    uint64_t duration_ns;
    /* `row` has the lease as the batch left it, or as it was when it refused us. */
    bool row_found;
    struct hf_lease_row row;
};

/* A transaction on the lease, to be made between two batches. */
struct hf_commit_lease {
    struct hf_store_lease_call *call; /* NULL: no transaction is wanted */
    bool done;
    int status;
    bool row_found;
    struct hf_lease_row row;
};

/* A backup is made on a thread of its own if the store is shared, else between two batches. */
struct hf_commit_backup {
    struct hf_buf *out; /* NULL: no backup is wanted */
    int64_t wall_ms;
    bool done;
    int status;
};

struct hf_store_health {
    bool up;
    int code;                        /* why the store is down; 0 when it is up */
    char reason[HF_STORE_ERROR_MAX]; /* the error text; "" when the store is up */
    uint64_t looked_ns;              /* how long the thread has looked for batches */
};

/*
 * Which thread or lock a field belongs to:
 *   (i)  set by init, not changed afterwards
 *   (l)  the loop thread, which calls the functions below
 *   (c)  the commit thread
 *   (m)  the mutex
 *   (mc) written by the commit thread with the mutex: that thread reads it without
 *   (ml) written by the loop thread with the mutex, and left alone until the work that it describes
 *        is done: the thread that does the work reads it without
 */
struct hf_committer {
    struct hf_store *store; /* (i) The loop thread only writes with it (hf_committer_write); mover
                             * and backup have handles of their own (hf_store_share). */
    struct hf_committer_config config; /* (i) */
    pthread_t thread;                  /* (l) */
    pthread_t mover;                   /* (l) */
    pthread_t backup_thread;           /* (l) */
    bool running;                      /* (l) the commit thread was started */
    bool mover_running;                /* (l) the mover was started */
    bool backup_thread_running;        /* (l) the thread of a backup has not been joined yet */

    struct hf_busy_poll look; /* (c) */
    bool alone;               /* (c) the last batch was of a request that came alone */

    uint64_t flush_ns; /* (c) how long the last flush took */
    uint64_t batch_ns; /* (c) when the last batch was done */

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* the commit thread waits for this condition */
    pthread_cond_t full;    /* the mover waits for this: the store is full, or we stop */
    uint64_t busy_ns; /* (m) since when the commit thread works with the store; 0: it does not */
    const struct hf_batch *_Atomic batch; /* (m) the batch in flight; read without the mutex when
                                           * the thread looks for one */
    uint64_t submitted_ns;                /* (ml) when the batch was submitted */
    bool done;                            /* (m) the result has not been collected yet */
    uint64_t written_ns; /* (m) when the first batch was written that is not flushed; 0: none. The
                          * loop thread writes nothing once it stops, so the last flush reads it
                          * without the mutex. */
    bool move_failed;    /* (m) the commit thread still has to probe the store */
    /* (ml) belongs to the thread that makes the backup, until done. */
    struct hf_commit_backup backup;
    struct hf_commit_lease lease;   /* (ml) belongs to the commit thread, until done */
    bool stopping;                  /* (m) */
    struct hf_commit_result result; /* (m) */
    struct hf_store_health health;  /* (mc) */
};

/* Returns 0 or HF_ENOMEM. */
int hf_committer_init(struct hf_committer *committer, struct hf_store *store,
                      const struct hf_committer_config *config);

/* Starts the threads. Returns HF_EUNAVAIL if there can be none. */
int hf_committer_start(struct hf_committer *committer);

/*
 * Waits until the batch in flight, if any, is durable or has failed (a batch in doubt counts as
 * failed now), ends the thread and returns the store to the caller. The result can be collected
 * afterwards.
 */
void hf_committer_stop(struct hf_committer *committer);

/* Frees the committer; it must have been stopped. */
void hf_committer_free(struct hf_committer *committer);

/* Submits a batch. The result of the previous one must have been collected. */
void hf_committer_submit(struct hf_committer *committer, const struct hf_batch *batch);

/* Writes a batch that may be lost, on the caller's thread. True: the batch survives this process.
 * False: it must be submitted. No batch may be in flight. */
bool hf_committer_write(struct hf_committer *committer, const struct hf_batch *batch);

/* Returns true once for each batch, when it is done; false while there is no result. */
bool hf_committer_collect(struct hf_committer *committer, struct hf_commit_result *out);

/*
 * Has a thread append a backup (store/backup.h) to out: all that is durable between two batches.
 * Until it is done, which wake() announces, out belongs to the thread; batches wait only if the
 * store is not shared (hf_store_is_shared). There may be one backup at a time.
 */
void hf_committer_back_up(struct hf_committer *committer, int64_t wall_ms, struct hf_buf *out);

/*
 * Returns true once for each backup, when it has ended: with 0, an error of the store, or
 * HF_ECANCELED if the committer was stopped before.
 */
bool hf_committer_collect_backup(struct hf_committer *committer, int *status);

/* Has the thread make a transaction on the lease. Until it is done, which wake() announces, call
 * belongs to the thread. There may be one at a time. */
void hf_committer_lease(struct hf_committer *committer, struct hf_store_lease_call *call);

/* Returns true once for each transaction on the lease, when it is done. */
bool hf_committer_collect_lease(struct hf_committer *committer, struct hf_commit_lease *out);

/* Copies the state of the store. wake() is called when that changes, too; but not when a store that
 * neither fails nor answers counts as down, after give_up_ms and a second. */
void hf_committer_health(struct hf_committer *committer, struct hf_store_health *out);

#endif
