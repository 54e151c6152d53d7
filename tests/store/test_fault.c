/*
 * A disk that fails now and then: the n-th write or sync of the LMDB store is answered with EIO,
 * for every n in turn. A batch that failed is sent again, as the daemon would; in the end
 * everything is there that was acknowledged, and nothing else, whichever call failed (STO-02). The
 * same holds when the process is killed at the end, when the failed call took effect all the same,
 * and when the power goes and what was renamed but not synced has its old name again.
 */
#undef _FILE_OFFSET_BITS /* it would rename pwrite to pwrite64, and LMDB calls pwrite */

#include "../unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "fixture.h"
#include "store/store.h"

enum { BATCHES = 12, CHECKPOINT_EVERY = 5 };

static const uint64_t SEED = 77;

/* Counts down to the call that fails; `times` calls in a row fail then. */
static struct {
    long after;
    long times;
    bool hit;
    bool takes_effect; /* the first failed call takes effect, although it reports EIO */
} fault;

enum outcome { SUCCEEDS, FAILS, FAILS_WITH_EFFECT };

static enum outcome outcome_now(void)
{
    bool first = !fault.hit;

    if (fault.times == 0 || fault.after-- > 0)
        return SUCCEEDS;
    fault.times--;
    fault.hit = true;
    return first && fault.takes_effect ? FAILS_WITH_EFFECT : FAILS;
}

static long failed(void)
{
    errno = EIO;
    return -1;
}

/* These functions replace those of the C library, for the store and for LMDB alike. */
int fdatasync(int fd)
{
    return outcome_now() != SUCCEEDS ? (int)failed() : (int)syscall(SYS_fdatasync, fd);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    enum outcome outcome = outcome_now();
    ssize_t n = outcome == FAILS ? -1 : syscall(SYS_pwrite64, fd, data, len, offset);

    return outcome == SUCCEEDS ? n : failed();
}

static bool disk_is_full;

int fstatvfs64(int fd, struct statvfs64 *out)
{
    (void)fd;
    *out = (struct statvfs64){.f_frsize = 4096, .f_bavail = disk_is_full ? 0 : 1 << 20};
    return 0;
}

/* Remembers the last rename, until its directory is synced. */
static struct {
    bool unsynced;
    int dir_fd;
    char from[64], to[64];
} renamed;

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    int rv = (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);

    if (rv == 0) {
        renamed.unsynced = true;
        renamed.dir_fd = from_fd;
        snprintf(renamed.from, sizeof(renamed.from), "%s", from);
        snprintf(renamed.to, sizeof(renamed.to), "%s", to);
    }
    return rv;
}

int fsync(int fd)
{
    struct stat st;

    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        renamed.unsynced = false;
    return (int)syscall(SYS_fsync, fd);
}

/* Acts as a power cut does: a rename that was not synced is undone. */
static void lose_rename(void)
{
    if (renamed.unsynced)
        syscall(SYS_renameat2, renamed.dir_fd, renamed.to, renamed.dir_fd, renamed.from, 0);
}

static void send_until_durable(struct hf_store *store, const struct hf_batch *batch)
{
    int rv;

    while ((rv = hf_store_apply(store, batch)) < 0)
        assert_int_equal(rv, HF_EIO);
}

/* Tells a story with one fault in it. True if the fault happened. */
static bool tell_story(long after, long times)
{
    struct hf_store_config lmdb = {.backend = "lmdb"};
    struct hf_store_config memory = {.backend = "memory"};
    struct hf_store store;
    struct hf_store model;
    struct hf_batch batch;
    struct digest found;
    struct digest want;
    char dir[PATH_MAX];

    scratch_make(dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NULL);
    lmdb.path = dir;
    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(hf_store_open(&store, &lmdb), 0);
    assert_int_equal(hf_store_open(&model, &memory), 0);
    fault.after = after;
    fault.times = times;
    fault.hit = false;
    for (uint64_t seq = 1; seq <= BATCHES; seq++) {
        story_batch(SEED, seq, &batch);
        send_until_durable(&store, &batch);
        assert_int_equal(hf_store_apply(&model, &batch), 0);
        if (seq % CHECKPOINT_EVERY == 0)
            (void)hf_store_probe(&store);
    }
    fault.times = 0;
    hf_store_close(&store);
    assert_int_equal(hf_store_open(&store, &lmdb), 0);
    assert_int_equal(store_digest(&store, &found), 0);
    assert_int_equal(store_digest(&model, &want), 0);
    assert_true(found.sum == want.sum && found.count == want.count);
    hf_store_close(&store);
    hf_store_close(&model);
    hf_batch_free(&batch);
    scratch_remove(dir);
    return fault.hit;
}

/* Applies the same batches in a process that is killed after the last one; true if the fault
 * happened. */
static bool run_and_die(const struct hf_store_config *lmdb, long times)
{
    struct hf_store store;
    struct hf_batch batch;
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0) {
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
        return WEXITSTATUS(status);
    }
    hf_batch_init(&batch, &hf_alloc_heap);
    if (hf_store_open(&store, lmdb) < 0)
        _exit(2);
    fault.hit = false;
    fault.times = times;
    for (uint64_t seq = 1; seq <= BATCHES; seq++) {
        story_batch(SEED, seq, &batch);
        while (hf_store_apply(&store, &batch) < 0)
            ;
        if (seq % CHECKPOINT_EVERY == 0)
            (void)hf_store_probe(&store);
    }
    lose_rename();
    _exit(fault.hit);
}

