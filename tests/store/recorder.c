/*
 * Loaded with LD_PRELOAD: writes down, in order, every write to and sync of the store's files, with
 * the bytes; and every write to a file called acks, which is how the program under test says
 * that a batch was reported durable. test_torn.c replays the record with the power cut anywhere.
 *
 * The record goes to the file named by HOLDFAST_RECORD.
 */
#undef _FILE_OFFSET_BITS /* it would rename pwrite to pwrite64, and LMDB calls pwrite */

#include "recorder.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int record_fd = -1;

/* Writes straight to the kernel, because the recorder's own writes must not be recorded. */
static void emit(const void *data, size_t len)
{
    if (syscall(SYS_write, record_fd, data, len) != (ssize_t)len)
        abort();
}

/* Returns the last part of an open file's name. */
static const char *name_of(int fd, char path[PATH_MAX])
{
    char link[64];
    ssize_t len;
    const char *base;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, PATH_MAX - 1);
    path[len > 0 ? len : 0] = '\0';
    base = strrchr(path, '/');
    return base ? base + 1 : "";
}

/* Returns which of the store's files this is, or -1. */
static int store_file(int fd)
{
    char path[PATH_MAX];
    const char *name = name_of(fd, path);

    for (int i = 0; i < STORE_FILES; i++) {
        if (strcmp(name, STORE_FILE_NAMES[i]) == 0)
            return i;
    }
    return -1;
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
    int file = recording() ? store_file(fd) : -1;

    if (file < 0)
        return;
    event.file = (uint32_t)file;
    if (type == EVENT_WRITE && fcntl(fd, F_GETFL) & O_DSYNC)
        event.type = EVENT_WRITE_THROUGH;
    for (int i = 0; i < count; i++)
        event.len += iov[i].iov_len;
    emit(&event, sizeof(event));
    for (int i = 0; i < count; i++)
        emit(iov[i].iov_base, iov[i].iov_len);
}

/* The functions below replace those of the C library; the kernel does the work. */

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    struct iovec iov = {(void *)data, len};

    note(fd, EVENT_WRITE, &iov, 1, offset);
    return syscall(SYS_pwrite64, fd, data, len, offset);
}

ssize_t pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
    note(fd, EVENT_WRITE, iov, count, offset);
    return syscall(SYS_pwritev, fd, iov, count, offset, 0);
}

ssize_t pwritev64(int fd, const struct iovec *iov, int count, off64_t offset)
{
    return pwritev(fd, iov, count, offset);
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
    note(fd, EVENT_WRITE, iov, count, lseek(fd, 0, SEEK_CUR));
    return syscall(SYS_writev, fd, iov, count);
}

ssize_t write(int fd, const void *data, size_t len)
{
    struct iovec iov = {(void *)data, len};
    struct event event = {.type = EVENT_ACK, .len = len};
    char path[PATH_MAX];

    if (recording() && strcmp(name_of(fd, path), "acks") == 0) {
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

/* No call of these is expected; if LMDB ever made one, the record would be wrong. */
int ftruncate(int fd, off_t len)
{
    if (store_file(fd) >= 0)
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
