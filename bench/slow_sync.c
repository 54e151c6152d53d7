/*
 * Preloaded into a server that is measured: a disk whose flushes are slow. Each flush takes
 * HOLDFAST_FLUSH_US microseconds longer than it does on this machine: fdatasync(), fsync(), and a
 * write through a descriptor that was opened with O_DSYNC, as LMDB's for its meta page.
 */
#undef _FILE_OFFSET_BITS /* it would rename pwrite to pwrite64, and LMDB calls pwrite */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static void delay(void)
{
    const char *text = getenv("HOLDFAST_FLUSH_US");
    long us = text ? strtol(text, NULL, 10) : 0;
    struct timespec left = {us / 1000000, us % 1000000 * 1000};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
}

int fdatasync(int fd)
{
    delay();
    return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    delay();
    return (int)syscall(SYS_fsync, fd);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags >= 0 && flags & O_DSYNC)
        delay();
    return syscall(SYS_pwrite64, fd, data, len, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset)
{
    return pwrite(fd, data, len, offset);
}
