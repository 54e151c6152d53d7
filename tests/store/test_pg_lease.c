/*
 * The lease of a service with standbys, in a real PostgreSQL (SPEC HA-01 to HA-03, HA-08, HA-09):
 * one daemon owns the service, and one that lost it writes nothing more.
 */
#include "../unit/unit.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "fixture.h"
#include "pg_proxy.h"
#include "pg_server.h"
#include "single.h"
#include "store/lease.h"
#include "store/migrate.h"
#include "store/pg_session.h"

static struct pg_server server;
static struct pg_proxy proxy;

/* Two daemons of one service. */
static struct hf_store_cluster clusters[2] = {{.node = "left", .version = "1"},
                                              {.node = "right", .version = "1"}};
static struct hf_store daemons[2];

enum { LEFT, RIGHT };

static const struct hf_store_export HOME = {.name = "home", .offset = 4, .len = 2, .bytes = {1, 2}};
static const char *opened_service; /* that open_one() opens */

static const char *sql(const char *text)
{
    return pg_server_sql(&server, text);
}

static struct hf_store_config config_of(int which)
{
    return (struct hf_store_config){
        .backend = "postgres", .dsn = server.dsn, .timeout_ms = 2000, .cluster = &clusters[which]};
}

static void open_daemon(int which)
{
    struct hf_store_config config = config_of(which);

    if (hf_store_open(&daemons[which], &config) < 0)
        fail_msg("%s", hf_store_error(&daemons[which]));
}

