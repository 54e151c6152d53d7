/*
 * A PostgreSQL primary with a synchronous standby. A lock is durable when the standby has it, too;
 * a commit that did not wait for the standby is in doubt until a later one did (SPEC HA-08).
 */
#include "../unit/unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "fixture.h"
#include "pg_server.h"
#include "single.h"
#include "store/commit.h"
#include "store/lease.h"
#include "store/pg_session.h"

enum { PATIENCE_MS = 1000 };

/* How the wait for the standby ends: the commit is kept, but no longer waits. */
#define CANCEL    "pg_cancel_backend"
#define TERMINATE "pg_terminate_backend"

static struct pg_server server;
static struct pg_server standby;
static struct hf_store store;

static struct hf_store_config direct(void)
{
    return (struct hf_store_config){
        .backend = "postgres", .dsn = server.dsn, .timeout_ms = PATIENCE_MS};
}

static const char *sql(const char *text)
{
    return pg_server_sql(&server, text);
}

/* Waits until the query has the wanted answer. */
static void await_sql(const struct pg_server *where, const char *query, const char *want)
{
    for (int i = 0; i < 1000; i++) {
        if (strcmp(pg_server_sql(where, query), want) == 0)
            return;
        usleep(10000);
    }
    fail_msg("%s does not become %s", query, want);
}

/* Waits until the standby shows what it has on its disk. */
static void await_replay(void)
{
    char query[128];

    snprintf(query, sizeof(query), "SELECT pg_last_wal_replay_lsn() >= '%s'",
             pg_server_sql(&server, "SELECT pg_current_wal_lsn()"));
    await_sql(&standby, query, "t");
}

static void start_standby(void)
{
    pg_server_again(&standby);
    await_sql(&server, "SELECT sync_state FROM pg_stat_replication", "sync");
}

static void stop_standby(void)
{
    pg_server_stop(&standby, SIGQUIT);
    await_sql(&server, "SELECT count(*) FROM pg_stat_replication", "0");
}

static int set_up(void **state)
{
    (void)state;
    if (!standby.pid)
        start_standby();
    sql("ALTER ROLE holdfast RESET ALL");
    sql("DROP SCHEMA public CASCADE");
    sql("CREATE SCHEMA public");
    return 0;
}

static void open_store(void)
{
    struct hf_store_config config = direct();

    if (hf_store_open(&store, &config) < 0)
        fail_msg("%s", hf_store_error(&store));
}

/* Ends each wait of ours for the standby by calling a function of the server, until stopped. */
static struct {
    pthread_t thread;
    const char *function; /* NULL while no function is called */
    _Atomic bool stopping;
    _Atomic unsigned count;
} canceller;

static void *cancel_waits(void *arg)
{
    PGconn *conn = PQconnectdb(server.dsn);
    char text[256];

    (void)arg;
    snprintf(text, sizeof(text),
             "SELECT %s(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' "
             "AND application_name LIKE 'holdfastd-%%'",
             canceller.function);
    while (!canceller.stopping) {
        PGresult *result = PQexec(conn, text);

        canceller.count += (unsigned)PQntuples(result);
        PQclear(result);
        usleep(10000);
    }
    PQfinish(conn);
    return NULL;
}

static void start_cancelling(const char *function)
{
    canceller.function = function;
    canceller.stopping = false;
    canceller.count = 0;
    MUST(pthread_create(&canceller.thread, NULL, cancel_waits, NULL) == 0);
}

static void stop_cancelling(void)
{
    canceller.stopping = true;
    pthread_join(canceller.thread, NULL);
    canceller.function = NULL;
    assert_true(canceller.count > 0);
}

static int tear_down(void **state)
{
    (void)state;
    if (canceller.function)
        stop_cancelling();
    hf_store_close(&store);
    return 0;
}

static int put_epoch(uint64_t epoch)
{
    struct hf_record_server record = {.epoch = epoch};

    return store_put_server(&store, &record);
}

static void expect_in_doubt(int rv)
{
    assert_true(rv < 0);
    assert_true(hf_store_in_doubt(&store));
}

static void expect_replicated(const char *epoch)
{
    await_sql(&standby, "SELECT epoch FROM server_state", epoch);
}

