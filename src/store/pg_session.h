/*
 * A session that owns the store. It adds the advisory lock, the fence number, and the prepared
 * statements to a connection (pg_conn.h).
 *
 * Fencing has two parts. A session-level advisory lock keeps a second daemon out while we are
 * connected. And each daemon that opens the store takes the next fence number; every transaction
 * begins with a check that ours is still the newest (migration 0002), so a daemon that was cut off
 * long enough for another to take over can never write again. The check locks a row, which is a
 * change in itself: so every COMMIT waits for the synchronous standby, even if the batch changes
 * nothing.
 *
 * After a lost connection we must hold the advisory lock again before anything is sent. The old
 * session held that lock, so only when that session has ended is the outcome of its last
 * transaction decided.
 *
 * With standbys (store/lease.h) the lease takes the place of the lock, because the session of a
 * host that vanished could keep a lock. All daemons of the service share the advisory lock, which
 * keeps out a daemon that runs alone and migrations by hand. A new session ends the older sessions
 * of this process and waits until they are gone; that decides the outcome of their last
 * transaction.
 *
 * All this depends on the state of a session: a pooler between us and the server must pool
 * sessions, not transactions.
 */
#ifndef HF_STORE_PG_SESSION_H
#define HF_STORE_PG_SESSION_H

#include "core/lease/row.h"
#include "store/pg_conn.h"

enum { HF_PG_STATEMENT_MAX = 32 };

/* The name of the column with the heartbeat, in the statement that renews the lease. */
#define HF_PG_HEARTBEAT "lease_beat"

struct hf_pg_session {
    struct hf_pg pg;
    uint64_t fence; /* our fence number; 0 until the store belongs to this daemon */
    /* pg_journal.pending is valid: it was read on this connection (pg_journal.h) */
    bool journal_known;

    /* How the daemon takes part in a service with standbys, where the fence number is the lease's
     * epoch; NULL: the daemon runs alone. */
    const struct hf_store_cluster *cluster;
    bool started;    /* this process has set up a session before */
    bool reads_only; /* the session only loads, and is not made again when its connection is lost */
    uint64_t nonce;
    /* the newest heartbeat of the lease that the server acknowledged to us */
    uint64_t heartbeat;
    /* the last transaction has shown that the lease's row has exactly this heartbeat */
    bool heartbeat_known;
    uint64_t offered_nonce; /* the nonce of a TAKE whose outcome is unknown; 0: there is none */
    /* the newest epoch that this process knows, about which it asks the history of terms */
    uint64_t past_of;
    uint64_t seen_ms; /* when this node's row in the table cluster_nodes was last written */
    /* The lease's row as the last transaction found or left it. row_found is false after a
     * transaction that failed without seeing the row. */
    struct hf_lease_row row;
    bool row_found;
};

/* Makes a new session and takes the store for this process, if the connection was lost. Returns
 * HF_EFENCED if another daemon has the store. */
int hf_pg_session_ready(struct hf_pg_session *session);

/* Checks the fence number. Returns HF_EFENCED if another daemon has taken over the store. */
int hf_pg_session_check(struct hf_pg_session *session);

/* Connects and sets the session up; with `lock` it also takes the advisory lock. Migrations need no
 * more: they change the schema without opening the store. */
int hf_pg_session_connect(struct hf_pg *pg, bool lock);

/* Makes the name under which a statement on records of one kind is prepared: "put_locks", ... */
const char *hf_pg_statement_name(char name[HF_PG_STATEMENT_MAX], const char *verb,
                                 enum hf_record_kind kind);

/* The outcome of the transaction that a pipeline of statements carried. */
enum hf_pg_outcome {
    HF_PG_NOT_COMMITTED,
    /* The server acknowledged the commit, and so did the synchronous standby, if there is one. */
    HF_PG_COMMITTED,
    HF_PG_IN_DOUBT, /* no answer came, or the server did not wait for the synchronous standby */
};

/* Sends a pipeline and reads the result of each statement. Returns the first failure. Once the
 * COMMIT in the pipeline took effect, a later failure does not change *outcome. */
int hf_pg_run_pipeline(struct hf_pg *pg, enum hf_pg_outcome *outcome);

/* Reports that libpq could not even queue a statement, and closes the connection. */
int hf_pg_fail_send(struct hf_pg *pg);

#endif
