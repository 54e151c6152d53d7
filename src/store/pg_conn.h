/*
 * A connection to PostgreSQL that never blocks for longer than it may: everything goes through
 * libpq's asynchronous calls, and whoever waits does so for timeout_ms without a sign of life at
 * most. A connection that failed is closed; the owner makes a new one.
 *
 * Errors are turned into our codes by SQLSTATE, and into sentences from which the password, should
 * the server ever repeat it, is struck out.
 */
#ifndef HF_STORE_PG_CONN_H
#define HF_STORE_PG_CONN_H

#include <libpq-fe.h>

#include "store/store.h"

enum { HF_PG_TIMEOUT_MS = 3000, HF_PG_NAME_MAX = 40 };

struct hf_pg {
    struct hf_store *store; /* where error texts go */
    PGconn *conn;           /* NULL when not connected */
    char *dsn;
    uint32_t timeout_ms;
    char name[HF_PG_NAME_MAX]; /* application_name: tells our own sessions from all others */
};

/* Connects nowhere yet. HF_EINVAL for a connection string that cannot be understood. */
int hf_pg_init(struct hf_pg *pg, struct hf_store *store, const struct hf_store_config *config);
void hf_pg_free(struct hf_pg *pg);

int hf_pg_connect(struct hf_pg *pg);
void hf_pg_disconnect(struct hf_pg *pg);

/*
 * Before something is sent on a connection that was idle: closes it if the server has. A batch that
 * is never sent is certain not to be durable.
 */
void hf_pg_drop_dead(struct hf_pg *pg);

/* Sends what libpq has gathered; reads meanwhile, so that neither side waits for the other. */
int hf_pg_flush(struct hf_pg *pg);

/* The next result, or NULL at the end of a query's results; the caller clears it. */
int hf_pg_next(struct hf_pg *pg, PGresult **out);

/* 0 for a result that is a success. Clears it otherwise, and sets the error text. */
int hf_pg_check(struct hf_pg *pg, PGresult *result, const char *what);

/*
 * Runs SQL, which may be several statements without parameters, or one with. The last result goes
 * to *out if that is not NULL, and the caller clears it.
 */
int hf_pg_exec(struct hf_pg *pg, const char *sql, const char *what, PGresult **out);
int hf_pg_exec_params(struct hf_pg *pg, const char *sql, int n, const char *const *params,
                      const char *what, PGresult **out);

/* The same, for what answers with exactly one row; HF_EFORMAT if it does not. */
int hf_pg_exec_row(struct hf_pg *pg, const char *sql, int n, const char *const *params,
                   const char *what, PGresult **out);

/* After a failure within a transaction; keeps the failure's text. */
void hf_pg_rollback(struct hf_pg *pg);

#endif
