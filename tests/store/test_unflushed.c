/*
 * DUR-02: batches that are written to the journal and flushed later. What survives a crash of the
 * process, and one of the host; how the two sides of the journal take turns; which versions can
 * read the store. Each story is told by a child process that ends without closing the store.
 */
#undef _FILE_OFFSET_BITS /* it would rename pwrite to pwrite64, and LMDB calls pwrite */

#include "../unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <lmdb.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "fixture.h"
#include "store/commit.h"
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

static bool put(uint64_t id, bool flush)
{
    uint8_t room[HF_FH_MAX];
    struct hf_record_lock lock = make_lock(id, 1, room);
    bool written = false;
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
        MUST(put(id, false));
}

/* Runs a story in a process that opens the store and ends at once after the story. */
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

/* Zeroes so many sectors of the journal: a host that crashed never wrote them. */
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

/* LMDB allows an environment only once per process, so another process acts. Returns its exit
 * status. */
static int in_another_process(int (*act)(void))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(act());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int read_format(void)
{
    uint64_t number = HF_LMDB_FORMAT;
    MDB_val key = {sizeof(number), &number};
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi state;
    MDB_val value;

    MUST(mdb_env_create(&env) == 0);
    MUST(mdb_env_set_maxdbs(env, 3) == 0);
    MUST(mdb_env_open(env, dir, MDB_RDONLY | MDB_NOLOCK, 0) == 0);
    MUST(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn) == 0);
    MUST(mdb_dbi_open(txn, "state", MDB_INTEGERKEY, &state) == 0);
    MUST(mdb_get(txn, state, &key, &value) == 0);
    memcpy(&number, value.mv_data, sizeof(number));
    mdb_txn_abort(txn);
    mdb_env_close(env);
    return (int)number;
}

static int format(void)
{
    return in_another_process(read_format);
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
    expect_locks(FIRST_BOOT, 10); /* the lock is in the tree now */
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
    lose_sectors(14, 1); /* the kernel wrote the sectors behind this one, and not this one */
    expect_locks(NEXT_BOOT, 14);
}

static void without_a_crash_of_the_host_a_gap_is_damage(void **state)
{
    (void)state;
    crash_after(ten_flushed_ten_written);
    lose_sectors(14, 1);
    assert_int_equal(hf_store_open(&store, config(FIRST_BOOT)), HF_EFORMAT);
    expect_locks(NEXT_BOOT, 14); /* the refusal changed nothing */
}

static void one_side_and_a_half(void)
{
    unsigned turns = 0;

    for (uint64_t id = 1; id <= SIDE_MAX + SIDE_MAX / 2; id++) {
        bool before = hf_store_is_full(&store);

        MUST(put(id, false));
        turns += hf_store_is_full(&store) && !before;
    }
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
        MUST(put(id, false));
        if (hf_store_is_full(&store))
            MUST(hf_store_move(&store) == 0);
    }
}

static void sides_take_turns(void **state)
{
    (void)state;
    crash_after(many_turns);
    expect_locks(FIRST_BOOT, 10 * SIDE_MAX);
}

/* With a move at each turn, everything but the side in use is in the tree. */
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

    while (put(id, false))
        id++;
    MUST(id == 2 * SIDE_MAX + 1);
    put(id, true); /* the store's thread makes room for the next record */
    MUST(put(id + 1, false));
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
    /* The other durability setting reads the store, after a crash, too. */
    crash_after(ten_written);
    assert_int_equal(hf_store_open(&store, &flushed), 0);
    assert_int_equal(count(), 10);
    assert_int_equal(format(), HF_LMDB_FORMAT_SIDES);
    put(11, true);
    hf_store_close(&store);
    assert_int_equal(format(), HF_LMDB_FORMAT_PLAIN);
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

static _Atomic bool stop;

static void *flush_until_stopped(void *unused)
{
    while (!atomic_load(&stop))
        MUST(hf_store_flush(&store) == 0);
    return unused;
}

static void *move_until_stopped(void *unused)
{
    struct hf_store handle = hf_store_share(&store);

    while (!atomic_load(&stop)) {
        if (hf_store_is_full(&handle))
            MUST(hf_store_move(&handle) == 0);
        else
            sched_yield();
    }
    return unused;
}

static void *read_until_stopped(void *unused)
{
    struct hf_store handle = hf_store_share(&store);
    struct digest d = {0};

    while (!atomic_load(&stop)) {
        size_t before = d.count;

        MUST(store_digest(&handle, &d) == 0);
        MUST(d.count >= before); /* each snapshot has all of an earlier one */
    }
    return unused;
}