/* The server ends the wait, keeps the commit and answers COMMIT: only a warning tells that the
 * standby may not have it. */
static void expect_doubt_until_the_standby_has_it(const char *function)
{
    open_store();
    assert_int_equal(put_epoch(7), 0);
    stop_standby();
    start_cancelling(function);
    expect_in_doubt(put_epoch(8));
    stop_cancelling();
    assert_string_equal(sql("SELECT epoch FROM server_state"), "8");
    /* The batch is sent again, and is not durable until the standby has it. */
    assert_true(put_epoch(8) < 0);
    start_standby();
    assert_int_equal(put_epoch(8), 0);
    expect_replicated("8");
    hf_store_close(&store);
}

static void a_cancelled_wait_for_the_standby_is_in_doubt(void **state)
{
    (void)state;
    expect_doubt_until_the_standby_has_it(CANCEL);
}

static void a_terminated_wait_for_the_standby_is_in_doubt(void **state)
{
    (void)state;
    expect_doubt_until_the_standby_has_it(TERMINATE);
}

/* The warning must reach the store even where the role's settings would suppress it. */
static void the_warning_cannot_be_switched_off(void **state)
{
    (void)state;
    sql("ALTER ROLE holdfast SET client_min_messages = error");
    expect_doubt_until_the_standby_has_it(CANCEL);
}

/* A batch that has nothing left to change must wait for the standby all the same. */
static void deletes_sent_again_wait_for_the_standby(void **state)
{
    uint8_t room[HF_NAME_MAX];
    struct hf_record_client client = make_client(1, 1, room);
    (void)state;
    open_store();
    assert_int_equal(store_put_client(&store, &client), 0);
    stop_standby();
    start_cancelling(CANCEL);
    expect_in_doubt(store_delete(&store, HF_RECORD_CLIENT, 1));
    stop_cancelling();
    assert_string_equal(sql("SELECT count(*) FROM nsm_client_registrations"), "0");
    expect_in_doubt(store_delete(&store, HF_RECORD_CLIENT, 1));
    start_standby();
    assert_int_equal(store_delete(&store, HF_RECORD_CLIENT, 1), 0);
    await_sql(&standby, "SELECT count(*) FROM nsm_client_registrations", "0");
    hf_store_close(&store);
}

static void post(void *ctx)
{
    sem_post(ctx);
}

/* Commits as the daemon does: the batch stays in flight, and is granted when the standby has it. */
static void a_batch_in_doubt_is_granted_when_the_standby_has_it(void **state)
{
    struct hf_record_server record = {.epoch = 8};
    struct hf_commit_result result;
    struct hf_store_health health;
    struct hf_committer committer;
    struct hf_batch batch;
    sem_t woken;

    (void)state;
    open_store();
    stop_standby();
    sem_init(&woken, 0, 0);
    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(hf_batch_put_server(&batch, &record), 0);
    assert_int_equal(
        hf_committer_init(&committer, &store, &(struct hf_committer_config){200, post, &woken}), 0);
    assert_int_equal(hf_committer_start(&committer), 0);
    start_cancelling(CANCEL);
    hf_committer_submit(&committer, &batch);
    do {
        usleep(10000);
        hf_committer_health(&committer, &health);
    } while (health.up);
    assert_non_null(strstr(health.reason, "standby"));
    assert_false(hf_committer_collect(&committer, &result));
    stop_cancelling();
    start_standby();
    while (!hf_committer_collect(&committer, &result))
        sem_wait(&woken);
    assert_int_equal(result.status, 0);
    expect_replicated("8");
    hf_committer_stop(&committer);
    hf_committer_free(&committer);
    hf_batch_free(&batch);
    hf_store_close(&store);
    sem_destroy(&woken);
}

/* A fence number that the standby never saw could be used twice: once before a failover, once
 * after. */
static void a_fence_number_the_standby_does_not_have_is_not_used(void **state)
{
    struct hf_store_config config = direct();
    (void)state;
    open_store();
    hf_store_close(&store);
    stop_standby();
    start_cancelling(CANCEL);
    assert_true(hf_store_open(&store, &config) < 0);
    assert_non_null(strstr(hf_store_error(&store), "standby"));
    stop_cancelling();
    start_standby();
    open_store();
    hf_store_close(&store);
}

