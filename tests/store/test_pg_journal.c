/*
 * The journal of a store in PostgreSQL (store/pg_journal.h): batches that are only in the journal
 * count as much as those in the tables, whichever daemon reads them; they reach the tables without
 * being asked; and a damaged record is refused, not skipped (STO-02).
 */
#include "../unit/unit.h"

#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "fixture.h"
#include "pg_server.h"
#include "store/commit.h"

enum { MANY = 100, DURING = 250 };

static struct pg_server server;
static struct hf_store store;
static struct hf_store model;
static struct hf_batch batch;

static struct hf_store_config config(void)
{
    return (struct hf_store_config){.backend = "postgres", .dsn = server.dsn, .timeout_ms = 2000};
}

static const char *sql(const char *text)
{
    return pg_server_sql(&server, text);
}

static void expect_sql(const char *text, const char *answer)
{
    assert_string_equal(sql(text), answer);
}

#define PENDING "SELECT count(*) FROM holdfast_journal, server_state WHERE number > journal_folded"
#define LOCKS   "SELECT count(*) FROM nlm_locks"

static void open_store(void)
{
    struct hf_store_config wanted = config();

    if (hf_store_open(&store, &wanted) < 0)
        fail_msg("%s", hf_store_error(&store));
}

static int set_up(void **state)
{
    struct hf_store_config memory = {.backend = "memory"};

    (void)state;
    sql("DROP SCHEMA public CASCADE");
    sql("CREATE SCHEMA public");
    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(hf_store_open(&model, &memory), 0);
    open_store();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hf_store_close(&store);
    hf_store_close(&model);
    hf_batch_free(&batch);
    return 0;
}

static void end_session(void)
{
#define SESSIONS " FROM pg_stat_activity WHERE application_name LIKE 'holdfastd-%'"
    sql("SELECT pg_terminate_backend(pid)" SESSIONS);
    while (strcmp(sql("SELECT count(*)" SESSIONS), "0") != 0)
        usleep(10000);
}

/* Ends the session as a crash of the daemon does: work that the store had postponed is not done. */
static void crash(void)
{
    end_session();
    store.untidy = false;
    hf_store_close(&store);
}

static void put_locks(uint64_t first, unsigned count, uint64_t salt)
{
    uint8_t room[HF_FH_MAX];

    for (uint64_t id = first; id < first + count; id++) {
        struct hf_record_lock lock = make_lock(id, salt, room);

        lock.extra = (struct hf_record_extra){0}; /* an older version knows held locks only */
        assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    }
}

static void delete_locks(uint64_t first, unsigned count)
{
    for (uint64_t id = first; id < first + count; id++)
        assert_int_equal(hf_batch_delete(&batch, HF_RECORD_LOCK, id), 0);
}

static void apply(void)
{
    if (hf_store_apply(&store, &batch) < 0)
        fail_msg("%s", hf_store_error(&store));
    assert_int_equal(hf_store_apply(&model, &batch), 0);
    hf_batch_clear(&batch);
}

static void expect_like_model(void)
{
    struct digest found;
    struct digest want;

    assert_int_equal(store_digest(&store, &found), 0);
    assert_int_equal(store_digest(&model, &want), 0);
    assert_int_equal(found.count, want.count);
    assert_true(found.sum == want.sum);
}

static void a_batch_in_the_journal_counts(void **state)
{
    (void)state;
    put_locks(1, MANY, 1);
    apply();
    expect_sql(LOCKS, "0");
    assert_string_not_equal(sql(PENDING), "0");
    expect_like_model();
    crash();
    open_store();
    expect_like_model();
}

/* Rows of the tables that the journal replaces or deletes are skipped, and no row is read twice. */
static void the_journal_changes_what_the_tables_have(void **state)
{
    (void)state;
    put_locks(1, MANY, 1);
    apply();
    assert_int_equal(hf_store_tidy(&store), 0);
    put_locks(MANY / 2, MANY, 2);
    delete_locks(1, MANY / 4);
    apply();
    assert_string_not_equal(sql(PENDING), "0");
    expect_like_model();
    crash();
    open_store();
    expect_like_model();
    delete_locks(1, 2 * MANY);
    apply();
    crash();
    open_store();
    expect_like_model();
    assert_int_equal(hf_store_tidy(&store), 0);
    expect_sql(LOCKS, "0");
}

static void tidying_empties_the_journal(void **state)
{
    (void)state;
    put_locks(1, MANY, 1);
    apply();
    assert_true(store.untidy);
    assert_int_equal(hf_store_tidy(&store), 0);
    assert_false(store.untidy);
    expect_sql(LOCKS, "100");
    expect_sql(PENDING, "0");
    expect_like_model();
    put_locks(1000, 1, 1); /* without a load, batches go straight to the tables */
    apply();
    expect_sql(LOCKS, "101");
    expect_sql(PENDING, "0");
}

static void a_clean_stop_empties_the_journal(void **state)
{
    (void)state;
    put_locks(1, MANY, 1);
    apply();
    hf_store_close(&store);
    expect_sql(LOCKS, "100");
    expect_sql(PENDING, "0");
    open_store();
    expect_like_model();
}

/* Locks that were taken and released meanwhile never touch the table, and their slots are used
 * again. */
static void the_journal_does_not_grow(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < DURING; i++) {
        put_locks(1 + i * MANY, MANY, i);
        if (i > 0)
            delete_locks(1 + (i - 1) * MANY, MANY);
        apply();
    }
    expect_like_model();
    crash();
    open_store();
    expect_like_model();
    expect_sql("SELECT count(*) BETWEEN 100 AND 256 FROM holdfast_journal", "t");
    expect_sql("SELECT max(number) > 512 FROM holdfast_journal", "t");
    expect_sql("SELECT pg_table_size('holdfast_journal') < 2 * 256 * 8192", "t");
    assert_int_equal(hf_store_tidy(&store), 0);
    expect_sql(LOCKS, "100");
}

