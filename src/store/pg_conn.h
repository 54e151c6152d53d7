/*
 * A connection to PostgreSQL on which no wait is longer than timeout_ms without a sign of life from
 * the server: everything goes through libpq's asynchronous calls. A connection that failed is
 * closed; its user makes a new one.
 *
 * Errors are translated to our codes by SQLSTATE, and to sentences. If the server repeats the
 * password in a message, the password is struck out.
 */
#ifndef HF_STORE_PG_CONN_H
#define HF_STORE_PG_CONN_H

#include <libpq-fe.h>

#include "store/store.h"

enum { HF_PG_TIMEOUT_MS = 3000, HF_PG_NAME_MAX = 40, HF_PG_SCHEMA_MAX = 64 };

struct hf_pg {
    struct hf_store *store; /* the store that receives the error texts */
    PGconn *conn;           /* the libpq connection; NULL when not connected */
    char *dsn;
    uint32_t timeout_ms;
    /* the number of the host in the dsn to try first, modulo the count of hosts */
    unsigned last_host;
    bool read_only; /* the server is read-only at present; another host may not be */
    bool warned;    /* the server sent a warning during the last statement */
    /* The application_name of our sessions, by which they are told from all others. */
    char name[HF_PG_NAME_MAX];
    char schema[HF_PG_SCHEMA_MAX]; /* the schema that every session uses; "": the role's default */
    int lock_number;               /* the number of the advisory lock of this schema */
    bool shares_lock; /* the advisory lock is shared with the other daemons of the service */
    /* The heartbeat that the last renewal of the lease returned; not durable before its COMMIT. */
    uint64_t heartbeat;
};

/* Initialises the structure without connecting. Returns HF_EINVAL for a connection string that
 * cannot be understood. */
int hf_pg_init(struct hf_pg *pg, struct hf_store *store, const struct hf_store_config *config);
void hf_pg_free(struct hf_pg *pg);

/* Connects to the first usable host of the connection string, trying all of them within timeout_ms
 * (pg_connect.c). Returns HF_ETIMEDOUT if all hosts are silent, else HF_EUNREACH. */
int hf_pg_connect(struct hf_pg *pg);
void hf_pg_disconnect(struct hf_pg *pg);

/*
 * Closes an idle connection if the server has closed it, or if the server is read-only, because a
 * new connection may find another host that is not. To be called before something is sent: a batch
 * that is never sent is certain not to be durable.
 */
void hf_pg_drop_dead(struct hf_pg *pg);

/*
 * Reports a commit that came with a warning as failed. When the wait for the synchronous standby
 * ends early (an operator cancelled it, for example), PostgreSQL keeps the transaction on the
 * primary and answers COMMIT as usual; only the warning says that the standby may not have it.
 */
int hf_pg_fail_unreplicated(struct hf_pg *pg);

/* Sends the data that libpq has gathered, and reads meanwhile, so that server and client never both
 * wait to send. */
int hf_pg_flush(struct hf_pg *pg);

/* Gets the next result of a query, or NULL after the last; the caller clears it. */
int hf_pg_next(struct hf_pg *pg, PGresult **out);

/* Gets the next message of a COPY ... TO STDOUT, which the caller frees with PQfreemem(). NULL
 * after the last message: then hf_pg_next() returns the results. */
int hf_pg_next_copied(struct hf_pg *pg, char **out, size_t *len);

/*
 * Returns 0 for a successful result; otherwise clears the result and sets the error text. A
 * read-only server counts as HF_EUNREACH: a switchover ends, or the host name soon leads to another
 * server.
 */
int hf_pg_check(struct hf_pg *pg, PGresult *result, const char *what);

/* Runs SQL: several statements without parameters, or one with parameters. The last result goes to
 * *out if out is not NULL, and the caller clears it. */
int hf_pg_exec(struct hf_pg *pg, const char *sql, const char *what, PGresult **out);
int hf_pg_exec_params(struct hf_pg *pg, const char *sql, int n, const char *const *params,
                      const char *what, PGresult **out);

/*
 * Runs SQL that must return exactly one row, like hf_pg_exec_params(); HF_EFORMAT if it does not.
 */
int hf_pg_exec_row(struct hf_pg *pg, const char *sql, int n, const char *const *params,
                   const char *what, PGresult **out);

/*
 * Prepares a connection that libpq has just made for the calls above. Only pg_connect.c calls it.
 */
int hf_pg_begin(struct hf_pg *pg);

/* Writes libpq's message as one line and without the password. */
void hf_pg_clean_text(struct hf_pg *pg, const char *said, char *out, size_t size);

/* Rolls back after a failure within a transaction; the store keeps the failure's error text. */
void hf_pg_rollback(struct hf_pg *pg);

#endif
