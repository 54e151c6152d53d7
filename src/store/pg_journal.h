/* The journal of a store in PostgreSQL (migration 0005). A row of a table costs the server some
 * microseconds when it is inserted and again when it is deleted, in the table, its index and the
 * log; for most locks, which live briefly, that is wasted. So under load an encoded batch is
 * written to the journal, in a few rows that are overwritten in turn; later the net effect of many
 * batches goes to the tables (postgres.c "folds" them). The durable state is the tables, changed by
 * the journal.
 *
 * The parts of batches are numbered without gaps; a part is in the slot of its number modulo the
 * number of slots. Parts up to the number `folded` are in the tables, and their slots are free.
 *
 * `pending` is a copy of the journal in memory, so that folding need not read it. It is valid while
 * hf_pg_session.journal_known is set; after a failure, or on a new connection, the journal is read
 * from the database again. */
#ifndef HF_STORE_PG_JOURNAL_H
#define HF_STORE_PG_JOURNAL_H

#include "core/record.h"
#include "store/pg_conn.h"
#include "store/pg_rows.h"
#include "store/pg_tables.h"

/* Two SQL statements: the first writes parts and takes three arrays (slots, numbers, parts; see
 * pg_rows.h); the second stores the number up to which parts are folded. */
#define HF_PG_JOURNAL_WRITE                                               \
    "INSERT INTO holdfast_journal AS j (slot, number, changes) "          \
    "SELECT unnest($1::int8[]), unnest($2::int8[]), unnest($3::bytea[]) " \
    "ON CONFLICT (slot) DO UPDATE SET number = excluded.number, changes = excluded.changes"
#define HF_PG_JOURNAL_FOLD \
    "UPDATE server_state SET journal_folded = ($1::int8[])[1] WHERE " HF_PG_STATE_NOW

struct hf_pg_journal {
    struct hf_batch pending;
    uint64_t written; /* the number of the newest part in the journal */
    uint64_t folded;
    uint64_t since_ms; /* when the oldest change in `pending` was made */
};

void hf_pg_journal_init(struct hf_pg_journal *journal, const struct hf_alloc *alloc);
void hf_pg_journal_free(struct hf_pg_journal *journal);

/* Reads the journal from the database, in the open transaction if there is one. Returns HF_EFORMAT
 * if the journal is damaged. */
int hf_pg_journal_read(struct hf_pg_journal *journal, struct hf_pg *pg);

/* True if a batch should be written to the journal. Otherwise it goes to the tables, together with
 * all that is pending: if the journal has no room for it; if changes have been pending for a
 * second, because people look at the tables; and without load, when the tables are cheap enough. */
bool hf_pg_journal_wants(const struct hf_pg_journal *journal, const struct hf_batch *batch);

/* Makes rows of the parts of a batch, for HF_PG_JOURNAL_WRITE. Returns HF_ENOMEM if memory runs
 * out. */
int hf_pg_journal_rows(const struct hf_pg_journal *journal, const struct hf_batch *batch,
                       struct hf_pg_rows *rows);

/* Notes that the journal has the batch. After HF_ENOMEM the journal has it, but the copy in pending
 * is incomplete. */
int hf_pg_journal_note_written(struct hf_pg_journal *journal, const struct hf_batch *batch);

/* Notes that the tables have all that was pending. */
void hf_pg_journal_note_folded(struct hf_pg_journal *journal);

static inline bool hf_pg_journal_is_empty(const struct hf_pg_journal *journal)
{
    return journal->pending.n_ops == 0;
}

#endif
