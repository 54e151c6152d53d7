/*
 * The SQL of each kind of record, for the schema of migrations/. A put takes one array per column
 * and stores as many rows as they have elements; list and get answer in the same columns, in the
 * same order and in the three types of pg_rows.h.
 */
#ifndef HF_STORE_PG_TABLES_H
#define HF_STORE_PG_TABLES_H

#include "core/record.h"

struct hf_pg_table {
    unsigned n_columns;
    const char *put;    /* prepared as "put_clients", ... */
    const char *delete; /* $1: array of ids; prepared as "delete_clients", ... */
    const char *list;
    const char *get; /* $1: id */
};

const struct hf_pg_table *hf_pg_table_of(enum hf_record_kind kind);

#endif
