/*
 * The group-commit thread, over a store whose failures the test controls: order, retries, giving
 * up, recovery, fencing, draining at the end (STO-03, STO-04, STO-05; SPEC sections 4 and 5), and
 * what is written first and flushed later (DUR-02).
 */
#include "../unit/unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "store/backend.h"
#include "store/commit.h"

/* A store that answers as the test says: it fails with `code` for so many calls, then succeeds. */
static struct fake {
    _Atomic int failures; /* how many calls will fail; -1: all of them */
    _Atomic int code;
    _Atomic bool in_doubt;
    _Atomic int applied; /* batches made durable */
    _Atomic int calls;
    _Atomic int probes;
    _Atomic int written;
    _Atomic int flushes;
    _Atomic int flushed; /* batches that a flush, a probe or an apply has made durable */
    sem_t *hold;         /* if set, apply() waits for it */
    sem_t *hold_move;    /* if set, a move waits for it */
    sem_t *hold_load;    /* if set, reading all records waits for it */
    _Atomic bool full;
    _Atomic int moves;
} fake;

static int fake_try(struct hf_store *store)
{
    if (fake.failures == 0)
        return 0;
    if (fake.failures > 0)
        fake.failures--;
    return hf_store_fail(store, fake.code, "the fake store says no");
}

static int fake_apply(struct hf_store *store, const struct hf_batch *batch)
{
    int rv;

    (void)batch;
    if (fake.hold)
        sem_wait(fake.hold);
    fake.calls++;
    rv = fake_try(store);
    store->in_doubt = rv < 0 && atomic_exchange(&fake.in_doubt, false);
    if (rv == 0)
        fake.applied++;
    return rv;
}

static int fake_probe(struct hf_store *store)
{
    fake.probes++;
    return fake_try(store);
}

static bool fake_write(struct hf_store *s, const struct hf_batch *b)
{
    (void)s;
    (void)b;
    fake.written++;
    return true;
}

static int fake_flush(struct hf_store *s)
{
    int written = fake.written;
    int rv = fake_try(s);

    fake.flushes++;
    if (rv == 0)
        fake.flushed = written;
    return rv;
}

static bool fake_is_full(const struct hf_store *s)
{
    (void)s;
    return fake.full;
}

static int fake_move(struct hf_store *s)
{
    fake.full = false;
    if (fake.hold_move)
        sem_wait(fake.hold_move);
    fake.moves++;
    return fake_try(s);
}

static int fake_load(struct hf_store *s, hf_store_visit visit, void *ctx)
{
    (void)s;
    (void)visit;
    (void)ctx;
    if (fake.hold_load)
        sem_wait(fake.hold_load);
    return 0;
}

static const struct hf_store_backend FAKE = {.name = "fake",
                                             .survives = true,
                                             .apply = fake_apply,
                                             .probe = fake_probe,
                                             .write = fake_write,
                                             .flush = fake_flush,
                                             .move = fake_move,
                                             .is_full = fake_is_full,
                                             .load = fake_load};

static struct hf_store store;
static struct hf_committer committer;
static struct hf_batch batch;
static sem_t woken;

static void post(void *ctx)
{
    sem_post(ctx);
}

static void start_looking(uint32_t give_up_ms, uint64_t busy_poll_ns)
{
    struct hf_committer_config config = {
        .give_up_ms = give_up_ms, .wake = post, .ctx = &woken, .busy_poll_ns = busy_poll_ns};
    struct hf_record_server record = {.epoch = 1};

    memset(&fake, 0, sizeof(fake));
    store = (struct hf_store){.backend = &FAKE, .alloc = &hf_alloc_heap};
    sem_init(&woken, 0, 0);
    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(hf_batch_put_server(&batch, &record), 0);
    assert_int_equal(hf_committer_init(&committer, &store, &config), 0);
    assert_int_equal(hf_committer_start(&committer), 0);
}

static void start(uint32_t give_up_ms)
{
    start_looking(give_up_ms, 0);
}

static void finish(void)
{
    hf_committer_stop(&committer);
    hf_committer_free(&committer);
    hf_batch_free(&batch);
    sem_destroy(&woken);
}

