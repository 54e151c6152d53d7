/*
 * The contract that all stores keep (STO-01, STO-02): the same stories, told to each of them. The
 * backend is the program's argument.
 */
#include "../unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "fixture.h"
#include "pg_server.h"
#include "single.h"
#include "store/store.h"

static struct hf_store_config config = {.map_bytes = 1 << 20};
static struct hf_store store;
static struct pg_server server;
static char dir[PATH_MAX];

static void open_store(void)
{
    if (hf_store_open(&store, &config) < 0)
        fail_msg("%s", hf_store_error(&store));
}

/* The store in memory forgets everything when it is closed. */
static bool store_survives(void)
{
    return strcmp(config.backend, "memory") != 0;
}

/* Closes the store and opens it again; a store that does not survive this stays open. */
static bool reopen_store(void)
{
    bool survives = store_survives();

    if (survives) {
        hf_store_close(&store);
        open_store();
    }
    return survives;
}

static int set_up(void **state)
{
    (void)state;
    open_store();
    for (int kind = HF_RECORD_SERVER; kind <= HF_RECORD_LOCK; kind++)
        assert_int_equal(store_delete_all(&store, (enum hf_record_kind)kind, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hf_store_close(&store);
    return 0;
}

static void expect_client(const struct hf_record_client *want)
{
    struct hf_buf encoded;
    struct hf_buf got;

    hf_buf_init(&encoded, &hf_alloc_heap);
    hf_buf_init(&got, &hf_alloc_heap);
    assert_int_equal(hf_record_encode_client(want, &encoded), 0);
    assert_int_equal(store_get(&store, HF_RECORD_CLIENT, want->id, &got), 0);
    assert_true(hf_bytes_equal(hf_buf_view(&encoded), hf_buf_view(&got)));
    hf_buf_free(&encoded);
    hf_buf_free(&got);
}

static int get(enum hf_record_kind kind, uint64_t id)
{
    struct hf_buf got;
    int rv;

    hf_buf_init(&got, &hf_alloc_heap);
    rv = store_get(&store, kind, id, &got);
    hf_buf_free(&got);
    return rv;
}

static size_t count_all(void)
{
    struct digest digest;

    assert_int_equal(store_digest(&store, &digest), 0);
    return digest.count;
}

static void a_new_store_is_empty(void **state)
{
    (void)state;
    assert_int_equal(count_all(), 0);
    assert_int_equal(get(HF_RECORD_SERVER, 0), HF_ENOENT);
    assert_int_equal(get(HF_RECORD_CLIENT, 1), HF_ENOENT);
    assert_int_equal(get(HF_RECORD_LOCK, 1), HF_ENOENT);
    assert_int_equal(store_delete(&store, HF_RECORD_LOCK, 1), 0);
}

/* STO-01, STO-02: LMDB and PostgreSQL keep what was put over a restart; the store in memory keeps
 * it while it is open. */
static void what_was_put_is_there_after_reopening(void **state)
{
    uint8_t room[HF_NAME_MAX];
    struct hf_record_client client;

    (void)state;
    for (uint64_t id = 1; id <= 50; id++) {
        client = make_client(id, 7, room);
        assert_int_equal(store_put_client(&store, &client), 0);
    }
    reopen_store();
    for (uint64_t id = 1; id <= 50; id++) {
        client = make_client(id, 7, room);
        expect_client(&client);
    }
    assert_int_equal(count_all(), 50);
}

static void a_second_put_replaces_the_first(void **state)
{
    uint8_t room[HF_NAME_MAX];
    struct hf_record_client client = make_client(9, 1, room);

    (void)state;
    assert_int_equal(store_put_client(&store, &client), 0);
    client = make_client(9, 2, room);
    assert_int_equal(store_put_client(&store, &client), 0);
    assert_int_equal(store_put_client(&store, &client), 0);
    expect_client(&client);
    assert_int_equal(count_all(), 1);
}

static void the_largest_values_fit(void **state)
{
    uint8_t bytes[HF_FH_MAX];
    struct hf_record_client client = {.id = UINT64_MAX,
                                      .protocol = HF_PROTOCOL_NSM,
                                      .transport = HF_TRANSPORT_UDP,
                                      .name = {bytes, HF_NAME_MAX},
                                      .my_name = {bytes, HF_NAME_MAX},
                                      .ttl_ms = UINT64_MAX,
                                      .epoch = UINT64_MAX,
                                      .prog = UINT32_MAX,
                                      .n_addrs = HF_CLIENT_ADDRS_MAX};
    struct hf_record_lock lock = {.id = UINT64_MAX,
                                  .client_id = UINT64_MAX,
                                  .export = {bytes, HF_EXPORT_NAME_MAX},
                                  .fh = {bytes, HF_FH_MAX},
                                  .oh = {bytes, HF_OH_MAX},
                                  .svid = INT32_MIN,
                                  .last = UINT64_MAX,
                                  .first = UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    for (unsigned i = 0; i < HF_CLIENT_ADDRS_MAX; i++)
        hf_addr_parse("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", &client.addrs[i]);
    assert_int_equal(store_put_client(&store, &client), 0);
    assert_int_equal(store_put_lock(&store, &lock), 0);
    reopen_store();
    expect_client(&client);
    assert_int_equal(get(HF_RECORD_LOCK, UINT64_MAX), 0);
    /* the ids are read again, now that the greatest of all is in use */
    assert_int_equal(store_put_lock(&store, &lock), 0);
    lock.id = 0;
    assert_int_equal(store_put_lock(&store, &lock), 0);
    assert_int_equal(count_all(), 3);
}

static void delete_all_leaves_the_other_kinds(void **state)
{
    uint8_t room[HF_NAME_MAX];
    struct hf_record_server server_record = {.epoch = 3, .clean = true};
    size_t count = 0;

    (void)state;
    assert_int_equal(store_put_server(&store, &server_record), 0);
    for (uint64_t id = 1; id <= 5; id++) {
        struct hf_record_client client = make_client(id, 0, room);
        struct hf_record_lock lock;
        assert_int_equal(store_put_client(&store, &client), 0);
        lock = make_lock(id, 0, room);
        assert_int_equal(store_put_lock(&store, &lock), 0);
    }
    assert_int_equal(store_delete_all(&store, HF_RECORD_LOCK, &count), 0);
    assert_int_equal(count, 5);
    assert_int_equal(count_all(), 6);
    assert_int_equal(store_delete_all(&store, HF_RECORD_CLIENT, &count), 0);
    assert_int_equal(count, 5);
    assert_int_equal(count_all(), 1);
    assert_int_equal(get(HF_RECORD_SERVER, 0), 0);
}

/* Puts clients 1, 2 and 3; 1 and 3 have the same name; each holds one lock of ten times its number.
 */
static void put_namesakes(void)
{
    static const char *const NAMES[] = {"alpha", "beta", "alpha"};
    uint8_t room[HF_NAME_MAX];

    for (uint64_t id = 1; id <= 3; id++) {
        struct hf_record_client client = make_client(id, 0, room);
        struct hf_record_lock lock;
        client.name = hf_bytes_str(NAMES[id - 1]);
        assert_int_equal(store_put_client(&store, &client), 0);
        lock = make_lock(id * 10, 0, room);
        lock.client_id = id;
        assert_int_equal(store_put_lock(&store, &lock), 0);
    }
}

static void deleting_by_name_takes_all_of_that_name(void **state)
{
    size_t count = 0;

    (void)state;
    put_namesakes();
    assert_int_equal(store_delete_locks_named(&store, hf_bytes_str("alpha"), &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(get(HF_RECORD_LOCK, 10), HF_ENOENT);
    assert_int_equal(get(HF_RECORD_LOCK, 20), 0);
    assert_int_equal(store_delete_clients_named(&store, hf_bytes_str("alpha"), &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(get(HF_RECORD_CLIENT, 2), 0);
    assert_int_equal(get(HF_RECORD_CLIENT, 3), HF_ENOENT);
    assert_int_equal(store_delete_clients_named(&store, hf_bytes_str("gamma"), &count), 0);
    assert_int_equal(count, 0);
}

static void within_a_batch_the_last_word_counts(void **state)
{
    uint8_t room[HF_NAME_MAX];
    struct hf_record_lock lock = make_lock(5, 1, room);
    struct hf_batch batch;

    (void)state;
    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(store_put_lock(&store, &lock), 0);

    /* 5 was durable before and 6 was not; both are put and deleted here, so both must be gone */
    hf_batch_put_lock(&batch, &lock);
    lock.id = 6;
    hf_batch_put_lock(&batch, &lock);
    hf_batch_delete(&batch, HF_RECORD_LOCK, 6);
    hf_batch_delete(&batch, HF_RECORD_LOCK, 5);
    /* 7 is deleted and then put, so it must be there */
    hf_batch_delete(&batch, HF_RECORD_LOCK, 7);
    lock.id = 7;
    hf_batch_put_lock(&batch, &lock);
    assert_int_equal(hf_store_apply(&store, &batch), 0);
    assert_int_equal(get(HF_RECORD_LOCK, 5), HF_ENOENT);
    assert_int_equal(get(HF_RECORD_LOCK, 6), HF_ENOENT);
    assert_int_equal(get(HF_RECORD_LOCK, 7), 0);

    /* the same batch once more changes nothing */
    assert_int_equal(hf_store_apply(&store, &batch), 0);
    assert_int_equal(count_all(), 1);
    hf_batch_free(&batch);
}

static void a_long_story_ends_the_same_everywhere(void **state)
{
    struct hf_store_config memory = {.backend = "memory"};
    struct hf_store model;
    struct hf_batch batch;
    struct digest want;
    struct digest got;

    (void)state;
    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(hf_store_open(&model, &memory), 0);
    for (uint64_t seq = 1; seq <= 300; seq++) {
        story_batch(4711, seq, &batch);
        if (hf_store_apply(&store, &batch) < 0)
            fail_msg("%s", hf_store_error(&store));
        assert_int_equal(hf_store_apply(&model, &batch), 0);
        if (seq % 100 == 0)
            reopen_store();
    }
    assert_int_equal(store_digest(&store, &got), 0);
    assert_int_equal(store_digest(&model, &want), 0);
    assert_int_equal(got.count, want.count);
    assert_true(got.sum == want.sum && want.count > 100);
    hf_store_close(&model);
    hf_batch_free(&batch);
}

static void a_large_batch_is_one_batch(void **state)
{
    uint8_t room[HF_NAME_MAX];
    struct hf_batch batch;
    struct digest before;
    struct digest after;

    (void)state;
    hf_batch_init(&batch, &hf_alloc_heap);
    for (uint64_t id = 1; id <= 20000; id++) {
        struct hf_record_lock lock = make_lock(id, 3, room);
        assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    }
    assert_int_equal(hf_store_apply(&store, &batch), 0); /* LMDB's map must grow for this */
    assert_int_equal(store_digest(&store, &before), 0);
    assert_int_equal(before.count, 20000);
    if (reopen_store()) {
        assert_int_equal(store_digest(&store, &after), 0);
        assert_true(before.sum == after.sum && before.count == after.count);
    }
    hf_batch_free(&batch);
}

static int stop_at_second(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    (void)kind;
    (void)record;
    return ++*(int *)ctx == 2 ? HF_ECANCELED : 0;
}

static void a_visitor_may_stop(void **state)
{
    int seen = 0;

    (void)state;
    put_namesakes();
    assert_int_equal(store_list(&store, HF_RECORD_CLIENT, stop_at_second, &seen), HF_ECANCELED);
    assert_int_equal(seen, 2);
    assert_int_equal(count_all(), 6);
}

static int refuse_version(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    (void)ctx;
    (void)kind;
    (void)record;
    return HF_EVERSION;
}

static void a_newer_record_is_named_as_such(void **state)
{
    (void)state;
    put_namesakes();
    assert_int_equal(hf_store_load(&store, refuse_version, NULL), HF_EVERSION);
    assert_non_null(strstr(hf_store_error(&store), "newer Holdfast"));
}

static void a_second_daemon_is_refused(void **state)
{
    struct hf_store_config second_config = config;
    struct hf_store second;

    (void)state;
    second_config.timeout_ms = 400;
    if (!store_survives()) { /* a second store in memory is simply another store */
        assert_int_equal(hf_store_open(&second, &second_config), 0);
        hf_store_close(&second);
        return;
    }
    assert_int_equal(hf_store_open(&second, &second_config), HF_EBUSY);
    assert_non_null(strstr(hf_store_error(&second), "in use by another holdfastd"));
    put_namesakes(); /* the first store still works */
}

static void a_usable_store_probes_well(void **state)
{
    (void)state;
    assert_int_equal(hf_store_probe(&store), 0);
    assert_int_equal(count_all(), 0);
}

/* Opens a store, writes and reads, while some allocation fails. */
static int use_store(const struct hf_alloc *alloc, const struct hf_batch *batch)
{
    struct hf_store_config starved = config;
    struct hf_store second;
    struct digest digest;
    int rv;

    starved.alloc = alloc;
    rv = hf_store_open(&second, &starved);
    if (rv < 0)
        return rv;
    rv = hf_store_apply(&second, batch);
    if (rv == 0)
        rv = store_digest(&second, &digest);
    if (rv == 0)
        rv = store_delete_locks_named(&second, hf_bytes_str("alpha"), NULL);
    hf_store_close(&second);
    return rv;
}

static void memory_may_run_out_anywhere(void **state)
{
    struct faulty_heap heap;
    struct hf_alloc alloc = faulty_alloc(&heap);
    struct hf_batch batch;
    int rv = HF_ENOMEM;

    (void)state;
    hf_store_close(&store); /* only one store can be open */
    hf_batch_init(&batch, &hf_alloc_heap);
    story_batch(5, 5, &batch);
    for (long after = 0; rv < 0; after++) {
        heap = (struct faulty_heap){.after = after};
        rv = use_store(&alloc, &batch);
        assert_true(rv == 0 || rv == HF_ENOMEM);
        assert_int_equal(heap.live, 0);
    }
    hf_batch_free(&batch);
    open_store();
}

int main(int argc, char **argv)
{
#define STORY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORY(a_new_store_is_empty),
        STORY(what_was_put_is_there_after_reopening),
        STORY(a_second_put_replaces_the_first),
        STORY(the_largest_values_fit),
        STORY(delete_all_leaves_the_other_kinds),
        STORY(deleting_by_name_takes_all_of_that_name),
        STORY(within_a_batch_the_last_word_counts),
        STORY(a_long_story_ends_the_same_everywhere),
        STORY(a_large_batch_is_one_batch),
        STORY(a_visitor_may_stop),
        STORY(a_newer_record_is_named_as_such),
        STORY(a_second_daemon_is_refused),
        STORY(a_usable_store_probes_well),
        STORY(memory_may_run_out_anywhere),
    };
    int rv;

    MUST(argc == 2);
    config.backend = argv[1];
    scratch_make(dir, NULL);
    config.path = dir;
    if (strcmp(argv[1], "postgres") == 0) {
        if (!pg_server_start(&server)) {
            scratch_remove(dir);
            printf("1..0 # SKIP PostgreSQL is not installed\n");
            return 0;
        }
        config.dsn = server.dsn;
    }
    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    rv = cmocka_run_group_tests(tests, NULL, NULL);
    if (config.dsn)
        pg_server_remove(&server);
    scratch_remove(dir);
    return rv;
}
