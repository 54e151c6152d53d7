#include "store/pg_journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hex.h"
#include "store/backend.h"

enum {
    /* so small that two parts, with the other columns of their rows, fit in a page */
    PART_MAX = 4000,
    /* The number of journal slots. It must not change: parts that are pending would be sought in
     * other slots. */
    SLOTS = 256,
    /* with fewer changes than this, a batch is as cheap in the tables as in the journal */
    WORTH_IT = 16,
    PATIENCE_MS = 1000,
};

void hf_pg_journal_init(struct hf_pg_journal *journal, const struct hf_alloc *alloc)
{
    *journal = (struct hf_pg_journal){0};
    hf_batch_init(&journal->pending, alloc);
}

void hf_pg_journal_free(struct hf_pg_journal *journal)
{
    hf_batch_free(&journal->pending);
}

static size_t parts_of(const struct hf_batch *batch)
{
    return (hf_buf_len(&batch->buf) + PART_MAX - 1) / PART_MAX;
}

/* True if the batch changes the server's record. That record goes only to the tables, because it
 * has no id by which a reader could find it in the journal. */
static bool has_server(const struct hf_batch *batch)
{
    struct hf_op op;

    for (size_t cursor = 0; !batch->locks_only && hf_batch_next(batch, &cursor, &op);) {
        if (op.kind == HF_RECORD_SERVER)
            return true;
    }
    return false;
}

bool hf_pg_journal_wants(const struct hf_pg_journal *journal, const struct hf_batch *batch)
{
    if (parts_of(batch) > SLOTS - (journal->written - journal->folded))
        return false;
    if (hf_pg_journal_is_empty(journal) ? batch->n_ops < WORTH_IT
                                        : hf_clock_mono_ms() - journal->since_ms >= PATIENCE_MS)
        return false;
    return !has_server(batch);
}

int hf_pg_journal_rows(const struct hf_pg_journal *journal, const struct hf_batch *batch,
                       struct hf_pg_rows *rows)
{
    struct hf_bytes rest = hf_buf_view(&batch->buf);
    int rv = 0;

    for (uint64_t number = journal->written + 1; rest.len > 0 && rv == 0; number++) {
        size_t len = rest.len < PART_MAX ? rest.len : PART_MAX;

        rv = hf_pg_rows_add_part(rows, number % SLOTS, number, hf_bytes(rest.data, len));
        rest = hf_bytes(rest.data + len, rest.len - len);
    }
    return rv;
}

int hf_pg_journal_note_written(struct hf_pg_journal *journal, const struct hf_batch *batch)
{
    journal->written += parts_of(batch);
    if (hf_pg_journal_is_empty(journal))
        journal->since_ms = hf_clock_mono_ms();
    return hf_batch_append(&journal->pending, batch);
}

void hf_pg_journal_note_folded(struct hf_pg_journal *journal)
{
    journal->folded = journal->written;
    hf_batch_clear(&journal->pending);
}

/* ---- reading ---- */

static const char READ[] =
    "SELECT s.journal_folded, j.number, encode(j.changes, 'hex') FROM " HF_PG_STATE
    " s LEFT JOIN holdfast_journal j ON j.number > s.journal_folded ORDER BY j.number";

enum { FOLDED, NUMBER, CHANGES };

static int fail_damaged(struct hf_pg *pg)
{
    return hf_store_fail(pg->store, HF_EFORMAT,
                         "the table holdfast_journal is damaged; restore the database");
}

static uint64_t number_at(const PGresult *result, int row, int column)
{
    return (uint64_t)strtoll(PQgetvalue(result, row, column), NULL, 10);
}

static int append_part(const PGresult *result, int row, struct hf_buf *out)
{
    uint8_t part[PART_MAX];
    const char *hex = PQgetvalue(result, row, CHANGES);
    int len = hf_hex_decode(hex, strlen(hex), part, sizeof(part));

    return len < 0 ? HF_EFORMAT : hf_buf_append(out, part, (size_t)len);
}

/* Joins the journal's parts that are not in the tables; if a number is missing among them, the
 * journal is damaged. */
static int join_parts(struct hf_pg_journal *journal, const PGresult *result, struct hf_buf *out)
{
    int rv = 0;

    if (PQntuples(result) == 0)
        return HF_EFORMAT;
    journal->folded = number_at(result, 0, FOLDED);
    journal->written = journal->folded;
    for (int row = 0; row < PQntuples(result) && rv == 0; row++) {
        if (PQgetisnull(result, row, NUMBER))
            break;
        if (number_at(result, row, NUMBER) != ++journal->written)
            return HF_EFORMAT;
        rv = append_part(result, row, out);
    }
    return rv;
}

int hf_pg_journal_read(struct hf_pg_journal *journal, struct hf_pg *pg)
{
    PGresult *result;
    struct hf_buf joined;
    int rv = hf_pg_exec_params(pg, READ, 0, NULL, "cannot read the journal", &result);

    if (rv < 0)
        return rv;
    hf_buf_init(&joined, pg->store->alloc);
    hf_batch_clear(&journal->pending);
    rv = join_parts(journal, result, &joined);
    if (rv == 0)
        rv = hf_batch_append_encoded(&journal->pending, hf_buf_view(&joined));
    hf_buf_free(&joined);
    PQclear(result);
    journal->since_ms = hf_clock_mono_ms();
    if (rv == HF_ENOMEM)
        return hf_store_fail(pg->store, rv, "out of memory");
    return rv < 0 ? fail_damaged(pg) : 0;
}
