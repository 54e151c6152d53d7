/*
 * The store for those who run PostgreSQL anyway: the schema of migrations/, one transaction per
 * batch, sent as one pipeline of prepared statements, so that a batch costs one round trip however
 * many records it carries. Everything in it may run twice (upserts and deletes by id), so a batch
 * whose outcome is unknown is simply sent again.
 *
 * Fencing has two parts. A session-level advisory lock keeps a second daemon out while we are
 * connected. And each daemon that opens the store takes the next fence number; every transaction
 * begins with a check that ours is still the newest (migration 0002), so one that was cut off long
 * enough for another to take over can never write again.
 *
 * After a lost connection the advisory lock must be ours again before anything is sent: only when
 * the old session is gone, which holds that lock, is the fate of its last transaction decided.
 *
 * Session state is what all this stands on: a pooler between us and the server must pool sessions,
 * not transactions.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "store/backend.h"
#include "store/changes.h"
#include "store/migrate.h"
#include "store/pg_conn.h"
#include "store/pg_rows.h"

/* The two keys of our advisory lock: "HOLD", 1. Locks are per database. */
#define LOCK_KEYS "1213156420, 1"
#define LOCK_MATCH                                                                      \
    "l.locktype = 'advisory' AND l.classid = 1213156420 AND l.objid = 1 AND l.granted " \
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"

enum { STATEMENT_NAME_MAX = 32 };

