/*
 * DUR-02: batches that are written to the journal and flushed later. What survives a crash of the
 * process, and one of the host; how the two sides of the journal take turns; which versions can
 * read the store. Each story is told by a child process that ends without closing the store.
 */
#include "../unit/unit.h"

#include <fcntl.h>
#include <limits.h>
#include <lmdb.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "fixture.h"
#include "store/lmdb_env.h"
#include "store/store.h"

enum { SIDE = 1 << 16, SECTOR = 512, FIRST_BOOT = 1, NEXT_BOOT = 2 };

static char dir[PATH_MAX];
static struct hf_store store;

static const struct hf_store_config *config(uint8_t boot)
{
    static struct hf_store_config c;

    c = (struct hf_store_config){
        .backend = "lmdb", .path = dir, .unflushed = true, .side_bytes = SIDE, .boot_id = {boot}};
    return &c;
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(dir, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(dir);
    return 0;
}

static enum hf_store_written put(uint64_t id, bool flush)
{
    uint8_t room[HF_FH_MAX];
    struct hf_record_lock lock = make_lock(id, 1, room);
    enum hf_store_written written = HF_STORE_NOT_WRITTEN;
    struct hf_batch batch;

    hf_batch_init(&batch, &hf_alloc_heap);
    MUST(hf_batch_put_lock(&batch, &lock) == 0);
    batch.may_be_lost = !flush;
    if (flush)
        MUST(hf_store_apply(&store, &batch) == 0);
    else
        written = hf_store_write(&store, &batch);
    hf_batch_free(&batch);
    return written;
}

/* Each record takes a whole number of sectors, so a side takes at most so many. */
enum { SIDE_MAX = SIDE / SECTOR };

static void write_locks(uint64_t first, uint64_t last)
{
    for (uint64_t id = first; id <= last; id++)
        MUST(put(id, false) != HF_STORE_NOT_WRITTEN);
}

/* Runs a story in a process that opens the store and is gone at the end of the story. */
static void crash_after(void (*story)(void))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        MUST(hf_store_open(&store, config(FIRST_BOOT)) == 0);
        story();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static size_t count(void)
{
    struct digest d;

    assert_int_equal(store_digest(&store, &d), 0);
    return d.count;
}

static void expect_locks(uint8_t boot, size_t n)
{
    assert_int_equal(hf_store_open(&store, config(boot)), 0);
    assert_int_equal(count(), n);
    hf_store_close(&store);
}

/* Zeros so many sectors of the journal, as a host does that crashed before it wrote them. */
static void lose_sectors(off_t first, unsigned n)
{
    static const uint8_t zeros[SECTOR];
    char path[PATH_MAX + 16];
    int fd;

    snprintf(path, sizeof(path), "%s/journal", dir);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(pwrite(fd, zeros, SECTOR, (first + i) * SECTOR), SECTOR);
    close(fd);
}

static uint64_t format(void)
{
    uint64_t number = HF_LMDB_FORMAT;
    MDB_val key = {sizeof(number), &number};
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi state;
    MDB_val value;

    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, 3), 0);
    assert_int_equal(mdb_env_open(env, dir, MDB_RDONLY | MDB_NOLOCK, 0), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "state", MDB_INTEGERKEY, &state), 0);
    assert_int_equal(mdb_get(txn, state, &key, &value), 0);
    memcpy(&number, value.mv_data, sizeof(number));
    mdb_txn_abort(txn);
    mdb_env_close(env);
    return number;
}

/* ---- stories ---- */

static void ten_written(void)
{
    write_locks(1, 10);
}

static void what_was_written_survives_the_process(void **state)
{
    (void)state;
    crash_after(ten_written);
    expect_locks(FIRST_BOOT, 10);
    expect_locks(FIRST_BOOT, 10); /* it is in the tree now */
}

static void ten_flushed_ten_written(void)
{
    write_locks(1, 10);
    MUST(hf_store_flush(&store) == 0);
    write_locks(11, 20);
}

static void a_crash_of_the_host_loses_the_tail_only(void **state)
{
    (void)state;
    crash_after(ten_flushed_ten_written);
    lose_sectors(14, 1); /* the kernel wrote those behind it, and not this one */
    expect_locks(NEXT_BOOT, 14);
}

