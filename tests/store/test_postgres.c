/*
 * Cases that only PostgreSQL has: a server that stops, a connection that is cut, a schema with
 * migrations, passwords. Nothing acknowledged is lost (STO-02); nothing is refused if the server is
 * back in time (STO-04, SPEC section 5); a daemon that lost its store never writes again (STO-05).
 */
#include "../unit/unit.h"

#include <libpq-fe.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "fixture.h"
#include "pg_proxy.h"
#include "pg_server.h"
#include "single.h"
#include "store/commit.h"
#include "store/lease.h"
#include "store/pg_conn.h"

static const uint64_t SEED = 1969;

enum { MIGRATIONS = 11 };

static struct pg_server server;
static struct pg_proxy proxy;
static struct hf_store store;

static struct hf_store_config direct(void)
{
    return (struct hf_store_config){.backend = "postgres", .dsn = server.dsn, .timeout_ms = 2000};
}

static struct hf_store_config by_proxy(void)
{
    return (struct hf_store_config){.backend = "postgres", .dsn = proxy.dsn, .timeout_ms = 2000};
}

/* Runs SQL on a connection of its own, beside the store's. */
static const char *sql(const char *text)
{
    return pg_server_sql(&server, text);
}

/* Each story starts with an empty database. */
static int set_up(void **state)
{
    (void)state;
    sql("DROP SCHEMA public CASCADE");
    sql("CREATE SCHEMA public");
    return 0;
}

static void open_store(struct hf_store_config config)
{
    if (hf_store_open(&store, &config) < 0)
        fail_msg("%s", hf_store_error(&store));
}

/* A committer on the store, and a model in memory that gets the same batches. */
struct teller {
    struct hf_committer committer;
    struct hf_store model;
    struct hf_batch batch;
    uint64_t seq;
    sem_t woken;
};

static void post(void *ctx)
{
    sem_post(ctx);
}

static void teller_init(struct teller *t)
{
    struct hf_store_config memory = {.backend = "memory"};

    *t = (struct teller){0};
    sem_init(&t->woken, 0, 0);
    hf_batch_init(&t->batch, &hf_alloc_heap);
    assert_int_equal(hf_store_open(&t->model, &memory), 0);
    assert_int_equal(hf_committer_init(&t->committer, &store,
                                       &(struct hf_committer_config){30000, post, &t->woken}),
                     0);
    assert_int_equal(hf_committer_start(&t->committer), 0);
}

static void teller_submit(struct teller *t)
{
    story_batch(SEED, ++t->seq, &t->batch);
    hf_committer_submit(&t->committer, &t->batch);
}

static void teller_expect_durable(struct teller *t)
{
    struct hf_commit_result result;

    while (!hf_committer_collect(&t->committer, &result))
        sem_wait(&t->woken);
    assert_int_equal(result.status, 0);
    assert_int_equal(hf_store_apply(&t->model, &t->batch), 0);
}

/* Ends the story, opens the store anew and compares it with the model. */
static void teller_finish(struct teller *t)
{
    struct digest want;
    struct digest found;

    hf_committer_stop(&t->committer);
    hf_committer_free(&t->committer);
    hf_store_close(&store);
    open_store(direct());
    assert_int_equal(store_digest(&store, &found), 0);
    assert_int_equal(store_digest(&t->model, &want), 0);
    assert_true(found.count == want.count && found.sum == want.sum);
    hf_store_close(&store);
    hf_store_close(&t->model);
    hf_batch_free(&t->batch);
    sem_destroy(&t->woken);
}

static void a_connection_cut_around_commit_loses_nothing(void **state)
{
    struct teller t;

    (void)state;
    pg_proxy_start(&proxy, &server);
    open_store(by_proxy());
    teller_init(&t);
    for (int round = 0; round < 60; round++) {
        proxy.cut = round % CUT_COUNT;
        teller_submit(&t);
        teller_expect_durable(&t);
        assert_int_equal(proxy.cut, CUT_NONE);
    }
    assert_int_equal(proxy.cuts, 45);
    assert_string_equal(sql("SELECT count(*) > 0 FROM holdfast_journal"), "t"); /* both ways */
    teller_finish(&t);
    pg_proxy_stop(&proxy);
}

/* Without a retry, a batch that was cut off after COMMIT is in doubt; here it was durable all
 * along. */
