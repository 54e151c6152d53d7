/*
 * The group-commit thread. The loop thread submits one batch and collects the next while the commit
 * thread makes the first durable; then wake() tells the loop to fetch the result. A batch is
 * committed at once, without waiting for further requests to join it: the requests that arrive
 * meanwhile form the next batch (SPEC section 4).
 *
 * When the store cannot be reached, the thread sends the batch again, with growing pauses, for
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
 * With a lease (store/lease.h) the owner of the committer decides when to poll, take and renew the
 * lease; the commit thread does so between two batches. Each batch then renews the lease, too, and
 * reports the lease's row. The thread does not probe such a store: the lease's transactions show
 * whether it is up.
 *
 * Batches that may be lost when the host crashes (DUR-02) need not change threads: the loop thread
 * writes them itself (hf_committer_write). The commit thread flushes them soon after, so that they
 * are durable HF_COMMIT_FLUSH_MS after they were written, or as soon as the disk can.
 *
 * Waking a sleeping thread delays the next request. If batches come one at a time and fast, the
 * commit thread therefore polls for the next one for a moment before it sleeps (base/busy_poll.h).
 *
 * The thread does the work that a store puts off under load (hf_store_tidy) when there has been no
 * batch for a while.
 *
 * Two more threads keep slow work away from batches and flushes. Where the store can move full
 * parts beside commits, the mover does that (hf_store_move); a failed move makes the commit thread
 * probe the store and report its health. And each backup of such a store runs on a thread of its
 * own.
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

/*
 * The daemon's give_up_ms: an outage of 5 s, plus the time of a reconnect, makes no request fail.
 */
enum { HF_COMMIT_GIVE_UP_MS = 6000 };

/* A written batch is durable within this time, unless a flush takes longer. */
enum { HF_COMMIT_FLUSH_MS = 10 };

struct hf_committer_config {
    uint32_t give_up_ms; /* how long to keep trying to reach the store; 0: one attempt */
    /* Tells the loop that there is something to collect. It runs on the commit thread and must
     * not block; the daemon passes uv_async_send. */
    void (*wake)(void *ctx);
    void *ctx;
    bool leased; /* the store has a lease, which each batch renews */
    /* How long the commit thread polls for the next batch before it sleeps (base/busy_poll.h); 0:
     * not at all. */
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
    /* The time from submitting the batch until it was durable or reported as failed. */
    uint64_t duration_ns;
    /* With a lease: `row` is the lease's row after the batch, or the row with which the database
     * refused the batch. */
    bool row_found;
    struct hf_lease_row row;
};

/* A transaction on the lease, to be made between two batches. */
struct hf_commit_lease {
    struct hf_store_lease_call *call; /* the wanted lease transaction; NULL: none is wanted */
    bool done;
    int status;
    bool row_found;
    struct hf_lease_row row;
};

/* A backup is made on its own thread if the store is shared (hf_store_is_shared), else by the
 * commit thread between two batches. */
struct hf_commit_backup {
    struct hf_buf *out; /* the buffer for the wanted backup; NULL: none is wanted */
    int64_t wall_ms;
    bool done;
    int status;
};

struct hf_store_health {
    bool up;
    int code;                        /* why the store is down; 0 when it is up */
    char reason[HF_STORE_ERROR_MAX]; /* the store's error text; "" when the store is up */
    uint64_t looked_ns;              /* how long the commit thread has polled for batches */
};

/*
 * Which thread or lock a field belongs to:
 *   (init)   set by init, not changed afterwards
 *   (loop)   the loop thread, which calls the functions below
 *   (commit) the commit thread
 *   (mutex)  the mutex
 *   (mutex, commit)
 *            the commit thread writes it with the mutex held, and reads it without
 *   (mutex, loop)
 *            the loop thread writes it with the mutex held, and not again until the work that it
 *            describes is done; so the thread that does that work reads it without the mutex
 */
struct hf_committer {
    /* (init) The loop thread uses it only to write (hf_committer_write); the mover and a backup
     * have handles of their own (hf_store_share). */
    struct hf_store *store;
    struct hf_committer_config config; /* (init) */
    pthread_t thread;                  /* (loop) */
    pthread_t mover;                   /* (loop) */
    pthread_t backup_thread;           /* (loop) */
    bool running;                      /* (loop) the commit thread was started: stop joins it */
    bool mover_running;                /* (loop) the mover was started: stop joins it */
    bool backup_thread_running;        /* (loop) the thread of a backup has not been joined yet */

