#include "store/pg_session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "store/backend.h"
#include "store/migrate.h"
#include "store/pg_tables.h"

/* The two keys of our advisory lock: "HOLD", 1. Locks are per database. */
#define LOCK_KEYS "1213156420, 1"
#define LOCK_MATCH                                                                      \
    "l.locktype = 'advisory' AND l.classid = 1213156420 AND l.objid = 1 AND l.granted " \
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"

static const enum hf_record_kind KINDS[] = {HF_RECORD_SERVER, HF_RECORD_CLIENT, HF_RECORD_LOCK};

/* The plain statements of every transaction; those on records are in pg_rows.c. */
static const struct {
    const char *name;
    const char *sql;
} FRAME[] = {
    {"begin", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"},
    {"fence", "SELECT holdfast_check_fence(($1::int8[])[1])"},
    {"commit", "COMMIT"},
};

/* Commits must reach the disk, whatever the database's default; a stronger setting stays. */
static int set_up(struct hf_pg *pg)
{
    char timeout[16];
    const char *const params[] = {timeout};
    PGresult *result;
    bool safe;
    int rv;

    hf_format(timeout, sizeof(timeout), "%" PRIu32, pg->timeout_ms * 3 / 4);
    rv = hf_pg_exec_row(
        pg,
        "SELECT current_setting('fsync'), set_config('lock_timeout', $1, false),"
        " set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
        "  WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)",
        1, params, "cannot set up the session", &result);
    if (rv < 0)
        return rv;
    safe = strcmp(PQgetvalue(result, 0, 0), "on") == 0;
    PQclear(result);
    if (!safe)
        hf_log_limited(HF_LOG_WARN,
                       "PostgreSQL runs with fsync = off: locks do not survive a loss of power");
    return 0;
}

static int fail_busy(struct hf_pg *pg)
{
    PGresult *result;
    int rv = hf_pg_exec(pg,
                        "SELECT l.pid, coalesce(host(a.client_addr), 'this host') FROM pg_locks l "
                        "JOIN pg_stat_activity a USING (pid) WHERE " LOCK_MATCH,
                        "cannot see who has the store", &result);

    if (rv < 0)
        return rv;
    if (PQntuples(result) == 1)
        rv = hf_store_fail(pg->store, HF_EBUSY,
                           "the database is in use by another holdfastd (on %s, backend %s); stop "
                           "that one, or set store.dsn to another database",
                           PQgetvalue(result, 0, 1), PQgetvalue(result, 0, 0));
    else
        rv = hf_store_fail(pg->store, HF_EBUSY, "the database was in use a moment ago");
    PQclear(result);
    return rv;
}

/*
 * Takes the advisory lock. A session of ours that the server has not yet noticed to be dead may
 * still have it; it is ended, and by waiting for its lock we wait for its last transaction.
 */
static int take_lock(struct hf_pg *pg)
{
    const char *const params[] = {pg->name};
    int rv = hf_pg_exec_params(pg,
                               "SELECT pg_terminate_backend(l.pid) FROM pg_locks l "
                               "JOIN pg_stat_activity a USING (pid) WHERE " LOCK_MATCH
                               " AND a.application_name = $1 AND l.pid <> pg_backend_pid()",
                               1, params, "cannot end the old session", NULL);

    if (rv < 0)
        return rv;
    rv = hf_pg_exec(pg, "SELECT pg_advisory_lock(" LOCK_KEYS ")", "cannot lock the store", NULL);
    return rv == HF_EBUSY ? fail_busy(pg) : rv;
}

int hf_pg_session_connect(struct hf_pg *pg, bool lock)
{
    int rv = hf_pg_connect(pg);

    if (rv == 0)
        rv = set_up(pg);
    if (rv == 0 && lock)
        rv = take_lock(pg);
    return rv;
}

static int take_fence(struct hf_pg_session *session)
{
    PGresult *result;
    int rv =
        hf_pg_exec_row(&session->pg, "UPDATE server_state SET fence = fence + 1 RETURNING fence", 0,
                       NULL, "cannot take over the store", &result);

    if (rv < 0)
        return rv;
    session->fence = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return 0;
}

int hf_pg_session_check(struct hf_pg_session *session)
{
    char fence[24];
    const char *const params[] = {fence};

    hf_format(fence, sizeof(fence), "%" PRIu64, session->fence);
    return hf_pg_exec_params(&session->pg, "SELECT holdfast_check_fence($1)", 1, params,
                             "cannot use the store", NULL);
}

const char *hf_pg_statement_name(char name[HF_PG_STATEMENT_MAX], const char *verb,
                                 enum hf_record_kind kind)
{
    hf_format(name, HF_PG_STATEMENT_MAX, "%s_%s", verb, hf_store_kind_name(kind));
    return name;
}

int hf_pg_run_pipeline(struct hf_pg *pg, bool *committed)
{
    PGresult *result;
    int failed = 0;
    int rv;

    if (!PQpipelineSync(pg->conn))
        return hf_pg_fail_send(pg);
    rv = hf_pg_flush(pg);
    while (rv == 0 && (rv = hf_pg_next(pg, &result)) == 0) {
        ExecStatusType status = PQresultStatus(result);
        int code = 0;

        if (!result)
            continue; /* the end of one statement's results */
        /* An aborted statement is not the cause of a failure, but what comes of it. */
        if (status != PGRES_PIPELINE_ABORTED)
            code = hf_pg_check(pg, result, "cannot use PostgreSQL");
        if (code < 0) {
            failed = failed ? failed : code;
            if (!pg->conn)
                break;
            continue;
        }
        if (strcmp(PQcmdStatus(result), "COMMIT") == 0)
            *committed = true;
        PQclear(result);
        if (status == PGRES_PIPELINE_SYNC) {
            PQexitPipelineMode(pg->conn);
            break;
        }
    }
    return failed ? failed : rv;
}

int hf_pg_fail_send(struct hf_pg *pg)
{
    int rv = hf_store_fail(pg->store, HF_EUNREACH, "cannot send to PostgreSQL; it is tried again");

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
    bool committed;

    if (!PQenterPipelineMode(pg->conn) || !send_prepares(pg))
        return hf_pg_fail_send(pg);
    return hf_pg_run_pipeline(pg, &committed);
}

/* The first session makes the schema and takes the fence. */
static int start_first(struct hf_pg_session *session)
{
    int rv = hf_pg_session_connect(&session->pg, true);

    if (rv == 0)
        rv = hf_migrate_up(&session->pg, NULL, NULL);
    return rv < 0 ? rv : take_fence(session);
}

/* A later one looks at the fence first: who was overtaken need not wait for the other's lock. */
static int start_again(struct hf_pg_session *session)
{
    int rv = hf_pg_session_connect(&session->pg, false);

    if (rv == 0)
        rv = hf_pg_session_check(session);
    return rv < 0 ? rv : take_lock(&session->pg);
}

int hf_pg_session_ready(struct hf_pg_session *session)
{
    int rv;

    hf_pg_drop_dead(&session->pg);
    if (session->pg.conn)
        return 0;
    rv = session->fence == 0 ? start_first(session) : start_again(session);
    if (rv == 0)
        rv = prepare(&session->pg);
    if (rv < 0)
        hf_pg_disconnect(&session->pg);
    return rv;
}
