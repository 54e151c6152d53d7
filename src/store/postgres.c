/*
 * The store in PostgreSQL: the schema of migrations/, one transaction per batch, sent as one
 * pipeline of prepared statements, so that a batch costs one round trip however many records it
 * carries. A batch may be applied twice (its records are replaced or deleted by id), so a batch
 * whose outcome is unknown is sent again. pg_session.h keeps other daemons from writing.
 *
 * Under load batches go to a journal (pg_journal.h) and from there, many at a time, to the tables.
 * A reader combines the records of the tables with the changes in the journal.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "store/backend.h"
#include "store/changes.h"
#include "store/pg_journal.h"
#include "store/pg_lease.h"
#include "store/pg_rows.h"
#include "store/pg_session.h"
#include "store/pg_tables.h"
#include "store/pg_tuples.h"

/* the most rows that one statement carries; the server takes some 5 ms for them */
enum { PIECE_ROWS = 500 };

struct postgres {
    struct hf_pg_session session;
    struct hf_pg_journal journal;
    /* The changes that a transaction makes to the tables or, while reading, those that the journal
     * makes to the tables' records. */
    struct hf_changes changes;
    struct hf_pg_rows rows;
    struct hf_buf record; /* room for one encoded record on its way to a visitor */
};

static void release(struct hf_store *store)
{
    struct postgres *p = store->state;

    hf_buf_free(&p->record);
    hf_pg_rows_free(&p->rows);
    hf_changes_free(&p->changes);
    hf_pg_journal_free(&p->journal);
    hf_pg_free(&p->session.pg);
    hf_free(store->alloc, p);
}

/* Prepares the store's structures, without connecting. */
static int prepare(struct hf_store *store, const struct hf_store_config *config)
{
    struct postgres *p = hf_calloc(store->alloc, 1, sizeof(*p));
    int rv;

    if (!p)
        return hf_store_fail(store, HF_ENOMEM, "out of memory");
    store->state = p;
    hf_pg_journal_init(&p->journal, store->alloc);
    hf_changes_init(&p->changes, store->alloc);
    hf_pg_rows_init(&p->rows, store->alloc);
    hf_buf_init(&p->record, store->alloc);
    p->session.cluster = config->cluster;
    store->leased = config->cluster != NULL;
    rv = hf_pg_init(&p->session.pg, store, config);
    if (rv < 0)
        release(store);
    return rv;
}

static int postgres_open(struct hf_store *store, const struct hf_store_config *config)
{
    int rv = prepare(store, config);
    struct postgres *p = store->state;

    if (rv < 0)
        return rv;
    rv = hf_pg_session_ready(&p->session);
    if (rv < 0)
        release(store);
    return rv;
}

/* Queues one prepared statement with the gathered rows as its parameters. */
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
    return PQsendQueryPrepared(p->session.pg.conn, name, (int)rows->n_columns, values, lengths,
                               formats, 0);
}

static int send_plain(struct postgres *p, const char *name)
{
    hf_pg_rows_clear(&p->rows);
    return send_rows(p, name) ? 0 : hf_pg_fail_send(&p->session.pg);
}

static int fail_record(struct hf_store *store, enum hf_record_kind kind, int code)
{
    return hf_store_fail(store, code, "a record for \"%s\" cannot be written: %s",
                         hf_store_kind_name(kind), hf_strerror(code));
}

/*
 * Sends the gathered rows as one statement, and asks the server to send the answers it has so far.
 * A large batch consists of many statements, and each answer is a sign of life, so that no batch is
 * too large for the connection's timeout.
 */
static int send_piece(struct postgres *p, bool deletes, enum hf_record_kind kind)
{
    char name[HF_PG_STATEMENT_MAX];
    bool whole = p->rows.n_rows < PIECE_ROWS;

    if (p->rows.n_rows == 0)
        return 0;
    hf_pg_statement_name(name, deletes ? "delete" : "put", kind);
    if (!send_rows(p, name) || (!whole && !PQsendFlushRequest(p->session.pg.conn)))
        return hf_pg_fail_send(&p->session.pg);
    hf_pg_rows_clear(&p->rows);
    return 0;
}

/* Sends the puts or the deletes of one kind of record. Only the table's contents decide whether a
 * statement inserts, replaces or deletes a row, never what this process believes to be there. */
