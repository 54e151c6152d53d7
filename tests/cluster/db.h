/*
 * The database as the lease sees it: PostgreSQL with one synchronous replica (or, in some worlds,
 * an asynchronous one).
 *
 * A transaction arrives, waits for the row lock (POLL does not), compares, is flushed to the
 * primary's disk, travels to the replica, becomes visible, lets the next one have the lock, and is
 * answered. It can be lost on the way, arrive long after its node gave it up, and hang in any of
 * these steps. Another session that wants the lock can end it: if it was flushed, it is then
 * visible without having been acknowledged; otherwise it is gone. A restart keeps what was flushed;
 * a failover keeps what reached the replica.
 */
#ifndef HF_CLUSTER_DB_H
#define HF_CLUSTER_DB_H

#include <stdbool.h>
#include <stdint.h>

#include "core/lease/row.h"
#include "support/records.h"

struct cl_world;

enum { CL_TRANSACTIONS = 2048, CL_LOG = 4096, CL_TERMS = 64 };

enum cl_phase {
    CL_FREE,
    CL_TRAVELS,
    CL_STALLED, /* the transaction arrived while the database was stalled */
    CL_QUEUES,  /* the transaction waits for the row lock */
    CL_FLUSHES,
    CL_SYNCS, /* the transaction is flushed, and waits for the replica */
};

struct cl_txn {
    enum cl_phase phase;
    uint8_t node;
    uint64_t number; /* unique */
    uint64_t op;     /* the node's operation that the transaction executes */
    struct hf_lease_order order;
    uint64_t heartbeat; /* COMMIT: the heartbeat that the row must have exactly */
    uint64_t seq;       /* COMMIT: the number of the batch */
    struct hf_batch batch;
    struct hf_lease_row row; /* POLL: the row as read; otherwise the row as it will be */
    uint64_t lsn;
    uint64_t arrived; /* its number in the queue, in the order of arrival */
};

struct cl_change { /* An entry of the log, until the replica has it. */
    bool acknowledged;
    bool changes; /* a poll changes nothing */
    struct hf_lease_row row;
    uint64_t seq; /* the number of the batch; 0: the entry has no batch */
    struct hf_batch batch;
};

struct cl_term { /* core/lease/row.h */
    uint64_t epoch;
    uint64_t nonce;
    uint64_t heartbeat;
};

struct cl_state {
    struct hf_lease_row row;
    struct cl_term terms[CL_TERMS]; /* the newest terms, oldest first */
    unsigned n_terms;
    struct records records;
    /* The epoch and the number of the last batch that was applied: they prove the order of the
     * commits. */
    uint64_t last_epoch;
    uint64_t last_seq;
    /* An operator accepted that commits were lost, and no start has recorded itself since. */
    bool loss_accepted;
};

struct cl_db {
    bool down;
    bool stalled;
    bool sync_stalled;
    struct cl_state primary; /* the state that all sessions see */
    struct cl_state replica;
    struct cl_txn txns[CL_TRANSACTIONS];
    unsigned n_txns; /* transactions from this index on are free */
    int locked_by;   /* the transaction that has the row lock; -1: none has */
    uint64_t numbers;
    uint64_t arrivals;
    struct cl_change log[CL_LOG]; /* the entry with number lsn is at lsn % CL_LOG */
    uint64_t flushed_lsn;
    uint64_t replica_lsn;
};

void cl_db_init(struct cl_world *world);
void cl_db_free(struct cl_world *world);

/* Sends a node's transaction. batch: that of a COMMIT, otherwise NULL. */
void cl_db_send(struct cl_world *world, unsigned node, const struct hf_lease_order *order,
                uint64_t heartbeat, const struct hf_batch *batch);

/* Appends a copy of a batch to another one. */
void cl_copy_batch(struct hf_batch *to, const struct hf_batch *from);

/* True if the node can read the tables. */
bool cl_db_is_readable(const struct cl_world *world, unsigned node);

void cl_db_on_arrive(struct cl_world *world, unsigned index, uint64_t number);
void cl_db_on_flushed(struct cl_world *world, unsigned index, uint64_t number);
void cl_db_on_shipped(struct cl_world *world, uint64_t lsn);
void cl_db_on_up(struct cl_world *world);

void cl_db_stall(struct cl_world *world, bool stalled);
void cl_db_stall_sync(struct cl_world *world, bool stalled);

/* Takes the database down; after down_ms it is up again, with the same disk or as the former
 * replica. */
void cl_db_restart(struct cl_world *world, uint32_t down_ms);
void cl_db_failover(struct cl_world *world, uint32_t down_ms);

#endif