    struct hf_busy_poll look; /* (commit) */
    bool alone;               /* (commit) the last batch came from a single request */

    uint64_t flush_ns; /* (commit) how long the last flush took */
    uint64_t batch_ns; /* (commit) when the last batch was finished */

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* the commit thread waits here for work */
    pthread_cond_t full;    /* wakes the mover: the store is full, or the committer stops */
    /* (mutex) when the commit thread entered the store call that it is in; 0: it is in none */
    uint64_t busy_ns;
    /* (mutex) the batch in flight; the commit thread polls for it without the mutex */
    const struct hf_batch *_Atomic batch;
    uint64_t submitted_ns; /* (mutex, loop) when the batch was submitted */
    bool done;             /* (mutex) the last batch's result has not been collected yet */
    /* (mutex) when the oldest unflushed batch was written; 0: all are flushed. The loop thread
     * writes nothing once it stops, so the last flush reads the field without the mutex. */
    uint64_t written_ns;
    /* (mutex) the mover failed, and the commit thread has not yet probed the store */
    bool move_failed;
    /* (mutex, loop) The thread that makes the backup owns this until the backup is done. */
    struct hf_commit_backup backup;
    /* (mutex, loop) The commit thread owns this until the transaction is done. */
    struct hf_commit_lease lease;
    bool stopping;                  /* (mutex) */
    struct hf_commit_result result; /* (mutex) */
    struct hf_store_health health;  /* (mutex, commit) */
};

/* Initialises a committer for an open store. Returns 0 or HF_ENOMEM. */
int hf_committer_init(struct hf_committer *committer, struct hf_store *store,
                      const struct hf_committer_config *config);

/* Starts the commit thread and, if the store needs one, the mover. Returns HF_EUNAVAIL if the
 * system refuses a thread. */
int hf_committer_start(struct hf_committer *committer);

/*
 * Waits until the batch in flight, if any, is durable or has failed (a batch in doubt now counts as
 * failed), ends the threads and returns the store to the caller. The result can be collected
 * afterwards.
 */
void hf_committer_stop(struct hf_committer *committer);

/* Frees the committer, which must have been stopped. */
void hf_committer_free(struct hf_committer *committer);

/* Submits a batch. The result of the previous batch must have been collected. */
void hf_committer_submit(struct hf_committer *committer, const struct hf_batch *batch);

/* Writes a batch that may be lost in a crash of the host, on the calling thread. True: the batch
 * survives the end of this process. False: the caller must submit it. No batch may be in flight. */
bool hf_committer_write(struct hf_committer *committer, const struct hf_batch *batch);

/* Returns true once for each batch, when its result is there; false as long as there is none. */
bool hf_committer_collect(struct hf_committer *committer, struct hf_commit_result *out);

/*
 * Begins a backup (store/backup.h) of all that is durable between two batches, appended to out.
 * Until wake() announces its end, out belongs to the thread that makes it. Batches wait for a
 * backup only if the store is not shared (hf_store_is_shared). There is one backup at a time.
 */
void hf_committer_back_up(struct hf_committer *committer, int64_t wall_ms, struct hf_buf *out);

/* Returns true once for each backup, when it has ended. *status is then 0, an error of the store,
 * or HF_ECANCELED if the committer was stopped meanwhile. */
bool hf_committer_collect_backup(struct hf_committer *committer, int *status);

/* Has the commit thread make a transaction on the lease. Until wake() announces its end, call
 * belongs to the thread. There is one transaction at a time. */
void hf_committer_lease(struct hf_committer *committer, struct hf_store_lease_call *call);

/* Returns true once for each transaction on the lease, when it is done. */
bool hf_committer_collect_lease(struct hf_committer *committer, struct hf_commit_lease *out);

/* Copies the health of the store. wake() announces each change but one: a store that neither fails
 * nor answers counts as down after give_up_ms and a second, which only this function notices. */
void hf_committer_health(struct hf_committer *committer, struct hf_store_health *out);

#endif
