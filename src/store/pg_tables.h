/*
 * The SQL of each kind of record, for the schema of migrations/. Put takes one array per
 * column (pg_rows.h) and stores as many rows as they have elements; list sends the same columns in
 * the same order as binary tuples (pg_tuples.h).
 */
#ifndef HF_STORE_PG_TABLES_H
#define HF_STORE_PG_TABLES_H

#include "core/record.h"

/*
 * HF_PG_STATE is the row of server_state, for a FROM; HF_PG_STATE_NOW is for the WHERE of an UPDATE
 * in a transaction that has locked it. Both find its newest version without walking over all others
 * (migration 0007).
 */
#define HF_PG_STATE     "(SELECT * FROM server_state ORDER BY pulse DESC LIMIT 1)"
#define HF_PG_STATE_NOW "pulse = (SELECT max(pulse) FROM server_state)"

struct hf_pg_table {
    unsigned n_columns;
    const char *put;    /* adds or replaces records; prepared as "put_clients", ... */
    const char *delete; /* deletes the ids in the array $1; prepared as "delete_clients", ... */
    const char *list;
};

const struct hf_pg_table *hf_pg_table_of(enum hf_record_kind kind);

#endif
