/*
 * The journal of a store in PostgreSQL (migration 0005). A row of a table costs the server some
 * microseconds when it is inserted and again when it is deleted, in the table, its index and the
 * log, and most locks live shorter than that is worth. So under load a batch is written as it is
 * encoded, in a few rows that are overwritten in turn; later the net effect of many batches goes to
 * the tables (postgres.c "folds" them). What is durable is the tables changed by the journal.
 *
 * Parts are numbered without gaps; a part is in the slot of its number modulo the number of slots.
 * Parts up to the number `folded` are in the tables, and their slots are free.
 *
 * `pending` is what the journal holds, kept in memory so that folding needs not read it. It is
 * trusted while hf_pg_session.journal_known: after a failure, or on a new connection, what the
 * database has counts, and is read again.
 */
#ifndef HF_STORE_PG_JOURNAL_H
#define HF_STORE_PG_JOURNAL_H

#include "core/record.h"
#include "store/pg_conn.h"
#include "store/pg_rows.h"
#include "store/pg_tables.h"

/* The statements take arrays as parameters (pg_rows.h): slots, numbers and parts; the second takes
 * the number. */
#define HF_PG_JOURNAL_WRITE                                               \
    "INSERT INTO holdfast_journal AS j (slot, number, changes) "          \
    "SELECT unnest($1::int8[]), unnest($2::int8[]), unnest($3::bytea[]) " \
    "ON CONFLICT (slot) DO UPDATE SET number = excluded.number, changes = excluded.changes"
#define HF_PG_JOURNAL_FOLD \
    "UPDATE server_state SET journal_folded = ($1::int8[])[1] WHERE " HF_PG_STATE_NOW

struct hf_pg_journal {
    struct hf_batch pending;
    uint64_t written; /* the number of the newest part */
    uint64_t folded;
    uint64_t since_ms; /* since when pending has changes */
};

void hf_pg_journal_init(struct hf_pg_journal *journal, const struct hf_alloc *alloc);
void hf_pg_journal_free(struct hf_pg_journal *journal);

/* Reads the journal that the database has, in the open transaction if there is one. Returns
 * HF_EFORMAT if it is damaged. */
int hf_pg_journal_read(struct hf_pg_journal *journal, struct hf_pg *pg);

/*
 * True if a batch should be written to the journal. If not, it goes to the tables together with all
 * that is pending: when there is no room for it; when something has been pending for a second,
 * because people look at the tables; and while there is no load, when the tables are cheap enough.
 */
bool hf_pg_journal_wants(const struct hf_pg_journal *journal, const struct hf_batch *batch);

/* Makes rows of the parts of a batch, for HF_PG_JOURNAL_WRITE. Returns HF_ENOMEM without memory. */
int hf_pg_journal_rows(const struct hf_pg_journal *journal, const struct hf_batch *batch,
                       struct hf_pg_rows *rows);

/* Notes that the batch is in the journal. HF_ENOMEM: it is, but pending is not complete. */
int hf_pg_journal_note_written(struct hf_pg_journal *journal, const struct hf_batch *batch);

/* Notes that all that was pending is in the tables. */
void hf_pg_journal_note_folded(struct hf_pg_journal *journal);

static inline bool hf_pg_journal_is_empty(const struct hf_pg_journal *journal)
{
    return journal->pending.n_ops == 0;
}

#endif
