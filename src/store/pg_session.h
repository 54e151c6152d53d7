/*
 * A session that owns the store: on top of a connection (pg_conn.h) the advisory lock, the fence
 * number, and the prepared statements.
 *
 * Fencing has two parts. A session-level advisory lock keeps a second daemon out while we are
 * connected. And each daemon that opens the store takes the next fence number; every transaction
 * begins with a check that ours is still the newest (migration 0002), so one that was cut off long
 * enough for another to take over can never write again. The check locks a row, which is a change
 * of its own: so every COMMIT waits for the synchronous standby, even if the batch changes nothing.
 *
 * After a lost connection the advisory lock must be ours again before anything is sent: only when
 * the old session is gone, which holds that lock, is the fate of its last transaction decided.
 *
 * With standbys (store/lease.h) the lease takes the place of the lock: a lock could be kept by the
 * session of a host that vanished. All daemons of the service hold the advisory lock together,
 * which keeps out a daemon that runs alone and migrations by hand. A new session ends the old ones
 * of this process and waits until they are gone, and so is the fate of their last transaction
 * decided.
 *
 * All this depends on the state of a session: a pooler between us and the server must pool
 * sessions, not transactions.
 */
#ifndef HF_STORE_PG_SESSION_H
#define HF_STORE_PG_SESSION_H

#include "core/lease/row.h"
#include "store/pg_conn.h"

enum { HF_PG_STATEMENT_MAX = 32 };

/* The column with the heartbeat in the statement that renews the lease. */
#define HF_PG_HEARTBEAT "lease_beat"

struct hf_pg_session {
    struct hf_pg pg;
    uint64_t fence;     /* our fence number; 0 until the store is ours */
    bool journal_known; /* this connection knows what is in the journal (pg_journal.h) */

    /* With standbys, the fence is the epoch of the lease. */
    const struct hf_store_cluster *cluster; /* NULL: the daemon is alone */
    bool started;                           /* a session has been set up before */
    bool reads_only; /* the session is one connection that only loads, and is not made again */
    uint64_t nonce;
    uint64_t heartbeat;     /* the newest heartbeat that was acknowledged to us */
    bool heartbeat_known;   /* this connection has seen that the row has exactly that heartbeat */
    uint64_t offered_nonce; /* the nonce of a take whose outcome is not known; 0: none */
    uint64_t past_of;       /* the newest epoch that the process knows, whose past is asked for */
    uint64_t seen_ms;       /* when this node was last written to cluster_nodes */
    /* The row that the last transaction found, unless it was merely lost. */
    struct hf_lease_row row;
    bool row_found;
};

/* Takes the store for this process whenever the connection is new. Returns HF_EFENCED if it is not
 * ours. */
int hf_pg_session_ready(struct hf_pg_session *session);

/* Returns HF_EFENCED if another daemon has taken over. */
int hf_pg_session_check(struct hf_pg_session *session);

/*
 * Connects and sets the session up; takes the advisory lock if asked to. Migrations need no more
 * than this: they change the schema without opening the store.
 */
int hf_pg_session_connect(struct hf_pg *pg, bool lock);

/* Makes the name under which a statement on records of one kind is prepared: "put_locks", ... */
const char *hf_pg_statement_name(char name[HF_PG_STATEMENT_MAX], const char *verb,
                                 enum hf_record_kind kind);

/* What became of the transaction that a pipeline carried. */
enum hf_pg_outcome {
    HF_PG_NOT_COMMITTED,
    /* The commit is acknowledged, by the synchronous standby, too, if there is one. */
    HF_PG_COMMITTED,
    HF_PG_IN_DOUBT, /* no answer came, or the server did not wait for the standby */
};

/*
 * Sends a pipeline off and reads the result of each statement. Returns the first failure; once the
 * COMMIT among the statements took effect, a later failure does not change *outcome.
 */
int hf_pg_run_pipeline(struct hf_pg *pg, enum hf_pg_outcome *outcome);

/* Fails because libpq would not even queue a statement; closes the connection. */
int hf_pg_fail_send(struct hf_pg *pg);

#endif
