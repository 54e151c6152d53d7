/* COH-04: what the next worker adopts. */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "keeper/guard.h"
#include "keeper/kernel_locks.h"
#include "keeper/store.h"

static struct rlimit limit;

static void on_alarm(int number)
{
    (void)number;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* For a twentieth of a second the process can open no file. */
static void run_out_of_files(void)
{
    const struct itimerval later = {.it_value = {.tv_usec = 50000}};
    const struct sigaction action = {.sa_handler = on_alarm};
    struct rlimit none;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &later, NULL), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
}

/* Given a worker that was killed, and another that has no descriptor left for a moment when it asks
 * the kernel what is locked, then it adopts the locked file with its range, and does not close it
 * as one without locks. */
static void what_cannot_be_read_yet_is_not_dropped(void **state)
{
    static const struct hf_span held = {5, 9, HF_KEEPER_EXCLUSIVE};
    struct hf_keeper_files files;
    int fd = memfd_create("file", MFD_CLOEXEC);
    struct hf_keeper_file *file;
    struct hf_bytes handle = hf_bytes("a handle", 8);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(hf_kernel_lock(fd, &held), 0);
    assert_int_equal(hf_keeper_files_init(&files), 0);
    files.max = 10;
    files.ranges_max = 10;
    assert_int_equal(hf_guard_open((size_t)fd + 1), 0);
    hf_guard_set(fd, handle, true, false);
    run_out_of_files();
    assert_int_equal(hf_store_adopt(&files, 0), 1);
    file = hf_keeper_files_find(&files, handle);
    assert_non_null(file);
    assert_int_equal(file->ranges.count, 1);
    assert_int_equal(file->ranges.spans[0].first, 5);
    assert_int_equal(file->ranges.spans[0].last, 9);
    assert_int_equal(files.n_idle, 0);
    hf_keeper_files_free(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_read_yet_is_not_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