static void without_a_crash_of_the_host_a_gap_is_damage(void **state)
{
    (void)state;
    crash_after(ten_flushed_ten_written);
    lose_sectors(14, 1);
    assert_int_equal(hf_store_open(&store, config(FIRST_BOOT)), HF_EFORMAT);
    expect_locks(NEXT_BOOT, 14); /* nothing was changed by the refusal */
}

static void one_side_and_a_half(void)
{
    unsigned turns = 0;

    for (uint64_t id = 1; id <= SIDE_MAX + SIDE_MAX / 2; id++)
        turns += put(id, false) == HF_STORE_WRITTEN_HURRY;
    MUST(turns == 1);
}

static void records_on_both_sides_are_found(void **state)
{
    (void)state;
    crash_after(one_side_and_a_half);
    expect_locks(FIRST_BOOT, SIDE_MAX + SIDE_MAX / 2);
}

static void a_gap_on_the_first_side_ends_both(void **state)
{
    (void)state;
    crash_after(one_side_and_a_half);
    lose_sectors(100, 1);
    expect_locks(NEXT_BOOT, 100);
}

static void many_turns(void)
{
    for (uint64_t id = 1; id <= 10 * SIDE_MAX; id++) {
        if (put(id, false) == HF_STORE_WRITTEN_HURRY)
            MUST(hf_store_flush(&store) == 0); /* frees the side that is full */
    }
}

static void sides_take_turns(void **state)
{
    (void)state;
    crash_after(many_turns);
    expect_locks(FIRST_BOOT, 10 * SIDE_MAX);
}

/* With a flush at each turn, all but the side in use is in the tree. */
static void a_host_that_lost_the_side_in_use_has_the_rest(void **state)
{
    (void)state;
    crash_after(many_turns);
    lose_sectors(0, 2 * SIDE_MAX);
    expect_locks(NEXT_BOOT, 9 * SIDE_MAX);
}

static void both_sides_full(void)
{
    uint64_t id = 1;

    while (put(id, false) != HF_STORE_NOT_WRITTEN)
        id++;
    MUST(id == 2 * SIDE_MAX + 1);
    put(id, true); /* the store's thread makes room */
    MUST(put(id + 1, false) == HF_STORE_WRITTEN);
}

static void a_full_journal_is_emptied_by_the_next_batch(void **state)
{
    (void)state;
    crash_after(both_sides_full);
    expect_locks(FIRST_BOOT, 2 * SIDE_MAX + 2);
}

static void only_a_clean_stop_leaves_a_store_for_older_versions(void **state)
{
    struct hf_store_config flushed = {.backend = "lmdb", .path = dir, .boot_id = {FIRST_BOOT}};

    (void)state;
    crash_after(ten_written);
    assert_int_equal(format(), HF_LMDB_FORMAT_SIDES);
    expect_locks(FIRST_BOOT, 10); /* and closes it */
    assert_int_equal(format(), HF_LMDB_FORMAT_PLAIN);
    /* The other setting reads what this one left, after a crash, too. */
    crash_after(ten_written);
    assert_int_equal(hf_store_open(&store, &flushed), 0);
    assert_int_equal(count(), 10);
    assert_int_equal(format(), HF_LMDB_FORMAT_PLAIN);
    put(11, true);
    hf_store_close(&store);
    expect_locks(FIRST_BOOT, 11);
}

static int count_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    (void)kind;
    (void)record;
    ++*(size_t *)ctx;
    return 0;
}

static void verification_reads_both_sides(void **state)
{
    size_t n = 0;

    (void)state;
    crash_after(one_side_and_a_half);
    assert_int_equal(hf_store_read(&store, config(FIRST_BOOT), count_record, &n), 0);
    assert_int_equal(n, SIDE_MAX + SIDE_MAX / 2);
    lose_sectors(100, 1);
    assert_int_equal(hf_store_read(&store, config(FIRST_BOOT), count_record, &n), HF_EFORMAT);
    n = 0;
    assert_int_equal(hf_store_read(&store, config(NEXT_BOOT), count_record, &n), 0);
    assert_int_equal(n, 100);
}