static void the_doubt_is_told(void **state)
{
    struct hf_record_server record = {.epoch = 9};

    (void)state;
    pg_proxy_start(&proxy, &server);
    open_store(by_proxy());
    proxy.cut = CUT_AFTER_COMMIT;
    assert_int_equal(store_put_server(&store, &record), HF_EUNREACH);
    assert_true(hf_store_in_doubt(&store));
    assert_string_equal(sql("SELECT epoch FROM server_state"), "9");
    assert_int_equal(store_put_server(&store, &record), 0);
    assert_false(hf_store_in_doubt(&store));
    hf_store_close(&store);
    pg_proxy_stop(&proxy);
}

/* The network sends no reset and no end of file: only the store's own timeout ends the wait. */
static void a_silent_network_is_left_behind(void **state)
{
    struct hf_store_config impatient;
    struct teller t;

    (void)state;
    pg_proxy_start(&proxy, &server);
    impatient = by_proxy();
    impatient.timeout_ms = 200;
    open_store(impatient);
    teller_init(&t);
    proxy.silent = true;
    teller_submit(&t);
    usleep(500000); /* so long that one or two tries fail */
    proxy.silent = false;
    teller_expect_durable(&t);
    teller_finish(&t);
    pg_proxy_stop(&proxy);
}

/* The server goes away with a batch in flight, and comes back while the batch is tried again. */
static void restart_in_flight(int sig)
{
    struct teller t;

    open_store(direct());
    teller_init(&t);
    for (int round = 0; round < 4; round++) {
        teller_submit(&t);
        pg_server_stop(&server, sig);
        pg_server_again(&server);
        teller_expect_durable(&t);
        teller_submit(&t);
        teller_expect_durable(&t);
    }
    teller_finish(&t);
}

static void a_server_that_is_restarted_loses_and_refuses_nothing(void **state)
{
    (void)state;
    restart_in_flight(SIGINT);
}

static void a_server_that_crashes_loses_and_refuses_nothing(void **state)
{
    (void)state;
    restart_in_flight(SIGKILL);
}

/* Nothing was sent, so nothing is in doubt: the daemon may refuse. */
static void a_server_that_went_while_idle_leaves_no_doubt(void **state)
{
    struct hf_record_server record = {.epoch = 5};

    (void)state;
    open_store(direct());
    pg_server_stop(&server, SIGINT);
    assert_int_equal(store_put_server(&store, &record), HF_EUNREACH);
    assert_false(hf_store_in_doubt(&store));
    assert_int_equal(hf_store_probe(&store), HF_EUNREACH);
    pg_server_again(&server);
    assert_int_equal(store_put_server(&store, &record), 0);
    hf_store_close(&store);
}

static void expect_fenced(void)
{
    struct hf_record_server record = {.epoch = 5};

    assert_int_equal(store_put_server(&store, &record), HF_EFENCED);
    assert_non_null(strstr(hf_store_error(&store), "taken over"));
    assert_int_equal(hf_store_probe(&store), HF_EFENCED);
    assert_string_equal(sql("SELECT coalesce(epoch, 0) FROM server_state"), "0");
}

static void a_daemon_whose_number_is_old_never_writes_again(void **state)
{
    (void)state;
    open_store(direct());
    sql("UPDATE server_state SET fence = fence + 1");
    expect_fenced();
    hf_store_close(&store);
}

/* The daemon was cut off while another one took over; it makes no difference whether that one still
 * runs. */
static void a_daemon_that_was_overtaken_never_writes_again(void **state)
{
    struct hf_store_config config = direct();
    struct hf_store successor;

    (void)state;
    open_store(direct());
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name LIKE 'holdfastd-%'");
    assert_int_equal(hf_store_open(&successor, &config), 0);
    while (hf_store_probe(&store) == HF_EUNREACH)
        continue; /* this batch tells the daemon that it was cut off */
    expect_fenced();
    hf_store_close(&successor);
    expect_fenced();
    hf_store_close(&store);
}

static unsigned lines_saying(const char *word, char lines[16][128], unsigned n)
{
    unsigned count = 0;

    for (unsigned i = 0; i < n; i++)
        count += strstr(lines[i], word) != NULL;
    return count;
}