static void write_beside_all(void)
{
    void *(*const others[])(void *) = {flush_until_stopped, move_until_stopped, read_until_stopped};
    pthread_t threads[HF_COUNT_OF(others)];

    for (size_t i = 0; i < HF_COUNT_OF(others); i++)
        MUST(pthread_create(&threads[i], NULL, others[i], NULL) == 0);
    for (uint64_t id = 1; id <= SHARED_WRITES; id++) {
        while (!put(id, false))
            sched_yield(); /* both sides are full; the mover empties one */
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < HF_COUNT_OF(others); i++)
        pthread_join(threads[i], NULL);
}

/* The loop's thread writes and turns the sides while others flush, move a side and read. */
static void a_writer_beside_all_other_threads_loses_nothing(void **state)
{
    (void)state;
    crash_after(write_beside_all);
    expect_locks(FIRST_BOOT, SHARED_WRITES);
}

/* ---- a slow disk ---- */

static struct {
    _Atomic bool armed;
    _Atomic bool fails;
    sem_t reached;
    sem_t go_on;
} slow_tree;

/* Replaces the function of the C library: a write of LMDB waits, a write of the journal does not.
 */
ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    if (atomic_exchange(&slow_tree.armed, false)) {
        sem_post(&slow_tree.reached);
        sem_wait(&slow_tree.go_on);
    }
    if (atomic_exchange(&slow_tree.fails, false)) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, data, len, offset);
}

static _Atomic unsigned flushes;

/* Replaces the function of the C library, and counts calls. */
int fdatasync(int fd)
{
    int rv = (int)syscall(SYS_fdatasync, fd);

    atomic_fetch_add(&flushes, 1);
    return rv;
}

static void *move_once(void *unused)
{
    struct hf_store handle = hf_store_share(&store);

    MUST(hf_store_move(&handle) == 0);
    return unused;
}

/* Fills a side, and lets another thread begin to move it, which hangs. */
static pthread_t begin_a_move_that_hangs(bool flush)
{
    pthread_t mover;
    uint64_t id = 1;

    sem_init(&slow_tree.reached, 0, 0);
    sem_init(&slow_tree.go_on, 0, 0);
    while (!hf_store_is_full(&store))
        (void)put(id++, flush);
    slow_tree.armed = true;
    MUST(pthread_create(&mover, NULL, move_once, NULL) == 0);
    sem_wait(&slow_tree.reached);
    return mover;
}

static void end_the_move(pthread_t mover)
{
    sem_post(&slow_tree.go_on);
    pthread_join(mover, NULL);
    hf_store_close(&store);
}

/* DUR-02: what is written while a side moves to the tree is flushed on time, and no record delays
 * another. Otherwise the test would wait for ever. */
static void a_move_delays_no_flush_and_no_batch(void **state)
{
    pthread_t mover;

    (void)state;
    assert_int_equal(hf_store_open(&store, config(FIRST_BOOT)), 0);
    mover = begin_a_move_that_hangs(false);
    assert_true(put(1001, false));
    assert_int_equal(hf_store_flush(&store), 0);
    put(1002, true);
    end_the_move(mover);
}

static void ignore_wake(void *unused)
{
    (void)unused;
}

static void write_one(struct hf_committer *committer, uint64_t id)
{
    uint8_t room[HF_FH_MAX];
    struct hf_record_lock lock = make_lock(id, 1, room);
    struct hf_batch batch;

    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    batch.may_be_lost = true;
    assert_true(hf_committer_write(committer, &batch));
    hf_batch_free(&batch);
}

static void submit_one(struct hf_committer *committer, uint64_t id)
{
    uint8_t room[HF_FH_MAX];
    struct hf_record_lock lock = make_lock(id, 1, room);
    struct hf_commit_result result;
    struct hf_batch batch;

    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    hf_committer_submit(committer, &batch);
    while (!hf_committer_collect(committer, &result))
        usleep(1000);
    assert_int_equal(result.status, 0);
    hf_batch_free(&batch);
}

/*
 * DUR-02, with the threads of the daemon: the mover hangs in the middle of a side, and a backup
 * waits for it. What is written is flushed, and a batch is committed; otherwise the test would wait
 * for ever.
 */
