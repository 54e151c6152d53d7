/* Turns what COPY ... TO STDOUT (FORMAT binary) sends into encoded records. The server sends one
 * message per row, and a header in front of the first row; see "Binary Format" in the PostgreSQL
 * manual's page on COPY. This is the cheapest way to read a table: the server converts nothing, and
 * libpq builds no result. */
#ifndef HF_STORE_PG_TUPLES_H
#define HF_STORE_PG_TUPLES_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "core/record.h"

/* Removes the COPY header from the first message. Returns false if the message does not begin with
 * one. */
bool hf_pg_tuples_skip_header(struct hf_bytes *message);

/*
 * True for the message that marks the end of the rows, and for a message that held only the header.
 */
bool hf_pg_tuples_end(struct hf_bytes message);

/* Reads the id of a row, which is its first column if its kind of record has ids. Returns false if
 * the column cannot be read. */
bool hf_pg_tuple_id(struct hf_bytes message, uint64_t *out);

/* Appends the encoded record of one row to out; the row has the columns of pg_tables.h. Returns
 * HF_EFORMAT for a row that is not a record of that kind. */
int hf_pg_tuple_encode(struct hf_bytes message, enum hf_record_kind kind, struct hf_buf *out);

#endif