static struct {
    char lines[16][128];
    unsigned count;
} told;

static void hear(void *ctx, const char *line)
{
    (void)ctx;
    assert_true(told.count < HF_COUNT_OF(told.lines));
    snprintf(told.lines[told.count++], sizeof(told.lines[0]), "%s", line);
}

static int migrate(enum hf_migrate what)
{
    struct hf_store_config config = direct();
    char error[HF_STORE_ERROR_MAX];

    told.count = 0;
    config.timeout_ms = 400;
    return hf_store_migrate(&config, what, hear, NULL, error);
}

static void expect_status(unsigned applied, unsigned missing)
{
    assert_int_equal(migrate(HF_MIGRATE_STATUS), 0);
    assert_int_equal(lines_saying("applied", told.lines, told.count), applied);
    assert_int_equal(lines_saying("missing", told.lines, told.count), missing);
}

static void migrations_go_up_and_down(void **state)
{
    (void)state;
    expect_status(0, MIGRATIONS);
    assert_int_equal(migrate(HF_MIGRATE_UP), 0);
    assert_int_equal(told.count, MIGRATIONS);
    assert_int_equal(migrate(HF_MIGRATE_UP), 0);
    assert_int_equal(told.count, 0);
    expect_status(MIGRATIONS, 0);
    assert_string_equal(sql("SELECT count(*) FROM pg_indexes WHERE tablename = "
                            "'nsm_client_registrations'"),
                        "4");
    for (unsigned left = MIGRATIONS; left > 0; left--) {
        assert_int_equal(migrate(HF_MIGRATE_DOWN), 0);
        expect_status(left - 1, MIGRATIONS - left + 1);
    }
    assert_int_equal(migrate(HF_MIGRATE_DOWN), HF_ENOENT);
    assert_string_equal(sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "1");
    open_store(direct()); /* opening the store migrates it up again */
    expect_status(MIGRATIONS, 0);
    assert_int_equal(migrate(HF_MIGRATE_DOWN), HF_EBUSY);
    hf_store_close(&store);
}

/* One row says who owns the store, with and without the index that once kept it so (0007). */
static void expect_one_row(void)
{
    sql("DO $$ BEGIN INSERT INTO server_state DEFAULT VALUES; RAISE 'a second row';"
        " EXCEPTION WHEN unique_violation THEN NULL; END $$");
}

/* A migration up and down keeps what an older version wrote. */
static void a_migration_keeps_what_is_there(void **state)
{
    struct digest before;
    struct digest after;
    struct hf_batch batch;

    (void)state;
    open_store(direct());
    hf_batch_init(&batch, &hf_alloc_heap);
    for (uint64_t seq = 1; seq <= 40; seq++) {
        story_batch(SEED, seq, &batch);
        assert_int_equal(hf_store_apply(&store, &batch), 0);
    }
    hf_batch_free(&batch);
    hf_store_close(&store);
    expect_one_row();
    assert_int_equal(migrate(HF_MIGRATE_DOWN), 0); /* takes back where the record was written */
    /* An older version would take waiters and shares for locks. */
    assert_true(migrate(HF_MIGRATE_DOWN) < 0);
    sql("DELETE FROM nlm_locks WHERE extra <> ''");
    assert_int_equal(migrate(HF_MIGRATE_DOWN), 0);
    assert_int_equal(migrate(HF_MIGRATE_DOWN), 0); /* takes back the terms of the lease */
    /* An older version would lose the difference between lives. */
    assert_true(migrate(HF_MIGRATE_DOWN) < 0);
    sql("UPDATE nsm_client_registrations SET lives = ''");
    assert_int_equal(migrate(HF_MIGRATE_UP), 0);
    open_store(direct());
    assert_int_equal(store_digest(&store, &before), 0);
    hf_store_close(&store);
    for (unsigned newest = MIGRATIONS; newest > 2; newest--)
        assert_int_equal(migrate(HF_MIGRATE_DOWN), 0);
    expect_one_row();
    assert_string_equal(sql("SELECT count(*) FROM nlm_locks WHERE share_text <> 'default'"), "0");
    open_store(direct());
    assert_int_equal(store_digest(&store, &after), 0);
    assert_true(before.count == after.count && before.sum == after.sum);
    assert_string_equal(sql("SELECT count(*) FROM nlm_locks_readable WHERE share <> 'default'"),
                        "0");
    hf_store_close(&store);
}

