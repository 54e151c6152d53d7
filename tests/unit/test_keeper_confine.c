/*
 * The keeper's filter of system calls (COH-02): a process that has it and a data file open for
 * reading and writing can lock the file, and can neither read nor change a byte of it.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/confine.h"

enum { NO_FILTERS = 77 };

static char path[] = "/tmp/holdfast-keeper-confine-XXXXXX";
static int data, mounts;

/* Ends the process with the number of the line whose attempt was wrong. */
static void require(bool ok, int line)
{
    char text[64];

    if (ok)
        return;
    (void)snprintf(text, sizeof(text), "# line %d, errno %d\n", line, errno);
    (void)syscall(SYS_write, STDERR_FILENO, text, strlen(text));
    _exit(1);
}

#define REFUSED(call)                                             \
    do {                                                          \
        errno = 0;                                                \
        require((long)(call) == -1 && errno == ENOSYS, __LINE__); \
    } while (0)
#define ALLOWED(call) require((long)(call) >= 0, __LINE__)

static void try_data(void)
{
    char buffer[8] = "evil";
    struct iovec part = {buffer, 4};
    off_t offset = 0;

    REFUSED(read(data, buffer, 4));
    REFUSED(pread(data, buffer, 4, 0));
    REFUSED(readv(data, &part, 1));
    REFUSED(preadv(data, &part, 1, 0));
    REFUSED(syscall(SYS_preadv2, data, &part, 1, 0, 0, 0));
    REFUSED(write(data, buffer, 4));
    REFUSED(pwrite(data, buffer, 4, 0));
    REFUSED(writev(data, &part, 1));
    REFUSED(pwritev(data, &part, 1, 0));
    REFUSED(syscall(SYS_pwritev2, data, &part, 1, 0, 0, 0));
    REFUSED(ftruncate(data, 0));
    REFUSED(truncate(path, 0));
    REFUSED(fallocate(data, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4));
    REFUSED(mmap(NULL, 4096, PROT_READ, MAP_SHARED, data, 0));
    REFUSED(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, data, 0));
    REFUSED(sendfile(STDERR_FILENO, data, &offset, 4));
    REFUSED(splice(data, NULL, STDERR_FILENO, NULL, 4, 0));
    REFUSED(copy_file_range(data, NULL, data, NULL, 4, 0));
    REFUSED(readahead(data, 0, 4));
    REFUSED(fsync(data));
    REFUSED(fchmod(data, 0777));
    REFUSED(fchown(data, 0, 0));
    REFUSED(syscall(SYS_io_uring_setup, 1, NULL));
    REFUSED(syscall(SYS_io_setup, 1, NULL));
}

static void try_descriptors(void)
{
    REFUSED(dup(data));
    REFUSED(dup2(data, mounts));
    REFUSED(dup2(data, STDERR_FILENO));
    REFUSED(dup3(data, mounts, 0));
    REFUSED(fcntl(data, F_DUPFD, 0));
    REFUSED(fcntl(data, F_DUPFD_CLOEXEC, 0));
    REFUSED(fcntl(data, F_SETLEASE, F_WRLCK));
    REFUSED(close(mounts)); /* the number of this file must not become that of a data file */
    REFUSED(close(STDERR_FILENO));
    REFUSED(close(STDIN_FILENO));
}

static void try_the_rest(void)
{
    REFUSED(openat(AT_FDCWD, path, O_RDWR | O_TRUNC));
    REFUSED(openat(AT_FDCWD, "/tmp/holdfast-keeper-new", O_RDWR | O_CREAT, 0600));
    REFUSED(openat(AT_FDCWD, "/tmp", O_RDWR | O_TMPFILE, 0600));
    REFUSED(openat(AT_FDCWD, path, O_WRONLY | O_APPEND));
    REFUSED(unlink(path));
    REFUSED(rename(path, path));
    REFUSED(link(path, "/tmp/holdfast-keeper-link"));
    REFUSED(mkdir("/tmp/holdfast-keeper-dir", 0700));
    REFUSED(syscall(SYS_execve, "/bin/true", NULL, NULL));
    REFUSED(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    REFUSED(syscall(SYS_clone3, NULL, 0));
#ifdef SYS_vfork
    REFUSED(syscall(SYS_vfork));
#endif
    REFUSED(syscall(SYS_ptrace, 0, 0, 0, 0));
    REFUSED(syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0));
    REFUSED(syscall(SYS_pidfd_getfd, 0, 0, 0));
    REFUSED(socket(AF_INET, SOCK_STREAM, 0));
    REFUSED(socket(AF_NETLINK, SOCK_RAW, 0));
    REFUSED(syscall(SYS_tgkill, 1, 1, 0));
    REFUSED(kill(1, 0));
    REFUSED(setuid(0));
    REFUSED(prctl(PR_SET_NAME, "x", 0, 0, 0));
    REFUSED(syscall(SYS_mprotect, 0, 4096, PROT_READ | PROT_EXEC));
    REFUSED(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

/* Does what the keeper has to do. */
static void do_the_work(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
    struct stat st;
    char buffer[64];
    char link[64];
    int fd;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", data);
    fd = openat(AT_FDCWD, link, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ALLOWED(fd);
    ALLOWED(fcntl(fd, F_OFD_SETLK, &lock));
    ALLOWED(fcntl(data, F_OFD_GETLK, &lock));
    require(lock.l_type == F_WRLCK, __LINE__);
    lock.l_pid = 0;
    lock.l_type = F_UNLCK;
    ALLOWED(fcntl(fd, F_OFD_SETLKW, &lock));
    ALLOWED(fstat(fd, &st));
    ALLOWED(close(fd));
    ALLOWED(lseek(mounts, 0, SEEK_SET));
    ALLOWED(read(mounts, buffer, sizeof(buffer)));
    ALLOWED(write(STDERR_FILENO, "", 0));
    /* A thread that is being made gets the filter before its first instruction. */
    ALLOWED(syscall(SYS_set_robust_list, NULL, 3 * sizeof(long)));
    require(syscall(SYS_rseq, NULL, 0, -1, 0) < 0 && errno == EINVAL, __LINE__);
    ALLOWED(syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                    0) == -1
                ? -1
                : 0);
}

static void be_confined(void)
{
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
        _exit(NO_FILTERS); /* this program alone runs on an emulated processor */
    require(hf_keeper_confine_calls(mounts, false) == 0, __LINE__);
    do_the_work();
    try_data();
    try_descriptors();
    try_the_rest();
    do_the_work();
    (void)syscall(SYS_exit_group, 0);
}

static void a_confined_keeper_locks_and_nothing_else(void **state)
{
    char content[16] = "";
    int status;
    pid_t child;

    (void)state;
    data = mkostemp(path, O_CLOEXEC);
    assert_true(data >= 0);
    assert_int_equal(pwrite(data, "content", 7, 0), 7);
    mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    assert_true(mounts > data);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        be_confined();
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_FILTERS) {
        assert_int_equal(unlink(path), 0);
        skip();
    }
    assert_int_equal(status, 0);
    assert_int_equal(pread(data, content, sizeof(content), 0), 7);
    assert_string_equal(content, "content");
    assert_int_equal(unlink(path), 0);
    close(mounts);
    close(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_confined_keeper_locks_and_nothing_else),
    };

    return cmocka_run_group_tests_name("keeper confine", tests, NULL, NULL);
}
