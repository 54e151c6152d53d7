/*
 * Backups: what a store of any backend held is restored into an empty store of any other, and every
 * damage to the file is noticed. The committer makes one between two batches.
 *
 * usage: test-backup lmdb|postgres
 */
#include "../unit/unit.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "fixture.h"
#include "pg_server.h"
#include "single.h"
#include "store/backup.h"
#include "store/commit.h"

enum { BATCHES = 40 };

static const uint64_t SEED = 4711;
static char dir[PATH_MAX];
static struct pg_server server;
static struct hf_store_config memory = {.backend = "memory"};
static struct hf_store_config durable;
static struct hf_store source;
static struct hf_store target;
static struct hf_batch records;
static struct hf_buf file;

static void tell_story(struct hf_store *store)
{
    struct hf_record_server last = {
        .epoch = 77, .clean = true, .continuity = HF_CONTINUITY_COMPLETE};
    struct hf_batch batch;

    hf_batch_init(&batch, &hf_alloc_heap);
    for (uint64_t seq = 1; seq <= BATCHES; seq++) {
        story_batch(SEED, seq, &batch);
        assert_int_equal(hf_store_apply(store, &batch), 0);
    }
    hf_batch_free(&batch);
    assert_int_equal(store_put_server(store, &last), 0);
}

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(hf_store_open(&source, &memory), 0);
    tell_story(&source);
    hf_batch_init(&records, &hf_alloc_heap);
    hf_buf_init(&file, &hf_alloc_heap);
    assert_int_equal(hf_backup_write(&source, 1234, &file), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hf_store_close(&source);
    hf_batch_free(&records);
    hf_buf_free(&file);
    return 0;
}

static int parse(struct hf_bytes bytes, struct hf_backup_content *out)
{
    const char *reason = "";
    int rv;

    hf_batch_clear(&records);
    rv = hf_backup_parse(bytes, &records, out, &reason);
    assert_true(rv == 0 || reason[0] != '\0');
    return rv;
}

static int add_kept(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct digest *d = ctx;

    if (kind != HF_RECORD_CLIENT && !hf_record_is_held(record))
        return 0;
    d->sum += hf_record_hash(record);
    d->count++;
    return 0;
}

/* Compares all clients and locks; the server's record differs on purpose, and waiters and shares
 * are left out. */
static void expect_same(struct hf_store *a, struct hf_store *b)
{
    struct digest of_a = {0};
    struct digest of_b = {0};
    struct digest all = {0};

    assert_int_equal(hf_store_load(a, add_kept, &of_a), 0);
    assert_int_equal(hf_store_load(b, add_kept, &of_b), 0);
    assert_true(of_a.sum == of_b.sum && of_a.count == of_b.count && of_a.count > 100);
    assert_int_equal(store_digest(a, &all), 0);
    assert_true(all.count > of_a.count + 10); /* the first store also had waiters and shares */
    assert_int_equal(store_digest(b, &all), 0);
    assert_int_equal(all.count, of_b.count + 1);
}

/* A backup moves a store to a machine of another byte order or word size: each machine writes, and
 * so reads, the same bytes. */
static void every_machine_writes_the_same_bytes(void **state)
{
    static const struct hf_hash_key KEY = {1, 2};
    static const uint64_t SUM = 0x97317df3ea322d98;
    struct hf_record_server server_record = {.epoch = 77, .clean = true};
    uint8_t room[HF_FH_MAX];
    struct hf_record_lock lock = make_lock(1, SEED, room);
    struct hf_store store;
    struct hf_batch batch;

    (void)state;
    lock.extra = (struct hf_record_extra){0}; /* the comparison leaves this extra record out */
    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    assert_int_equal(hf_store_open(&store, &memory), 0);
    assert_int_equal(hf_store_apply(&store, &batch), 0);
    assert_int_equal(store_put_server(&store, &server_record), 0);
    hf_buf_clear(&file);
    assert_int_equal(hf_backup_write(&store, 1234, &file), 0);
    assert_int_equal(hf_siphash(&KEY, hf_buf_view(&file).data, hf_buf_view(&file).len), SUM);
    hf_batch_free(&batch);
    hf_store_close(&store);
}

static int keep_server(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    return kind == HF_RECORD_SERVER ? hf_record_decode_server(record, ctx) : 0;
}

