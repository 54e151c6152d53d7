#include "store/pg_lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/text.h"
#include "store/backend.h"
#include "store/migrate.h"
#include "store/pg_tables.h"

enum {
    LOOK_MS = 2000, /* how often the owner of the lease reads the list of the other nodes */
    NUMBER_MAX = 24,
    NODE_DIGITS = 8, /* how many digits at the end of a session's name identify its node */
    /*
     * within this time a live session of a node sends another statement, and a dead one has ended
     */
    NAMESAKE_MS = 1500,
};

/* Writes an unsigned number as a bigint of PostgreSQL, with the same 64 bits. */
static const char *number(char text[NUMBER_MAX], uint64_t value)
{
    hf_format(text, NUMBER_MAX, "%" PRId64, (int64_t)value);
    return text;
}

static uint64_t read_number(const PGresult *result, int row, int column)
{
    return (uint64_t)strtoll(PQgetvalue(result, row, column), NULL, 10);
}

/* ---- joining ---- */

static const char *service_of(const struct hf_pg *pg)
{
    return pg->schema[0] ? pg->schema + strlen("holdfast_") : HF_STORE_SERVICE_DEFAULT;
}

/* Checks that the database has a synchronous standby, if one is required: otherwise the loss of one
 * disk would lose granted locks. */
static int check_replication(struct hf_pg_session *session)
{
    struct hf_pg *pg = &session->pg;
    PGresult *result;
    bool replicated;
    int rv = hf_pg_exec_row(pg, "SELECT current_setting('synchronous_standby_names') <> ''", 0,
                            NULL, "cannot use the database", &result);

    if (rv < 0)
        return rv;
    replicated = PQgetvalue(result, 0, 0)[0] == 't';
    PQclear(result);
    if (replicated)
        return 0;
    if (session->cluster->require_sync)
        return hf_store_fail(pg->store, HF_EINVAL,
                             "PostgreSQL has no synchronous standby, so the loss of its host would "
                             "lose locks; set synchronous_standby_names there, or "
                             "cluster.require_sync=no here");
    hf_log(HF_LOG_WARN, "PostgreSQL has no synchronous standby: the loss of its host loses locks",
           HF_STR("reason", "cluster.require_sync=no"));
    return 0;
}

static const char MAKE_COMMON[] = "CREATE SCHEMA IF NOT EXISTS holdfast_common;"
                                  "CREATE TABLE IF NOT EXISTS holdfast_common.exports ("
                                  " name text PRIMARY KEY, service text NOT NULL,"
                                  " fh_offset integer NOT NULL, fh_bytes bytea NOT NULL)";

#define EXPORTS_WHAT "cannot use the table of exports"

static int make_common(struct hf_pg *pg)
{
    PGresult *result;
    bool exists;
    int rv = hf_pg_exec_row(pg, "SELECT to_regclass('holdfast_common.exports') IS NOT NULL", 0,
                            NULL, EXPORTS_WHAT, &result);

    if (rv < 0)
        return rv;
    exists = PQgetvalue(result, 0, 0)[0] == 't';
    PQclear(result);
    if (exists)
        return 0;
    rv = hf_migrate_begin(pg, EXPORTS_WHAT);
    if (rv == 0)
        rv = hf_pg_exec(pg, MAKE_COMMON, EXPORTS_WHAT, NULL);
    return hf_migrate_end(pg, EXPORTS_WHAT, rv);
}

static int fail_foreign(struct hf_pg *pg, const char *name)
{
    const char *const params[] = {name};
    PGresult *result;
    int rv = hf_pg_exec_row(pg, "SELECT service FROM holdfast_common.exports WHERE name = $1", 1,
                            params, EXPORTS_WHAT, &result);

    if (rv < 0)
        return rv;
    rv = hf_store_fail(pg->store, HF_EINVAL,
                       "the export \"%s\" belongs to service \"%s\"; an export has one service: "
                       "remove [share %s] here, or there",
                       name, PQgetvalue(result, 0, 0), name);
    PQclear(result);
    return rv;
}

