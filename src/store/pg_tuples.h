/*
 * Turns what COPY ... TO STDOUT (FORMAT binary) sends into encoded records. The server sends one
 * message per row, and a header in front of the first; see "Binary Format" in the PostgreSQL
 * manual's page on COPY. It is the cheapest way to read a table: the server converts nothing, and
 * libpq builds no result.
 */
#ifndef HF_STORE_PG_TUPLES_H
#define HF_STORE_PG_TUPLES_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "core/record.h"

/* Takes the header off the first message. Returns false if there is none. */
bool hf_pg_tuples_skip_header(struct hf_bytes *message);

/* True for the message that ends the rows, and for one that was nothing but the header. */
bool hf_pg_tuples_end(struct hf_bytes message);

/* Reads the id of a row, which is its first column, if its kind has one. */
bool hf_pg_tuple_id(struct hf_bytes message, uint64_t *out);

/* Appends the encoded record of one row to out. Returns HF_EFORMAT for a row that is not a record
 * of that kind; the columns are those of pg_tables.h. */
int hf_pg_tuple_encode(struct hf_bytes message, enum hf_record_kind kind, struct hf_buf *out);

#endif