static void a_mover_that_hangs_delays_no_flush(void **state)
{
    static const struct hf_committer_config CONFIG = {.wake = ignore_wake};
    struct hf_committer committer;
    struct hf_buf backup;
    uint64_t id = 1;
    int status;

    (void)state;
    assert_int_equal(hf_store_open(&store, config(FIRST_BOOT)), 0);
    hf_buf_init(&backup, &hf_alloc_heap);
    sem_init(&slow_tree.reached, 0, 0);
    sem_init(&slow_tree.go_on, 0, 0);
    slow_tree.armed = true;
    assert_int_equal(hf_committer_init(&committer, &store, &CONFIG), 0);
    assert_int_equal(hf_committer_start(&committer), 0);
    while (sem_trywait(&slow_tree.reached) < 0) {
        if (id <= SIDE_MAX + 1)
            write_one(&committer, id++);
        else
            usleep(1000);
    }
    hf_committer_back_up(&committer, 0, &backup);
    for (unsigned i = 0; i < 5; i++) { /* the first flush may be that of an earlier record */
        unsigned before = atomic_load(&flushes);

        write_one(&committer, id++);
        while (atomic_load(&flushes) == before)
            usleep(1000);
    }
    submit_one(&committer, id++);
    assert_false(hf_committer_collect_backup(&committer, &status));
    sem_post(&slow_tree.go_on);
    while (!hf_committer_collect_backup(&committer, &status))
        usleep(1000);
    assert_int_equal(status, 0);
    hf_committer_stop(&committer);
    hf_committer_free(&committer);
    hf_buf_free(&backup);
    hf_store_close(&store);
}

static void a_move_delays_no_batch_where_all_are_flushed(void **state)
{
    struct hf_store_config flushed = {.backend = "lmdb", .path = dir, .side_bytes = SIDE};
    pthread_t mover;

    (void)state;
    assert_int_equal(hf_store_open(&store, &flushed), 0);
    mover = begin_a_move_that_hangs(true);
    put(1001, true);
    put(1002, true);
    end_the_move(mover);
}

static void one_side_and_a_half_and_a_failed_move(void)
{
    struct hf_store mover = hf_store_share(&store);

    one_side_and_a_half();
    slow_tree.fails = true;
    MUST(hf_store_move(&mover) == HF_EIO);
    MUST(strstr(hf_store_error(&mover), "cannot commit"));
    /* The text that the committer makes itself. */
    MUST(!strstr(hf_store_error(&store), "cannot commit"));
    MUST(!put(1001, false));
    put(1001, true);
}

/* A move that fails closes LMDB: the journal has every record, and the next batch moves them to the
 * tree. */
static void a_failed_move_loses_nothing(void **state)
{
    (void)state;
    crash_after(one_side_and_a_half_and_a_failed_move);
    expect_locks(FIRST_BOOT, SIDE_MAX + SIDE_MAX / 2 + 1);
}

static void flushed_store_writes_nothing_unflushed(void **state)
{
    struct hf_store_config flushed = {.backend = "lmdb", .path = dir};

    (void)state;
    assert_int_equal(hf_store_open(&store, &flushed), 0);
    assert_false(put(1, false));
    assert_int_equal(hf_store_flush(&store), 0);
    assert_int_equal(count(), 0);
    hf_store_close(&store);
}

static int take_the_store(void)
{
    char lock[PATH_MAX + 16];

    snprintf(lock, sizeof(lock), "%s/holdfast.lock", dir);
    MUST(unlink(lock) == 0);
    MUST(hf_store_open(&store, config(FIRST_BOOT)) == 0);
    MUST(count() == 1);
    hf_store_close(&store);
    return 0;
}

/* Another daemon takes the store although it is in use: the writer notices at its next batch. */
static void a_writer_that_lost_its_store_stops(void **state)
{
    (void)state;
    assert_int_equal(hf_store_open(&store, config(FIRST_BOOT)), 0);
    assert_true(put(1, false));
    assert_int_equal(in_another_process(take_the_store), 0);
    assert_false(put(2, false));
    assert_int_equal(hf_store_flush(&store), HF_EFENCED);
    assert_false(put(2, false));
    assert_int_equal(hf_store_probe(&store), HF_EFENCED);
    hf_store_close(&store);
    expect_locks(FIRST_BOOT, 1);
}

/* The flush notices that the journal is gone, if the writer did not. */
static void a_journal_that_was_removed_is_noticed(void **state)
{
    char name[PATH_MAX + 16];

    (void)state;
    assert_int_equal(hf_store_open(&store, config(FIRST_BOOT)), 0);
    assert_true(put(1, false));
    snprintf(name, sizeof(name), "%s/journal", dir);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(hf_store_flush(&store), HF_EFENCED);
    assert_false(put(2, false));
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
        STORY(a_writer_beside_all_other_threads_loses_nothing),
        STORY(a_move_delays_no_flush_and_no_batch),
        STORY(a_mover_that_hangs_delays_no_flush),
        STORY(a_move_delays_no_batch_where_all_are_flushed),
        STORY(a_failed_move_loses_nothing),
        STORY(a_writer_that_lost_its_store_stops),
        STORY(a_journal_that_was_removed_is_noticed),
    };

    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