/* Claims an export for our service. The primary key of the table decides: the export becomes ours,
 * or stays with the service that has it. */
static int claim(struct hf_pg *pg, const struct hf_store_export *export)
{
    char offset[NUMBER_MAX];
    char hex[2 * HF_STORE_EXPORT_BYTES_MAX + 1];
    const char *const params[] = {export->name, service_of(pg), number(offset, export->offset),
                                  hex};
    PGresult *result;
    bool ours;
    int rv;

    hf_hex_encode(export->bytes, export->len, hex);
    hex[2 * (size_t) export->len] = '\0';
    rv = hf_pg_exec_params(
        pg,
        "INSERT INTO holdfast_common.exports AS e (name, service, fh_offset, fh_bytes)"
        " VALUES ($1, $2, $3, decode($4, 'hex')) ON CONFLICT (name) DO UPDATE"
        " SET fh_offset = excluded.fh_offset, fh_bytes = excluded.fh_bytes"
        " WHERE e.service = excluded.service RETURNING 1",
        4, params, EXPORTS_WHAT, &result);
    if (rv < 0)
        return rv;
    ours = PQntuples(result) == 1;
    PQclear(result);
    return ours ? 0 : fail_foreign(pg, export->name);
}

/* Sets *seen if a session of another process with our node's name was busy within the last second.
 * The owner of the lease and standbys are busy several times in a second. */
static int see_namesake(struct hf_pg_session *session, bool *seen)
{
    struct hf_pg *pg = &session->pg;
    const char *const params[] = {pg->name + strlen(pg->name) - NODE_DIGITS, pg->name};
    PGresult *result;
    int rv = hf_pg_exec_row(pg,
                            "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name LIKE"
                            " 'holdfastd-%-' || $1 AND application_name <> $2 AND"
                            " query_start > clock_timestamp() - interval '1 second'",
                            2, params, "cannot look for other nodes", &result);

    if (rv < 0)
        return rv;
    *seen = PQgetvalue(result, 0, 0)[0] == 't';
    PQclear(result);
    return 0;
}

/* Fails if another daemon uses this node's name: the two would share one row of the node list, and
 * no operator could see that there is no standby. The session of a process that has just ended may
 * still be listed, so a second look must see it busy again. */
static int refuse_namesake(struct hf_pg_session *session)
{
    bool seen = false;
    int rv = see_namesake(session, &seen);

    if (rv == 0 && seen) {
        usleep(NAMESAKE_MS * 1000);
        rv = see_namesake(session, &seen);
    }
    if (rv < 0 || !seen)
        return rv;
    return hf_store_fail(session->pg.store, HF_EBUSY,
                         "another node of this service is called \"%s\" and runs; give each node "
                         "its own name (cluster.node; without it, the host's name)",
                         session->cluster->node);
}

int hf_pg_lease_join(struct hf_pg_session *session)
{
    int rv = refuse_namesake(session);

    if (rv == 0)
        rv = check_replication(session);
    if (rv == 0)
        rv = make_common(&session->pg);
    for (unsigned i = 0; i < session->cluster->n_exports && rv == 0; i++)
        rv = claim(&session->pg, &session->cluster->exports[i]);
    return rv;
}

/* ---- the row ---- */

#define ROW                                                   \
    "s.fence, s.nonce, s.beat, s.released, s.alarm, s.node, " \
    "coalesce(extract(epoch FROM s.taken_at) * 1000, 0)::int8, p.*"
#define PAST(epoch) " CROSS JOIN holdfast_past(" epoch ") p" /* goes with ROW */
enum {
    FENCE,
    NONCE,
    HEARTBEAT,
    RELEASED,
    ALARM,
    NODE,
    TAKEN_AT,
    PAST_EPOCH,
    PAST_NONCE,
    PAST_UNTIL,
    OTHER,
    OTHER_VERSION,
    OTHER_SEEN,
};

#define ROW_WHAT "cannot use the lease"