static int send_ops(struct postgres *p, enum hf_op_type type, const struct hf_op *ops, size_t count)
{
    bool deletes = type == HF_OP_DELETE;
    int rv = 0;

    hf_pg_rows_clear(&p->rows);
    for (size_t i = 0; i < count; i++) {
        if (ops[i].type != type)
            continue;
        rv = deletes ? hf_pg_rows_add_id(&p->rows, ops[i].id)
                     : hf_pg_rows_add(&p->rows, ops[i].kind, ops[i].value);
        if (rv < 0)
            return fail_record(p->session.pg.store, ops[0].kind, rv);
        if (p->rows.n_rows == PIECE_ROWS && (rv = send_piece(p, deletes, ops[0].kind)) < 0)
            return rv;
    }
    return send_piece(p, deletes, ops[0].kind);
}

/* Sends the check of our fence number if the daemon runs alone; with standbys, the renewal of the
 * lease, with the heartbeats that its row may have at present. */
static int send_fence(struct postgres *p)
{
    const struct hf_pg_session *session = &p->session;
    uint64_t most = session->heartbeat_known ? session->heartbeat : INT64_MAX;
    uint64_t numbers[] = {session->fence, session->nonce, session->heartbeat, most};
    bool lease = session->cluster != NULL;

    hf_pg_rows_clear(&p->rows);
    for (size_t i = 0; i < (lease ? HF_COUNT_OF(numbers) : 1); i++) {
        if (hf_pg_rows_add_id(&p->rows, numbers[i]) < 0)
            return hf_store_fail(session->pg.store, HF_ENOMEM, "out of memory");
    }
    return send_rows(p, lease ? "lease" : "fence") ? 0 : hf_pg_fail_send(&p->session.pg);
}

/* Sends all changes in p->changes to the tables. */
static int send_changes(struct postgres *p)
{
    const struct hf_changes *changes = &p->changes;
    int rv = 0;

    for (size_t from = 0; from < changes->count && rv == 0;) {
        const struct hf_op *ops = &changes->ops[from];
        size_t count = hf_changes_run(changes, &from);

        rv = send_ops(p, HF_OP_DELETE, ops, count);
        if (rv == 0)
            rv = send_ops(p, HF_OP_PUT, ops, count);
    }
    return rv;
}

/* Sends the batch, and all changes pending in the journal, to the tables. */
static int send_folded(struct postgres *p, const struct hf_batch *batch)
{
    struct hf_pg_journal *journal = &p->journal;
    bool mark = !hf_pg_journal_is_empty(journal);
    const struct hf_batch *all = mark ? &journal->pending : batch;
    int rv = mark ? hf_batch_append(&journal->pending, batch) : 0;

    if (rv < 0 || hf_changes_collapse(&p->changes, all) < 0)
        return hf_store_fail(p->session.pg.store, HF_ENOMEM, "out of memory");
    rv = send_changes(p);
    hf_pg_rows_clear(&p->rows);
    if (rv < 0 || !mark)
        return rv;
    if (hf_pg_rows_add_id(&p->rows, journal->written) < 0)
        return hf_store_fail(p->session.pg.store, HF_ENOMEM, "out of memory");
    return send_rows(p, "fold") ? 0 : hf_pg_fail_send(&p->session.pg);
}

static int send_to_journal(struct postgres *p, const struct hf_batch *batch)
{
    hf_pg_rows_clear(&p->rows);
    if (hf_pg_journal_rows(&p->journal, batch, &p->rows) < 0)
        return hf_store_fail(p->session.pg.store, HF_ENOMEM, "out of memory");
    return send_rows(p, "journal") ? 0 : hf_pg_fail_send(&p->session.pg);
}

/* Where a transaction writes its batch. */
enum place { PLACE_NOWHERE, PLACE_JOURNAL, PLACE_TABLES };

/* Sends all statements of a transaction but the COMMIT. */
static int send_batch(struct postgres *p, const struct hf_batch *batch, enum place place)
{
    int rv = send_plain(p, "begin");

    if (rv == 0)
        rv = send_fence(p);
    if (rv == 0 && place == PLACE_JOURNAL)
        rv = send_to_journal(p, batch);
    if (rv == 0 && place == PLACE_TABLES)
        rv = send_folded(p, batch);
    return rv;
}

