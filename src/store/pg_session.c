#include "store/pg_session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "store/backend.h"
#include "store/migrate.h"
#include "store/pg_journal.h"
#include "store/pg_lease.h"
#include "store/pg_tables.h"

/* The two keys of our advisory lock: "HOLD", and the number of the schema. PostgreSQL's advisory
 * locks are per database. */
#define LOCK_CLASS "1213156420"
#define LOCK_MATCH                                                                            \
    "l.locktype = 'advisory' AND l.classid = " LOCK_CLASS " AND l.objid = $1::int4::oid AND " \
    "l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"

enum { ENDING_MS = 5 }; /* the pause between two checks whether a session has ended */

static const enum hf_record_kind KINDS[] = {HF_RECORD_SERVER, HF_RECORD_CLIENT, HF_RECORD_LOCK};

/* The statements of every transaction that are not about records; those on records are in
 * pg_tables.c. */
static const struct {
    const char *name;
    const char *sql;
} FRAME[] = {
    {"begin", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"},
    {"fence", "SELECT holdfast_check_fence(($1::int8[])[1])"},
    {"lease", "SELECT holdfast_renew_lease(($1::int8[])[1], ($1::int8[])[2], ($1::int8[])[3], "
              "($1::int8[])[4]) AS " HF_PG_HEARTBEAT},
    {"journal", HF_PG_JOURNAL_WRITE},
    {"fold", HF_PG_JOURNAL_FOLD},
    {"commit", "COMMIT"},
};

/* The settings of each of our sessions, one row each.
 *
 * lock_timeout: the server reports that a lock is busy before we stop waiting for its answer.
 * client_min_messages: warnings reach us (see hf_pg_fail_unreplicated()), whatever the role's
 * default. plan_cache_mode: the plans of our statements do not depend on their parameters, so the
 * server makes each plan once. enable_seqscan: a plan that was made while a table was small must be
 * good when it is large, or has many dead versions. jit: no statement of ours runs long enough to
 * be worth compiling.
 *
 * The TCP settings make the server end our session within 5 s of the last packet from our host.
 * Without them the session of a host that lost its power would keep the advisory lock, and a
 * transaction that was half sent its row locks, for as long as the kernel's defaults say, which is
 * hours. A daemon that is alive and merely cut off for that long makes a new session. */
static const char SET_UP[] =
    "SELECT current_setting('fsync'),"
    " set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
    "  WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false),"
    " (SELECT count(set_config(name, wanted, false)) FROM pg_settings"
    "  JOIN (VALUES ('lock_timeout', $1, true), ('client_min_messages', 'warning', true),"
    "   ('plan_cache_mode', 'force_generic_plan', true), ('enable_seqscan', 'off', true),"
    "   ('jit', 'off', true),"
    "   ('tcp_keepalives_idle', '2', false), ('tcp_keepalives_interval', '1', false),"
    "   ('tcp_keepalives_count', '3', false), ('tcp_user_timeout', '5000', false))"
    "  AS ours (name, wanted, always) USING (name)"
    /* a value that "options" in store.dsn sets is not overridden */
    "  WHERE always OR source <> 'client')";

/* True if PostgreSQL acknowledges a commit only when it is on disk, and on the synchronous
 * standby's disk if there is one. */
static bool waits_for_commit(const char *synchronous_commit)
{
    return strcmp(synchronous_commit, "on") == 0 || strcmp(synchronous_commit, "remote_apply") == 0;
}

static int set_up(struct hf_pg *pg)
{
    char timeout[16];
    const char *const params[] = {timeout};
    PGresult *result;
    int rv;

    hf_format(timeout, sizeof(timeout), "%" PRIu32, pg->timeout_ms * 3 / 4);
    rv = hf_pg_exec_row(pg, SET_UP, 1, params, "cannot set up the session", &result);
    if (rv < 0)
        return rv;
    if (!waits_for_commit(PQgetvalue(result, 0, 1)))
        rv = hf_store_fail(pg->store, HF_EINVAL,
                           "PostgreSQL keeps synchronous_commit = %s for this session; it must be "
                           "on or remote_apply",
                           PQgetvalue(result, 0, 1));
    else if (strcmp(PQgetvalue(result, 0, 0), "on") != 0)
        hf_log_limited(HF_LOG_WARN,
                       "PostgreSQL runs with fsync = off: locks do not survive a loss of power");
    PQclear(result);
    return rv;
}

static int use_schema(struct hf_pg *pg)
{
    const char *const params[] = {pg->schema};

    return pg->schema[0]
               ? hf_pg_exec_params(pg, "SELECT set_config('search_path', quote_ident($1), false)",
                                   1, params, "cannot use the schema of the service", NULL)
               : 0;
}

static int fail_busy(struct hf_pg *pg, const char *number)
{
    const char *const params[] = {number};
    PGresult *result;
    int rv = hf_pg_exec_params(
        pg,
        "SELECT l.pid, coalesce(host(a.client_addr), 'this host') FROM pg_locks l "
        "JOIN pg_stat_activity a USING (pid) WHERE " LOCK_MATCH,
        1, params, "cannot see which session has the store", &result);

    if (rv < 0)
        return rv;
    if (PQntuples(result) >= 1)
        rv = hf_store_fail(pg->store, HF_EBUSY,
                           "the database is in use by another holdfastd (on %s, backend %s); stop "
                           "that one, or set store.dsn to another database",
                           PQgetvalue(result, 0, 1), PQgetvalue(result, 0, 0));
    else
        rv = hf_store_fail(pg->store, HF_EBUSY, "the database was in use a moment ago");
    PQclear(result);
    return rv;
}

/* Ends sessions that this process lost and that the server has not yet found dead: they may hold
 * the advisory lock and, in the middle of a transaction, the row lock on the fence number. The
 * sessions' name has 64 random bits of this process, so no other daemon's session is ended. */
static int end_lost_sessions(struct hf_pg *pg)
{
    const char *const params[] = {pg->name};

    return hf_pg_exec_params(pg,
                             "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                             "WHERE application_name = $1 AND pid <> pg_backend_pid()",
                             1, params, "cannot end the old session", NULL);
}

/* Ends the sessions that this process lost, and waits until the server no longer lists them: a
 * session is listed until its transaction has ended, so nothing that was sent on them can take
 * effect later. */
static int outlive_lost_sessions(struct hf_pg *pg)
{
    const char *const params[] = {pg->name};
    PGresult *result;
    bool gone = false;
    int rv = end_lost_sessions(pg);

    for (uint32_t waited_ms = 0; rv == 0 && !gone; waited_ms += ENDING_MS) {
        if (waited_ms > pg->timeout_ms / 2)
            return hf_store_fail(pg->store, HF_EBUSY,
                                 "an old session of this process does not end");
        if (waited_ms > 0)
            usleep(ENDING_MS * 1000);
        rv = hf_pg_exec_row(pg,
                            "SELECT count(*) FROM pg_stat_activity"
                            " WHERE application_name = $1 AND pid <> pg_backend_pid()",
                            1, params, "cannot end the old session", &result);
        if (rv < 0)
            return rv;
        gone = strcmp(PQgetvalue(result, 0, 0), "0") == 0;
        PQclear(result);
    }
    return rv;
}

/*
 * Takes the advisory lock. Once it is ours, the last transaction of its previous holder has ended.
 */
static int take_lock(struct hf_pg *pg)
{
    char number[16];
    const char *const params[] = {number};
    int rv;

    hf_format(number, sizeof(number), "%d", pg->lock_number);
    rv = hf_pg_exec_params(pg,
                           pg->shares_lock ? "SELECT pg_advisory_lock_shared(" LOCK_CLASS
                                             ", $1::int4)"
                                           : "SELECT pg_advisory_lock(" LOCK_CLASS ", $1::int4)",
                           1, params, "cannot lock the store", NULL);
    return rv == HF_EBUSY ? fail_busy(pg, number) : rv;
}

int hf_pg_session_connect(struct hf_pg *pg, bool lock)
{
    int rv = hf_pg_connect(pg);

    if (rv == 0)
        rv = set_up(pg);
    if (rv == 0)
        rv = use_schema(pg);
    if (rv == 0 && lock)
        rv = take_lock(pg);
    return rv;
}

static int take_fence(struct hf_pg_session *session)
{
    PGresult *result;
    int rv = hf_pg_exec_row(&session->pg,
                            "UPDATE server_state SET fence = fence + 1, nonce = 0, "
                            "beat = beat + 1, released = true RETURNING fence",
                            0, NULL, "cannot take over the store", &result);

    if (rv < 0)
        return rv;
    /* Fail: a fence number that has not reached the PostgreSQL standby could be given out a second
     * time after a failover. */
    if (session->pg.warned)
        rv = hf_pg_fail_unreplicated(&session->pg);
    else
        session->fence = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return rv;
}

int hf_pg_session_check(struct hf_pg_session *session)
{
    char fence[24];
    const char *const params[] = {fence};
    int rv;

    hf_format(fence, sizeof(fence), "%" PRIu64, session->fence);
    rv = hf_pg_exec_params(&session->pg, "SELECT holdfast_check_fence($1)", 1, params,
                           "cannot use the store", NULL);
    return rv == 0 && session->pg.warned ? hf_pg_fail_unreplicated(&session->pg) : rv;
}

const char *hf_pg_statement_name(char name[HF_PG_STATEMENT_MAX], const char *verb,
                                 enum hf_record_kind kind)
{
    hf_format(name, HF_PG_STATEMENT_MAX, "%s_%s", verb, hf_store_kind_name(kind));
    return name;
}

/* Judges the result of one statement. A warning belongs to the result that follows it, because
 * libpq parses no further than to the next result before that one is fetched. */
static int judge_result(struct hf_pg *pg, PGresult *result, enum hf_pg_outcome *outcome)
{
    bool warned = pg->warned;
    int rv = 0;

    pg->warned = false;
    /* An aborted statement has no reason of its own: an earlier statement of the pipeline failed
     * and has reported it. */
    if (PQresultStatus(result) != PGRES_PIPELINE_ABORTED)
        rv = hf_pg_check(pg, result, "cannot use PostgreSQL");
    if (rv < 0)
        return rv;
    if (PQntuples(result) == 1 && strcmp(PQfname(result, 0), HF_PG_HEARTBEAT) == 0)
        pg->heartbeat = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    if (strcmp(PQcmdStatus(result), "COMMIT") == 0) {
        *outcome = warned ? HF_PG_IN_DOUBT : HF_PG_COMMITTED;
        rv = warned ? hf_pg_fail_unreplicated(pg) : 0;
    }
    PQclear(result);
    return rv;
}

int hf_pg_run_pipeline(struct hf_pg *pg, enum hf_pg_outcome *outcome)
{
    enum hf_pg_outcome answered = HF_PG_NOT_COMMITTED;
    ExecStatusType status = PGRES_COMMAND_OK;
    PGresult *result;
    int failed = 0;
    int rv;

    *outcome = HF_PG_IN_DOUBT;
    pg->warned = false;
    if (!PQpipelineSync(pg->conn))
        return hf_pg_fail_send(pg);
    rv = hf_pg_flush(pg);
    while (rv == 0 && status != PGRES_PIPELINE_SYNC && (rv = hf_pg_next(pg, &result)) == 0) {
        if (!result)
            continue; /* the results of one statement have ended */
        status = PQresultStatus(result);
        rv = judge_result(pg, result, &answered);
        failed = failed ? failed : rv;
        /* after a failed statement the results of the others are still read */
        rv = pg->conn ? 0 : rv;
    }
    if (pg->conn)
        PQexitPipelineMode(pg->conn);
    if (pg->conn || answered == HF_PG_COMMITTED)
        *outcome = answered;
    return failed ? failed : rv;
}

int hf_pg_fail_send(struct hf_pg *pg)
{
    int rv = hf_store_fail(pg->store, HF_EUNREACH, "cannot send to PostgreSQL");

    hf_pg_disconnect(pg);
    return rv;
}

static bool send_prepares(struct hf_pg *pg)
{
    char name[HF_PG_STATEMENT_MAX];

    for (size_t i = 0; i < HF_COUNT_OF(FRAME); i++) {
        if (!PQsendPrepare(pg->conn, FRAME[i].name, FRAME[i].sql, 0, NULL))
            return false;
    }
    for (size_t i = 0; i < HF_COUNT_OF(KINDS); i++) {
        const struct hf_pg_table *table = hf_pg_table_of(KINDS[i]);

        if (!PQsendPrepare(pg->conn, hf_pg_statement_name(name, "put", KINDS[i]), table->put, 0,
                           NULL) ||
            !PQsendPrepare(pg->conn, hf_pg_statement_name(name, "delete", KINDS[i]), table->delete,
                           0, NULL))
            return false;
    }
    return true;
}

static int prepare(struct hf_pg *pg)
{
    enum hf_pg_outcome outcome;

    if (!PQenterPipelineMode(pg->conn) || !send_prepares(pg))
        return hf_pg_fail_send(pg);
    return hf_pg_run_pipeline(pg, &outcome);
}

/* Starts the first session of a process, which creates or migrates the schema and takes the next
 * fence number. With standbys, the lease decides who owns the store instead. */
static int start_first(struct hf_pg_session *session)
{
    uint32_t timeout_ms = session->pg.timeout_ms;
    int rv;

    /* With standbys the time limit is the lease's, which is short; the first session may take
     * longer. */
    if (session->cluster && timeout_ms < HF_PG_TIMEOUT_MS)
        session->pg.timeout_ms = HF_PG_TIMEOUT_MS;
    rv = hf_pg_session_connect(&session->pg, true);
    if (rv == 0)
        rv = hf_migrate_up(&session->pg, NULL, NULL);
    if (rv == 0)
        rv = session->cluster ? hf_pg_lease_join(session) : take_fence(session);
    session->pg.timeout_ms = timeout_ms;
    /* Set the session up again, now with the lease's time limits. */
    if (rv == 0 && session->cluster)
        rv = set_up(&session->pg);
    session->started = rv == 0;
    return rv;
}

/* Starts a later session. It checks the fence number before it waits for the lock, so that a daemon
 * whose store was taken over learns that at once, even while the other daemon has the lock. */
static int start_again(struct hf_pg_session *session)
{
    int rv = hf_pg_session_connect(&session->pg, false);

    if (rv == 0 && session->cluster)
        rv = outlive_lost_sessions(&session->pg);
    else if (rv == 0)
        rv = end_lost_sessions(&session->pg);
    if (rv == 0 && !session->cluster)
        rv = hf_pg_session_check(session);
    return rv < 0 ? rv : take_lock(&session->pg);
}

int hf_pg_session_ready(struct hf_pg_session *session)
{
    int rv;

    hf_pg_drop_dead(&session->pg);
    if (session->pg.conn)
        return 0;
    if (session->reads_only)
        return hf_store_fail(session->pg.store, HF_EUNREACH, "PostgreSQL has closed a connection");
    session->heartbeat_known = false;
    session->journal_known = false;
    rv = session->started ? start_again(session) : start_first(session);
    if (rv == 0)
        rv = prepare(&session->pg);
    if (rv < 0)
        hf_pg_disconnect(&session->pg);
    return rv;
}
