/*
 * Prepares records for the tables. Many records travel as one statement whose parameters are
 * columns: binary arrays that the server unnests. The way back is pg_tuples.h.
 *
 * Each element has the type of its column, so that the server casts nothing: unsigned numbers of 64
 * bits are bigint, bit for bit; every string that a peer chose is bytea, and what is text is ours.
 * Byte offsets are numeric, because people will compare them.
 */
#ifndef HF_STORE_PG_ROWS_H
#define HF_STORE_PG_ROWS_H

#include "base/buf.h"
#include "core/record.h"

enum { HF_PG_COLUMNS_MAX = 17 };

/* Rows under construction, column by column. */
struct hf_pg_rows {
    struct hf_buf columns[HF_PG_COLUMNS_MAX];
    unsigned n_columns;
    uint32_t n_rows;
};

void hf_pg_rows_init(struct hf_pg_rows *rows, const struct hf_alloc *alloc);
void hf_pg_rows_free(struct hf_pg_rows *rows);
void hf_pg_rows_clear(struct hf_pg_rows *rows);

/* Adds a row: an encoded record, or an id alone. Returns HF_EFORMAT, HF_EVERSION, HF_ENOMEM. */
int hf_pg_rows_add(struct hf_pg_rows *rows, enum hf_record_kind kind, struct hf_bytes record);
int hf_pg_rows_add_id(struct hf_pg_rows *rows, uint64_t id);

/* Adds a part of the journal (pg_journal.h). Returns HF_ENOMEM without memory. */
int hf_pg_rows_add_part(struct hf_pg_rows *rows, uint64_t slot, uint64_t number,
                        struct hf_bytes part);

/* Completes the arrays, ready to be sent. */
void hf_pg_rows_finish(struct hf_pg_rows *rows);

#endif
