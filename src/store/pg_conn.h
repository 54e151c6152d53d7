/*
 * A connection to PostgreSQL on which no wait is longer than timeout_ms without a sign of life from
 * the server: everything goes through libpq's asynchronous calls. A connection that failed is
 * closed; the owner makes a new one.
 *
 * Errors are turned into our codes by SQLSTATE, and into sentences. Should the server repeat the
 * password, it is struck out.
 */
#ifndef HF_STORE_PG_CONN_H
#define HF_STORE_PG_CONN_H

#include <libpq-fe.h>

#include "store/store.h"

enum { HF_PG_TIMEOUT_MS = 3000, HF_PG_NAME_MAX = 40, HF_PG_SCHEMA_MAX = 64 };

struct hf_pg {
    struct hf_store *store; /* the store that gets the error texts */
    PGconn *conn;           /* NULL when not connected */
    char *dsn;
    uint32_t timeout_ms;
    unsigned last_host; /* which of the hosts in dsn to begin with, modulo their number */
    bool read_only;     /* the server cannot be written now; another one may be found */
    bool warned;        /* the server sent a warning during the last statement */
    /* application_name, which tells our own sessions from all others. */
    char name[HF_PG_NAME_MAX];
    char schema[HF_PG_SCHEMA_MAX]; /* the schema that every session uses; "": that of the role */
    int lock_number;               /* the number of this schema's advisory lock */
    bool shares_lock; /* the advisory lock is shared with the other daemons of the service */
    /* The heartbeat that the last renewal of the lease answered; it is not durable yet. */
    uint64_t heartbeat;
};

/* Initialises the structure without connecting. Returns HF_EINVAL for a connection string that
 * cannot be understood. */
int hf_pg_init(struct hf_pg *pg, struct hf_store *store, const struct hf_store_config *config);
void hf_pg_free(struct hf_pg *pg);

/*
 * Connects to the first host of the connection string that can be used, trying all of them within
 * timeout_ms (pg_connect.c). Returns HF_ETIMEDOUT if all are silent, else HF_EUNREACH.
 */
int hf_pg_connect(struct hf_pg *pg);
void hf_pg_disconnect(struct hf_pg *pg);

/*
 * Is called before something is sent on a connection that was idle. Closes it if the server has, or
 * if the server cannot be written, because a later connection may find one that can. A batch that
 * is never sent is certain not to be durable.
 */
void hf_pg_drop_dead(struct hf_pg *pg);

/*
 * Reports a commit with a warning as failed. When the wait for the synchronous standby ends early
 * (an operator cancelled it, for example), PostgreSQL keeps the transaction on the primary and
 * answers COMMIT as usual; only a warning before that says that the standby may not have it.
 */
int hf_pg_fail_unreplicated(struct hf_pg *pg);

/* Sends the data that libpq has gathered; reads meanwhile, so that neither side waits for the
 * other. */
int hf_pg_flush(struct hf_pg *pg);

/* Gets the next result, or NULL at the end of a query's results; the caller clears it. */
int hf_pg_next(struct hf_pg *pg, PGresult **out);

/* Gets the next message of a COPY ... TO STDOUT, which the caller frees with PQfreemem(); NULL
 * after the last, when the results follow. */
int hf_pg_next_copied(struct hf_pg *pg, char **out, size_t *len);

/*
 * Returns 0 for a result that is a success; otherwise clears it and sets the error text. A server
 * that cannot be written counts as HF_EUNREACH, too: a switchover ends, or the name leads
 * elsewhere.
 */
int hf_pg_check(struct hf_pg *pg, PGresult *result, const char *what);

/*
 * Runs SQL, which may be several statements without parameters, or one with. The last result goes
 * to *out if that is not NULL, and the caller clears it.
 */
int hf_pg_exec(struct hf_pg *pg, const char *sql, const char *what, PGresult **out);
int hf_pg_exec_params(struct hf_pg *pg, const char *sql, int n, const char *const *params,
                      const char *what, PGresult **out);

/* Does what hf_pg_exec_params() does, for SQL that answers with exactly one row; HF_EFORMAT if it
 * does not. */
int hf_pg_exec_row(struct hf_pg *pg, const char *sql, int n, const char *const *params,
                   const char *what, PGresult **out);

/* Prepares a connection that libpq has just made for the calls above; it is for pg_connect.c. */
int hf_pg_begin(struct hf_pg *pg);

/* Writes libpq's text in one line and without the password. */
void hf_pg_clean_text(struct hf_pg *pg, const char *said, char *out, size_t size);

/* Rolls back after a failure within a transaction; the text of the failure stays. */
void hf_pg_rollback(struct hf_pg *pg);

#endif