static bool tell_story_of_a_kill(long after, long times, bool takes_effect)
{
    struct hf_store_config lmdb = {.backend = "lmdb"};
    struct hf_store_config memory = {.backend = "memory"};
    struct hf_store store;
    struct hf_store model;
    struct hf_batch batch;
    struct digest found;
    struct digest want;
    char dir[PATH_MAX];
    bool hit;

    scratch_make(dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NULL);
    lmdb.path = dir;
    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(hf_store_open(&model, &memory), 0);
    for (uint64_t seq = 1; seq <= BATCHES; seq++) {
        story_batch(SEED, seq, &batch);
        assert_int_equal(hf_store_apply(&model, &batch), 0);
    }
    assert_int_equal(hf_store_open(&store, &lmdb), 0); /* makes the files */
    hf_store_close(&store);
    fault.after = after;
    fault.takes_effect = takes_effect;
    hit = run_and_die(&lmdb, times);
    fault.takes_effect = false;
    assert_int_equal(hf_store_open(&store, &lmdb), 0);
    assert_int_equal(store_digest(&store, &found), 0);
    assert_int_equal(store_digest(&model, &want), 0);
    assert_true(found.sum == want.sum && found.count == want.count);
    hf_store_close(&store);
    hf_store_close(&model);
    hf_batch_free(&batch);
    scratch_remove(dir);
    return hit;
}

/*
 * LMDB writes its old meta page back where writing the new one failed. If the first write took
 * effect and the second did not, the checkpoint is in the database although it was reported as
 * failed, and the journal has another key from then on.
 */
static void failures_that_took_effect_and_a_kill(void **state)
{
    (void)state;
    for (long times = 1; times <= 3; times++) {
        long after = 0;

        while (tell_story_of_a_kill(after, times, true))
            after++;
        assert_true(after > BATCHES);
    }
}

/* Checks that a batch which is too large for the journal is in the tree; reads the store as a new
 * daemon does. */
static bool large_batch_is_there(const struct hf_store_config *lmdb, size_t n_locks)
{
    struct hf_store store;
    struct digest d;

    assert_int_equal(hf_store_open(&store, lmdb), 0);
    assert_int_equal(store_digest(&store, &d), 0);
    hf_store_close(&store);
    assert_true(d.count == 0 || d.count == n_locks);
    return d.count > 0;
}

/* Applies the batch with a fault, and exits without another try: with 0 to 2, or with 3 if no fault
 * happened. */
enum { SAYS_DONE, SAYS_FAILED, SAYS_IN_DOUBT, SAYS_NO_FAULT };

static int apply_and_die(const struct hf_store_config *lmdb, const struct hf_batch *batch,
                         long times)
{
    struct hf_store store;
    int status;
    pid_t pid = fork();
    int rv;

    assert_true(pid >= 0);
    if (pid > 0) {
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
    }
    MUST(hf_store_open(&store, lmdb) == 0);
    fault.hit = false;
    fault.times = times;
    rv = hf_store_apply(&store, batch);
    _exit(!fault.hit                  ? SAYS_NO_FAULT
          : rv == 0                   ? SAYS_DONE
          : hf_store_in_doubt(&store) ? SAYS_IN_DOUBT
                                      : SAYS_FAILED);
}

/*
 * EIO means "full" to an operator whose disk is full. This does not change whether the batch may be
 * durable: the write that failed may have been the one that makes it valid.
 */
static void a_failed_batch_is_not_durable_on_a_full_disk_either(void **state)
{
    enum { LOCKS = 3000 };
    uint8_t room[HF_FH_MAX];
    struct hf_batch batch;
    unsigned in_doubt = 0;
    int says = SAYS_DONE;

    (void)state;
    hf_batch_init(&batch, &hf_alloc_heap);
    for (uint64_t id = 1; id <= LOCKS; id++) {
        struct hf_record_lock lock = make_lock(id, 1, room);
        assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    }
    disk_is_full = true;
    fault.takes_effect = true;
    for (long times = 1; times <= 3; times++) {
        for (long after = 0; says != SAYS_NO_FAULT; after++) {
            struct hf_store_config lmdb = {.backend = "lmdb"};
            char dir[PATH_MAX];

            scratch_make(dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NULL);
            lmdb.path = dir;
            fault.after = after;
            says = apply_and_die(&lmdb, &batch, times);
            if (says == SAYS_FAILED)
                assert_false(large_batch_is_there(&lmdb, LOCKS));
            if (says == SAYS_DONE)
                assert_true(large_batch_is_there(&lmdb, LOCKS));
            in_doubt += says == SAYS_IN_DOUBT;
            scratch_remove(dir);
        }
        says = SAYS_DONE;
    }
    disk_is_full = false;
    fault.takes_effect = false;
    assert_true(in_doubt > 0);
    hf_batch_free(&batch);
}

static void the_power_goes_and_takes_an_unsynced_rename(void **state)
{
    (void)state;
    assert_false(tell_story_of_a_kill(0, 0, false));
}

static unsigned tell_all_stories(long times)
{
    unsigned faults = 0;

    while (tell_story((long)faults, times))
        faults++;
    return faults;
}

static void one_failure_anywhere(void **state)
{
    (void)state;
    assert_true(tell_all_stories(1) > BATCHES);
}

static void three_failures_in_a_row_anywhere(void **state)
{
    (void)state;
    assert_true(tell_all_stories(3) > BATCHES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failure_anywhere),
        cmocka_unit_test(three_failures_in_a_row_anywhere),
        cmocka_unit_test(failures_that_took_effect_and_a_kill),
        cmocka_unit_test(a_failed_batch_is_not_durable_on_a_full_disk_either),
        cmocka_unit_test(the_power_goes_and_takes_an_unsynced_rename),
    };

    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
