/*
 * Carries batches from the core to the store and their results back. At most one batch is with the
 * store at a time; the core gathers the next one meanwhile. The store's own thread commits, all the
 * rest happens on the loop thread.
 *
 * Two changes of threads take longer than a flush of a fast disk. So a batch need not go to the
 * store's thread if it can be written at once (DUR-02); nor if it comes from a client that asks
 * alone, one request after the other, while flushes are fast: then there is no other work that the
 * loop could do meanwhile.
 *
 * Without a lease, the first thing that the store's thread commits is a rehearsal: the server's
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
#include "rpc/server.h"
#include "service/service.h"
#include "store/commit.h"
#include "store/store.h"

/* A backup of all that is durable at one moment. done is called once, on the loop thread. */
struct hf_backup_request {
    struct hf_buf out; /* initialised by the caller, who owns it again when done is called */
    void (*done)(struct hf_backup_request *request, int status);
};

/*
 * With a lease, what decides when a batch may begin, and hears how it ended (cluster.h). A batch is
 * one transaction on the lease, and only one is under way at a time.
 */
struct hf_commit_lessee {
    bool (*may_begin)(void *ctx);
    void (*batch_begins)(void *ctx);
    /* Before and after the service has heard of it: its answers must not pass a lease that is lost.
     */
    void (*batch_ended)(void *ctx, const struct hf_commit_result *result);
    void (*batch_settled)(void *ctx, const struct hf_commit_result *result);
    void (*lease_ended)(void *ctx, const struct hf_commit_lease *result);
    void *ctx;
};

struct hf_commit_pump {
    struct hf_service *service; /* NULL: none; what it still has in flight is forgotten */
    const struct hf_commit_lessee *lessee; /* NULL: alone */
    uint32_t patience_ms;
    struct hf_store store;
    struct hf_committer committer;
    bool committing;                  /* the committer has a batch */
    struct hf_batch rehearsal;        /* what the store has already; empty with a lease */
    struct hf_backup_request *backup; /* under way; NULL: none */
    struct hf_backup_work *aside;     /* what makes it, unless the committer does */
    const struct hf_store_config *store_config;
    uv_loop_t *loop;
    uv_async_t committed;            /* the committer has news */
    struct hf_histogram commits_ns;  /* from submit to durable, or given up */
    struct hf_histogram batch_sizes; /* operations in a batch */
};

/* What a store with standbys must know, and the strings of its configuration. */
struct hf_store_settings {
    char dsn[HF_CONFIG_TEXT_MAX];
    struct hf_store_config store;
    struct hf_store_cluster cluster;
    struct hf_store_export exports[HF_CONFIG_EXPORT_RULES_MAX];
};

/*
 * The store that the configuration names. dsn is room for the connection string, which
 * store.dsn_file may hold. HF_EINVAL, with the reason, if that file cannot be used.
 */
int hf_store_config_from(const struct hf_config *config, char dsn[HF_CONFIG_TEXT_MAX],
                         struct hf_store_config *out, const char **reason);

/*
 * Fills settings, which point into themselves and into config, for a daemon of the service. On
 * failure the reason is in the log.
 */
int hf_store_settings_from(const struct hf_config *config, struct hf_store_settings *out);

/* Opens the store. On failure the reason is in the log. settings outlive the pump. */
int hf_commit_pump_open(struct hf_commit_pump *pump, const struct hf_config *config,
                        const struct hf_store_settings *settings);

/*
 * Loads the store into the service's core, makes sure that the store can be written, and starts the
 * core. Its first batch holds the new epoch; nothing leaves before that is durable (NSM-06). On
 * failure the reason is in the log.
 */
int hf_commit_pump_load(struct hf_commit_pump *pump, struct hf_service *service);

/* After a start: logs that clients may hold locks which are not recorded, and why. */
void hf_log_unknown_locks(const struct hf_core *core);

/* Prepares the committer, whose results arrive on this loop. */
int hf_commit_pump_attach(struct hf_commit_pump *pump, uv_loop_t *loop);

/* Starts the thread that commits, with the rehearsal. HF_EUNAVAIL if there can be none. */
int hf_commit_pump_start(struct hf_commit_pump *pump);

/*
 * Begins a backup: with PostgreSQL on a thread and a connection of its own, so that commits and
 * renewals go on; else as the committer makes it. HF_ELIMIT if one is under way, HF_ENOMEM.
 */
int hf_commit_pump_back_up(struct hf_commit_pump *pump, struct hf_backup_request *request);

/* Hands the gathered changes to the store, unless it is busy: once a turn of the loop. */
void hf_commit_pump_submit(struct hf_commit_pump *pump);

/*
 * Ends the thread, records a clean stop, completes all waiting answers and closes the store. The
 * handle on the loop is closing when it returns.
 */
void hf_commit_pump_stop(struct hf_commit_pump *pump);

/* Closes a store whose thread was not started. */
void hf_commit_pump_close(struct hf_commit_pump *pump);

/*
 * With a lease. The service becomes the one whose batches are committed; hf_commit_pump_forget()
 * ends that: its answers that wait have failed, and a batch in flight belongs to its core until
 * committing is false.
 */
void hf_commit_pump_serve(struct hf_commit_pump *pump, struct hf_service *service);
void hf_commit_pump_forget(struct hf_commit_pump *pump);

/* With a lease: ends the thread and closes the store, without a service. */
void hf_commit_pump_end(struct hf_commit_pump *pump);

#endif
