/*
 * The store for those who run PostgreSQL anyway: the schema of migrations/, one transaction per
 * batch, sent as one pipeline of prepared statements, so that a batch costs one round trip however
 * many records it carries. Everything in it may run twice (upserts and deletes by id), so a batch
 * whose outcome is unknown is simply sent again. Who may write is pg_session.h's business.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "store/backend.h"
#include "store/changes.h"
#include "store/pg_rows.h"
#include "store/pg_session.h"
#include "store/pg_tables.h"

struct postgres {
    struct hf_pg_session session;
    struct hf_changes changes;
    struct hf_pg_rows rows;
    struct hf_buf record; /* scratch: one encoded record on its way to a visitor */
};

static void postgres_close(struct hf_store *store)
{
    struct postgres *p = store->state;

    hf_buf_free(&p->record);
    hf_pg_rows_free(&p->rows);
    hf_changes_free(&p->changes);
    hf_pg_free(&p->session.pg);
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
    rv = hf_pg_init(&p->session.pg, store, config);
    if (rv == 0)
        rv = hf_pg_session_ready(&p->session);
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

/* The puts, or the deletes, of one kind. A kind is touched once by each, and they do not overlap.
 */
static int send_ops(struct postgres *p, enum hf_op_type type, const struct hf_op *ops, size_t count)
{
    char name[HF_PG_STATEMENT_MAX];
    int rv = 0;

    hf_pg_rows_clear(&p->rows);
    for (size_t i = 0; i < count && rv == 0; i++) {
        if (ops[i].type != type)
            continue;
        rv = type == HF_OP_PUT ? hf_pg_rows_add(&p->rows, ops[i].kind, ops[i].value)
                               : hf_pg_rows_add_id(&p->rows, ops[i].id);
    }
    if (rv < 0)
        return fail_record(p->session.pg.store, ops[0].kind, rv);
    if (p->rows.n_rows == 0)
        return 0;
    hf_pg_statement_name(name, type == HF_OP_PUT ? "put" : "delete", ops[0].kind);
    return send_rows(p, name) ? 0 : hf_pg_fail_send(&p->session.pg);
}

static int send_fence(struct postgres *p)
{
    hf_pg_rows_clear(&p->rows);
    if (hf_pg_rows_add_id(&p->rows, p->session.fence) < 0)
        return hf_store_fail(p->session.pg.store, HF_ENOMEM, "out of memory");
    return send_rows(p, "fence") ? 0 : hf_pg_fail_send(&p->session.pg);
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
    int rv = hf_pg_session_ready(&p->session);

    if (rv < 0)
        return rv;
    if (hf_changes_collapse(&p->changes, batch) < 0)
        return hf_store_fail(store, HF_ENOMEM, "out of memory");
    if (!PQenterPipelineMode(p->session.pg.conn))
        return hf_pg_fail_send(&p->session.pg);
    rv = send_batch(p);
    if (rv < 0) {
        hf_pg_disconnect(&p->session.pg); /* a pipeline half built cannot be taken back */
        return rv;
    }
    rv = hf_pg_run_pipeline(&p->session.pg, &committed);
    if (committed)
        return 0;
    if (rv == 0)
        rv = hf_store_fail(store, HF_EIO, "PostgreSQL did not commit, and gave no reason");
    store->in_doubt = !p->session.pg.conn; /* it went away without an answer */
    hf_pg_rollback(&p->session.pg);
    return rv;
}

static int postgres_probe(struct hf_store *store)
{
    struct postgres *p = store->state;
    int rv = hf_pg_session_ready(&p->session);

    return rv < 0 ? rv : hf_pg_session_check(&p->session);
}

/* One row of an answer, to the visitor. */
static int visit_row(struct postgres *p, const PGresult *result, enum hf_record_kind kind,
                     hf_store_visit visit, void *ctx)
{
    int rv;

    hf_buf_clear(&p->record);
    rv = hf_pg_row_encode(result, 0, kind, &p->record);
    if (rv < 0)
        return hf_store_fail(p->session.pg.store, rv, "a row under \"%s\" cannot be read: %s",
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
    int rv = hf_pg_flush(&p->session.pg);

    while (rv == 0 && (rv = hf_pg_next(&p->session.pg, &result)) == 0 && result) {
        rv = hf_pg_check(&p->session.pg, result, "cannot read from PostgreSQL");
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
    int rv = hf_pg_session_ready(&p->session);

    if (rv < 0)
        return rv;
    if (!PQsendQueryParams(p->session.pg.conn, hf_pg_table_of(kind)->list, 0, NULL, NULL, NULL,
                           NULL, 1) ||
        !PQsetSingleRowMode(p->session.pg.conn))
        return hf_pg_fail_send(&p->session.pg);
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
    int rv = hf_pg_session_ready(&p->session);

    if (rv < 0)
        return rv;
    hf_format(text, sizeof(text), "%" PRId64, (int64_t)id);
    if (!PQsendQueryParams(p->session.pg.conn, hf_pg_table_of(kind)->get, 1, NULL, params, NULL,
                           NULL, 1))
        return hf_pg_fail_send(&p->session.pg);
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