/* ---- where the record was written (REC-01g) ---- */

static void put_continuity(enum hf_continuity continuity)
{
    struct hf_record_server record = {.epoch = 7, .role = HF_ROLE_LOCKS, .continuity = continuity};

    open_store(direct());
    assert_int_equal(store_put_server(&store, &record), 0);
    hf_store_close(&store);
}

static int keep_server(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    return kind == HF_RECORD_SERVER ? hf_record_decode_server(record, ctx) : 0;
}

/* What the next start of a daemon without standbys finds. */
static enum hf_continuity found_alone(void)
{
    struct hf_record_server found = {0};

    open_store(direct());
    assert_int_equal(hf_store_load(&store, keep_server, &found), 0);
    hf_store_close(&store);
    assert_int_equal(found.epoch, 7);
    return found.continuity;
}

/* The same with standbys. */
static enum hf_continuity found_by_a_service(bool require_sync)
{
    const struct hf_store_cluster cluster = {.node = "left", .require_sync = require_sync};
    struct hf_record_server found = {0};
    const struct hf_store_loading to = {.record = keep_server, .ctx = &found};
    struct hf_store_config config = direct();
    char error[HF_STORE_ERROR_MAX];

    config.cluster = &cluster;
    if (hf_store_load_owned(&config, NULL, &to, error) < 0)
        fail_msg("%s", error);
    assert_int_equal(found.epoch, 7);
    return found.continuity;
}

static void expect_found(enum hf_continuity alone, enum hf_continuity replicated)
{
    assert_int_equal(found_alone(), alone);
    assert_int_equal(found_by_a_service(false), alone);
    assert_int_equal(found_by_a_service(true), replicated);
}

/* Runs a program of the server's release with these options and the file of the dump. */
static void run_with_dump(const char *program, const char *options)
{
    char command[8 * PATH_MAX];

    snprintf(command, sizeof(command),
             "%s/%s -h %s -p %u -U holdfast -d postgres %s -f %s.dump >/dev/null", server.bindir,
             program, server.dir, server.port, options, server.dir);
    assert_int_equal(system(command), 0);
}

/* Locks may have been granted since the dump was made, and none of them is in it. */
static void a_dump_that_was_loaded_is_noted(void **state)
{
    char dump[PATH_MAX + 32];

    put_continuity(HF_CONTINUITY_COMPLETE);
    expect_found(HF_CONTINUITY_COMPLETE, HF_CONTINUITY_COMPLETE);
    run_with_dump("pg_dump", "-n public");
    sql("DROP SCHEMA public CASCADE");
    run_with_dump("psql", "-q -v ON_ERROR_STOP=1");
    snprintf(dump, sizeof(dump), "%s.dump", server.dir);
    assert_int_equal(unlink(dump), 0);
    expect_found(HF_CONTINUITY_LOST, HF_CONTINUITY_LOST);
    put_continuity(HF_CONTINUITY_COMPLETE);
    expect_found(HF_CONTINUITY_COMPLETE, HF_CONTINUITY_COMPLETE);
    (void)state;
}

/* The timeline changes where a standby was promoted, or the database brought back to an earlier
 * moment: without a synchronous standby commits may be lost. */
static void another_timeline_is_noted_without_a_synchronous_standby(void **state)
{
    (void)state;
    put_continuity(HF_CONTINUITY_COMPLETE);
    sql("UPDATE server_state SET home = regexp_replace(home, '[^/]*$', '00000009')");
    expect_found(HF_CONTINUITY_LOST, HF_CONTINUITY_COMPLETE);
    put_continuity(HF_CONTINUITY_NONE); /* which is never continued */
    sql("UPDATE server_state SET home = regexp_replace(home, '[^/]*$', '00000009')");
    expect_found(HF_CONTINUITY_NONE, HF_CONTINUITY_NONE);
}