static void post(void *ctx)
{
    sem_post(ctx);
}

/* Without another batch, the committer folds the journal into the tables. */
static void changes_reach_the_tables_by_themselves(void **state)
{
    struct hf_committer committer;
    struct hf_commit_result result;
    sem_t woken;

    (void)state;
    sem_init(&woken, 0, 0);
    assert_int_equal(hf_committer_init(&committer, &store,
                                       &(struct hf_committer_config){.wake = post, .ctx = &woken}),
                     0);
    assert_int_equal(hf_committer_start(&committer), 0);
    put_locks(1, MANY, 1);
    hf_committer_submit(&committer, &batch);
    while (!hf_committer_collect(&committer, &result))
        sem_wait(&woken);
    assert_int_equal(result.status, 0);
    while (strcmp(sql(LOCKS), "100") !=
           0) /* if this never happens, the test's own time limit ends the loop */
        usleep(10000);
    expect_sql(PENDING, "0");
    hf_committer_stop(&committer);
    hf_committer_free(&committer);
    sem_destroy(&woken);
}

/* A table was locked, or the connection was cut: the tidying is done later. */
static void tidying_that_failed_is_done_later(void **state)
{
    (void)state;
    put_locks(1, MANY, 1);
    apply();
    sql("ALTER TABLE holdfast_journal RENAME TO elsewhere");
    end_session();
    assert_true(hf_store_tidy(&store) < 0);
    assert_true(store.untidy);
    sql("ALTER TABLE elsewhere RENAME TO holdfast_journal");
    assert_int_equal(hf_store_tidy(&store), 0);
    assert_false(store.untidy);
    expect_sql(LOCKS, "100");
}

/* The server's record has no id: it is written to its table together with all that is pending. */
static void the_server_s_record_is_in_its_table(void **state)
{
    struct hf_record_server record = {.epoch = 9};

    (void)state;
    put_locks(1, MANY, 1);
    apply();
    assert_int_equal(hf_batch_put_server(&batch, &record), 0);
    put_locks(1000, MANY, 1);
    apply();
    expect_sql("SELECT epoch FROM server_state", "9");
    expect_sql(LOCKS, "200");
    expect_like_model();
}

static void expect_damaged(const char *damage)
{
    struct digest digest;

    set_up(NULL);
    put_locks(1, MANY, 1);
    apply();
    put_locks(500, MANY, 1);
    apply();
    crash();
    sql(damage);
    open_store();
    assert_int_equal(store_digest(&store, &digest), HF_EFORMAT);
    assert_non_null(strstr(hf_store_error(&store), "damaged"));
    put_locks(1000, 1, 1);
    assert_int_equal(hf_store_apply(&store, &batch), HF_EFORMAT);
    tear_down(NULL);
}

static void a_damaged_journal_is_refused(void **state)
{
    (void)state;
    tear_down(NULL);
    expect_damaged("DELETE FROM holdfast_journal WHERE number = 2");
    expect_damaged("DELETE FROM holdfast_journal " /* removes the whole first batch */
                   "WHERE number <= (SELECT max(number) / 2 FROM holdfast_journal)");
    expect_damaged("UPDATE holdfast_journal SET changes = '\\x0103' WHERE number = 1");
    expect_damaged("UPDATE holdfast_journal SET changes = substr(changes, 2) WHERE number = 3");
    expect_damaged("UPDATE holdfast_journal SET changes = overlay(changes placing '\\x09' from 2) "
                   "WHERE number = 1");
    set_up(NULL);
}

/* Takes back the migrations that came after the journal's. */
static void take_back_later_migrations(void)
{
    struct hf_store_config wanted = config();
    char error[HF_STORE_ERROR_MAX];

    while (strcmp(sql("SELECT max(version) > 5 FROM holdfast_migrations"), "t") == 0)
        assert_int_equal(hf_store_migrate(&wanted, HF_MIGRATE_DOWN, NULL, NULL, error), 0);
}

/* Taking the newest migration back could leave records in the journal that an older version cannot
 * read, and taking the journal's migration back would lose them. */
static void a_migration_is_not_taken_back_over_changes(void **state)
{
    struct hf_store_config wanted = config();
    char error[HF_STORE_ERROR_MAX];

    (void)state;
    put_locks(1, MANY, 1);
    apply();
    crash();
    assert_true(hf_store_migrate(&wanted, HF_MIGRATE_DOWN, NULL, NULL, error) < 0);
    assert_non_null(strstr(error, "stop it in order"));
    open_store();
    expect_like_model();
    hf_store_close(&store);
    expect_sql(PENDING, "0");
    take_back_later_migrations();
    assert_int_equal(hf_store_migrate(&wanted, HF_MIGRATE_DOWN, NULL, NULL, error), 0);
    expect_sql(LOCKS, "100");
    open_store();
    expect_like_model();
}

int main(void)
{
#define STORY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORY(a_batch_in_the_journal_counts),     STORY(the_journal_changes_what_the_tables_have),
        STORY(tidying_empties_the_journal),       STORY(a_clean_stop_empties_the_journal),
        STORY(the_journal_does_not_grow),         STORY(changes_reach_the_tables_by_themselves),
        STORY(tidying_that_failed_is_done_later), STORY(the_server_s_record_is_in_its_table),
        STORY(a_damaged_journal_is_refused),      STORY(a_migration_is_not_taken_back_over_changes),
    };

    return pg_server_run(&server, pg_server_start(&server), tests, HF_COUNT_OF(tests));
}