static int set_up(void **state)
{
    (void)state;
    sql("DROP SCHEMA IF EXISTS public, holdfast_common, holdfast_blue, holdfast_green CASCADE");
    sql("CREATE SCHEMA public");
    memset(daemons, 0, sizeof(daemons));
    for (int i = LEFT; i <= RIGHT; i++) {
        clusters[i].exports = NULL;
        clusters[i].n_exports = 0;
        clusters[i].require_sync = false;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    opened_service = NULL;
    hf_store_close(&daemons[LEFT]);
    hf_store_close(&daemons[RIGHT]);
    return 0;
}

/* What core/lease keeps for each daemon: the last row that was acknowledged to it. */
static struct hf_lease_row rows[2];

static int lease(int which, enum hf_lease_action action, struct hf_lease_row *row)
{
    struct hf_store_lease_call call = {
        .order = {.action = action, .epoch = rows[which].epoch, .nonce = rows[which].nonce}};
    int rv = hf_store_lease(&daemons[which], &call);

    if (hf_store_lease_row(&daemons[which], &rows[which]) && row)
        *row = rows[which];
    return rv;
}

static struct hf_lease_row seen_by(int which)
{
    struct hf_lease_row row = {0};

    /* A taker ends the session of the earlier owner, which notices it at its next poll. */
    if (lease(which, HF_LEASE_POLL, &row) < 0 && lease(which, HF_LEASE_POLL, &row) < 0)
        fail_msg("%s", hf_store_error(&daemons[which]));
    return row;
}

static int take(int which, const struct hf_lease_row *seen, uint64_t nonce)
{
    struct hf_store_lease_call call = {.order = {.action = HF_LEASE_TAKE,
                                                 .epoch = seen->epoch,
                                                 .heartbeat = seen->heartbeat,
                                                 .nonce = nonce,
                                                 .new_epoch = seen->epoch + 1}};

    return hf_store_lease(&daemons[which], &call);
}

static void take_now(int which, uint64_t nonce)
{
    struct hf_lease_row row = seen_by(which);

    if (take(which, &row, nonce) < 0)
        fail_msg("%s", hf_store_error(&daemons[which]));
}

static int put_epoch(int which, uint64_t epoch)
{
    struct hf_record_server record = {.epoch = epoch};

    return store_put_server(&daemons[which], &record);
}

static void without_the_lease_nothing_is_written(void **state)
{
    (void)state;
    open_daemon(LEFT);
    open_daemon(RIGHT); /* neither daemon keeps the other out */
    assert_int_equal(put_epoch(LEFT, 7), HF_EFENCED);
    assert_int_equal(lease(LEFT, HF_LEASE_RENEW, NULL), HF_EFENCED);
    assert_true(seen_by(LEFT).released);
    take_now(LEFT, 11);
    assert_int_equal(put_epoch(LEFT, 7), 0);
    assert_int_equal(put_epoch(RIGHT, 8), HF_EFENCED);
    assert_string_equal(sql("SELECT epoch FROM server_state"), "7");
}

/* HA-02a: every commit renews the lease, and so does a renewal alone. */
static void every_commit_is_a_heartbeat(void **state)
{
    struct hf_lease_row before, after;

    (void)state;
    open_daemon(LEFT);
    open_daemon(RIGHT);
    take_now(LEFT, 11);
    before = seen_by(RIGHT);
    assert_false(before.released);
    assert_string_equal(sql("SELECT node FROM server_state WHERE taken_at IS NOT NULL"), "left");
    assert_int_equal(put_epoch(LEFT, 7), 0);
    assert_int_equal(lease(LEFT, HF_LEASE_RENEW, &after), 0);
    assert_int_equal(after.heartbeat, before.heartbeat + 2);
    after = seen_by(RIGHT);
    assert_int_equal(after.heartbeat, before.heartbeat + 2);
    assert_int_equal(after.epoch, before.epoch);
    assert_true(after.nonce == 11);
}

/* HA-02g */
static void a_take_is_refused_when_the_owner_has_moved(void **state)
{
    struct hf_lease_row row;

    (void)state;
    open_daemon(LEFT);
    open_daemon(RIGHT);
    take_now(LEFT, 11);
    row = seen_by(RIGHT);
    assert_int_equal(lease(LEFT, HF_LEASE_RENEW, NULL), 0);
    assert_int_equal(take(RIGHT, &row, 22), HF_EBUSY);
    assert_false(hf_store_in_doubt(&daemons[RIGHT]));
    assert_int_equal(put_epoch(LEFT, 7), 0);
}

/* HA-03a: a daemon that lost the service cannot commit a single record. */
static void a_daemon_that_lost_the_lease_writes_nothing_more(void **state)
{
    (void)state;
    open_daemon(LEFT);
    open_daemon(RIGHT);
    take_now(LEFT, 11);
    assert_int_equal(put_epoch(LEFT, 7), 0);
    take_now(RIGHT, 22);
    /* The session of the former owner was ended, too: the first error says that it must connect
     * again. */
    while (put_epoch(LEFT, 8) == HF_EUNREACH)
        continue;
    assert_int_equal(put_epoch(LEFT, 8), HF_EFENCED);
    assert_int_equal(lease(LEFT, HF_LEASE_RENEW, NULL), HF_EFENCED);
    assert_int_equal(put_epoch(RIGHT, 9), 0);
    assert_string_equal(sql("SELECT epoch FROM server_state"), "9");
    assert_int_equal(seen_by(LEFT).epoch, 2);
}

/* HA-03c: a daemon that promises something without a record commits an empty batch, and that is
 * refused, too. */
static void an_empty_batch_renews_the_lease_or_is_refused(void **state)
{
    struct hf_batch empty;
    struct hf_lease_row before, after;
    uint8_t room[HF_FH_MAX];
    struct hf_record_lock lock;
    int rv;

    (void)state;
    hf_batch_init(&empty, &hf_alloc_heap);
    open_daemon(LEFT);
    open_daemon(RIGHT);
    take_now(LEFT, 11);
    before = seen_by(RIGHT);
    assert_int_equal(hf_store_apply(&daemons[LEFT], &empty), 0);
    assert_true(hf_store_lease_row(&daemons[LEFT], &after));
    assert_int_equal(after.heartbeat, before.heartbeat + 1);
    for (uint64_t id = 1; id <= 20; id++) { /* so many locks that the journal is not empty */
        lock = make_lock(id, 1, room);
        assert_int_equal(hf_batch_put_lock(&empty, &lock), 0);
    }
    assert_int_equal(hf_store_apply(&daemons[LEFT], &empty), 0);
    hf_batch_clear(&empty);
    assert_int_equal(hf_store_apply(&daemons[LEFT], &empty), 0);
    take_now(RIGHT, 22);
    while ((rv = hf_store_apply(&daemons[LEFT], &empty)) == HF_EUNREACH)
        continue;
    assert_int_equal(rv, HF_EFENCED);
    hf_batch_free(&empty);
}

/* Puts so many locks that they go to the journal. */
static void put_locks(int which, uint64_t first)
{
    uint8_t room[20][HF_FH_MAX];
    struct hf_batch batch;

    hf_batch_init(&batch, &hf_alloc_heap);
    for (unsigned i = 0; i < HF_COUNT_OF(room); i++) {
        struct hf_record_lock lock = make_lock(first + i, 1, room[i]);

        assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    }
    assert_int_equal(hf_store_apply(&daemons[which], &batch), 0);
    hf_batch_free(&batch);
}

/* HA-03: a node that owned the service earlier, on the same connection, remembers an old journal.
 * It must not overwrite what another owner wrote since. */
static void an_owner_that_comes_back_knows_nothing_of_before(void **state)
{
    (void)state;
    open_daemon(LEFT);
    open_daemon(RIGHT);
    take_now(LEFT, 11);
    put_locks(LEFT, 1);
    assert_int_equal(lease(LEFT, HF_LEASE_RELEASE, NULL), 0);
    take_now(RIGHT, 22);
    put_locks(RIGHT, 101);
    take_now(LEFT, 33);
    put_locks(LEFT, 201);
    assert_int_equal(lease(LEFT, HF_LEASE_RELEASE, NULL), 0); /* the release empties the journal */
    assert_string_equal(sql("SELECT count(*) FROM nlm_locks"), "60");
}

/* A newer node has migrated the schema: this node would not see what the newer one keeps elsewhere.
 */
static void a_node_does_not_take_a_schema_that_it_does_not_know(void **state)
{
    struct hf_lease_row row;

    (void)state;
    open_daemon(LEFT);
    sql("INSERT INTO holdfast_migrations (version, name) VALUES (99, 'later')");
    row = seen_by(LEFT);
    assert_int_equal(take(LEFT, &row, 11), HF_EVERSION);
    assert_non_null(strstr(hf_store_error(&daemons[LEFT]), "schema 99"));
    assert_false(hf_store_in_doubt(&daemons[LEFT]));
    assert_string_equal(sql("SELECT released FROM server_state"), "t");
    sql("DELETE FROM holdfast_migrations WHERE version = 99");
    take_now(LEFT, 11);
}

/* HA-03a: The same epoch is not enough: an owner is known by its nonce. */
static void another_nonce_is_another_owner(void **state)
{
    (void)state;
    open_daemon(LEFT);
    take_now(LEFT, 11);
    sql("UPDATE server_state SET nonce = 12");
    assert_int_equal(put_epoch(LEFT, 7), HF_EFENCED);
}

/* The session of a host that lost its power keeps the row lock until TCP notices. */
static void the_taker_ends_the_session_of_a_vanished_owner(void **state)
{
    char dsn[PATH_MAX + 256];
    PGconn *vanished;

    (void)state;
    open_daemon(LEFT);
    open_daemon(RIGHT);
    take_now(LEFT, 11);
    snprintf(dsn, sizeof(dsn), "%s application_name=%s", server.dsn,
             sql("SELECT session FROM server_state"));
    vanished = PQconnectdb(dsn);
    PQclear(PQexec(vanished, "BEGIN"));
    PQclear(PQexec(vanished, "SELECT holdfast_renew_lease(1, 11, 0, 1000)"));
    assert_int_equal(PQtransactionStatus(vanished), PQTRANS_INTRANS);
    take_now(RIGHT, 22);
    assert_int_equal(put_epoch(RIGHT, 9), 0);
    PQfinish(vanished);
}

static void a_released_lease_says_so(void **state)
{
    struct hf_lease_row row;

    (void)state;
    open_daemon(LEFT);
    open_daemon(RIGHT);
    take_now(LEFT, 11);
    assert_int_equal(lease(LEFT, HF_LEASE_RELEASE, &row), 0);
    assert_true(row.released);
    assert_int_equal(put_epoch(LEFT, 7), HF_EFENCED);
    assert_true(seen_by(RIGHT).released);
    take_now(RIGHT, 22);
    assert_int_equal(seen_by(RIGHT).epoch, 2);
    assert_int_equal(put_epoch(RIGHT, 8), 0);
}

static void *stop_left(void *unused)
{
    struct hf_lease_row row;

    (void)unused;
    return lease(LEFT, HF_LEASE_RAISE_ALARM, &row) == 0 && row.alarm ? NULL : &daemons[LEFT];
}

static void *release_left(void *unused)
{
    struct hf_lease_row row;

    (void)unused;
    return lease(LEFT, HF_LEASE_RELEASE, &row) == 0 && row.released ? NULL : &daemons[LEFT];
}

/* The row changes so often that its newest version is found elsewhere (migration 0007), while a
 * change of the lease waits for it. */
static void expect_after_commit(void *(*change)(void *))
{
    PGconn *busy = PQconnectdb(server.dsn);
    pthread_t thread;
    void *failed;

    PQclear(PQexec(busy, "BEGIN; UPDATE server_state SET beat = beat + 1000"));
    MUST(pthread_create(&thread, NULL, change, NULL) == 0);
    while (strcmp(sql("SELECT count(*) FROM pg_locks WHERE NOT granted"), "0") == 0)
        usleep(10000);
    PQclear(PQexec(busy, "COMMIT"));
    PQfinish(busy);
    pthread_join(thread, &failed);
    if (failed)
        fail_msg("%s", hf_store_error(failed));
}

/* HA-03 */
static void a_change_of_the_lease_waits_for_the_commit_in_flight(void **state)
{
    (void)state;
    open_daemon(LEFT);
    take_now(LEFT, 11);
    expect_after_commit(release_left);
    take_now(LEFT, 12);
    expect_after_commit(stop_left);
}

/* The connection breaks after the take was sent: only the row tells whether it took effect. */
static void a_take_in_doubt_is_decided_by_the_row(void **state)
{
    struct hf_store_config config = config_of(LEFT);
    struct hf_pg_session *session;
    struct hf_lease_row row;

    (void)state;
    pg_proxy_start(&proxy, &server);
    config.dsn = proxy.dsn;
    config.timeout_ms = 400;
    assert_int_equal(hf_store_open(&daemons[LEFT], &config), 0);
    row = seen_by(LEFT);
    proxy.silent = true;
    assert_int_equal(take(LEFT, &row, 11), HF_ETIMEDOUT);
    proxy.silent = false;
    row = seen_by(LEFT);
    if (row.nonce == 11) /* the server had received the take before the silence */
        assert_int_equal(put_epoch(LEFT, 7), 0);
    else
        assert_int_equal(put_epoch(LEFT, 7), HF_EFENCED);
    /* Now a take that did arrive, whose answer is lost. */
    take_now(LEFT, 12);
    session = daemons[LEFT].state; /* its first member */
    session->offered_nonce = 12;
    session->fence = 0;
    assert_int_equal(put_epoch(LEFT, 8), HF_EFENCED);
    assert_true(seen_by(LEFT).nonce == 12);
    assert_int_equal(put_epoch(LEFT, 8), 0);
    hf_store_close(&daemons[LEFT]);
    pg_proxy_stop(&proxy);
}

/* HA-08: an asynchronous replica was promoted that does not have the last commits. */
static void a_database_that_went_back_in_time_takes_nothing(void **state)
{
    struct hf_store_lease_call clear = {.order = {.action = HF_LEASE_CLEAR, .new_epoch = 9}};

    (void)state;
    open_daemon(LEFT);
    open_daemon(RIGHT);
    take_now(LEFT, 11);
    assert_int_equal(put_epoch(LEFT, 7), 0);
    sql("UPDATE server_state SET beat = beat - 1, epoch = 6");
    assert_int_equal(put_epoch(LEFT, 8), HF_EBEHIND);
    assert_int_equal(lease(LEFT, HF_LEASE_RENEW, NULL), HF_EBEHIND);
    assert_non_null(strstr(hf_store_error(&daemons[LEFT]), "promoted"));
    assert_string_equal(sql("SELECT epoch FROM server_state"), "6");
    /* There is no alarm to remove. */
    assert_int_equal(hf_store_lease(&daemons[LEFT], &clear), HF_EBUSY);
}

/* One daemon that noticed the loss stops the whole service, until an operator has accepted it. */
static void an_alarm_stops_every_daemon(void **state)
{
    struct hf_store_lease_call clear = {.order = {.action = HF_LEASE_CLEAR, .new_epoch = 9}};
    struct hf_record_server complete = {.epoch = 6, .continuity = HF_CONTINUITY_COMPLETE};
    struct hf_lease_row row;

    (void)state;
    open_daemon(LEFT);
    open_daemon(RIGHT);
    take_now(LEFT, 11);
    assert_int_equal(store_put_server(&daemons[LEFT], &complete), 0);
    assert_int_equal(lease(RIGHT, HF_LEASE_RAISE_ALARM, &row), 0);
    assert_true(row.alarm);
    assert_int_equal(put_epoch(LEFT, 7), HF_EBEHIND);
    assert_int_equal(lease(LEFT, HF_LEASE_RELEASE, NULL), HF_EFENCED);
    row = seen_by(RIGHT);
    assert_int_equal(take(RIGHT, &row, 22), HF_EBUSY);
    assert_int_equal(hf_store_lease(&daemons[RIGHT], &clear), 0);
    /* REC-01g: the next start does not continue: HF_CONTINUITY_LOST. */
    assert_string_equal(sql("SELECT get_byte(record, length(record) - 1) FROM server_state"), "3");
    row = seen_by(RIGHT);
    assert_true(!row.alarm && row.released && row.epoch == 9);
    take_now(RIGHT, 22);
    assert_int_equal(put_epoch(RIGHT, 8), 0);
    assert_int_equal(put_epoch(LEFT, 7), HF_EFENCED);
}

/* The database has lost even the take: this must not look as if another daemon had taken over. */
static void a_database_that_lost_the_take_is_behind(void **state)
{
    (void)state;
    open_daemon(LEFT);
    take_now(LEFT, 11);
    sql("UPDATE server_state SET fence = fence - 1, nonce = 0, released = true");
    assert_int_equal(put_epoch(LEFT, 8), HF_EBEHIND);
}

/* Meets the end of its session: after a take, the first error tells the former owner that it must
 * connect again. */
static void meet_fence(int which)
{
    while (put_epoch(which, 8) == HF_EUNREACH)
        continue;
    assert_int_equal(put_epoch(which, 8), HF_EFENCED);
}

/*
 * HA-08: the row comes with what the database remembers of the epoch that a daemon knows: the next
 * take shows that heartbeats were lost before it, even when the row has passed them, and even when
 * that take was not the last.
 */
static void the_terms_of_the_lease_are_remembered(void **state)
{
    struct hf_lease_row mine;
    struct hf_lease_row row;

    (void)state;
    open_daemon(LEFT);
    open_daemon(RIGHT);
    take_now(LEFT, 11);
    assert_int_equal(lease(LEFT, HF_LEASE_RENEW, &mine), 0);
    take_now(RIGHT, 22); /* nothing was lost */
    meet_fence(LEFT);
    rows[LEFT] = mine;
    row = seen_by(LEFT);
    assert_true(row.past.epoch == mine.epoch && row.past.nonce == 11);
    assert_int_equal(row.past.until, mine.heartbeat + 1);

    take_now(LEFT, 12);
    assert_true(hf_store_lease_row(&daemons[LEFT], &rows[LEFT]));
    assert_int_equal(lease(LEFT, HF_LEASE_RENEW, &mine), 0);
    sql("UPDATE server_state SET beat = beat - 1"); /* the renewal is lost */
    take_now(RIGHT, 23);
    take_now(RIGHT, 24);
    assert_int_equal(put_epoch(RIGHT, 7), 0);
    meet_fence(LEFT);
    /* The row is returned with a refusal, too. */
    assert_true(hf_store_lease_row(&daemons[LEFT], &row));
    assert_true(row.epoch == mine.epoch + 2 && row.heartbeat > mine.heartbeat);
    assert_true(row.past.epoch == mine.epoch && row.past.nonce == 12);
    assert_int_equal(row.past.until, mine.heartbeat);
    rows[LEFT] = mine;
    assert_int_equal(seen_by(LEFT).past.until, mine.heartbeat);
}

/* HA-08: a daemon that was away does not reject a database that an operator has accepted. */
static void an_accepted_database_has_no_terms_of_before(void **state)
{
    struct hf_store_lease_call clear = {.order = {.action = HF_LEASE_CLEAR, .new_epoch = 9}};
    struct hf_lease_row mine;

    (void)state;
    open_daemon(LEFT);
    open_daemon(RIGHT);
    take_now(LEFT, 11);
    assert_int_equal(lease(LEFT, HF_LEASE_RENEW, &mine), 0);
    assert_int_equal(lease(RIGHT, HF_LEASE_RAISE_ALARM, NULL), 0);
    assert_int_equal(hf_store_lease(&daemons[RIGHT], &clear), 0);
    take_now(RIGHT, 22);
    meet_fence(LEFT);
    rows[LEFT] = mine;
    assert_int_equal(seen_by(LEFT).past.epoch, 0);
    rows[LEFT].epoch = 9;
    assert_int_equal(seen_by(LEFT).past.epoch, 9);
}

/* The database keeps a limited number of terms. */
static void old_terms_are_forgotten(void **state)
{
    (void)state;
    open_daemon(LEFT);
    take_now(LEFT, 11);
    sql("DO $$ BEGIN FOR i IN 1..1100 LOOP"
        " UPDATE server_state SET fence = fence + 1, nonce = 5, beat = beat + 1; END LOOP; END $$");
    assert_string_equal(sql("SELECT count(*) FROM lease_terms"), "1000");
    rows[LEFT].epoch = 1;
    assert_int_equal(seen_by(LEFT).past.epoch, 0);
}

static void a_synchronous_standby_is_required(void **state)
{
    struct hf_store_config config = config_of(LEFT);

    (void)state;
    clusters[LEFT].require_sync = true;
    assert_int_equal(hf_store_open(&daemons[LEFT], &config), HF_EINVAL);
    assert_non_null(strstr(hf_store_error(&daemons[LEFT]), "cluster.require_sync"));
}

/* ---- loading ---- */

static int digest_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct hf_store *copy = ctx;
    struct hf_batch batch;
    struct hf_record_server s;
    struct hf_record_client c;
    struct hf_record_lock l;
    int rv = 0;

    hf_batch_init(&batch, &hf_alloc_heap);
    if (kind == HF_RECORD_SERVER && (rv = hf_record_decode_server(record, &s)) == 0)
        rv = hf_batch_put_server(&batch, &s);
    else if (kind == HF_RECORD_CLIENT && (rv = hf_record_decode_client(record, &c)) == 0)
        rv = hf_batch_put_client(&batch, &c);
    else if (kind == HF_RECORD_LOCK && (rv = hf_record_decode_lock(record, &l)) == 0)
        rv = hf_batch_put_lock(&batch, &l);
    if (rv == 0)
        rv = hf_store_apply(copy, &batch);
    hf_batch_free(&batch);
    return rv;
}

