/*
 * Preloaded into a daemon: its monotonic clocks run behind by as many nanoseconds as the first
 * eight bytes of the file $STOPPED_CLOCK_FILE say. So a test can show the daemon what a virtual
 * machine sees that stood still together with its clocks.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *behind_ns;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("STOPPED_CLOCK_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof(*behind_ns), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (fd >= 0)
        close(fd);
    if (at != MAP_FAILED)
        behind_ns = at;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    int rv = (int)syscall(SYS_clock_gettime, clock, ts);
    int64_t ns;

    if (rv < 0 || !behind_ns || clock == CLOCK_REALTIME)
        return rv;
    ns = (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec - *behind_ns;
    ts->tv_sec = ns / 1000000000;
    ts->tv_nsec = ns % 1000000000;
    return 0;
}
