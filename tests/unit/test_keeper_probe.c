/* COH-14: whether the locks of a file system are seen by other programs is found out once for each
 * file system, and what could not be found out is not remembered. */
#include "unit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "keeper/probe.h"

enum { DEVICE = 7 };

static int open_memory(void)
{
    int fd = memfd_create("file", MFD_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

/* Lets the process open no more files, or as many as before. */
static void limit_files(rlim_t n)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = n;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static rlim_t limit_of_files(void)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur;
}

/* Given a keeper that has no descriptor left when it first looks at a file system, when it has some
 * again, then the file system is looked at anew: it was not a foreign one. */
static void a_lack_of_descriptors_says_nothing_about_a_file_system(void **state)
{
    struct hf_probes probes = {0};
    rlim_t before = limit_of_files();
    int fd = open_memory();
    enum hf_keeper_status status;

    (void)state;
    limit_files(0);
    status = hf_probe(&probes, DEVICE, fd);
    limit_files(before);
    assert_int_equal(status, HF_KEEPER_TOO_MANY_FILES);
    assert_int_equal(hf_probe(&probes, DEVICE, fd), HF_KEEPER_OK);
    close(fd);
}

/* Given a file system that was unmounted, and another that got its device number, then what was
 * found out about the first does not count for the second. */
static void a_device_number_that_is_used_again_is_another_file_system(void **state)
{
    struct hf_probes probes = {0};
    int first = open_memory();
    int second = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

    (void)state;
    assert_true(second >= 0);
    assert_int_equal(hf_probe(&probes, DEVICE, first), HF_KEEPER_OK);
    probes.known[0].meets = false; /* as if it had been of another kind */
    assert_int_equal(hf_probe(&probes, DEVICE, first), HF_KEEPER_FOREIGN);
    assert_int_equal(hf_probe(&probes, DEVICE, second), HF_KEEPER_OK);
    assert_int_equal(probes.count, 2);
    close(first);
    close(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lack_of_descriptors_says_nothing_about_a_file_system),
        cmocka_unit_test(a_device_number_that_is_used_again_is_another_file_system),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
