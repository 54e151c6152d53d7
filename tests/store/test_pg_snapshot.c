/*
 * What a commit costs the database while a transaction elsewhere keeps a snapshot open: a dump that
 * takes hours, a session that was forgotten. PostgreSQL then keeps every version of every row, and
 * must not have to walk over all of them to find the newest (docs/internals/STORE.md).
 *
 * Costs are pages that PostgreSQL touched for one statement, which depend on no clock. They are
 * measured in the session of the store, with the plans that it uses.
 */
#include "../unit/unit.h"

#include <libpq-fe.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fixture.h"
#include "pg_server.h"
#include "single.h"
#include "store/lease.h"
#include "store/pg_session.h"

enum {
    COMMITS = 1500, /* enough for 30 pages of versions of one row */
    SPREAD = 8,     /* pages by which statements may differ */
    PARTS = 16,     /* so many records make a batch go to the journal */
};

static struct pg_server server;
static const struct hf_store_cluster CLUSTERS[2] = {{.node = "left", .version = "1"},
                                                    {.node = "right", .version = "1"}};
static struct hf_store daemons[2];
static PGconn *dump; /* has the snapshot */

enum { LEFT, RIGHT };

static const char *sql(const char *text)
{
    return pg_server_sql(&server, text);
}

static void run(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);

    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", text, PQerrorMessage(conn));
    PQclear(result);
}

static void open_daemon(int which, bool alone)
{
    struct hf_store_config config = {.backend = "postgres",
                                     .dsn = server.dsn,
                                     .timeout_ms = 2000,
                                     .cluster = alone ? NULL : &CLUSTERS[which]};

    if (hf_store_open(&daemons[which], &config) < 0)
        fail_msg("%s", hf_store_error(&daemons[which]));
}

static int set_up(void **state)
{
    (void)state;
    sql("DROP SCHEMA IF EXISTS public, holdfast_common CASCADE");
    sql("CREATE SCHEMA public");
    memset(daemons, 0, sizeof(daemons));
    dump = PQconnectdb(server.dsn);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hf_store_close(&daemons[LEFT]);
    hf_store_close(&daemons[RIGHT]);
    PQfinish(dump);
    return 0;
}

