/*
 * A disk that fails now and then: the n-th write or sync of the LMDB store is answered with EIO,
 * for every n in turn. A batch that failed is sent again, as the daemon would; in the end
 * everything is there that was acknowledged, and nothing else, whichever call failed (STO-02).
 */
#undef _FILE_OFFSET_BITS /* it would rename pwrite to pwrite64, and LMDB calls pwrite */

#include "../unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "fixture.h"
#include "store/store.h"

enum { BATCHES = 12, CHECKPOINT_EVERY = 5 };

static const uint64_t SEED = 77;

/* Counts down to the call that fails; then so many fail in a row. */
static struct {
    long after;
    long times;
    bool hit;
} fault;

static bool fails_now(void)
{
    if (fault.times == 0 || fault.after-- > 0)
        return false;
    fault.times--;
    fault.hit = true;
    errno = EIO;
    return true;
}

/* These stand in for the C library's, for the store and for LMDB alike. */
int fdatasync(int fd)
{
    return fails_now() ? -1 : (int)syscall(SYS_fdatasync, fd);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    return fails_now() ? -1 : syscall(SYS_pwrite64, fd, data, len, offset);
}

static void send_until_durable(struct hf_store *store, const struct hf_batch *batch)
{
    int rv;

    while ((rv = hf_store_apply(store, batch)) < 0)
        assert_int_equal(rv, HF_EIO);
}

/* A story with one fault in it. True if the fault came to pass. */
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
    };

    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
