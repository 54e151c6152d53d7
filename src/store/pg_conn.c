#include "store/pg_conn.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "store/backend.h"

static bool mentions(const char *text, const char *secret)
{
    return secret && *secret && strstr(text, secret);
}

/* Replaces every occurrence of the secret in the text by stars. */
static void strike_out(char *text, const char *secret)
{
    for (char *at; mentions(text, secret) && (at = strstr(text, secret));)
        memset(at, '*', strlen(secret));
}

/* Makes one line of a text of several lines. */
static void flatten(char *text)
{
    size_t len;

    for (char *p = text; *p; p++) {
        if (*p == '\n' || *p == '\t')
            *p = ' ';
    }
    for (len = strlen(text); len > 0 && text[len - 1] == ' '; len--)
        text[len - 1] = '\0';
}

void hf_pg_clean_text(struct hf_pg *pg, const char *said, char *out, size_t size)
{
    hf_format(out, size, "%s", said);
    strike_out(out, pg->conn ? PQpass(pg->conn) : NULL);
    flatten(out);
}

static int fail(struct hf_pg *pg, int code, const char *what, const char *said)
{
    char text[HF_STORE_ERROR_MAX / 2];

    hf_pg_clean_text(pg, said, text, sizeof(text));
    switch (code) {
    case HF_EUNREACH:
        return hf_store_fail(pg->store, code, "%s: %s; see whether PostgreSQL runs, and store.dsn",
                             what, text);
    case HF_EDENIED:
        return hf_store_fail(pg->store, code,
                             "%s: %s; check user, password and grants behind store.dsn", what,
                             text);
    case HF_EROFS:
        return hf_store_fail(pg->store, code,
                             "%s: %s; store.dsn must lead to a primary that can be written", what,
                             text);
    case HF_EFENCED:
        return hf_store_fail(pg->store, code,
                             "%s: another holdfastd has taken over this database; this one writes "
                             "nothing more, and should be stopped",
                             what);
    case HF_EBEHIND:
        return hf_store_fail(pg->store, code,
                             "%s: the database has lost transactions that it had acknowledged; was "
                             "a replica promoted that was not synchronous? Compare the locks, then "
                             "\"holdfastctl cluster take\" accepts what is there",
                             what);
    default:
        return hf_store_fail(pg->store, code, "%s: %s", what, text);
    }
}

/* Our codes for PostgreSQL's SQLSTATEs (see its manual, appendix A). A two-character entry stands
 * for the whole class. */
static const struct {
    const char *state;
    int code;
} STATES[] = {
    {"HF001", HF_EFENCED}, /* SQL code of migration 0002 raises this state */
    {"HF002", HF_EBEHIND}, /* SQL code of migration 0004 raises this state */
    /* Raised by migration 0004 if another session has renewed the lease since the heartbeat that we
     * know. */
    {"HF003", HF_EBUSY},
    {"08", HF_EUNREACH},    /* connection exception */
    {"57P01", HF_EUNREACH}, /* admin shutdown */
    {"57P02", HF_EUNREACH}, /* crash shutdown */
    {"57P03", HF_EUNREACH}, /* starting up */
    {"53300", HF_EUNREACH}, /* too many connections */
    {"40001", HF_EBUSY},    /* serialization failure */
    {"40P01", HF_EBUSY},    /* deadlock */
    {"55P03", HF_EBUSY},    /* lock timeout */
    {"53100", HF_ENOSPC},   /* disk full */
    {"53200", HF_ENOMEM},   /* out of memory */
    {"25006", HF_EROFS},    /* read-only transaction */
    /* BEGIN READ WRITE fails so during recovery; no other statement of ours can */
    {"0A000", HF_EROFS},
    {"28", HF_EDENIED},    /* authorization */
    {"42501", HF_EDENIED}, /* privilege */
    {"42P01", HF_EFORMAT}, /* undefined table */
    {"42703", HF_EFORMAT}, /* undefined column */
};

static int code_of_state(const char *state)
{
    if (!state)
        return HF_EUNREACH; /* no server answered: libpq itself noticed the failure */
    for (size_t i = 0; i < HF_COUNT_OF(STATES); i++) {
        if (strncmp(state, STATES[i].state, strlen(STATES[i].state)) == 0)
            return STATES[i].code;
    }
    return HF_EIO;
}

static int fail_lost(struct hf_pg *pg, const char *what)
{
    int rv = fail(pg, HF_EUNREACH, what, PQerrorMessage(pg->conn));

    hf_pg_disconnect(pg);
    return rv;
}

/* Chooses the schema of a service and the number of its advisory lock, which is the FNV-1a hash of
 * the service's name. */