static void expect_synchronous_commit(const char *role_has, const char *session_has)
{
    struct hf_store_config config = direct();
    struct hf_store owner = {.alloc = &hf_alloc_heap};
    PGresult *result;
    struct hf_pg pg;
    char text[96];

    snprintf(text, sizeof(text), "ALTER ROLE holdfast SET synchronous_commit = %s", role_has);
    sql(text);
    assert_int_equal(hf_pg_init(&pg, &owner, &config), 0);
    assert_int_equal(hf_pg_session_connect(&pg, false), 0);
    assert_int_equal(hf_pg_exec(&pg, "SHOW synchronous_commit", "cannot ask", &result), 0);
    assert_string_equal(PQgetvalue(result, 0, 0), session_has);
    PQclear(result);
    hf_pg_free(&pg);
}

static void weak_settings_of_synchronous_commit_are_raised(void **state)
{
    (void)state;
    expect_synchronous_commit("off", "on");
    expect_synchronous_commit("local", "on");
    expect_synchronous_commit("remote_write", "on");
    expect_synchronous_commit("on", "on");
    expect_synchronous_commit("remote_apply", "remote_apply");
}

/* An operator sets the role to "local": without our own setting the server would not wait for the
 * standby at all. */
static void a_role_that_commits_locally_still_waits_for_the_standby(void **state)
{
    (void)state;
    sql("ALTER ROLE holdfast SET synchronous_commit = local");
    open_store();
    stop_standby();
    expect_in_doubt(put_epoch(8));
    start_standby();
    assert_int_equal(put_epoch(8), 0);
    expect_replicated("8");
    hf_store_close(&store);
}

/* A list of hosts leads to the primary, whichever host that is at the moment. */
static void a_standby_in_the_list_of_hosts_is_passed_over(void **state)
{
    static const char *const ATTRS[] = {"", " target_session_attrs=read-write"};
    struct hf_store_config config = direct();
    char dsn[2 * PATH_MAX + 128];

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(ATTRS); i++) {
        snprintf(dsn, sizeof(dsn), "host=%s,%s dbname=postgres user=holdfast%s", standby.dir,
                 server.dir, ATTRS[i]);
        config.dsn = dsn;
        if (hf_store_open(&store, &config) < 0)
            fail_msg("%s", hf_store_error(&store));
        assert_int_equal(put_epoch(8), 0);
        hf_store_close(&store);
    }
    config.dsn = standby.dsn; /* a standby alone is reported as a standby */
    assert_int_equal(hf_store_open(&store, &config), HF_EUNREACH);
}

static void commit_one(struct hf_committer *committer, sem_t *woken, struct hf_commit_result *out)
{
    while (!hf_committer_collect(committer, out))
        sem_wait(woken);
    assert_int_equal(out->status, 0);
}

/* The primary dies with a batch in flight, the standby is promoted, and the same connection string
 * leads to it. No standby is left. */
static void a_failover_loses_and_refuses_nothing(void **state)
{
    struct hf_store_config config = direct();
    struct hf_store_config memory = {.backend = "memory"};
    struct hf_commit_result result;
    struct hf_committer committer;
    struct hf_store model;
    struct hf_batch batch;
    struct digest want;
    struct digest found;
    char dsn[2 * PATH_MAX + 128];
    sem_t woken;

    (void)state;
    snprintf(dsn, sizeof(dsn), "host=%s,%s dbname=postgres user=holdfast", server.dir, standby.dir);
    config.dsn = dsn;
    assert_int_equal(hf_store_open(&store, &config), 0);
    assert_int_equal(hf_store_open(&model, &memory), 0);
    sem_init(&woken, 0, 0);
    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(
        hf_committer_init(&committer, &store, &(struct hf_committer_config){30000, post, &woken}),
        0);
    assert_int_equal(hf_committer_start(&committer), 0);
    for (uint64_t seq = 1; seq <= 40; seq++) {
        story_batch(1969, seq, &batch);
        hf_committer_submit(&committer, &batch);
        if (seq == 20) {
            pg_server_stop(&server, SIGKILL);
            /* The call does not wait: a query in progress delays the replay for which the promotion
             * waits. */
            pg_server_sql(&standby, "SELECT pg_promote(false)");
        }
        commit_one(&committer, &woken, &result);
        assert_int_equal(hf_store_apply(&model, &batch), 0);
    }
    hf_committer_stop(&committer);
    hf_committer_free(&committer);
    assert_int_equal(store_digest(&store, &found), 0);
    assert_int_equal(store_digest(&model, &want), 0);
    assert_true(found.count == want.count && found.sum == want.sum);
    hf_store_close(&model);
    hf_batch_free(&batch);
    sem_destroy(&woken);
}

