/*
 * The SQL of each kind of record, for the schema of migrations/. A put statement takes one array
 * per column (pg_rows.h) and stores a row for each element; a list statement sends these columns,
 * in this order, as binary tuples (pg_tuples.h).
 */
#ifndef HF_STORE_PG_TABLES_H
#define HF_STORE_PG_TABLES_H

#include "core/record.h"

/*
 * HF_PG_STATE, in a FROM, is the row of server_state. HF_PG_STATE_NOW, in the WHERE of an UPDATE,
 * selects that row; the transaction must have locked it. Both find the row's newest version without
 * walking over its dead versions (migration 0007).
 */
#define HF_PG_STATE     "(SELECT * FROM server_state ORDER BY pulse DESC LIMIT 1)"
#define HF_PG_STATE_NOW "pulse = (SELECT max(pulse) FROM server_state)"

struct hf_pg_table {
    unsigned n_columns;
    const char *put; /* SQL that adds or replaces records; prepared as "put_clients", ... */
    /* SQL that deletes the ids in the array $1; prepared as "delete_clients", ... */
    const char *delete;
    const char *list;
};

/* Lists the server's record where each commit is on another host's disk as well: a standby that was
 * promoted has lost nothing (migration 0011). */
extern const char hf_pg_list_replicated_server[];

const struct hf_pg_table *hf_pg_table_of(enum hf_record_kind kind);

#endif