struct postgres {
    struct hf_pg pg;
    uint64_t fence; /* 0 until the store is ours */
    struct hf_changes changes;
    struct hf_pg_rows rows;
    struct hf_buf record; /* scratch: one encoded record on its way to a visitor */
};

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
static int set_up_session(struct hf_pg *pg)
{
    char timeout[16];
    const char *const params[] = {timeout};
    PGresult *result;
    bool unsafe;
    int rv;

    snprintf(timeout, sizeof(timeout), "%" PRIu32, pg->timeout_ms * 3 / 4);
    rv = hf_pg_exec_params(
        pg,
        "SELECT set_config('lock_timeout', $1, false),"
        " set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
        "  WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),"
        " current_setting('fsync')",
        1, params, "cannot set up the session", &result);
    if (rv < 0)
        return rv;
    unsafe = strcmp(PQgetvalue(result, 0, 2), "on") != 0;
    PQclear(result);
    if (unsafe)
        hf_log_limited(HF_LOG_WARN, "PostgreSQL runs with fsync = off: locks do not survive the "
                                    "loss of power");
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

static int take_fence(struct postgres *p)
{
    PGresult *result;
    int rv = hf_pg_exec(&p->pg, "UPDATE server_state SET fence = fence + 1 RETURNING fence",
                        "cannot take over the store", &result);

    if (rv < 0)
        return rv;
    if (PQntuples(result) == 1)
        rv = sscanf(PQgetvalue(result, 0, 0), "%" SCNu64, &p->fence) == 1 ? 0 : HF_EFORMAT;
    else
        rv = HF_EFORMAT;
    PQclear(result);
    if (rv < 0)
        return hf_store_fail(p->pg.store, rv, "server_state has no row; restore the database");
    return 0;
}

static int check_fence(struct postgres *p)
{
    char fence[24];
    const char *const params[] = {fence};

    snprintf(fence, sizeof(fence), "%" PRIu64, p->fence);
    return hf_pg_exec_params(&p->pg, "SELECT holdfast_check_fence($1)", 1, params,
                             "cannot use the store", NULL);
}

static const char *statement_name(char name[STATEMENT_NAME_MAX], const char *verb,
                                  enum hf_record_kind kind)
{
    snprintf(name, STATEMENT_NAME_MAX, "%s_%s", verb, hf_store_kind_name(kind));
    return name;
}

/*
 * Sends a pipeline off and reads what became of each statement; the first failure counts.
 * *committed becomes true when a COMMIT among them took effect, whatever happens after.
 */
static int run_pipeline(struct hf_pg *pg, bool *committed)
{
    PGresult *result;
    int failed = 0;
    int rv;

    if (!PQpipelineSync(pg->conn))
        return hf_store_fail(pg->store, HF_ENOMEM, "out of memory");
    rv = hf_pg_flush(pg);
    while (rv == 0 && (rv = hf_pg_next(pg, &result)) == 0) {
        ExecStatusType status = PQresultStatus(result);
        int code = 0;

        if (!result)
            continue;                         /* the end of one statement's results */
        if (status != PGRES_PIPELINE_ABORTED) /* not the cause, but what comes of it */
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

static bool send_prepares(struct hf_pg *pg)
{
    char name[STATEMENT_NAME_MAX];

    for (size_t i = 0; i < HF_COUNT_OF(FRAME); i++) {
        if (!PQsendPrepare(pg->conn, FRAME[i].name, FRAME[i].sql, 0, NULL))
            return false;
    }
    for (size_t i = 0; i < HF_COUNT_OF(KINDS); i++) {
        const struct hf_pg_table *table = hf_pg_table_of(KINDS[i]);

        if (!PQsendPrepare(pg->conn, statement_name(name, "put", KINDS[i]), table->put, 0, NULL) ||
            !PQsendPrepare(pg->conn, statement_name(name, "delete", KINDS[i]), table->delete, 0,
                           NULL))
            return false;
    }
    return true;
}

static int fail_send(struct hf_pg *pg)
{
    int rv = hf_store_fail(pg->store, HF_EUNREACH, "cannot send to PostgreSQL; it is tried again");

    hf_pg_disconnect(pg);
    return rv;
}

static int prepare(struct hf_pg *pg)
{
    bool committed;

    if (!PQenterPipelineMode(pg->conn) || !send_prepares(pg))
        return fail_send(pg);
    return run_pipeline(pg, &committed);
}

/* Makes the connection, and the store ours: for the first time, or once more. */
static int start_session(struct postgres *p)
{
    int rv = hf_pg_connect(&p->pg);

    if (rv == 0)
        rv = set_up_session(&p->pg);
    if (rv == 0 && p->fence != 0)
        rv = check_fence(p); /* a daemon that was overtaken need not wait for the other's lock */
    if (rv == 0)
        rv = take_lock(&p->pg);
    if (rv == 0 && p->fence == 0)
        rv = hf_migrate_up(&p->pg, NULL, NULL);
    if (rv == 0 && p->fence == 0)
        rv = take_fence(p);
    if (rv == 0)
        rv = prepare(&p->pg);
    if (rv < 0)
        hf_pg_disconnect(&p->pg);
    return rv;
}

static int ready(struct postgres *p)
{
    return p->pg.conn ? 0 : start_session(p);
}

static void postgres_close(struct hf_store *store)
{
    struct postgres *p = store->state;

    hf_buf_free(&p->record);
    hf_pg_rows_free(&p->rows);
    hf_changes_free(&p->changes);
    hf_pg_free(&p->pg);
    hf_free(store->alloc, p);
}

static int postgres_open(struct hf_store *store, const struct hf_store_config *config)
{
    struct postgres *p = hf_calloc(store->alloc, 1, sizeof(*p));
    int rv;

    if (!p)
        return hf_store_fail(store, HF_ENOMEM, "out of memory");
    store->state = p;
    hf_changes_init(&p->changes, store->alloc);
    hf_pg_rows_init(&p->rows, store->alloc);
    hf_buf_init(&p->record, store->alloc);
    rv = hf_pg_init(&p->pg, store, config);
    if (rv == 0)
        rv = start_session(p);
    if (rv < 0)
        postgres_close(store);
    return rv;
}

/* Queues one prepared statement with the rows gathered as its parameters. */
static bool send_rows(struct postgres *p, const char *name)
{
    struct hf_pg_rows *rows = &p->rows;
    const char *values[HF_PG_COLUMNS_MAX];
    int lengths[HF_PG_COLUMNS_MAX];
    int formats[HF_PG_COLUMNS_MAX];

    hf_pg_rows_finish(rows);
    for (unsigned i = 0; i < rows->n_columns; i++) {
        struct hf_bytes bytes = hf_buf_view(&rows->columns[i]);

        values[i] = (const char *)bytes.data;
        lengths[i] = (int)bytes.len;
        formats[i] = 1;
    }
    return PQsendQueryPrepared(p->pg.conn, name, (int)rows->n_columns, values, lengths, formats, 0);
}

static int send_plain(struct postgres *p, const char *name)
{
    hf_pg_rows_clear(&p->rows);
    return send_rows(p, name) ? 0 : fail_send(&p->pg);
}

static int fail_record(struct hf_store *store, enum hf_record_kind kind, int code)
{
    return hf_store_fail(store, code, "a record for \"%s\" cannot be written: %s",
                         hf_store_kind_name(kind), hf_strerror(code));
}

/* The puts, or the deletes, of one kind. A kind is touched once by each, and they do not overlap.
 */
static int send_ops(struct postgres *p, enum hf_op_type type, const struct hf_op *ops, size_t count)
{
    char name[STATEMENT_NAME_MAX];
    int rv = 0;

    hf_pg_rows_clear(&p->rows);
    for (size_t i = 0; i < count && rv == 0; i++) {
        if (ops[i].type != type)
            continue;
        rv = type == HF_OP_PUT ? hf_pg_rows_add(&p->rows, ops[i].kind, ops[i].value)
                               : hf_pg_rows_add_id(&p->rows, ops[i].id);
    }
    if (rv < 0)
        return fail_record(p->pg.store, ops[0].kind, rv);
    if (p->rows.n_rows == 0)
        return 0;
    statement_name(name, type == HF_OP_PUT ? "put" : "delete", ops[0].kind);
    return send_rows(p, name) ? 0 : fail_send(&p->pg);
}

static int send_fence(struct postgres *p)
{
    hf_pg_rows_clear(&p->rows);
    if (hf_pg_rows_add_id(&p->rows, p->fence) < 0)
        return hf_store_fail(p->pg.store, HF_ENOMEM, "out of memory");
    return send_rows(p, "fence") ? 0 : fail_send(&p->pg);
}

static int send_batch(struct postgres *p)
{
    const struct hf_changes *changes = &p->changes;
    int rv = send_plain(p, "begin");

    if (rv == 0)
        rv = send_fence(p);
    for (size_t from = 0; from < changes->count && rv == 0;) {
        const struct hf_op *ops = &changes->ops[from];
        size_t count = hf_changes_run(changes, &from);

        rv = send_ops(p, HF_OP_DELETE, ops, count);
        if (rv == 0)
            rv = send_ops(p, HF_OP_PUT, ops, count);
    }
    return rv < 0 ? rv : send_plain(p, "commit");
}

static int postgres_apply(struct hf_store *store, const struct hf_batch *batch)
{
    struct postgres *p = store->state;
    bool committed = false;
    int rv = ready(p);

    if (rv < 0)
        return rv;
    if (hf_changes_collapse(&p->changes, batch) < 0)
        return hf_store_fail(store, HF_ENOMEM, "out of memory");
    if (!PQenterPipelineMode(p->pg.conn))
        return fail_send(&p->pg);
    rv = send_batch(p);
    if (rv < 0) {
        hf_pg_disconnect(&p->pg); /* a pipeline half built cannot be taken back */
        return rv;
    }
    rv = run_pipeline(&p->pg, &committed);
    if (committed)
        return 0;
    if (rv < 0 && !p->pg.conn)
        store->in_doubt = true;
    hf_pg_rollback(&p->pg);
    HF_ASSERT(rv < 0);
    return rv;
}

static int postgres_probe(struct hf_store *store)
{
    struct postgres *p = store->state;
    int rv = ready(p);

    return rv < 0 ? rv : check_fence(p);
}

/* One row of an answer, to the visitor. */
static int visit_row(struct postgres *p, const PGresult *result, enum hf_record_kind kind,
                     hf_store_visit visit, void *ctx)
{
    int rv;

    hf_buf_clear(&p->record);
    rv = hf_pg_row_encode(result, 0, kind, &p->record);
    if (rv < 0)
        return hf_store_fail(p->pg.store, rv, "a row under \"%s\" cannot be read: %s",
                             hf_store_kind_name(kind), hf_strerror(rv));
    return visit(ctx, kind, hf_buf_view(&p->record));
}

/*
 * Reads a query's rows one by one, so that a million locks need not fit into memory twice. When the
 * visitor has enough the rest is still read: the connection is needed afterwards.
 */
static int read_rows(struct postgres *p, enum hf_record_kind kind, hf_store_visit visit, void *ctx)
{
    PGresult *result = NULL;
    int visited = 0;
    int rv = hf_pg_flush(&p->pg);

    while (rv == 0 && (rv = hf_pg_next(&p->pg, &result)) == 0 && result) {
        rv = hf_pg_check(&p->pg, result, "cannot read from PostgreSQL");
        if (rv < 0)
            break;
        if (PQntuples(result) == 1 && visited == 0)
            visited = visit_row(p, result, kind, visit, ctx);
        PQclear(result);
    }
    return rv < 0 ? rv : visited;
}

static int postgres_list(struct hf_store *store, enum hf_record_kind kind, hf_store_visit visit,
                         void *ctx)
{
    struct postgres *p = store->state;
    int rv = ready(p);

    if (rv < 0)
        return rv;
    if (!PQsendQueryParams(p->pg.conn, hf_pg_table_of(kind)->list, 0, NULL, NULL, NULL, NULL, 1) ||
        !PQsetSingleRowMode(p->pg.conn))
        return fail_send(&p->pg);
    return read_rows(p, kind, visit, ctx);
}

/* Takes the one record that get() is about. */
static int take_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    (void)kind;
    return hf_buf_append(ctx, record.data, record.len);
}

static int postgres_get(struct hf_store *store, enum hf_record_kind kind, uint64_t id,
                        struct hf_buf *out)
{
    struct postgres *p = store->state;
    char text[24];
    const char *const params[] = {text};
    size_t before = hf_buf_len(out);
    int rv = ready(p);

    if (rv < 0)
        return rv;
    snprintf(text, sizeof(text), "%" PRId64, (int64_t)id);
    if (!PQsendQueryParams(p->pg.conn, hf_pg_table_of(kind)->get, 1, NULL, params, NULL, NULL, 1))
        return fail_send(&p->pg);
    rv = read_rows(p, kind, take_record, out);
    if (rv == 0 && hf_buf_len(out) == before)
        rv = hf_store_fail(store, HF_ENOENT, "there is no such record under \"%s\"",
                           hf_store_kind_name(kind));
    return rv;
}

const struct hf_store_backend hf_store_postgres = {
    .name = "postgres",
    .survives = true,
    .open = postgres_open,
    .close = postgres_close,
    .apply = postgres_apply,
    .probe = postgres_probe,
    .get = postgres_get,
    .list = postgres_list,
};

int hf_store_migrate(const struct hf_store_config *config, enum hf_migrate what,
                     hf_migrate_report report, void *ctx, char error[HF_STORE_ERROR_MAX])
{
    static int (*const DO[])(struct hf_pg *, hf_migrate_report, void *) = {
        [HF_MIGRATE_UP] = hf_migrate_up,
        [HF_MIGRATE_DOWN] = hf_migrate_down,
        [HF_MIGRATE_STATUS] = hf_migrate_status,
    };
    struct hf_store store = {.alloc = config->alloc ? config->alloc : &hf_alloc_heap};
    struct hf_pg pg = {.store = &store};
    int rv;

    if (!config->backend || strcmp(config->backend, hf_store_postgres.name) != 0)
        rv = hf_store_fail(&store, HF_EINVAL, "only store.backend = postgres has migrations");
    else
        rv = hf_pg_init(&pg, &store, config);
    if (rv == 0)
        rv = hf_pg_connect(&pg);
    if (rv == 0)
        rv = set_up_session(&pg);
    if (rv == 0 && what != HF_MIGRATE_STATUS)
        rv = take_lock(&pg);
    if (rv == 0)
        rv = DO[what](&pg, report, ctx);
    hf_pg_free(&pg);
    memcpy(error, store.error, sizeof(store.error));
    return rv;
}