/* The new owner loads on a connection of its own, beside the one that renews its lease. */
static void the_owner_loads_all_of_it(void **state)
{
    struct hf_store_config memory = {.backend = "memory"};
    struct hf_store_config config = config_of(RIGHT);
    struct hf_store model, copy;
    struct digest want, found;
    struct hf_lease_row row;
    char error[HF_STORE_ERROR_MAX];
    struct hf_store_loading to = {.record = digest_record, .ctx = &copy};
    uint8_t room[HF_FH_MAX];
    struct hf_batch batch;

    (void)state;
    open_daemon(LEFT);
    open_daemon(RIGHT);
    take_now(LEFT, 11);
    assert_int_equal(hf_store_open(&model, &memory), 0);
    assert_int_equal(hf_store_open(&copy, &memory), 0);
    hf_batch_init(&batch, &hf_alloc_heap);
    for (uint64_t seq = 1; seq <= 30; seq++) {
        story_batch(5, seq, &batch);
        assert_int_equal(hf_store_apply(&daemons[LEFT], &batch), 0);
        assert_int_equal(hf_store_apply(&model, &batch), 0);
    }
    hf_batch_clear(&batch);
    for (uint64_t id = 1; id <= 100; id++) { /* so many locks that some stay in the journal */
        struct hf_record_lock lock = make_lock(id, 77, room);
        assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    }
    assert_int_equal(hf_store_apply(&daemons[LEFT], &batch), 0);
    assert_int_equal(hf_store_apply(&model, &batch), 0);
    assert_true(daemons[LEFT].untidy);
    take_now(RIGHT, 22);
    row = seen_by(RIGHT);
    assert_int_equal(hf_store_load_owned(&config, &row, &to, error), 0);
    assert_int_equal(store_digest(&model, &want), 0);
    assert_int_equal(store_digest(&copy, &found), 0);
    assert_true(found.count == want.count && found.sum == want.sum);
    take_now(LEFT, 33);
    assert_int_equal(hf_store_load_owned(&config, &row, &to, error), HF_EFENCED);
    row.epoch += 2;
    assert_int_equal(hf_store_load_owned(&config, &row, &to, error), HF_EBEHIND);
    hf_batch_free(&batch);
    hf_store_close(&model);
    hf_store_close(&copy);
}