static struct hf_commit_result commit(void)
{
    struct hf_commit_result result;

    hf_committer_submit(&committer, &batch);
    while (!hf_committer_collect(&committer, &result))
        sem_wait(&woken);
    assert_ptr_equal(result.batch, &batch);
    return result;
}

static bool is_up(void)
{
    struct hf_store_health health;

    hf_committer_health(&committer, &health);
    assert_int_equal(health.up, health.code == 0);
    assert_int_equal(health.up, health.reason[0] == '\0');
    return health.up;
}

static void each_batch_is_reported_once(void **state)
{
    struct hf_commit_result result;

    (void)state;
    start(0);
    assert_false(hf_committer_collect(&committer, &result));
    for (int i = 1; i <= 1000; i++) {
        assert_int_equal(commit().status, 0);
        assert_int_equal(fake.applied, i);
        assert_false(hf_committer_collect(&committer, &result));
    }
    assert_true(is_up());
    finish();
}

/* Returns for how long the thread has looked for batches by now. */
static uint64_t looked_ns(void)
{
    struct hf_store_health health;

    hf_committer_health(&committer, &health);
    return health.looked_ns;
}

/* RPC-04: the committer follows the rule that tests/unit/test_busy_poll.c tests. */
static void batches_that_come_one_at_a_time_and_fast_are_looked_for(void **state)
{
    enum { LONG_NS = 20000000, MANY = 1000 };

    (void)state;
    start_looking(0, LONG_NS);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(commit().status, 0);
    assert_int_equal(fake.applied, MANY);
    assert_true(looked_ns() > 0);
    finish();

    start_looking(0, LONG_NS);
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(hf_batch_delete(&batch, HF_RECORD_LOCK, id), 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(commit().status, 0);
    assert_int_equal(looked_ns(), 0);
    finish();

    start_looking(0, 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(commit().status, 0);
    assert_int_equal(looked_ns(), 0);
    finish();
}

static void a_short_outage_refuses_no_request(void **state)
{
    static const int PASSING[] = {HF_EUNREACH, HF_ETIMEDOUT, HF_EBUSY};

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(PASSING); i++) {
        struct hf_commit_result result;

        start(60000);
        fake.code = PASSING[i];
        fake.failures = 4;
        fake.in_doubt = true;
        result = commit();
        assert_int_equal(result.status, 0);
        assert_false(result.in_doubt);
        assert_int_equal(fake.calls, 5);
        assert_true(is_up());
        finish();
    }
}

static void a_store_that_stays_away_is_given_up(void **state)
{
    struct hf_commit_result result;
    struct hf_store_health health;

    (void)state;
    start(50);
    fake.code = HF_EUNREACH;
    fake.failures = -1;
    result = commit();
    assert_int_equal(result.status, HF_EUNREACH);
    assert_false(result.in_doubt);
    assert_true(fake.calls > 1);
    assert_false(is_up());
    hf_committer_health(&committer, &health);
    assert_string_equal(health.reason, "the fake store says no");

    /* while the store is down no batch waits: each gets one try */
    fake.calls = 0;
    assert_int_equal(commit().status, HF_EUNREACH);
    assert_int_equal(fake.calls, 1);
    finish();
}

/* ADM-10: a disk that hangs makes no batch fail, and the store counts as down all the same. */
static void a_store_that_hangs_is_down(void **state)
{
    struct hf_commit_result result;
    struct hf_store_health health;
    sem_t hold;

    (void)state;
    sem_init(&hold, 0, 0);
    start(100);
    fake.hold = &hold;
    hf_committer_submit(&committer, &batch);
    usleep(500 * 1000);
    assert_true(is_up()); /* the store may be slow */
    usleep(800 * 1000);
    assert_false(is_up());
    hf_committer_health(&committer, &health);
    assert_string_equal(health.reason, "The store has not answered for 1 s: a disk that hangs?");
    /* The outcome of the batch is not known. */
    assert_false(hf_committer_collect(&committer, &result));
    sem_post(&hold);
    while (!hf_committer_collect(&committer, &result))
        sem_wait(&woken);
    assert_int_equal(result.status, 0);
    assert_true(is_up());
    fake.hold = NULL;
    finish();
    sem_destroy(&hold);
}

/* The first try may have made the batch durable; what later tries say about the store changes
 * nothing. */
static void a_batch_in_doubt_is_settled_not_refused(void **state)
{
    struct hf_commit_result result;

    (void)state;
    start(0);
    fake.code = HF_EUNREACH;
    fake.failures = -1;
    fake.in_doubt = true;
    hf_committer_submit(&committer, &batch);
    while (is_up())
        sem_wait(&woken);
    fake.code = HF_ENOSPC;
    while (fake.calls < 4)
        usleep(1000);
    assert_false(hf_committer_collect(&committer, &result));
    fake.failures = 0;
    while (!hf_committer_collect(&committer, &result))
        sem_wait(&woken);
    assert_int_equal(result.status, 0);
    assert_false(result.in_doubt);
    assert_true(is_up());
    finish();
}

static void stopping_ends_a_doubt_as_such(void **state)
{
    struct hf_commit_result result;

    (void)state;
    start(0);
    fake.code = HF_EUNREACH;
    fake.failures = -1;
    fake.in_doubt = true;
    hf_committer_submit(&committer, &batch);
    hf_committer_stop(&committer);
    assert_true(hf_committer_collect(&committer, &result));
    assert_int_equal(result.status, HF_EUNREACH);
    assert_true(result.in_doubt);
    hf_committer_free(&committer);
    hf_batch_free(&batch);
    sem_destroy(&woken);
}

static void it_heals_without_a_request(void **state)
{
    (void)state;
    start(0);
    fake.code = HF_EUNREACH;
    fake.failures = 3; /* three calls fail: the batch, and two probes */
    assert_int_equal(commit().status, HF_EUNREACH);
    while (!is_up())
        sem_wait(&woken);
    assert_int_equal(fake.probes, 3);
    assert_int_equal(commit().status, 0);
    finish();
}

static void a_final_failure_is_not_tried_again(void **state)
{
    (void)state;
    start(60000);
    fake.code = HF_ENOSPC;
    fake.failures = 1;
    assert_int_equal(commit().status, HF_ENOSPC);
    assert_int_equal(fake.calls, 1);
    while (!is_up())
        sem_wait(&woken);
    finish();
}

static void a_fenced_store_stays_down(void **state)
{
    (void)state;
    start(60000);
    fake.code = HF_EFENCED;
    fake.failures = 1; /* no try follows, although it would succeed */
    assert_int_equal(commit().status, HF_EFENCED);
    assert_int_equal(commit().status, HF_EFENCED);
    assert_int_equal(fake.calls, 1);
    assert_int_equal(fake.applied, 0);
    assert_int_equal(fake.probes, 0);
    assert_false(is_up());
    finish();
}

static void stopping_drains(void **state)
{
    struct hf_commit_result result;
    sem_t hold;

    (void)state;
    start(0);
    sem_init(&hold, 0, 0);
    fake.hold = &hold;
    hf_committer_submit(&committer, &batch);
    sem_post(&hold);
    hf_committer_stop(&committer);
    assert_true(hf_committer_collect(&committer, &result));
    assert_int_equal(result.status, 0);
    assert_int_equal(fake.applied, 1);
    hf_committer_free(&committer);
    hf_batch_free(&batch);
    sem_destroy(&hold);
    sem_destroy(&woken);
}

static void write_one(void)
{
    batch.may_be_lost = true;
    assert_true(hf_committer_write(&committer, &batch));
    batch.may_be_lost = false;
}

static void what_is_written_is_flushed_by_itself(void **state)
{
    (void)state;
    start(0);
    for (int i = 1; i <= 20; i++) {
        write_one();
        while (fake.flushed < i)
            usleep(100);
    }
    assert_true(is_up());
    finish();
}

static void one_flush_serves_many(void **state)
{
    (void)state;
    start(0);
    for (int i = 0; i < 10000; i++)
        write_one();
    while (fake.flushed < 10000)
        usleep(100);
    assert_true(fake.flushes < 5000);
    finish();
}

static void stopping_flushes(void **state)
{
    (void)state;
    start(0);
    write_one();
    hf_committer_stop(&committer);
    assert_int_equal(fake.flushed, 1);
    hf_committer_free(&committer);
    hf_batch_free(&batch);
    sem_destroy(&woken);
}

static void a_failed_flush_is_made_good_by_a_probe(void **state)
{
    (void)state;
    start(0);
    fake.code = HF_EIO;
    fake.failures = 1;
    write_one();
    while (fake.probes == 0)
        usleep(1000);
    while (!is_up())
        usleep(1000);
    assert_int_equal(fake.flushes, 1);
    finish();
}

/* Each thread has one job: a move that hangs delays neither a flush nor a batch. */
static void a_slow_move_delays_nothing_else(void **state)
{
    sem_t hold;

    (void)state;
    start(0);
    sem_init(&hold, 0, 0);
    fake.hold_move = &hold;
    fake.full = true;
    for (int i = 1; i <= 3; i++) {
        write_one(); /* the first batch reports that the store is full */
        while (fake.flushed < i)
            usleep(100);
        assert_int_equal(commit().status, 0);
    }
    assert_int_equal(fake.moves, 0);
    sem_post(&hold);
    while (fake.moves == 0)
        usleep(100);
    finish();
    sem_destroy(&hold);
}

static void a_batch_that_fills_the_store_starts_a_move(void **state)
{
    (void)state;
    start(0);
    fake.full = true;
    assert_int_equal(commit().status, 0);
    while (fake.moves == 0)
        usleep(100);
    assert_true(is_up());
    finish();
}

static void a_failed_move_is_followed_by_a_probe(void **state)
{
    (void)state;
    start(0);
    fake.code = HF_EIO;
    fake.failures = 2; /* two calls fail: the move, and the first probe */
    fake.full = true;
    write_one();
    while (fake.probes < 2 || !is_up())
        usleep(1000);
    assert_int_equal(fake.moves, 1);
    finish();
}

static void a_backup_delays_no_batch(void **state)
{
    struct hf_buf out;
    int status = -1;
    sem_t hold;

    (void)state;
    start(0);
    sem_init(&hold, 0, 0);
    hf_buf_init(&out, &hf_alloc_heap);
    fake.hold_load = &hold;
    hf_committer_back_up(&committer, 1, &out);
    assert_int_equal(commit().status, 0);
    assert_false(hf_committer_collect_backup(&committer, &status));
    sem_post(&hold);
    while (!hf_committer_collect_backup(&committer, &status))
        sem_wait(&woken);
    assert_int_equal(status, 0);
    assert_true(hf_buf_len(&out) > 0);
    finish();
    hf_buf_free(&out);
    sem_destroy(&hold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_flushed_by_itself),
        cmocka_unit_test(one_flush_serves_many),
        cmocka_unit_test(stopping_flushes),
        cmocka_unit_test(a_failed_flush_is_made_good_by_a_probe),
        cmocka_unit_test(a_slow_move_delays_nothing_else),
        cmocka_unit_test(a_batch_that_fills_the_store_starts_a_move),
        cmocka_unit_test(a_failed_move_is_followed_by_a_probe),
        cmocka_unit_test(a_backup_delays_no_batch),
        cmocka_unit_test(each_batch_is_reported_once),
        cmocka_unit_test(batches_that_come_one_at_a_time_and_fast_are_looked_for),
        cmocka_unit_test(a_short_outage_refuses_no_request),
        cmocka_unit_test(a_store_that_stays_away_is_given_up),
        cmocka_unit_test(a_store_that_hangs_is_down),
        cmocka_unit_test(a_batch_in_doubt_is_settled_not_refused),
        cmocka_unit_test(stopping_ends_a_doubt_as_such),
        cmocka_unit_test(it_heals_without_a_request),
        cmocka_unit_test(a_final_failure_is_not_tried_again),
        cmocka_unit_test(a_fenced_store_stays_down),
        cmocka_unit_test(stopping_drains),
    };

    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