static struct hf_lease_row row_of(const PGresult *result)
{
    return (struct hf_lease_row){
        .epoch = read_number(result, 0, FENCE),
        .nonce = read_number(result, 0, NONCE),
        .heartbeat = read_number(result, 0, HEARTBEAT),
        .released = PQgetvalue(result, 0, RELEASED)[0] == 't',
        .alarm = PQgetvalue(result, 0, ALARM)[0] == 't',
        .past = {.epoch = read_number(result, 0, PAST_EPOCH),
                 .nonce = read_number(result, 0, PAST_NONCE),
                 .until = read_number(result, 0, PAST_UNTIL)},
    };
}

static void read_people(const PGresult *result, struct hf_store_lease_call *call)
{
    call->taken_at_ms = (int64_t)read_number(result, 0, TAKEN_AT);
    hf_format(call->owner, sizeof(call->owner), "%s", PQgetvalue(result, 0, NODE));
    call->n_nodes = 0;
    for (int row = 0; row < PQntuples(result) && row < HF_STORE_NODES_MAX; row++) {
        struct hf_store_node *node = &call->nodes[call->n_nodes++];

        hf_format(node->name, sizeof(node->name), "%s", PQgetvalue(result, row, OTHER));
        hf_format(node->version, sizeof(node->version), "%s",
                  PQgetvalue(result, row, OTHER_VERSION));
        node->seen_ms = (uint32_t)read_number(result, row, OTHER_SEEN);
    }
}

/* Writes this node's row, and reads the lease and all nodes. Writing does not lock the lease's row.
 * The commit is synchronous: core/lease/row.h says why a standby depends on that. */
static int look(struct hf_pg_session *session, struct hf_store_lease_call *call)
{
    char epoch[NUMBER_MAX];
    const char *const params[] = {session->cluster->node, session->cluster->version,
                                  number(epoch, session->past_of)};
    PGresult *result;
    int rv = hf_pg_exec_params(
        &session->pg,
        "WITH me AS (INSERT INTO cluster_nodes (node, version, seen_at)"
        " VALUES ($1, $2, clock_timestamp()) ON CONFLICT (node) DO UPDATE"
        " SET version = excluded.version, seen_at = excluded.seen_at RETURNING node, version)"
        " SELECT " ROW ", n.* FROM " HF_PG_STATE
        " s" PAST("$3") " CROSS JOIN (SELECT node, version, 0::int8 FROM me UNION ALL"
                        " SELECT node, version, (extract(epoch FROM clock_timestamp() - seen_at) * "
                        "1000)::int8"
                        " FROM cluster_nodes WHERE node <> $1 AND seen_at > clock_timestamp() - "
                        "interval '1 hour')"
                        " AS n ORDER BY n.node",
        3, params, ROW_WHAT, &result);

    if (rv < 0)
        return rv;
    session->seen_ms = hf_clock_boot_ms();
    if (session->pg.warned) {
        rv = hf_pg_fail_unreplicated(&session->pg);
    } else if (PQntuples(result) == 0) {
        rv = hf_store_fail(session->pg.store, HF_EFORMAT,
                           ROW_WHAT ": the schema is damaged; restore the database");
    } else {
        session->row = row_of(result);
        read_people(result, call);
    }
    PQclear(result);
    return rv;
}

/* Reads the lease's row without locking it, after the database refused our transaction. */
static void find_row(struct hf_pg_session *session)
{
    char error[HF_STORE_ERROR_MAX];
    char epoch[NUMBER_MAX];
    const char *const params[] = {number(epoch, session->past_of)};
    PGresult *result;

    memcpy(error, session->pg.store->error, sizeof(error));
    if (session->pg.conn &&
        hf_pg_exec_row(&session->pg, "SELECT " ROW " FROM " HF_PG_STATE " s" PAST("$1"), 1, params,
                       ROW_WHAT, &result) == 0) {
        session->row = row_of(result);
        session->row_found = true;
        PQclear(result);
    }
    memcpy(session->pg.store->error, error, sizeof(error));
}