static struct hf_lease_row lease_of(struct hf_store *daemon, enum hf_lease_action action)
{
    struct hf_store_lease_call call = {.order = {.action = action}};
    struct hf_lease_row row = {0};

    for (int i = 0; i < 1000 && hf_store_lease(daemon, &call) < 0; i++)
        usleep(10000); /* a server that is being promoted accepts no writes */
    if (!hf_store_lease_row(daemon, &row))
        fail_msg("%s", hf_store_error(daemon));
    return row;
}

static int take_lease(struct hf_store *daemon, const struct hf_lease_row *seen, uint64_t nonce)
{
    struct hf_store_lease_call call = {.order = {.action = HF_LEASE_TAKE,
                                                 .epoch = seen->epoch,
                                                 .heartbeat = seen->heartbeat,
                                                 .nonce = nonce,
                                                 .new_epoch = seen->epoch + 1}};

    return hf_store_lease(daemon, &call);
}

/* ---- a name that leads to a standby during a switchover ---- */

/* The name of a host: a link to the directory with the server's socket. */
static char name[PATH_MAX + 8];

static void lead_to(const struct pg_server *where)
{
    (void)unlink(name);
    MUST(symlink(where->dir, name) == 0);
}

static struct hf_store_config by_name(char dsn[PATH_MAX + 80])
{
    struct hf_store_config config = direct();

    snprintf(name, sizeof(name), "%s.name", server.dir);
    snprintf(dsn, PATH_MAX + 80, "host=%s dbname=postgres user=holdfast", name);
    config.dsn = dsn;
    lead_to(&server);
    return config;
}

static void end_sessions(void)
{
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name LIKE 'holdfastd-%'");
    await_sql(&server,
              "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'holdfastd-%'",
              "0");
}

/* SPEC section 5: the store waits as in an outage, and refuses nothing. */
static void a_name_that_leads_to_a_standby_for_a_while_refuses_nothing(void **state)
{
    struct hf_committer committer;
    struct hf_commit_result result;
    struct hf_batch one;
    struct hf_record_server record = {.epoch = 5};
    char dsn[PATH_MAX + 80];
    struct hf_store_config config = by_name(dsn);
    sem_t woken;

    (void)state;
    sem_init(&woken, 0, 0);
    hf_batch_init(&one, &hf_alloc_heap);
    assert_int_equal(hf_batch_put_server(&one, &record), 0);
    assert_int_equal(hf_store_open(&store, &config), 0);
    assert_int_equal(
        hf_committer_init(&committer, &store, &(struct hf_committer_config){30000, post, &woken}),
        0);
    assert_int_equal(hf_committer_start(&committer), 0);
    await_replay(); /* of the schema */
    lead_to(&standby);
    end_sessions();
    hf_committer_submit(&committer, &one);
    await_sql(&standby,
              "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name LIKE 'holdfastd-%'",
              "t");
    usleep(200000);
    assert_false(hf_committer_collect(&committer, &result));
    lead_to(&server);
    while (!hf_committer_collect(&committer, &result))
        sem_wait(&woken);
    assert_int_equal(result.status, 0);
    hf_committer_stop(&committer);
    hf_committer_free(&committer);
    hf_batch_free(&one);
    sem_destroy(&woken);
    unlink(name);
}

