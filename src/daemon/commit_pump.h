/*
 * Carries batches from the core to the store and their results back. The store has at most one
 * batch at a time; the core gathers the next one meanwhile. The commit thread commits; all the rest
 * happens on the loop thread.
 *
 * Two changes of threads take longer than a flush of a fast disk. So a batch that may be lost in a
 * crash of the host is written on the loop thread, where the store allows it (DUR-02).
 *
 * Without standbys, the first batch that the commit thread commits is a rehearsal: the server's
 * record as it was loaded. The new epoch follows when the rehearsal has succeeded. A daemon that
 * dies in its first turns (a library makes a system call that the filter refuses, the disk is
 * broken) has then changed nothing, and a service manager that starts it again and again does not
 * use up state numbers (NSM-06, SPEC section 14).
 */
#ifndef HF_DAEMON_COMMIT_PUMP_H
#define HF_DAEMON_COMMIT_PUMP_H

#include <uv.h>

#include "base/histogram.h"
#include "daemon/config.h"
#include "service/service.h"
#include "store/commit.h"

/* The request for a backup of all that is durable at one moment. done is called once, on the loop
 * thread. */
struct hf_backup_request {
    /* The caller initialises the buffer, and owns it again when done is called. */
    struct hf_buf out;
    void (*done)(struct hf_backup_request *request, int status);
};

struct hf_cluster;
struct hf_daemon;

struct hf_commit_pump {
    /* The service whose batches are committed; NULL: there is none, and results of its batches in
     * flight are dropped. */
    struct hf_service *service;
    struct hf_daemon *daemon;
    /* The cluster, which drives the lease; NULL: without standbys the lease is permanent. */
    struct hf_cluster *cluster;
    const struct hf_store_config *store_config;
    bool open;
    struct hf_store store;
    struct hf_committer committer;
    bool committing; /* the committer has a batch in flight */
    /* without standbys: a batch with the server's record as the store has it */
    struct hf_batch rehearsal;
    struct hf_backup_request *backup; /* the backup in progress; NULL: there is none */
    /* makes the backup on a thread of its own; NULL: the committer makes it */
    struct hf_backup_work *aside;
    uv_loop_t *loop;
    uv_async_t committed; /* wakes the loop when the committer has a result */
    /* The time from submitting a batch until it is durable or given up. */
    struct hf_histogram commits_ns;
    struct hf_histogram batch_sizes; /* how many operations a batch has */
};

/* Returns how long a thread polls for work before it sleeps (RPC-04). With a single processor that
 * is 0, because polling would keep the processor from the other thread or the client. */
uint64_t hf_daemon_busy_poll_ns(const struct hf_config *config);

/*
 * Opens the store, and prepares the committer, whose results arrive on this loop. pump->daemon,
 * cluster and store_config must be set. On failure the reason is in the log, and there is nothing
 * to stop.
 */
int hf_commit_pump_open(struct hf_commit_pump *pump, uv_loop_t *loop,
                        const struct hf_config *config);

/* Starts the commit thread. Returns HF_EUNAVAIL, with a line in the log, if the system refuses a
 * thread. */
int hf_commit_pump_start(struct hf_commit_pump *pump);

/* Without standbys: commits the rehearsal, which loading has filled, before the first batch.
 * hf_term_settled() is told of a failure. */
int hf_commit_pump_rehearse(struct hf_commit_pump *pump);

/*
 * hf_commit_pump_serve() chooses the service whose batches are committed; hf_commit_pump_forget()
 * ends that. By then the service's waiting answers must have failed; a batch in flight belongs to
 * its core until `committing` is false.
 */
void hf_commit_pump_serve(struct hf_commit_pump *pump, struct hf_service *service);
void hf_commit_pump_forget(struct hf_commit_pump *pump);

/*
 * Begins a backup: with PostgreSQL on a thread and a connection of its own, so that commits and
 * renewals of the lease go on; otherwise the committer makes it. Returns HF_ELIMIT if a backup is
 * in progress, HF_ENOMEM.
 */
int hf_commit_pump_back_up(struct hf_commit_pump *pump, struct hf_backup_request *request);

/* Submits the changes that the core has gathered, unless a batch is in flight. Called once in each
 * turn of the loop. */
void hf_commit_pump_submit(struct hf_commit_pump *pump);

/*
 * Ends the commit thread, records a clean stop of a service that the pump still has, completes all
 * waiting answers and closes the store. On return the pump's handle on the loop is closing. If the
 * pump is not open, nothing happens.
 */
void hf_commit_pump_stop(struct hf_commit_pump *pump);

#endif