static int choose_schema(struct hf_pg *pg, const char *service)
{
    uint32_t hash = 2166136261U;

    pg->lock_number = 1;
    if (!service || !*service || strcmp(service, HF_STORE_SERVICE_DEFAULT) == 0)
        return 0;
    if (!hf_store_service_is_valid(service))
        return HF_EINVAL;
    for (const char *p = service; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 16777619U;
    pg->lock_number = (int)(hash & INT32_MAX) | 2;
    hf_format(pg->schema, sizeof(pg->schema), "holdfast_%s", service);
    return 0;
}

/* Returns a text of our own: libpq's message would quote the connection string, and with it perhaps
 * a password. */
const char *hf_store_dsn_obstacle(const char *dsn)
{
    PQconninfoOption *options = PQconninfoParse(dsn, NULL);

    if (!options)
        return "store.dsn is not a connection string that libpq understands; write "
               "\"host=... dbname=... user=...\" or \"postgresql://...\"";
    PQconninfoFree(options);
    return NULL;
}

/* Appends a hash of service and node to the session's name. Sessions of one node of one service
 * thus have names with the same ending (see_namesake() in pg_lease.c). */
static void add_node(struct hf_pg *pg, const struct hf_store_config *config)
{
    static const struct hf_hash_key KEY = {0};
    size_t len = strlen(pg->name);
    char both[HF_STORE_SERVICE_MAX + HF_STORE_NODE_MAX];

    hf_format(both, sizeof(both), "%s/%s", pg->schema, config->cluster->node);
    hf_format(pg->name + len, sizeof(pg->name) - len, "-%08x",
              (unsigned)hf_siphash(&KEY, both, strlen(both)));
}

int hf_pg_init(struct hf_pg *pg, struct hf_store *store, const struct hf_store_config *config)
{
    const char *dsn = config->dsn ? config->dsn : "";
    const char *obstacle = hf_store_dsn_obstacle(dsn);
    uint64_t nonce;

    *pg = (struct hf_pg){.store = store,
                         .timeout_ms = config->timeout_ms ? config->timeout_ms : HF_PG_TIMEOUT_MS};
    if (obstacle)
        return hf_store_fail(store, HF_EINVAL, "%s", obstacle);
    if (choose_schema(pg, config->service) < 0)
        return hf_store_fail(store, HF_EINVAL,
                             "\"%.64s\" is not a name for a service; use at most %d of a-z, 0-9, - "
                             "and _",
                             config->service, HF_STORE_SERVICE_MAX - 1);
    pg->shares_lock = config->cluster != NULL;
    if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
        return hf_store_fail(store, HF_EIO, "the kernel gives no random number");
    hf_format(pg->name, sizeof(pg->name), "holdfastd-%016" PRIx64, nonce);
    if (config->cluster)
        add_node(pg, config);
    pg->dsn = hf_malloc(store->alloc, strlen(dsn) + 1);
    if (!pg->dsn)
        return hf_store_fail(store, HF_ENOMEM, "out of memory");
    memcpy(pg->dsn, dsn, strlen(dsn) + 1);
    return 0;
}

void hf_pg_free(struct hf_pg *pg)
{
    hf_pg_disconnect(pg);
    hf_free(pg->store->alloc, pg->dsn);
    pg->dsn = NULL;
}

void hf_pg_disconnect(struct hf_pg *pg)
{
    PQfinish(pg->conn);
    pg->conn = NULL;
    pg->read_only = false;
}

/*
 * Closes a connection that the server has closed. A server sends something on an idle connection
 * only when it is about to close it, so this reads until no data is left or the end of the stream
 * is found.
 */
void hf_pg_drop_dead(struct hf_pg *pg)
{
    if (pg->read_only)
        hf_pg_disconnect(pg);
    while (pg->conn) {
        struct pollfd fd = {.fd = PQsocket(pg->conn), .events = POLLIN};

        if (poll(&fd, 1, 0) <= 0)
            return;
        if (!PQconsumeInput(pg->conn))
            hf_pg_disconnect(pg);
    }
}

/* Waits until the connection's socket is ready for one of the events. */
static int wait_socket(struct hf_pg *pg, short events)
{
    struct pollfd fd = {.fd = PQsocket(pg->conn), .events = events};
    int n;

    do {
        n = poll(&fd, 1, (int)pg->timeout_ms);
    } while (n < 0 && errno == EINTR);
    if (n > 0)
        return 0;
    hf_pg_disconnect(pg);
    /* Try another host at the next connect: a former primary still accepts connections, but its
     * commits wait for ever. */
    pg->last_host++;
    return hf_store_fail(pg->store, HF_ETIMEDOUT, "PostgreSQL did not answer for %" PRIu32 " ms",
                         pg->timeout_ms);
}

/* Logs the server's warnings and drops its notices (for example, the progress of a migration). */
static void receive_notice(void *ctx, const PGresult *result)
{
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    struct hf_pg *pg = ctx;

    if (severity && strcmp(severity, "WARNING") == 0)
        pg->warned = true;
}

int hf_pg_fail_unreplicated(struct hf_pg *pg)
{
    return hf_store_fail(pg->store, HF_EUNREACH,
                         "PostgreSQL committed, but did not wait for its synchronous standby; it "
                         "is tried again until the standby has confirmed it");
}

int hf_pg_begin(struct hf_pg *pg)
{
    PQsetNoticeReceiver(pg->conn, receive_notice, pg);
    if (PQsetnonblocking(pg->conn, 1) < 0)
        return fail_lost(pg, "cannot connect to PostgreSQL");
    return 0;
}

int hf_pg_flush(struct hf_pg *pg)
{
    int left;
    int rv;

    while ((left = PQflush(pg->conn)) > 0) {
        rv = wait_socket(pg, POLLIN | POLLOUT);
        if (rv < 0)
            return rv;
        if (!PQconsumeInput(pg->conn))
            return fail_lost(pg, "the connection to PostgreSQL is lost");
    }
    return left < 0 ? fail_lost(pg, "the connection to PostgreSQL is lost") : 0;
}

int hf_pg_next(struct hf_pg *pg, PGresult **out)
{
    int rv;

    while (PQisBusy(pg->conn)) {
        rv = wait_socket(pg, POLLIN);
        if (rv < 0)
            return rv;
        if (!PQconsumeInput(pg->conn))
            return fail_lost(pg, "the connection to PostgreSQL is lost");
    }
    *out = PQgetResult(pg->conn);
    return 0;
}

int hf_pg_next_copied(struct hf_pg *pg, char **out, size_t *len)
{
    int n;
    int rv;

    *out = NULL;
    while ((n = PQgetCopyData(pg->conn, out, 1)) == 0) {
        rv = wait_socket(pg, POLLIN);
        if (rv < 0)
            return rv;
        if (!PQconsumeInput(pg->conn))
            return fail_lost(pg, "the connection to PostgreSQL is lost");
    }
    *len = n > 0 ? (size_t)n : 0;
    return n == -2 ? fail_lost(pg, "cannot read from PostgreSQL") : 0;
}

int hf_pg_check(struct hf_pg *pg, PGresult *result, const char *what)
{
    int rv;

    switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_COPY_OUT:
    case PGRES_PIPELINE_SYNC:
        return 0;
    default:
        break;
    }
    rv = fail(pg, code_of_state(PQresultErrorField(result, PG_DIAG_SQLSTATE)), what,
              PQresultErrorMessage(result));
    PQclear(result);
    if (PQstatus(pg->conn) == CONNECTION_BAD || rv == HF_EUNREACH)
        hf_pg_disconnect(pg);
    if (rv != HF_EROFS)
        return rv;
    pg->read_only = true;
    return HF_EUNREACH;
}