static void a_backup_fills_an_empty_store(void **state)
{
    struct hf_backup_content content;
    struct hf_record_server found = {0};

    (void)state;
    assert_int_equal(parse(hf_buf_view(&file), &content), 0);
    assert_true(content.made_at_ms == 1234 && content.server.epoch == 77);
    assert_int_equal(hf_store_open(&target, &durable), 0);
    assert_int_equal(hf_backup_restore(&target, &content, &records), 0);
    hf_store_close(&target);
    assert_int_equal(hf_store_open(&target, &durable), 0);
    assert_int_equal(hf_store_load(&target, keep_server, &found), 0);
    assert_true(found.epoch > 77 + 100 && !found.clean);
    assert_true(found.locks_unknown && found.continuity == HF_CONTINUITY_LOST); /* REC-01g */
    expect_same(&source, &target);

    /* the store has records now, with which a second restore would be mixed */
    assert_int_equal(parse(hf_buf_view(&file), &content), 0);
    assert_int_equal(hf_backup_restore(&target, &content, &records), HF_EEXIST);
    assert_non_null(strstr(hf_store_error(&target), "move"));
    hf_store_close(&target);
}

static void wake(void *ctx)
{
    sem_post(ctx);
}

/* Uses the store of the test before, which is full now: its committer backs it up as the daemon
 * does. */
static void the_committer_makes_a_backup(void **state)
{
    struct hf_committer committer;
    struct hf_backup_content content;
    sem_t woken;
    int status;

    (void)state;
    sem_init(&woken, 0, 0);
    hf_buf_clear(&file);
    assert_int_equal(hf_store_open(&target, &durable), 0);
    assert_int_equal(
        hf_committer_init(&committer, &target, &(struct hf_committer_config){100, wake, &woken}),
        0);
    assert_int_equal(hf_committer_start(&committer), 0);
    hf_committer_back_up(&committer, 5678, &file);
    while (!hf_committer_collect_backup(&committer, &status))
        sem_wait(&woken);
    assert_int_equal(status, 0);
    hf_committer_stop(&committer);
    hf_committer_free(&committer);
    hf_store_close(&target);
    assert_int_equal(parse(hf_buf_view(&file), &content), 0);
    assert_true(content.made_at_ms == 5678 && content.clients > 0 && content.locks > 0);
    assert_int_equal(hf_store_open(&target, &memory), 0);
    assert_int_equal(hf_backup_restore(&target, &content, &records), 0);
    expect_same(&source, &target);
    hf_store_close(&target);
    sem_destroy(&woken);
}

static void every_damage_is_noticed(void **state)
{
    struct hf_backup_content content;
    struct hf_bytes all = hf_buf_view(&file);
    uint8_t *copy = malloc(all.len);

    (void)state;
    assert_non_null(copy);
    memcpy(copy, all.data, all.len);
    for (size_t at = 0; at < all.len; at += 1 + at / 200) {
        copy[at] ^= 0x40;
        assert_true(parse(hf_bytes(copy, all.len), &content) < 0);
        copy[at] ^= 0x40;
        assert_true(parse(hf_bytes(copy, at), &content) < 0);
    }
    assert_int_equal(parse(hf_bytes(copy, all.len), &content), 0);
    free(copy);
}

static void a_newer_version_is_named(void **state)
{
    struct hf_backup_content content;

    (void)state;
    file.data[11] = 2;
    assert_int_equal(parse(hf_buf_view(&file), &content), HF_EVERSION);
}

int main(int argc, char **argv)
{
#define STORY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORY(a_backup_fills_an_empty_store), STORY(every_machine_writes_the_same_bytes),
        STORY(the_committer_makes_a_backup),  STORY(every_damage_is_noticed),
        STORY(a_newer_version_is_named),
    };
    int rv;

    MUST(argc == 2);
    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    durable.backend = argv[1];
    if (strcmp(argv[1], "postgres") == 0) {
        if (!pg_server_start(&server)) {
            printf("1..0 # SKIP PostgreSQL is not installed\n");
            return 0;
        }
        durable.dsn = server.dsn;
    }
    scratch_make(dir, NULL);
    durable.path = dir;
    rv = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(dir);
    if (durable.dsn)
        pg_server_remove(&server);
    return rv;
}
