/*
 * Prepares records for the tables of PostgreSQL. Many records travel as one statement whose
 * parameters are columns: binary arrays that the server unnests. pg_tuples.h reads rows back.
 *
 * Each element has the type of its column, so that the server casts nothing: unsigned numbers of 64
 * bits become bigint, bit for bit; a string chosen by a client becomes bytea, and only strings of
 * our own are text. Byte offsets are numeric, so that people can compare them in SQL.
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

/*
 * Adds a row: an encoded record, or an id alone. Returns 0, HF_EFORMAT, HF_EVERSION or HF_ENOMEM.
 */
int hf_pg_rows_add(struct hf_pg_rows *rows, enum hf_record_kind kind, struct hf_bytes record);
int hf_pg_rows_add_id(struct hf_pg_rows *rows, uint64_t id);

/* Adds a part of the journal as a row (pg_journal.h). Returns HF_ENOMEM if memory runs out. */
int hf_pg_rows_add_part(struct hf_pg_rows *rows, uint64_t slot, uint64_t number,
                        struct hf_bytes part);

/* Completes the arrays, which can then be sent. */
void hf_pg_rows_finish(struct hf_pg_rows *rows);

#endif