/* Reads a query's results to the end and returns the last of them, or the first failure. */
static int finish(struct hf_pg *pg, const char *what, PGresult **out)
{
    PGresult *last = NULL;
    PGresult *result = NULL;
    int failed = 0;
    int rv;

    pg->warned = false;
    rv = hf_pg_flush(pg);
    while (rv == 0 && (rv = hf_pg_next(pg, &result)) == 0 && result) {
        int code = hf_pg_check(pg, result, what);

        PQclear(last);
        last = code == 0 ? result : NULL;
        if (code < 0 && failed == 0)
            failed = code;
        if (!pg->conn)
            break;
    }
    rv = failed ? failed : rv;
    if (rv == 0 && out)
        *out = last;
    else
        PQclear(last);
    return rv;
}

int hf_pg_exec(struct hf_pg *pg, const char *sql, const char *what, PGresult **out)
{
    if (!PQsendQuery(pg->conn, sql))
        return fail_lost(pg, what);
    return finish(pg, what, out);
}

int hf_pg_exec_params(struct hf_pg *pg, const char *sql, int n, const char *const *params,
                      const char *what, PGresult **out)
{
    if (!PQsendQueryParams(pg->conn, sql, n, NULL, params, NULL, NULL, 0))
        return fail_lost(pg, what);
    return finish(pg, what, out);
}

int hf_pg_exec_row(struct hf_pg *pg, const char *sql, int n, const char *const *params,
                   const char *what, PGresult **out)
{
    PGresult *result = NULL;
    int rv = hf_pg_exec_params(pg, sql, n, params, what, &result);

    if (rv < 0)
        return rv;
    if (PQntuples(result) != 1) {
        PQclear(result);
        return hf_store_fail(pg->store, HF_EFORMAT,
                             "%s: the schema is damaged; restore the database", what);
    }
    *out = result;
    return 0;
}

void hf_pg_rollback(struct hf_pg *pg)
{
    char error[HF_STORE_ERROR_MAX];

    if (!pg->conn)
        return; /* the server itself rolls back the transaction of a lost session */
    memcpy(error, pg->store->error, sizeof(error));
    (void)hf_pg_exec(pg, "ROLLBACK", "cannot roll back", NULL);
    memcpy(pg->store->error, error, sizeof(error));
}