/* Makes one transaction, on a session that is ready. */
static int transact(struct hf_store *store, const struct hf_batch *batch, enum place place)
{
    struct postgres *p = store->state;
    enum hf_pg_outcome outcome;
    int rv;

    if (!PQenterPipelineMode(p->session.pg.conn))
        return hf_pg_fail_send(&p->session.pg);
    rv = send_batch(p, batch, place);
    if (rv == 0) {
        rv = send_plain(p, "commit");
        store->in_doubt = rv < 0; /* libpq may have sent the batch although the call failed */
    }
    if (rv < 0) {
        /* a half-built pipeline cannot be withdrawn: close the connection */
        hf_pg_disconnect(&p->session.pg);
        return rv;
    }
    rv = hf_pg_run_pipeline(&p->session.pg, &outcome);
    if (outcome == HF_PG_COMMITTED)
        return 0;
    if (rv == 0)
        rv = hf_store_fail(store, HF_EIO, "PostgreSQL did not commit, and gave no reason");
    store->in_doubt = outcome == HF_PG_IN_DOUBT;
    if (outcome == HF_PG_NOT_COMMITTED)
        hf_pg_rollback(&p->session.pg);
    return rv;
}

/* Makes sure that the copy of the journal in memory is valid; after a failure, or on a new
 * connection, it is read from the database. */
static int know_journal(struct postgres *p)
{
    int rv = p->session.journal_known ? 0 : hf_pg_journal_read(&p->journal, &p->session.pg);

    p->session.journal_known = rv == 0;
    if (!hf_pg_journal_is_empty(&p->journal))
        p->session.pg.store->untidy = true;
    return rv;
}

static int commit_to(struct hf_store *store, const struct hf_batch *batch, enum place place)
{
    struct postgres *p = store->state;
    int rv = transact(store, batch, place);

    if (rv == 0 && place == PLACE_TABLES)
        hf_pg_journal_note_folded(&p->journal);
    p->session.journal_known =
        rv == 0 && (place == PLACE_TABLES || hf_pg_journal_note_written(&p->journal, batch) == 0);
    store->untidy = !p->session.journal_known || !hf_pg_journal_is_empty(&p->journal);
    return rv;
}

static int commit(struct hf_store *store, const struct hf_batch *batch)
{
    struct postgres *p = store->state;
    int rv;

    if (batch->n_ops == 0)
        return transact(store, batch, PLACE_NOWHERE);
    rv = know_journal(p);
    if (rv < 0)
        return rv;
    return commit_to(store, batch,
                     hf_pg_journal_wants(&p->journal, batch) ? PLACE_JOURNAL : PLACE_TABLES);
}

static const struct hf_batch NOTHING = {0};

/* Commits an empty batch, which only renews the lease, whatever the heartbeat in its row is now. */
static int renew(struct hf_store *store)
{
    struct postgres *p = store->state;
    int rv;

    p->session.heartbeat_known = false;
    rv = transact(store, &NOTHING, PLACE_NOWHERE);
    hf_pg_lease_note(&p->session, rv);
    return rv;
}

/*
 * Applies a batch under the lease. Before the first batch on a new connection it renews the lease,
 * to learn the row's heartbeat. The renewal changes no record, so its failure leaves the batch in
 * no doubt.
 */
static int apply_as_owner(struct hf_store *store, const struct hf_batch *batch)
{
    struct postgres *p = store->state;
    int rv = p->session.heartbeat_known ? 0 : renew(store);

    store->in_doubt = false;
    if (rv < 0)
        return rv;
    rv = commit(store, batch);
    hf_pg_lease_note(&p->session, rv);
    return rv;
}

static int ready_as_owner(struct hf_store *store)
{
    struct postgres *p = store->state;

    p->session.row_found = false;
    if (p->session.cluster && p->session.fence == 0)
        return hf_store_fail(store, HF_EFENCED, "this daemon does not have the service's lease");
    return hf_pg_session_ready(&p->session);
}

static int postgres_apply(struct hf_store *store, const struct hf_batch *batch)
{
    struct postgres *p = store->state;
    int rv = ready_as_owner(store);

    if (rv < 0)
        return rv;
    return p->session.cluster ? apply_as_owner(store, batch) : commit(store, batch);
}

/* Moves the journal's changes to the tables. If that fails, they stay in the journal until the next
 * attempt. */