/* The owner of a service finds its way back as well, and no batch was in doubt meanwhile. */
static void an_owner_leaves_a_server_that_it_cannot_write(void **state)
{
    static const struct hf_store_cluster NODE = {.node = "left", .version = "1"};
    struct hf_store_lease_call renew = {.order = {.action = HF_LEASE_RENEW}};
    char dsn[PATH_MAX + 80];
    struct hf_store_config config = by_name(dsn);
    struct hf_lease_row row;

    (void)state;
    config.cluster = &NODE;
    assert_int_equal(hf_store_open(&store, &config), 0);
    row = lease_of(&store, HF_LEASE_POLL);
    assert_int_equal(take_lease(&store, &row, 11), 0);
    lead_to(&standby);
    end_sessions();
    while (hf_store_lease(&store, &renew) != HF_EUNREACH ||
           !strstr(hf_store_error(&store), "primary"))
        usleep(10000);
    assert_int_equal(put_epoch(5), HF_EUNREACH);
    assert_false(hf_store_in_doubt(&store));
    lead_to(&server);
    assert_int_equal(hf_store_lease(&store, &renew), 0);
    assert_int_equal(put_epoch(6), 0);
    unlink(name);
}

/* HA-02d: The standby is promoted, but the former primary still runs and takes connections: each
 * commit there waits for a standby for ever. The store must leave it for the next host of the list.
 */
static void a_primary_whose_commits_hang_is_left(void **state)
{
    struct hf_store_config config = direct();
    char dsn[2 * PATH_MAX + 128];
    int rv = HF_EUNREACH;

    (void)state;
    snprintf(dsn, sizeof(dsn), "host=%s,%s dbname=postgres user=holdfast", server.dir, standby.dir);
    config.dsn = dsn;
    assert_int_equal(hf_store_open(&store, &config), 0);
    assert_int_equal(put_epoch(7), 0);
    pg_server_sql(&standby, "SELECT pg_promote(true)");
    for (int i = 0; i < 8 && rv < 0; i++)
        rv = put_epoch(8);
    if (rv < 0)
        fail_msg("%s", hf_store_error(&store));
    assert_string_equal(pg_server_sql(&standby, "SELECT epoch FROM server_state"), "8");
}

/* After a failover, the primary that is left gets a new standby. */
static int set_up_again(void **state)
{
    pg_server_remove(&server);
    server = standby;
    standby = (struct pg_server){0};
    pg_server_start_standby(&standby, &server);
    sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    sql("SELECT pg_reload_conf()");
    await_sql(&server, "SELECT sync_state FROM pg_stat_replication", "sync");
    return set_up(state);
}

/* The take has ended the former owner's session, and its next attempt may notice only that. */
static int put_epoch_after_take(uint64_t epoch)
{
    int rv = put_epoch(epoch);

    return rv == HF_EUNREACH ? put_epoch(epoch) : rv;
}

/*
 * The lease is a row like the others: the promoted standby has it as it was acknowledged. Its owner
 * goes on, and another daemon cannot take the lease by a row that it read before the failover. This
 * must be the last story.
 */
static void a_failover_leaves_the_lease_where_it_was(void **state)
{
    static const struct hf_store_cluster NODES[] = {{.node = "left", .version = "1"},
                                                    {.node = "right", .version = "1"}};
    struct hf_store_config config = direct();
    struct hf_lease_row before, after;
    struct hf_store right;
    char dsn[2 * PATH_MAX + 128];

    (void)state;
    snprintf(dsn, sizeof(dsn), "host=%s,%s dbname=postgres user=holdfast", server.dir, standby.dir);
    config.dsn = dsn;
    config.cluster = &NODES[0];
    assert_int_equal(hf_store_open(&store, &config), 0);
    config.cluster = &NODES[1];
    assert_int_equal(hf_store_open(&right, &config), 0);
    before = lease_of(&store, HF_LEASE_POLL);
    assert_int_equal(take_lease(&store, &before, 11), 0);
    assert_int_equal(put_epoch(7), 0);
    before = lease_of(&right, HF_LEASE_POLL);
    pg_server_stop(&server, SIGKILL);
    pg_server_sql(&standby, "SELECT pg_promote(false)");
    after = lease_of(&store, HF_LEASE_RENEW);
    assert_true(after.epoch == before.epoch && after.nonce == 11 &&
                after.heartbeat > before.heartbeat);
    /* The owner has renewed the lease since. */
    assert_int_equal(take_lease(&right, &before, 22), HF_EBUSY);
    assert_int_equal(put_epoch(8), 0);
    before = after;
    after = lease_of(&right, HF_LEASE_POLL);
    assert_true(after.nonce == 11 && after.heartbeat > before.heartbeat);
    assert_int_equal(take_lease(&right, &after, 22), 0);
    assert_int_equal(put_epoch_after_take(9), HF_EFENCED);
    assert_string_equal(pg_server_sql(&standby, "SELECT epoch FROM server_state"), "8");
    hf_store_close(&right);
}