/* ---- two threads ---- */

enum { SHARED_WRITES = 3000 };

static void *flush_until_stopped(void *stop)
{
    while (!atomic_load((_Atomic bool *)stop))
        MUST(hf_store_flush(&store) == 0);
    return NULL;
}

static void write_beside_a_flusher(void)
{
    _Atomic bool stop = false;
    pthread_t flusher;

    MUST(pthread_create(&flusher, NULL, flush_until_stopped, &stop) == 0);
    for (uint64_t id = 1; id <= SHARED_WRITES; id++) {
        while (put(id, false) == HF_STORE_NOT_WRITTEN)
            sched_yield(); /* both sides are full; the flusher empties one */
    }
    atomic_store(&stop, true);
    pthread_join(flusher, NULL);
}

/* The loop's thread writes and turns the sides while the store's thread brings the other one in. */
static void a_writer_beside_a_flusher_loses_nothing(void **state)
{
    (void)state;
    crash_after(write_beside_a_flusher);
    expect_locks(FIRST_BOOT, SHARED_WRITES);
}

static void flushed_store_writes_nothing_unflushed(void **state)
{
    struct hf_store_config flushed = {.backend = "lmdb", .path = dir};

    (void)state;
    assert_int_equal(hf_store_open(&store, &flushed), 0);
    assert_int_equal(put(1, false), HF_STORE_NOT_WRITTEN);
    assert_int_equal(hf_store_flush(&store), 0);
    assert_int_equal(count(), 0);
    hf_store_close(&store);
}

/* Another daemon takes the store although it is in use: the writer notices at its next batch. */
static void a_writer_that_lost_its_store_stops(void **state)
{
    char lock[PATH_MAX + 16];
    struct hf_store first;

    (void)state;
    assert_int_equal(hf_store_open(&store, config(FIRST_BOOT)), 0);
    assert_int_equal(put(1, false), HF_STORE_WRITTEN);
    first = store;
    snprintf(lock, sizeof(lock), "%s/holdfast.lock", dir);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(hf_store_open(&store, config(FIRST_BOOT)), 0);
    assert_int_equal(count(), 1);
    hf_store_close(&store);

    store = first;
    assert_int_equal(put(2, false), HF_STORE_NOT_WRITTEN);
    assert_int_equal(hf_store_flush(&store), HF_EFENCED);
    assert_int_equal(put(2, false), HF_STORE_NOT_WRITTEN);
    assert_int_equal(hf_store_probe(&store), HF_EFENCED);
    hf_store_close(&store);
    expect_locks(FIRST_BOOT, 1);
}

/* The flush notices, if not the writer. */
static void a_journal_that_was_removed_is_noticed(void **state)
{
    char name[PATH_MAX + 16];

    (void)state;
    assert_int_equal(hf_store_open(&store, config(FIRST_BOOT)), 0);
    assert_int_equal(put(1, false), HF_STORE_WRITTEN);
    snprintf(name, sizeof(name), "%s/journal", dir);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(hf_store_flush(&store), HF_EFENCED);
    assert_int_equal(put(2, false), HF_STORE_NOT_WRITTEN);
    hf_store_close(&store);
}

#define STORY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(what_was_written_survives_the_process),
        STORY(a_crash_of_the_host_loses_the_tail_only),
        STORY(without_a_crash_of_the_host_a_gap_is_damage),
        STORY(records_on_both_sides_are_found),
        STORY(a_gap_on_the_first_side_ends_both),
        STORY(sides_take_turns),
        STORY(a_host_that_lost_the_side_in_use_has_the_rest),
        STORY(a_full_journal_is_emptied_by_the_next_batch),
        STORY(only_a_clean_stop_leaves_a_store_for_older_versions),
        STORY(verification_reads_both_sides),
        STORY(flushed_store_writes_nothing_unflushed),
        STORY(a_writer_beside_a_flusher_loses_nothing),
        STORY(a_writer_that_lost_its_store_stops),
        STORY(a_journal_that_was_removed_is_noticed),
    };

    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