/* An older version writes none, and a role may be unable to see it. */
static void without_a_home_nothing_is_noted(void **state)
{
    (void)state;
    put_continuity(HF_CONTINUITY_COMPLETE);
    sql("UPDATE server_state SET home = ''");
    expect_found(HF_CONTINUITY_COMPLETE, HF_CONTINUITY_COMPLETE);
    sql("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public");
    sql("CREATE ROLE shy LOGIN");
    sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO shy");
    sql("GRANT ALL ON SCHEMA public TO shy");
    assert_string_equal(sql("SET ROLE shy; SELECT holdfast_home()"), "");
    sql("DROP OWNED BY shy");
    sql("DROP ROLE shy");
    sql("GRANT EXECUTE ON FUNCTION pg_control_system() TO public");
}

static void a_migration_that_fails_leaves_nothing(void **state)
{
    (void)state;
    sql("CREATE TABLE nlm_locks (not_ours int)");
    assert_int_equal(migrate(HF_MIGRATE_UP), HF_EIO);
    assert_string_equal(sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "1");
}

static void expect_refused(struct hf_store_config config, int code, const char *word)
{
    assert_int_equal(hf_store_open(&store, &config), code);
    if (!strstr(hf_store_error(&store), word))
        fail_msg("\"%s\" does not say \"%s\"", hf_store_error(&store), word);
    assert_null(strstr(hf_store_error(&store), "sesame"));
}

static void a_newer_schema_is_refused(void **state)
{
    (void)state;
    assert_int_equal(migrate(HF_MIGRATE_UP), 0);
    sql("INSERT INTO holdfast_migrations (version, name) VALUES (999, 'tomorrow')");
    expect_refused(direct(), HF_EVERSION, "newer Holdfast");
}

static void a_database_that_cannot_be_written_is_named(void **state)
{
    (void)state;
    assert_int_equal(migrate(HF_MIGRATE_UP), 0);
    sql("ALTER ROLE holdfast SET default_transaction_read_only = on");
    expect_refused(direct(), HF_EUNREACH, "primary");
    sql("BEGIN READ WRITE; ALTER ROLE holdfast RESET default_transaction_read_only; COMMIT");
}

/* The grants that docs/internals/STORE.md names are enough. */
static void few_rights_are_enough(void **state)
{
    char dsn[sizeof(server.dsn) + 32];
    struct hf_store_config config = direct();
    uint8_t room[HF_NAME_MAX];
    struct hf_record_client client = make_client(1, 1, room);
    struct digest digest;

    (void)state;
    assert_int_equal(migrate(HF_MIGRATE_UP), 0);
    sql("DROP ROLE IF EXISTS humble");
    sql("CREATE ROLE humble LOGIN");
    sql("GRANT USAGE ON SCHEMA public TO humble");
    sql("GRANT SELECT, INSERT, UPDATE, DELETE ON nsm_client_registrations, nlm_locks TO humble");
    sql("GRANT SELECT, INSERT, UPDATE ON holdfast_journal TO humble");
    sql("GRANT SELECT, UPDATE ON server_state TO humble");
    sql("GRANT SELECT ON holdfast_migrations TO humble");
    snprintf(dsn, sizeof(dsn), "%s user=humble", server.dsn);
    config.dsn = dsn;
    open_store(config);
    assert_int_equal(store_put_client(&store, &client), 0);
    assert_int_equal(store_digest(&store, &digest), 0);
    assert_int_equal(digest.count, 1);
    hf_store_close(&store);
}

static int keep_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    return kind == HF_RECORD_LOCK ? hf_buf_append(ctx, record.data, record.len) : 0;
}

static void a_damaged_row_is_not_misread(void **state)
{
    uint8_t room[HF_NAME_MAX];
    struct hf_record_client client = make_client(1, 1, room);
    struct digest digest;

    (void)state;
    open_store(direct());
    assert_int_equal(store_put_client(&store, &client), 0);
    sql("UPDATE nsm_client_registrations SET priv = 'short'");
    assert_int_equal(store_digest(&store, &digest), HF_EFORMAT);
    sql("UPDATE nsm_client_registrations SET priv = '0123456789abcdef', addresses = 'nowhere'");
    assert_int_equal(store_digest(&store, &digest), HF_EFORMAT);
    sql("UPDATE nsm_client_registrations SET addresses = '192.0.2.1 ::1', protocol = 77");
    assert_int_equal(store_digest(&store, &digest), HF_EFORMAT);
    sql("UPDATE nsm_client_registrations SET protocol = 1");
    assert_int_equal(store_digest(&store, &digest), 0);
    hf_store_close(&store);
}