/* ---- starting ---- */

static void *open_one(void *arg)
{
    int which = *(int *)arg;
    struct hf_store_config config = config_of(which);

    config.service = opened_service;
    return (void *)(intptr_t)hf_store_open(&daemons[which], &config);
}

#define WAITING_TO_MIGRATE \
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

/* Two daemons have found no schema, and wait for their turn to create it. */
static void expect_both_start(const char *name)
{
    static int which[] = {LEFT, RIGHT};
    PGconn *first = PQconnectdb(server.dsn);
    pthread_t threads[2];
    void *results[2];

    opened_service = name;
    PQclear(PQexec(first, "SELECT pg_advisory_lock(" HF_PG_MIGRATION_LOCK ")"));
    for (int i = LEFT; i <= RIGHT; i++)
        MUST(pthread_create(&threads[i], NULL, open_one, &which[i]) == 0);
    while (strcmp(sql(WAITING_TO_MIGRATE), "2") != 0)
        usleep(10000);
    PQfinish(first);
    for (int i = LEFT; i <= RIGHT; i++)
        pthread_join(threads[i], &results[i]);
    for (int i = LEFT; i <= RIGHT; i++) {
        if (results[i])
            fail_msg("%s", hf_store_error(&daemons[i]));
    }
    tear_down(NULL);
}

