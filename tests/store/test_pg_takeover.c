/*
 * Takeovers of a service whose database fails at every step: the connection is cut after the n-th
 * message of the takeover, for every n and both directions, and each table is locked for a moment,
 * as VACUUM FULL, REINDEX or ALTER do. Whatever fails, nothing that was acknowledged is lost, no
 * record that was deleted comes back, and the next owner can load (SPEC HA-03, HA-05, STO-02).
 */
#include "../unit/unit.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "fixture.h"
#include "pg_proxy.h"
#include "pg_server.h"
#include "single.h"
#include "store/lease.h"

enum { LEFT, RIGHT, LOCKS = 20, TRIES = 800, PAUSE_US = 5000 };

static struct pg_server server;
static struct pg_proxy proxy;
static struct hf_store_cluster clusters[] = {{.node = "left", .version = "1"},
                                             {.node = "right", .version = "1"}};
static struct hf_store daemons[2];
static struct hf_store_config configs[2];
static struct hf_store model;
static struct hf_batch batch;
static uint64_t nonces; /* counts the takes of all stories */

static const char *sql(const char *text)
{
    return pg_server_sql(&server, text);
}

static int set_up(void **state)
{
    struct hf_store_config memory = {.backend = "memory"};

    (void)state;
    sql("DROP SCHEMA IF EXISTS public, holdfast_common CASCADE");
    sql("CREATE SCHEMA public");
    pg_proxy_start(&proxy, &server);
    for (int i = LEFT; i <= RIGHT; i++) {
        configs[i] = (struct hf_store_config){.backend = "postgres",
                                              .dsn = i == LEFT ? server.dsn : proxy.dsn,
                                              .timeout_ms = 400,
                                              .cluster = &clusters[i]};
        if (hf_store_open(&daemons[i], &configs[i]) < 0)
            fail_msg("%s", hf_store_error(&daemons[i]));
    }
    hf_batch_init(&batch, &hf_alloc_heap);
    return hf_store_open(&model, &memory);
}

static int tear_down(void **state)
{
    (void)state;
    hf_store_close(&daemons[LEFT]);
    hf_store_close(&daemons[RIGHT]);
    hf_store_close(&model);
    hf_batch_free(&batch);
    pg_proxy_stop(&proxy);
    return 0;
}

/* ---- what a daemon does ---- */

/* Polls once, and takes the lease if it is free. True when the lease is this daemon's. */
static bool try_to_own(int which, uint64_t nonce)
{
    struct hf_store_lease_call call = {.order = {.action = HF_LEASE_POLL}};
    struct hf_lease_row row;
    int rv = hf_store_lease(&daemons[which], &call);

    if (rv < 0 || !hf_store_lease_row(&daemons[which], &row))
        return false;
    if (row.nonce == nonce && !row.released)
        return true;
    call.order = (struct hf_lease_order){.action = HF_LEASE_TAKE,
                                         .epoch = row.epoch,
                                         .heartbeat = row.heartbeat,
                                         .nonce = nonce,
                                         .new_epoch = row.epoch + 1};
    return hf_store_lease(&daemons[which], &call) == 0;
}

static void own(int which)
{
    uint64_t nonce = ++nonces;

    for (int i = 0; i < TRIES; i++) {
        if (try_to_own(which, nonce))
            return;
        usleep(PAUSE_US);
    }
    fail_msg("%s cannot take the lease: %s", clusters[which].node, hf_store_error(&daemons[which]));
}

/* Applies a batch as the committer does: after an error that leaves doubt or may pass, it is sent
 * again. */
static void apply(int which)
{
    int rv = HF_EUNREACH;

    for (int i = 0; i < TRIES && (rv = hf_store_apply(&daemons[which], &batch)) < 0; i++)
        usleep(PAUSE_US);
    if (rv < 0)
        fail_msg("%s cannot write: %s", clusters[which].node, hf_store_error(&daemons[which]));
    assert_int_equal(hf_store_apply(&model, &batch), 0);
    hf_batch_clear(&batch);
}

static int copy_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct hf_batch *all = ctx;

    return hf_batch_put_encoded(all, kind, record);
}

/* Loads as a new owner does, again after a failure, and compares with the model. */
static void expect_loads_like_model(int which)
{
    struct hf_store_config memory = {.backend = "memory"};
    struct hf_store_lease_call renew = {.order = {.action = HF_LEASE_RENEW}};
    struct hf_store_loading to = {.record = copy_record};
    struct hf_lease_row row = {0};
    struct hf_store copy;
    struct hf_batch all;
    struct digest want, found;
    char error[HF_STORE_ERROR_MAX] = "";
    int rv = HF_EUNREACH;

    hf_batch_init(&all, &hf_alloc_heap);
    to.ctx = &all;
    for (int i = 0; i < TRIES && rv < 0; i++) {
        hf_batch_clear(&all);
        if (hf_store_lease(&daemons[which], &renew) == 0 &&
            hf_store_lease_row(&daemons[which], &row))
            rv = hf_store_load_owned(&configs[which], &row, &to, error);
        if (rv < 0)
            usleep(PAUSE_US);
    }
    if (rv < 0)
        fail_msg("%s cannot load: %s; %s", clusters[which].node, error,
                 hf_store_error(&daemons[which]));
    assert_int_equal(hf_store_open(&copy, &memory), 0);
    assert_int_equal(hf_store_apply(&copy, &all), 0);
    assert_int_equal(store_digest(&model, &want), 0);
    assert_int_equal(store_digest(&copy, &found), 0);
    assert_int_equal(all.n_ops, want.count); /* no record twice */
    assert_int_equal(found.count, want.count);
    assert_true(found.sum == want.sum);
    hf_store_close(&copy);
    hf_batch_free(&all);
}