static void *put_epoch_8(void *result)
{
    *(int *)result = put_epoch(8);
    return NULL;
}

/*
 * HA-08: the owner's commit waits for the synchronous standby, which is gone for a while, so its
 * lease is not renewed and another daemon takes. It must not end the owner's session: the server
 * would make the commit visible that no replica has, and a failover would lose it.
 */
static void a_taker_leaves_a_session_that_waits_for_the_standby(void **state)
{
    static const struct hf_store_cluster NODES[] = {{.node = "left", .version = "1"},
                                                    {.node = "right", .version = "1"}};
    static const char WAITING[] = "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE "
                                  "wait_event = 'SyncRep' AND application_name LIKE 'holdfastd-%'";
    struct hf_store_config config = direct();
    struct hf_lease_row row;
    struct hf_store right;
    pthread_t thread;
    char pid[32];
    int rv = 1;

    (void)state;
    config.cluster = &NODES[0];
    config.timeout_ms = 60000; /* the owner's commit waits for as long as the other daemon tries */
    assert_int_equal(hf_store_open(&store, &config), 0);
    config.cluster = &NODES[1];
    config.timeout_ms = PATIENCE_MS;
    assert_int_equal(hf_store_open(&right, &config), 0);
    row = lease_of(&store, HF_LEASE_POLL);
    assert_int_equal(take_lease(&store, &row, 11), 0);
    assert_int_equal(put_epoch(7), 0);
    row = lease_of(&right, HF_LEASE_POLL);
    stop_standby();
    MUST(pthread_create(&thread, NULL, put_epoch_8, &rv) == 0);
    for (int i = 0; i < 1000 && strcmp(sql(WAITING), "0") == 0; i++)
        usleep(10000);
    snprintf(pid, sizeof(pid), "%s", sql(WAITING));
    assert_string_not_equal(pid, "0");
    assert_true(take_lease(&right, &row, 22) < 0);
    assert_string_equal(sql(WAITING), pid);
    assert_string_equal(sql("SELECT epoch FROM server_state"), "7");
    start_standby();
    MUST(pthread_join(thread, NULL) == 0);
    assert_int_equal(rv, 0);
    expect_replicated("8");
    assert_int_equal(take_lease(&right, &row, 22), HF_EBUSY); /* the commit has renewed the lease */
    hf_store_close(&right);
}

int main(void)
{
#define STORY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORY(a_cancelled_wait_for_the_standby_is_in_doubt),
        STORY(a_terminated_wait_for_the_standby_is_in_doubt),
        STORY(the_warning_cannot_be_switched_off),
        STORY(deletes_sent_again_wait_for_the_standby),
        STORY(a_batch_in_doubt_is_granted_when_the_standby_has_it),
        STORY(a_fence_number_the_standby_does_not_have_is_not_used),
        STORY(weak_settings_of_synchronous_commit_are_raised),
        STORY(a_role_that_commits_locally_still_waits_for_the_standby),
        STORY(a_standby_in_the_list_of_hosts_is_passed_over),
        STORY(a_name_that_leads_to_a_standby_for_a_while_refuses_nothing),
        STORY(an_owner_leaves_a_server_that_it_cannot_write),
        STORY(a_taker_leaves_a_session_that_waits_for_the_standby),
        STORY(a_failover_loses_and_refuses_nothing),
        cmocka_unit_test_setup_teardown(a_primary_whose_commits_hang_is_left, set_up_again,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failover_leaves_the_lease_where_it_was, set_up_again,
                                        tear_down),
    };
    int rv;

    if (!pg_server_start(&server)) {
        printf("1..0 # SKIP PostgreSQL is not installed\n");
        return 0;
    }
    pg_server_start_standby(&standby, &server);
    sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    sql("SELECT pg_reload_conf()");
    await_sql(&server, "SELECT sync_state FROM pg_stat_replication", "sync");
    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    rv = cmocka_run_group_tests(tests, NULL, NULL);
    pg_server_remove(&standby);
    pg_server_remove(&server);
    return rv;
}