static void two_nodes_start_together_on_an_empty_database(void **state)
{
    (void)state;
    expect_both_start(NULL);
    expect_both_start("blue");
}

/* A node that finds only the schema of the exports missing waits for its turn, too. */
static void two_services_start_together(void **state)
{
    (void)state;
    open_daemon(LEFT);
    tear_down(NULL);
    sql("DROP SCHEMA holdfast_common CASCADE");
    expect_both_start(NULL);
}

/* The first session has the time limit of the lease, which is shorter than that of a start. */
static void the_first_session_keeps_the_time_of_the_lease(void **state)
{
    struct hf_store_config config = config_of(LEFT);
    const struct hf_pg_session *session;
    PGresult *result;

    (void)state;
    config.timeout_ms = 800;
    assert_int_equal(hf_store_open(&daemons[LEFT], &config), 0);
    session = daemons[LEFT].state;
    result = PQexec(session->pg.conn, "SHOW lock_timeout");
    assert_string_equal(PQgetvalue(result, 0, 0), "600ms");
    PQclear(result);
}

/* The grants that docs/internals/STORE.md names for cluster.mode=standby. */
static void few_rights_are_enough_for_a_standby(void **state)
{
    char dsn[sizeof(server.dsn) + 32];
    struct hf_store_config config = config_of(LEFT);
    struct hf_store_loading to = {.record = ignore_record};
    struct hf_lease_row row;
    char error[HF_STORE_ERROR_MAX];

    (void)state;
    open_daemon(LEFT);
    tear_down(NULL);
    sql("DROP ROLE IF EXISTS humble");
    sql("CREATE ROLE humble LOGIN");
    sql("GRANT USAGE ON SCHEMA public, holdfast_common TO humble");
    sql("GRANT SELECT, INSERT, UPDATE, DELETE ON nsm_client_registrations, nlm_locks,"
        " holdfast_common.exports TO humble");
    sql("GRANT SELECT, INSERT, UPDATE ON holdfast_journal, cluster_nodes TO humble");
    sql("GRANT SELECT, UPDATE ON server_state TO humble");
    sql("GRANT SELECT ON holdfast_migrations TO humble");
    snprintf(dsn, sizeof(dsn), "%s user=humble", server.dsn);
    config.dsn = dsn;
    clusters[LEFT].exports = &HOME;
    clusters[LEFT].n_exports = 1;
    if (hf_store_open(&daemons[LEFT], &config) < 0)
        fail_msg("%s", hf_store_error(&daemons[LEFT]));
    take_now(LEFT, 11);
    assert_int_equal(put_epoch(LEFT, 7), 0);
    row = seen_by(LEFT);
    sql("INSERT INTO holdfast_common.exports VALUES ('old', 'default', 0, '')");
    if (hf_store_load_owned(&config, &row, &to, error) < 0)
        fail_msg("%s", error);
    assert_string_equal(sql("SELECT count(*) FROM holdfast_common.exports"), "1");
    /* Without the right to delete, old rows stay, and the takeover succeeds all the same. */
    sql("REVOKE DELETE ON holdfast_common.exports FROM humble");
    sql("INSERT INTO holdfast_common.exports VALUES ('old', 'default', 0, '')");
    if (hf_store_load_owned(&config, &row, &to, error) < 0)
        fail_msg("%s", error);
    assert_string_equal(sql("SELECT count(*) FROM holdfast_common.exports"), "2");
    assert_int_equal(lease(LEFT, HF_LEASE_RELEASE, NULL), 0);
}