/* Byte offsets are numeric in the table, which holds more than 64 bits can. */
static void an_offset_that_does_not_fit_is_not_misread(void **state)
{
    static const char *const BAD[] = {"-1", "18446744073709551616", "99999999999999999999",
                                      "'NaN'"};
    static const char *const GOOD[] = {
        "0", "1", "9999", "10000", "123400000000", "18446744073709551615"};
    uint8_t room[HF_FH_MAX];
    struct hf_record_lock lock = make_lock(1, 1, room);
    struct hf_record_lock found;
    struct digest digest;
    struct hf_buf buf;
    char text[96];

    (void)state;
    open_store(direct());
    lock.last = UINT64_MAX;
    assert_int_equal(store_put_lock(&store, &lock), 0);
    for (size_t i = 0; i < HF_COUNT_OF(BAD); i++) {
        snprintf(text, sizeof(text), "UPDATE nlm_locks SET first_byte = %s", BAD[i]);
        sql(text);
        assert_int_equal(store_digest(&store, &digest), HF_EFORMAT);
    }
    hf_buf_init(&buf, &hf_alloc_heap);
    for (size_t i = 0; i < HF_COUNT_OF(GOOD); i++) {
        snprintf(text, sizeof(text), "UPDATE nlm_locks SET first_byte = %s", GOOD[i]);
        sql(text);
        assert_int_equal(hf_store_load(&store, keep_record, &buf), 0);
        assert_int_equal(hf_record_decode_lock(hf_buf_view(&buf), &found), 0);
        assert_true(found.first == strtoull(GOOD[i], NULL, 10));
        hf_buf_clear(&buf);
    }
    hf_buf_free(&buf);
    hf_store_close(&store);
}

/* A batch takes the server longer than the store waits for an answer; each part of it is answered
 * in time. */
static void a_batch_may_take_longer_than_the_timeout(void **state)
{
    struct hf_store_config config = direct();
    struct hf_batch large;
    uint8_t room[HF_FH_MAX];

    (void)state;
    config.timeout_ms = 1000;
    open_store(config);
    sql("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN IF NEW.id % 500 = 0 THEN PERFORM pg_sleep(0.15); END IF; RETURN NEW; END'");
    sql("CREATE TRIGGER slow BEFORE INSERT ON nlm_locks FOR EACH ROW EXECUTE FUNCTION slow()");
    hf_batch_init(&large, &hf_alloc_heap);
    for (uint64_t id = 1; id <= 12000; id++) {
        struct hf_record_lock lock = make_lock(id, 1, room);
        assert_int_equal(hf_batch_put_lock(&large, &lock), 0);
    }
    if (hf_store_apply(&store, &large) < 0)
        fail_msg("%s", hf_store_error(&store));
    assert_string_equal(sql("SELECT count(*) FROM nlm_locks"), "12000");
    hf_batch_free(&large);
    hf_store_close(&store);
}

/* The rows of the table decide, and not what the daemon believes to be there. */
static void a_row_that_should_not_be_there_is_replaced_or_deleted(void **state)
{
    uint8_t room[HF_FH_MAX];
    struct hf_record_lock lock = make_lock(7, 1, room);

    (void)state;
    open_store(direct());
    lock.exclusive = true;
    assert_int_equal(store_put_lock(&store, &lock), 0);
    sql("UPDATE nlm_locks SET id = 8, exclusive = false");
    lock.id = 8;
    assert_int_equal(store_put_lock(&store, &lock), 0);
    assert_string_equal(sql("SELECT count(*) FROM nlm_locks WHERE id = 8 AND exclusive"), "1");
    sql("UPDATE nlm_locks SET id = 9");
    assert_int_equal(store_delete(&store, HF_RECORD_LOCK, 9), 0);
    assert_string_equal(sql("SELECT count(*) FROM nlm_locks"), "0");
    hf_store_close(&store);
}

/* Returns the option that libpq uses for a connection; "" where it has none. */
static const char *option(const struct hf_pg *pg, const char *keyword)
{
    static char value[64];
    PQconninfoOption *options = PQconninfo(pg->conn);

    value[0] = '\0';
    for (PQconninfoOption *o = options; o->keyword; o++) {
        if (strcmp(o->keyword, keyword) == 0)
            snprintf(value, sizeof(value), "%s", o->val ? o->val : "");
    }
    PQconninfoFree(options);
    return value;
}