static void own(struct hf_pg_session *session, const struct hf_lease_row *row)
{
    session->fence = row->epoch;
    session->nonce = row->nonce;
    session->heartbeat = row->heartbeat;
    session->heartbeat_known = false;
    session->offered_nonce = 0;
    session->past_of = row->epoch;
}

static void disown(struct hf_pg_session *session)
{
    session->fence = 0;
}

void hf_pg_lease_note(struct hf_pg_session *session, int status)
{
    session->row_found = status == 0;
    session->heartbeat_known = status == 0;
    if (status == 0) {
        session->heartbeat = session->pg.heartbeat;
        session->row = (struct hf_lease_row){
            .epoch = session->fence, .nonce = session->nonce, .heartbeat = session->heartbeat};
    } else if (status == HF_EFENCED || status == HF_EBEHIND) {
        find_row(session);
    }
}

static int poll_lease(struct hf_pg_session *session, struct hf_store_lease_call *call)
{
    const struct hf_lease_row *row = &session->row;
    int rv = look(session, call);

    if (rv < 0)
        return rv;
    session->row_found = true;
    if (session->offered_nonce && row->nonce == session->offered_nonce && !row->released)
        own(session, row);
    else if (row->epoch != session->fence || row->nonce != session->nonce || row->released)
        disown(session);
    return 0;
}

/* Ends the previous owner's session: its host may have vanished in the middle of a transaction,
 * whose row lock would stay until TCP notices. A session that waits for the synchronous standby is
 * alive and left alone, because ending it would make its transaction visible without being
 * replicated. */
static int end_owner_session(struct hf_pg_session *session, const char *const *seen)
{
    const char *const params[] = {seen[0], seen[1], session->pg.name};

    return hf_pg_exec_params(
        &session->pg,
        "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN " HF_PG_STATE
        " s ON a.application_name = s.session WHERE s.fence = $1 AND s.beat = $2"
        " AND s.session <> $3 AND s.session <> '' AND a.wait_event IS DISTINCT FROM 'SyncRep'",
        3, params, "cannot end the session of the vanished owner", NULL);
}

/* Judges the result of a TAKE's compare-and-set. */
static int judge_take(struct hf_pg_session *session, const PGresult *result)
{
    if (session->pg.warned)
        return hf_pg_fail_unreplicated(&session->pg);
    session->pg.store->in_doubt = false;
    if (PQntuples(result) == 0) {
        int rv = hf_migrate_check(&session->pg);

        session->offered_nonce = 0;
        if (rv < 0) /* the schema is not that of this program, which must not take the lease */
            return rv;
        find_row(session);
        return hf_store_fail(session->pg.store, HF_EBUSY,
                             "the lease was renewed or taken in the meantime");
    }
    session->row = row_of(result);
    session->row_found = true;
    own(session, &session->row);
    session->heartbeat_known = true;
    return 0;
}

static int take(struct hf_pg_session *session, const struct hf_lease_order *order)
{
    char epoch[NUMBER_MAX];
    char heartbeat[NUMBER_MAX];
    char nonce[NUMBER_MAX];
    char new_epoch[NUMBER_MAX];
    char schema[NUMBER_MAX];
    const char *const params[] = {number(epoch, order->epoch),
                                  number(heartbeat, order->heartbeat),
                                  number(nonce, order->nonce),
                                  number(new_epoch, order->new_epoch),
                                  session->cluster->node,
                                  session->pg.name,
                                  number(schema, (uint64_t)hf_n_migrations)};
    PGresult *result;
    int rv = end_owner_session(session, params);

    if (rv < 0)
        return rv;
    session->offered_nonce = order->nonce;
    session->pg.store->in_doubt = true;
    rv = hf_pg_exec_params(&session->pg,
                           "SELECT " ROW
                           " FROM holdfast_take_lease($1, $2, $3, $4, $5, $6, $7) s" PAST("$1"),
                           7, params, "cannot take the lease", &result);
    if (rv < 0) {
        session->pg.store->in_doubt = !session->pg.conn;
        return rv;
    }
    rv = judge_take(session, result);
    PQclear(result);
    return rv;
}