static int postgres_tidy(struct hf_store *store)
{
    struct postgres *p = store->state;
    int rv = p->session.fence ? ready_as_owner(store) : 0;

    if (rv == 0 && p->session.fence)
        rv = know_journal(p);
    if (rv < 0)
        return rv;
    store->untidy = p->session.fence && !hf_pg_journal_is_empty(&p->journal);
    if (!store->untidy)
        return 0;
    rv = p->session.cluster && !p->session.heartbeat_known ? renew(store) : 0;
    if (rv < 0)
        return rv;
    rv = commit_to(store, &NOTHING, PLACE_TABLES);
    if (p->session.cluster)
        hf_pg_lease_note(&p->session, rv);
    return rv;
}

static void postgres_close(struct hf_store *store)
{
    const struct postgres *p = store->state;

    if (store->untidy && p->session.pg.conn)
        (void)postgres_tidy(store);
    release(store);
}

static int postgres_lease(struct hf_store *store, struct hf_store_lease_call *call)
{
    struct postgres *p = store->state;
    uint64_t before = p->session.fence;
    bool renews = call->order.action == HF_LEASE_RENEW;
    int rv;

    p->session.past_of = call->order.epoch;
    if (call->order.action == HF_LEASE_RELEASE && store->untidy)
        (void)postgres_tidy(store);
    rv = renews ? ready_as_owner(store) : hf_pg_session_ready(&p->session);
    p->session.row_found = false;
    if (rv == 0 && renews)
        rv = renew(store);
    if (rv == 0)
        rv = hf_pg_lease_do(&p->session, call);
    if (p->session.fence != before)
        p->session.journal_known = false;
    return rv;
}

static bool postgres_lease_row(const struct hf_store *store, struct hf_lease_row *out)
{
    const struct hf_pg_session *session = &((const struct postgres *)store->state)->session;

    if (session->row_found)
        *out = session->row;
    return session->row_found;
}

static int postgres_probe(struct hf_store *store)
{
    struct postgres *p = store->state;
    int rv = hf_pg_session_ready(&p->session);

    if (rv == 0 && p->session.cluster)
        return p->session.fence ? renew(store) : 0;
    return rv < 0 ? rv : hf_pg_session_check(&p->session);
}

/* True if the journal changes or deletes this row of a table. The id is the first column of a row
 * that has one. */
static bool is_outdated(const struct postgres *p, struct hf_bytes message, enum hf_record_kind kind)
{
    uint64_t id;

    return p->changes.count > 0 && kind != HF_RECORD_SERVER && hf_pg_tuple_id(message, &id) &&
           hf_changes_find(&p->changes, kind, id);
}

/* Visits the records that the journal replaces or adds. */
static int visit_journal(struct postgres *p, enum hf_record_kind kind, hf_store_visit visit,
                         void *ctx)
{
    int rv = 0;

    for (size_t i = 0; i < p->changes.count && rv == 0; i++) {
        const struct hf_op *op = &p->changes.ops[i];

        if (op->kind == kind && op->type == HF_OP_PUT)
            rv = visit(ctx, kind, op->value);
    }
    return rv;
}

/* Passes one message of a COPY, which is one row, to the visitor. */
static int visit_message(struct postgres *p, struct hf_bytes message, enum hf_record_kind kind,
                         hf_store_visit visit, void *ctx)
{
    int rv;

    if (hf_pg_tuples_end(message) || is_outdated(p, message, kind))
        return 0;
    hf_buf_clear(&p->record);
    rv = hf_pg_tuple_encode(message, kind, &p->record);
    if (rv < 0)
        return hf_store_fail(p->session.pg.store, rv, "a row under \"%s\" cannot be read: %s",
                             hf_store_kind_name(kind), hf_strerror(rv));
    return visit(ctx, kind, hf_buf_view(&p->record));
}

/*
 * Passes rows on as they arrive, so that a million locks need not fit into memory twice. When the
 * visitor ends the walk, the remaining rows are still read, because the connection is needed
 * afterwards.
 */
static int read_copy(struct postgres *p, enum hf_record_kind kind, hf_store_visit visit, void *ctx,
                     int *visited)
{
    struct hf_pg *pg = &p->session.pg;
    bool first = true;
    char *data = NULL;
    size_t len;
    int rv;

    while ((rv = hf_pg_next_copied(pg, &data, &len)) == 0 && data) {
        struct hf_bytes message = hf_bytes(data, len);

        if (first && !hf_pg_tuples_skip_header(&message) && *visited == 0)
            *visited = hf_store_fail(pg->store, HF_EFORMAT, "PostgreSQL sent no binary rows");
        else if (*visited == 0)
            *visited = visit_message(p, message, kind, visit, ctx);
        first = false;
        PQfreemem(data);
    }
    return rv;
}