/* ---- services ---- */

static int open_service(int which, const char *name)
{
    struct hf_store_config config = config_of(which);

    config.service = name;
    return hf_store_open(&daemons[which], &config);
}

static void services_do_not_see_each_other(void **state)
{
    (void)state;
    assert_int_equal(open_service(LEFT, "blue"), 0);
    assert_int_equal(open_service(RIGHT, "green"), 0);
    take_now(LEFT, 11);
    take_now(RIGHT, 22);
    assert_int_equal(put_epoch(LEFT, 7), 0);
    assert_int_equal(put_epoch(RIGHT, 8), 0);
    assert_string_equal(sql("SELECT epoch FROM holdfast_blue.server_state"), "7");
    assert_string_equal(sql("SELECT epoch FROM holdfast_green.server_state"), "8");
    assert_string_equal(sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0");
}

static void a_name_that_is_no_service_is_refused(void **state)
{
    (void)state;
    assert_int_equal(open_service(LEFT, "x\"; DROP TABLE"), HF_EINVAL);
    assert_int_equal(open_service(LEFT, "Blue"), HF_EINVAL);
}

static int hear_foreign(void *ctx, const struct hf_store_export *other)
{
    *(struct hf_store_export *)ctx = *other;
    return 0;
}

/* HA-09 */
static void an_export_belongs_to_one_service(void **state)
{
    struct hf_store_config config = config_of(RIGHT);
    struct hf_store_export other = {0};
    struct hf_store_loading to = {ignore_record, hear_foreign, &other};
    struct hf_lease_row row;
    char error[HF_STORE_ERROR_MAX];

    (void)state;
    clusters[LEFT].exports = &HOME;
    clusters[LEFT].n_exports = 1;
    clusters[RIGHT] = (struct hf_store_cluster){"right", "1", false, &HOME, 1};
    assert_int_equal(open_service(LEFT, "blue"), 0);
    assert_int_equal(open_service(RIGHT, "green"), HF_EINVAL);
    assert_non_null(
        strstr(hf_store_error(&daemons[RIGHT]), "\"home\" belongs to service \"blue\""));
    clusters[RIGHT].n_exports = 0;
    assert_int_equal(open_service(RIGHT, "green"), 0);
    take_now(RIGHT, 22);
    row = seen_by(RIGHT);
    config.service = "green";
    assert_int_equal(hf_store_load_owned(&config, &row, &to, error), 0);
    assert_string_equal(other.name, "home");
    assert_string_equal(other.service, "blue");
    assert_true(other.offset == 4 && other.len == 2 && other.bytes[1] == 2);
    /* The owner gives up an export that its configuration no longer has. */
    hf_store_close(&daemons[LEFT]);
    clusters[LEFT].n_exports = 0;
    assert_int_equal(open_service(LEFT, "blue"), 0);
    take_now(LEFT, 11);
    row = seen_by(LEFT);
    config = config_of(LEFT);
    config.service = "blue";
    assert_int_equal(hf_store_load_owned(&config, &row, &to, error), 0);
    assert_string_equal(sql("SELECT count(*) FROM holdfast_common.exports"), "0");
}

/* ---- beside a daemon that runs alone ---- */

static void a_daemon_alone_and_standbys_keep_each_other_out(void **state)
{
    struct hf_store_config alone = {.backend = "postgres", .dsn = server.dsn, .timeout_ms = 2000};
    struct hf_store_config config = config_of(LEFT);
    struct hf_store single;
    char error[HF_STORE_ERROR_MAX];

    (void)state;
    config.timeout_ms = 2000;
    open_daemon(LEFT);
    assert_int_equal(hf_store_open(&single, &alone), HF_EBUSY);
    assert_int_equal(hf_store_migrate(&alone, HF_MIGRATE_DOWN, NULL, NULL, error), HF_EBUSY);
    hf_store_close(&daemons[LEFT]);
    assert_int_equal(hf_store_open(&single, &alone), 0);
    assert_int_equal(hf_store_open(&daemons[LEFT], &config), HF_EBUSY);
    hf_store_close(&single);
}

static void nodes_that_are_there_are_seen(void **state)
{
    struct hf_store_lease_call call = {.order = {.action = HF_LEASE_POLL}};

    (void)state;
    open_daemon(LEFT);
    open_daemon(RIGHT);
    (void)seen_by(LEFT);
    assert_int_equal(hf_store_lease(&daemons[RIGHT], &call), 0);
    assert_int_equal(call.n_nodes, 2);
    assert_string_equal(call.nodes[0].name, "left");
    assert_string_equal(call.nodes[1].name, "right");
}

int main(void)
{
#define STORY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORY(without_the_lease_nothing_is_written),
        STORY(every_commit_is_a_heartbeat),
        STORY(a_take_is_refused_when_the_owner_has_moved),
        STORY(a_daemon_that_lost_the_lease_writes_nothing_more),
        STORY(an_empty_batch_renews_the_lease_or_is_refused),
        STORY(an_owner_that_comes_back_knows_nothing_of_before),
        STORY(a_node_does_not_take_a_schema_that_it_does_not_know),
        STORY(another_nonce_is_another_owner),
        STORY(the_taker_ends_the_session_of_a_vanished_owner),
        STORY(a_released_lease_says_so),
        STORY(a_change_of_the_lease_waits_for_the_commit_in_flight),
        STORY(a_take_in_doubt_is_decided_by_the_row),
        STORY(a_database_that_went_back_in_time_takes_nothing),
        STORY(an_alarm_stops_every_daemon),
        STORY(a_database_that_lost_the_take_is_behind),
        STORY(the_terms_of_the_lease_are_remembered),
        STORY(an_accepted_database_has_no_terms_of_before),
        STORY(old_terms_are_forgotten),
        STORY(a_synchronous_standby_is_required),
        STORY(the_owner_loads_all_of_it),
        STORY(two_nodes_start_together_on_an_empty_database),
        STORY(two_services_start_together),
        STORY(the_first_session_keeps_the_time_of_the_lease),
        STORY(few_rights_are_enough_for_a_standby),
        STORY(services_do_not_see_each_other),
        STORY(a_name_that_is_no_service_is_refused),
        STORY(an_export_belongs_to_one_service),
        STORY(a_daemon_alone_and_standbys_keep_each_other_out),
        STORY(nodes_that_are_there_are_seen),
    };

    return pg_server_run(&server, pg_server_start(&server), tests, HF_COUNT_OF(tests));
}