/* Makes a change to the lease's row. Returns 0 and the new row, or `refusal` if the row does not
 * permit the change. */
static int change(struct hf_pg_session *session, const char *sql, int n, const char *const *params,
                  int refusal)
{
    PGresult *result;
    int rv = hf_pg_exec_params(&session->pg, sql, n, params, ROW_WHAT, &result);

    if (rv < 0)
        return rv;
    if (session->pg.warned) {
        rv = hf_pg_fail_unreplicated(&session->pg);
    } else if (PQntuples(result) == 1) {
        session->row = row_of(result);
        session->row_found = true;
    } else {
        find_row(session);
        rv = hf_store_fail(session->pg.store, refusal, ROW_WHAT ": %s", hf_strerror(refusal));
    }
    PQclear(result);
    return rv;
}

static int release(struct hf_pg_session *session, bool clean_stop)
{
    char epoch[NUMBER_MAX];
    char nonce[NUMBER_MAX];
    const char *const params[] = {number(epoch, session->fence), number(nonce, session->nonce),
                                  clean_stop ? "true" : "false"};
    int rv = change(session, "SELECT " ROW " FROM holdfast_release_lease($1, $2, $3) s" PAST("$1"),
                    3, params, HF_EFENCED);

    if (rv == 0 || rv == HF_EFENCED)
        disown(session);
    return rv;
}

/* Raises the alarm in the lease's row after the database went back in time, so that no daemon
 * grants locks until an operator clears it. */
static int stop(struct hf_pg_session *session)
{
    return change(session, "SELECT " ROW " FROM holdfast_stop_lease() s" PAST("0"), 0, NULL,
                  HF_EFORMAT);
}

/* Clears the alarm, because an operator has accepted the state of the database. */
static int clear(struct hf_pg_session *session, const struct hf_lease_order *order)
{
    char epoch[NUMBER_MAX];
    const char *const params[] = {number(epoch, order->new_epoch)};

    return change(session, "SELECT " ROW " FROM holdfast_clear_lease($1) s" PAST("0"), 1, params,
                  HF_EBUSY);
}

/* Reads the list of nodes for operators, from time to time. If that fails, a later renewal reads
 * it. */
static void look_around(struct hf_pg_session *session, struct hf_store_lease_call *call)
{
    struct hf_lease_row row = session->row;

    call->n_nodes = 0;
    if (hf_clock_boot_ms() - session->seen_ms >= LOOK_MS && look(session, call) < 0)
        call->n_nodes = 0;
    session->row = row;
    session->row_found = true;
}

int hf_pg_lease_do(struct hf_pg_session *session, struct hf_store_lease_call *call)
{
    switch (call->order.action) {
    case HF_LEASE_POLL:
        return poll_lease(session, call);
    case HF_LEASE_TAKE:
        return take(session, &call->order);
    case HF_LEASE_RENEW:
        look_around(session, call);
        return 0;
    case HF_LEASE_RELEASE:
        return release(session, call->clean_stop);
    case HF_LEASE_RAISE_ALARM:
        return stop(session);
    case HF_LEASE_CLEAR:
        return clear(session, &call->order);
    case HF_LEASE_NOTHING:
    case HF_LEASE_COMMIT:
        break;
    }
    HF_UNREACHABLE();
}

/* ---- loading ---- */

/* Writes the names of our exports as a PostgreSQL array, each in quotes. */
static int list_exports(const struct hf_store_cluster *cluster, struct hf_buf *out)
{
    int rv = hf_buf_append(out, "{", 1);

    for (unsigned i = 0; i < cluster->n_exports && rv == 0; i++) {
        const char *name = cluster->exports[i].name;

        rv = hf_buf_append(out, i ? ",\"" : "\"", i ? 2 : 1);
        for (; *name && rv == 0; name++) {
            bool special = *name == '"' || *name == '\\';
            char escaped[] = {'\\', *name};

            rv = hf_buf_append(out, escaped + !special, special ? 2 : 1);
        }
        if (rv == 0)
            rv = hf_buf_append(out, "\"", 1);
    }
    return rv < 0 ? rv : hf_buf_append(out, "}", 2);
}

