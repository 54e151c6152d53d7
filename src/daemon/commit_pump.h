/*
 * Carries batches from the core to the store and their results back. At most one batch is with the
 * store at a time; the core gathers the next one meanwhile. The store's own thread commits, all the
 * rest happens on the loop thread.
 *
 * Two changes of threads take longer than a flush of a fast disk. So a batch need not go to the
 * store's thread if it can be written at once (DUR-02).
 *
 * Without standbys, the first thing that the store's thread commits is a rehearsal: the server's
 * record as it was loaded. The new epoch follows when the loop has heard of it. A daemon that dies
 * in its first turns (a library makes a system call that the filter refuses, the disk is broken)
 * has then changed nothing, and a service manager that starts it again and again does not use up
 * state numbers (NSM-06, SPEC section 14).
 */
#ifndef HF_DAEMON_COMMIT_PUMP_H
#define HF_DAEMON_COMMIT_PUMP_H

#include <uv.h>

#include "base/histogram.h"
#include "daemon/config.h"
#include "service/service.h"
#include "store/commit.h"

/* A backup of all that is durable at one moment. done is called once, on the loop thread. */
struct hf_backup_request {
    struct hf_buf out; /* the caller initialises it, and owns it again when done is called */
    void (*done)(struct hf_backup_request *request, int status);
};

struct hf_cluster;
struct hf_daemon;

struct hf_commit_pump {
    /* The service whose batches are committed; NULL: none, and those in flight are forgotten. */
    struct hf_service *service;
    struct hf_daemon *daemon;
    /* Drives the lease; NULL: without standbys the lease is permanent. */
    struct hf_cluster *cluster;
    const struct hf_store_config *store_config;
    bool open;
    struct hf_store store;
    struct hf_committer committer;
    bool committing;                  /* the committer has a batch */
    struct hf_batch rehearsal;        /* without standbys: what the store has already */
    struct hf_backup_request *backup; /* the backup in progress; NULL: there is none */
    struct hf_backup_work *aside;     /* makes the backup, unless the committer does */
    uv_loop_t *loop;
    uv_async_t committed; /* wakes the loop when the committer has news */
    /* The time from submit until a batch is durable, or given up. */
    struct hf_histogram commits_ns;
    struct hf_histogram batch_sizes; /* how many operations a batch has */
};

/* Returns how long a thread looks for work before it sleeps (RPC-04): never with a single
 * processor, which another thread or the client needs then. */
uint64_t hf_daemon_busy_poll_ns(const struct hf_config *config);

/*
 * Opens the store, and prepares the committer, whose results arrive on this loop; daemon, cluster
 * and store_config must be set. On failure the reason is in the log, and there is nothing to stop.
 */
int hf_commit_pump_open(struct hf_commit_pump *pump, uv_loop_t *loop,
                        const struct hf_config *config);

/* Starts the thread that commits. Returns HF_EUNAVAIL, with a line in the log, if there can be
 * none. */
int hf_commit_pump_start(struct hf_commit_pump *pump);

/* Commits the rehearsal, which loading has filled, before the first batch, without standbys.
 * hf_term_settled() hears of a failure. */
int hf_commit_pump_rehearse(struct hf_commit_pump *pump);

/*
 * Makes the service the one whose batches are committed; hf_commit_pump_forget() ends that: its
 * answers that wait have failed, and a batch in flight belongs to its core until committing is
 * false.
 */
void hf_commit_pump_serve(struct hf_commit_pump *pump, struct hf_service *service);
void hf_commit_pump_forget(struct hf_commit_pump *pump);

/*
 * Begins a backup: with PostgreSQL on a thread and a connection of its own, so that commits and
 * renewals go on; otherwise the committer makes it. Returns HF_ELIMIT if one is in flight,
 * HF_ENOMEM.
 */
int hf_commit_pump_back_up(struct hf_commit_pump *pump, struct hf_backup_request *request);

/*
 * Hands the gathered changes to the store, unless it is busy. It is called once a turn of the loop.
 */
void hf_commit_pump_submit(struct hf_commit_pump *pump);

/*
 * Ends the thread, records a clean stop of a service that it still has, completes all waiting
 * answers and closes the store. The handle on the loop is closing when it returns. It does nothing
 * if the pump is not open.
 */
void hf_commit_pump_stop(struct hf_commit_pump *pump);

#endif
