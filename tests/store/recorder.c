/*
 * Loaded with LD_PRELOAD: writes down, in order, every write to and sync of a file called data.mdb,
 * with the bytes; and every write to a file called acks, which is how the program under test says
 * that a batch was reported durable. test_torn.c replays the record with the power cut anywhere.
 *
 * The record goes to the file named by HOLDFAST_RECORD.
 */
#undef _FILE_OFFSET_BITS /* it would rename pwrite to pwrite64, and LMDB calls pwrite */

#include "recorder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int record_fd = -1;

/* Straight to the kernel: our own writes must not be recorded. */
static void emit(const void *data, size_t len)
{
    if (syscall(SYS_write, record_fd, data, len) != (ssize_t)len)
        abort();
}

static bool is_named(int fd, const char *name)
{
    char link[64];
    char path[4096];
    ssize_t len;
    const char *base;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof(path) - 1);
    if (len <= 0)
        return false;
    path[len] = '\0';
    base = strrchr(path, '/');
    return base && strcmp(base + 1, name) == 0;
}

static bool recording(void)
{
    const char *name = getenv("HOLDFAST_RECORD");

    if (record_fd < 0 && name)
        record_fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return record_fd >= 0;
}

static void note(int fd, enum event_type type, const struct iovec *iov, int count, off_t offset)
{
    struct event event = {.type = type, .offset = (uint64_t)offset};

    if (!recording() || !is_named(fd, "data.mdb"))
        return;
    if (type == EVENT_WRITE && fcntl(fd, F_GETFL) & O_DSYNC)
        event.type = EVENT_WRITE_THROUGH;
    for (int i = 0; i < count; i++)
        event.len += iov[i].iov_len;
    emit(&event, sizeof(event));
    for (int i = 0; i < count; i++)
        emit(iov[i].iov_base, iov[i].iov_len);
}

/* What follows takes the place of the C library's; the kernel does the work. */

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    struct iovec iov = {(void *)(uintptr_t)data, len};

    note(fd, EVENT_WRITE, &iov, 1, offset);
    return syscall(SYS_pwrite64, fd, data, len, offset);
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
    note(fd, EVENT_WRITE, iov, count, lseek(fd, 0, SEEK_CUR));
    return syscall(SYS_writev, fd, iov, count);
}

ssize_t write(int fd, const void *data, size_t len)
{
    struct iovec iov = {(void *)(uintptr_t)data, len};
    struct event event = {.type = EVENT_ACK, .len = len};

    if (recording() && is_named(fd, "acks")) {
        emit(&event, sizeof(event));
        emit(data, len);
    }
    note(fd, EVENT_WRITE, &iov, 1, lseek(fd, 0, SEEK_CUR));
    return syscall(SYS_write, fd, data, len);
}

int fdatasync(int fd)
{
    int rv = (int)syscall(SYS_fdatasync, fd);

    note(fd, EVENT_SYNC, NULL, 0, 0);
    return rv;
}

int fsync(int fd)
{
    int rv = (int)syscall(SYS_fsync, fd);

    note(fd, EVENT_SYNC, NULL, 0, 0);
    return rv;
}

/* None of these is expected; if LMDB ever used them the record would be wrong. */
int ftruncate(int fd, off_t len)
{
    if (is_named(fd, "data.mdb"))
        abort();
    return (int)syscall(SYS_ftruncate, fd, len);
}

int msync(void *addr, size_t len, int flags)
{
    (void)addr;
    (void)len;
    (void)flags;
    abort();
}