/* The session notices a dead path while nothing is sent; the operator's own settings have priority.
 */
static void an_idle_connection_is_kept_an_eye_on(void **state)
{
    struct hf_store_config config = direct();
    struct hf_store owner = {.alloc = &hf_alloc_heap};
    char dsn[sizeof(server.dsn) + 64];
    struct hf_pg pg;

    (void)state;
    assert_int_equal(hf_pg_init(&pg, &owner, &config), 0);
    assert_int_equal(hf_pg_connect(&pg), 0);
    assert_string_equal(option(&pg, "keepalives_idle"), "10");
    assert_string_equal(option(&pg, "keepalives_interval"), "5");
    assert_string_equal(option(&pg, "keepalives_count"), "3");
    assert_string_equal(option(&pg, "tcp_user_timeout"), "15000");
    hf_pg_free(&pg);

    snprintf(dsn, sizeof(dsn), "%s keepalives_idle=77 tcp_user_timeout=0", server.dsn);
    config.dsn = dsn;
    assert_int_equal(hf_pg_init(&pg, &owner, &config), 0);
    assert_int_equal(hf_pg_connect(&pg), 0);
    assert_string_equal(option(&pg, "keepalives_idle"), "77");
    assert_string_equal(option(&pg, "keepalives_interval"), "5");
    assert_string_equal(option(&pg, "tcp_user_timeout"), "0");
    hf_pg_free(&pg);
}

static void no_password_is_ever_told(void **state)
{
    struct hf_store_config config = direct();
    char dsn[sizeof(server.dsn) + 64];

    (void)state;
    config.dsn = "postgresql://me:sesame@[not-an-address";
    expect_refused(config, HF_EINVAL, "store.dsn");
    config.dsn = "password=sesame sesame";
    expect_refused(config, HF_EINVAL, "store.dsn");
    config.dsn = "host=/nonexistent password=sesame";
    expect_refused(config, HF_EUNREACH, "cannot connect");
    /* the password is hidden even where the server itself repeats it */
    snprintf(dsn, sizeof(dsn), "%s user=sesame password=sesame", server.dsn);
    config.dsn = dsn;
    expect_refused(config, HF_EUNREACH, "******");
}

/* libpq's messages have several lines; a line of the log is one. */
static void messages_become_one_line(void **state)
{
    struct hf_pg pg = {0};
    char text[64];

    (void)state;
    hf_pg_clean_text(&pg, "connection failed:\n\tno route\n", text, sizeof(text));
    assert_string_equal(text, "connection failed:  no route");
}

int main(void)
{
#define STORY(f) cmocka_unit_test_setup(f, set_up)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_become_one_line),
        STORY(a_connection_cut_around_commit_loses_nothing),
        STORY(the_doubt_is_told),
        STORY(a_silent_network_is_left_behind),
        STORY(a_server_that_is_restarted_loses_and_refuses_nothing),
        STORY(a_server_that_crashes_loses_and_refuses_nothing),
        STORY(a_server_that_went_while_idle_leaves_no_doubt),
        STORY(a_daemon_whose_number_is_old_never_writes_again),
        STORY(a_daemon_that_was_overtaken_never_writes_again),
        STORY(migrations_go_up_and_down),
        STORY(a_migration_keeps_what_is_there),
        STORY(a_dump_that_was_loaded_is_noted),
        STORY(another_timeline_is_noted_without_a_synchronous_standby),
        STORY(without_a_home_nothing_is_noted),
        STORY(a_migration_that_fails_leaves_nothing),
        STORY(a_newer_schema_is_refused),
        STORY(a_database_that_cannot_be_written_is_named),
        STORY(few_rights_are_enough),
        STORY(a_damaged_row_is_not_misread),
        STORY(an_offset_that_does_not_fit_is_not_misread),
        STORY(a_batch_may_take_longer_than_the_timeout),
        STORY(a_row_that_should_not_be_there_is_replaced_or_deleted),
        STORY(an_idle_connection_is_kept_an_eye_on),
        STORY(no_password_is_ever_told),
    };

    return pg_server_run(&server, pg_server_start(&server), tests, HF_COUNT_OF(tests));
}
