/*
 * Preloaded into a server: a disk whose flushes are slow. Each flush takes HOLDFAST_FLUSH_US
 * microseconds longer than it does on this machine: fdatasync(), fsync(), and a write through a
 * descriptor that was opened with O_DSYNC, as LMDB's for its meta page.
 *
 * A test that changes the speed while the server runs names a file by HOLDFAST_FLUSH_FILE instead,
 * which holds the microseconds as a 64-bit number of this machine. It is mapped when the server
 * starts, because a confined server can open no file later.
 */
#undef _FILE_OFFSET_BITS /* this macro would rename pwrite to pwrite64, and LMDB calls pwrite */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int64_t from_environment;
static const volatile int64_t *flush_us = &from_environment;

__attribute__((constructor)) static void read_environment(void)
{
    const char *text = getenv("HOLDFAST_FLUSH_US"), *path = getenv("HOLDFAST_FLUSH_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = fd >= 0 ? mmap(NULL, sizeof(*flush_us), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (fd >= 0)
        close(fd);
    if (map != MAP_FAILED)
        flush_us = map;
    from_environment = text ? strtol(text, NULL, 10) : 0;
}

static void delay(void)
{
    int64_t us = *flush_us;
    struct timespec left = {us / 1000000, us % 1000000 * 1000};

    while (us > 0 && nanosleep(&left, &left) < 0 && errno == EINTR)
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