/* Gives up the exports that the configuration no longer names. A failure that leaves the connection
 * intact (a missing right) is ignored: the rows that stay do no harm. */
int hf_pg_lease_forget_exports(struct hf_pg_session *session, const struct hf_lease_row *mine)
{
    char epoch[NUMBER_MAX];
    char nonce[NUMBER_MAX];
    struct hf_buf names;
    int rv;

    hf_buf_init(&names, session->pg.store->alloc);
    rv = list_exports(session->cluster, &names);
    if (rv < 0) {
        rv = hf_store_fail(session->pg.store, rv, "out of memory");
    } else {
        const char *const params[] = {service_of(&session->pg),
                                      (const char *)hf_buf_view(&names).data,
                                      number(epoch, mine->epoch), number(nonce, mine->nonce)};

        rv = hf_pg_exec_params(&session->pg,
                               "DELETE FROM holdfast_common.exports WHERE service = $1"
                               " AND name <> ALL ($2::text[]) AND EXISTS (SELECT FROM " HF_PG_STATE
                               " s WHERE fence = $3 AND nonce = $4)",
                               4, params, EXPORTS_WHAT, NULL);
        rv = session->pg.conn ? 0 : rv;
    }
    hf_buf_free(&names);
    return rv;
}

int hf_pg_lease_see(struct hf_pg_session *session, const struct hf_lease_row *mine)
{
    struct hf_lease_row row;
    PGresult *result;
    int rv = hf_pg_exec(&session->pg, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                        "cannot load", NULL);

    if (rv == 0)
        rv = hf_pg_exec_row(&session->pg, "SELECT " ROW " FROM " HF_PG_STATE " s" PAST("0"), 0,
                            NULL, "cannot load", &result);
    if (rv != 0)
        return rv;
    row = row_of(result);
    PQclear(result);
    if (!mine)
        return 0;
    if (row.epoch < mine->epoch || row.heartbeat < mine->heartbeat)
        return hf_store_fail(session->pg.store, HF_EBEHIND,
                             "cannot load: the database is older than the lease that was taken");
    if (row.epoch != mine->epoch || row.nonce != mine->nonce)
        return hf_store_fail(session->pg.store, HF_EFENCED,
                             "cannot load: another holdfastd has taken the lease");
    return 0;
}

static int visit_foreign(const PGresult *result, int row, const struct hf_store_loading *to)
{
    struct hf_store_export other = {0};
    const char *hex = PQgetvalue(result, row, 3);
    int len = hf_hex_decode(hex, strlen(hex), other.bytes, sizeof(other.bytes));

    if (len < 0)
        return HF_EFORMAT;
    hf_format(other.name, sizeof(other.name), "%s", PQgetvalue(result, row, 0));
    hf_format(other.service, sizeof(other.service), "%s", PQgetvalue(result, row, 1));
    other.offset = (uint32_t)read_number(result, row, 2);
    other.len = (uint32_t)len;
    return to->foreign(to->ctx, &other);
}

int hf_pg_lease_list_foreign(struct hf_pg_session *session, const struct hf_store_loading *to)
{
    const char *const params[] = {service_of(&session->pg)};
    PGresult *result;
    int rv;

    if (!to->foreign)
        return 0;
    rv = hf_pg_exec_params(&session->pg,
                           "SELECT name, service, fh_offset, encode(fh_bytes, 'hex')"
                           " FROM holdfast_common.exports WHERE service <> $1 ORDER BY name",
                           1, params, EXPORTS_WHAT, &result);
    if (rv < 0)
        return rv;
    for (int row = 0; row < PQntuples(result) && rv == 0; row++)
        rv = visit_foreign(result, row, to);
    PQclear(result);
    return rv;
}