/* Computes the net effect of the journal, with which readers change the records of the tables. */
static int collapse_journal(struct postgres *p)
{
    if (hf_changes_collapse(&p->changes, &p->journal.pending) < 0)
        return hf_store_fail(p->session.pg.store, HF_ENOMEM, "out of memory");
    return 0;
}

static const char *list_of(const struct postgres *p, enum hf_record_kind kind)
{
    const struct hf_store_cluster *cluster = p->session.cluster;

    return kind == HF_RECORD_SERVER && cluster && cluster->require_sync
               ? hf_pg_list_replicated_server
               : hf_pg_table_of(kind)->list;
}

/* Runs a COPY of the records of one kind and visits them. */
static int read_rows(struct postgres *p, enum hf_record_kind kind, hf_store_visit visit, void *ctx)
{
    struct hf_pg *pg = &p->session.pg;
    PGresult *result = NULL;
    int visited = 0;
    int rv;

    if (!PQsendQuery(pg->conn, list_of(p, kind)))
        return hf_pg_fail_send(pg);
    rv = hf_pg_flush(pg);
    while (rv == 0 && (rv = hf_pg_next(pg, &result)) == 0 && result) {
        rv = hf_pg_check(pg, result, "cannot read from PostgreSQL");
        if (rv < 0)
            break;
        if (PQresultStatus(result) == PGRES_COPY_OUT)
            rv = read_copy(p, kind, visit, ctx, &visited);
        PQclear(result);
    }
    rv = rv < 0 ? rv : visited;
    return rv < 0 ? rv : visit_journal(p, kind, visit, ctx);
}

static int postgres_list(struct hf_store *store, enum hf_record_kind kind, hf_store_visit visit,
                         void *ctx)
{
    struct postgres *p = store->state;
    int rv = hf_pg_session_ready(&p->session);

    if (rv == 0)
        rv = know_journal(p);
    if (rv == 0)
        rv = collapse_journal(p);
    return rv < 0 ? rv : read_rows(p, kind, visit, ctx);
}

static int load_owned(struct hf_store *store, const struct hf_lease_row *mine,
                      const struct hf_store_loading *to)
{
    static const enum hf_record_kind ORDER[] = {HF_RECORD_SERVER, HF_RECORD_CLIENT, HF_RECORD_LOCK};
    struct postgres *p = store->state;
    int rv = hf_pg_session_connect(&p->session.pg, false);

    if (rv == 0 && mine)
        rv = hf_pg_lease_forget_exports(&p->session, mine);
    if (rv == 0)
        rv = hf_pg_lease_see(&p->session, mine);
    if (rv == 0)
        rv = hf_pg_lease_list_foreign(&p->session, to);
    if (rv == 0)
        rv = hf_pg_journal_read(&p->journal, &p->session.pg);
    if (rv == 0)
        rv = collapse_journal(p);
    for (size_t i = 0; i < HF_COUNT_OF(ORDER) && rv == 0; i++)
        rv = hf_store_blame_record(store, ORDER[i], read_rows(p, ORDER[i], to->record, to->ctx));
    if (rv == 0 && to->end)
        rv = hf_store_blame_record(store, HF_RECORD_LOCK, to->end(to->ctx));
    return rv;
}

static int postgres_load_owned(struct hf_store *store, const struct hf_store_config *config,
                               const struct hf_lease_row *mine, const struct hf_store_loading *to)
{
    int rv = prepare(store, config);

    if (rv < 0)
        return rv;
    ((struct postgres *)store->state)->session.reads_only = true;
    rv = load_owned(store, mine, to);
    release(store);
    return rv;
}

const struct hf_store_backend hf_store_postgres = {
    .name = "postgres",
    .survives = true,
    .open = postgres_open,
    .close = postgres_close,
    .apply = postgres_apply,
    .probe = postgres_probe,
    .tidy = postgres_tidy,
    .list = postgres_list,
    .lease = postgres_lease,
    .lease_row = postgres_lease_row,
    .load_owned = postgres_load_owned,
};