static void begin_dump(void)
{
    run(dump, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    run(dump, "SELECT * FROM server_state");
}

static struct hf_lease_row poll(int which)
{
    struct hf_store_lease_call call = {.order = {.action = HF_LEASE_POLL}};
    struct hf_lease_row row = {0};

    if (hf_store_lease(&daemons[which], &call) < 0 || !hf_store_lease_row(&daemons[which], &row))
        fail_msg("%s", hf_store_error(&daemons[which]));
    return row;
}

static void take(int which, uint64_t nonce)
{
    struct hf_lease_row row = poll(which);
    struct hf_store_lease_call call = {.order = {.action = HF_LEASE_TAKE,
                                                 .epoch = row.epoch,
                                                 .heartbeat = row.heartbeat,
                                                 .nonce = nonce,
                                                 .new_epoch = row.epoch + 1}};

    if (hf_store_lease(&daemons[which], &call) < 0)
        fail_msg("%s", hf_store_error(&daemons[which]));
}

/* Commits batches that all put the same n locks, so that the tables do not grow. */
static void commit(unsigned times, unsigned n_locks)
{
    uint8_t room[PARTS][HF_FH_MAX];
    struct hf_batch batch;

    hf_batch_init(&batch, &hf_alloc_heap);
    for (unsigned i = 0; i < n_locks; i++) {
        struct hf_record_lock lock = make_lock(i + 1, 1, room[i]);

        assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    }
    for (unsigned i = 0; i < times; i++) {
        if (hf_store_apply(&daemons[LEFT], &batch) < 0)
            fail_msg("%s", hf_store_error(&daemons[LEFT]));
    }
    hf_batch_free(&batch);
}

/* Counts the pages that one statement touches in the store's session; the statement is rolled back.
 */
static unsigned pages_of(const char *call)
{
    struct hf_pg_session *session = daemons[LEFT].state; /* its first member */
    PGconn *conn = session->pg.conn;
    char text[256];
    PGresult *result;
    unsigned pages = 0;

    run(conn, "BEGIN");
    snprintf(text, sizeof(text), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) EXECUTE %s", call);
    result = PQexec(conn, text);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", text, PQerrorMessage(conn));
    for (int row = 0; row < PQntuples(result) && pages == 0; row++) {
        const char *line = strstr(PQgetvalue(result, row, 0), "Buffers: shared");
        const char *hit = line ? strstr(line, "hit=") : NULL;
        const char *read = line ? strstr(line, "read=") : NULL;

        pages += hit ? (unsigned)strtoul(hit + strlen("hit="), NULL, 10) : 0;
        pages += read ? (unsigned)strtoul(read + strlen("read="), NULL, 10) : 0;
    }
    PQclear(result);
    run(conn, "ROLLBACK");
    assert_int_not_equal(pages, 0);
    return pages;
}

static void expect_as_before(const char *call, unsigned before)
{
    unsigned after = pages_of(call);

    if (after > before + SPREAD)
        fail_msg("%s touches %u pages, and touched %u before the snapshot", call, after, before);
}

#define RENEW "lease('{1, 11, 0, 9223372036854775807}')"
#define FENCE "fence('{1}')"
#define FOLD  "fold('{0}')"
#define PUT   "put_server('{7}', '{f}', '{\"\"}')"

static void a_commit_of_an_owner_costs_as_much_as_ever(void **state)
{
    unsigned renew, fold, put;

    (void)state;
    open_daemon(LEFT, false);
    take(LEFT, 11);
    commit(10, 0);
    renew = pages_of(RENEW);
    fold = pages_of(FOLD);
    put = pages_of(PUT);
    begin_dump();
    commit(COMMITS, 0);
    expect_as_before(RENEW, renew);
    expect_as_before(FOLD, fold);
    expect_as_before(PUT, put);
}

/* A daemon alone makes no heartbeats; but every fold of the journal makes a version of the row. */
static void a_commit_without_standbys_costs_as_much_as_ever(void **state)
{
    struct hf_record_server record = {.epoch = 7};
    unsigned fence;

    (void)state;
    open_daemon(LEFT, true);
    commit(10, 0);
    fence = pages_of(FENCE);
    begin_dump();
    for (unsigned i = 0; i < COMMITS / 3; i++) {
        commit(1, PARTS);
        if (hf_store_tidy(&daemons[LEFT]) < 0 || store_put_server(&daemons[LEFT], &record) < 0)
            fail_msg("%s", hf_store_error(&daemons[LEFT]));
    }
    expect_as_before(FENCE, fence);
}

/* Reads the counts of a session, which appear when it has ended. */
static uint64_t pages_of_the_row(int closed, const char *sessions_left)
{
    hf_store_close(&daemons[closed]);
    memset(&daemons[closed], 0, sizeof(daemons[closed]));
    while (strcmp(sql("SELECT count(*) FROM pg_stat_activity"
                      " WHERE application_name LIKE 'holdfastd-%'"),
                  sessions_left) != 0)
        continue;
    return strtoull(sql("SELECT heap_blks_read + heap_blks_hit FROM pg_statio_user_tables"
                        " WHERE relname = 'server_state'"),
                    NULL, 10);
}

/* HA-02: a poll that is late does not count, so one that gets slower keeps a standby from taking
 * over. */
static void a_poll_costs_as_much_as_ever(void **state)
{
    enum { POLLS = 20 };
    uint64_t before, after;

    (void)state;
    open_daemon(RIGHT, false);
    open_daemon(LEFT, false);
    take(LEFT, 11);
    poll(RIGHT); /* this poll makes the session read its catalog entries */
    begin_dump();
    commit(COMMITS, 0);
    before = pages_of_the_row(LEFT, "1");
    for (unsigned i = 0; i < POLLS; i++)
        poll(RIGHT);
    after = pages_of_the_row(RIGHT, "0");
    if (after - before > (uint64_t)POLLS * SPREAD)
        fail_msg("%d polls touch %d pages", POLLS, (int)(after - before));
}

int main(void)
{
    const struct CMUnitTest stories[] = {
        cmocka_unit_test_setup_teardown(a_commit_of_an_owner_costs_as_much_as_ever, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_commit_without_standbys_costs_as_much_as_ever, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_poll_costs_as_much_as_ever, set_up, tear_down),
    };

    return pg_server_run(&server, pg_server_start(&server), stories, HF_COUNT_OF(stories));
}
