/*
 * The SQL of each kind of record, for the schema of migrations/. Add and put take one array per
 * column (pg_rows.h) and store as many rows as they have elements; list sends the same
 * columns in the same order as binary tuples (pg_tuples.h).
 */
#ifndef HF_STORE_PG_TABLES_H
#define HF_STORE_PG_TABLES_H

#include "core/record.h"

struct hf_pg_table {
    unsigned n_columns;
    const char *add;    /* for ids that are not in the table; NULL: use put. "add_clients", ... */
    const char *put;    /* for any id, at a higher price; prepared as "put_clients", ... */
    const char *delete; /* $1: array of ids; prepared as "delete_clients", ... */
    const char *list;
};

/*
 * The highest id of a client and of a lock, 0 if there is none. Ids are unsigned and kept as bigint
 * bit for bit: the negative ones are the highest.
 */
#define HF_PG_NEWEST_IDS                                                            \
    "SELECT coalesce((SELECT max(id) FROM nsm_client_registrations WHERE id < 0), " \
    "(SELECT max(id) FROM nsm_client_registrations), 0), "                          \
    "coalesce((SELECT max(id) FROM nlm_locks WHERE id < 0), "                       \
    "(SELECT max(id) FROM nlm_locks), 0)"

const struct hf_pg_table *hf_pg_table_of(enum hf_record_kind kind);

#endif