static void put_locks(uint64_t first, unsigned count)
{
    uint8_t room[HF_FH_MAX];

    for (uint64_t id = first; id < first + count; id++) {
        struct hf_record_lock lock = make_lock(id, nonces, room);
        assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    }
}

static void delete_locks(uint64_t first, unsigned count)
{
    for (uint64_t id = first; id < first + count; id++)
        assert_int_equal(hf_batch_delete(&batch, HF_RECORD_LOCK, id), 0);
}

/* ---- stories ---- */

/* Locks granted by the left node: most are in the tables, the newest in the journal. */
static void left_serves(uint64_t first)
{
    own(LEFT);
    put_locks(first, 3);
    apply(LEFT);
    put_locks(first + 3, LOCKS - 3);
    apply(LEFT);
}

static void tidy(int which)
{
    while (daemons[which].untidy && hf_store_tidy(&daemons[which]) < 0)
        usleep(PAUSE_US);
}

/*
 * The right node serves: it loads, deletes what the left one granted, with many changes at a time
 * by way of the journal and with few in the tables, and grants anew.
 */
static void right_serves(uint64_t first)
{
    own(RIGHT);
    expect_loads_like_model(RIGHT);
    delete_locks(first, LOCKS / 2);
    apply(RIGHT);
    tidy(RIGHT);
    delete_locks(first + LOCKS / 2, 2);
    apply(RIGHT);
    put_locks(first + LOCKS - 1, 2); /* one of the two locks is there already */
    apply(RIGHT);
    expect_loads_like_model(RIGHT);
}

/* Another session locks the table for a moment while the right node takes the lease. */
static void take_while_locked(const char *table)
{
    char text[128];
    PGconn *other = PQconnectdb(server.dsn);
    PGresult *result;

    snprintf(text, sizeof(text), "BEGIN; LOCK TABLE %s IN ACCESS EXCLUSIVE MODE", table);
    result = PQexec(other, text);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", text, PQerrorMessage(other));
    PQclear(result);
    (void)try_to_own(RIGHT, nonces + 1); /* uses the nonce that own() will use next */
    PQfinish(other);
}

static void a_table_that_is_locked_for_a_moment_costs_no_record(void **state)
{
    static const char *const TABLES[] = {
        "nlm_locks",     "nsm_client_registrations", "holdfast_journal",
        "cluster_nodes", "holdfast_common.exports",  "server_state",
    };

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(TABLES); i++) {
        uint64_t first = 1 + i * 2 * LOCKS;

        left_serves(first);
        take_while_locked(TABLES[i]);
        right_serves(first);
    }
    own(LEFT);
    expect_loads_like_model(LEFT);
}

/* Makes one takeover with the connections of the right node cut after the n-th message, and repeats
 * it as the daemon would. False if the takeover took fewer messages than n. */
static bool take_over_with_cut(uint64_t first, _Atomic int *budget, int n)
{
    unsigned cuts = proxy.cuts;

    left_serves(first);
    *budget = n;
    right_serves(first);
    *budget = 0;
    own(LEFT);
    expect_loads_like_model(LEFT);
    delete_locks(first, 2 * LOCKS);
    apply(LEFT);
    tidy(LEFT);
    return proxy.cuts > cuts;
}

static int stride = 12; /* every which n is tried; 1 with the argument "all" */

/* Cuts after the n-th message: all n take minutes, so usually every twelfth is tried, with another
 * first one each time. */
static void cut_everywhere(_Atomic int *budget)
{
    int n = 1 + (int)(getpid() % stride);

    print_message("# every message %d + k * %d\n", n, stride);
    for (uint64_t first = 1; take_over_with_cut(first, budget, n); first += 2 * LOCKS)
        n += stride;
    assert_true(n > 20); /* a takeover has more messages than that in each direction */
}

static void a_connection_cut_after_any_message_sent_costs_no_record(void **state)
{
    (void)state;
    cut_everywhere(&proxy.sent);
}

static void a_connection_cut_after_any_answer_costs_no_record(void **state)
{
    (void)state;
    cut_everywhere(&proxy.answered);
}

int main(int argc, char **argv)
{
#define STORY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORY(a_table_that_is_locked_for_a_moment_costs_no_record),
        STORY(a_connection_cut_after_any_message_sent_costs_no_record),
        STORY(a_connection_cut_after_any_answer_costs_no_record),
    };

    if (argc > 1 && strcmp(argv[1], "all") == 0)
        stride = 1;
    return pg_server_run(&server, pg_server_start(&server), tests, HF_COUNT_OF(tests));
}
