/*
 * Preloaded into a daemon: clocks that jump. The file named by HOLDFAST_CLOCK_FILE holds three
 * 64-bit numbers, nanoseconds that are added to the wall clock and to CLOCK_BOOTTIME (as if the
 * host had been suspended so long), and that CLOCK_BOOTTIME and CLOCK_MONOTONIC are behind (as in a
 * virtual machine that was paused so long; the process must be stopped meanwhile). They can be
 * changed at any time. CLOCK_MONOTONIC never jumps forward: no kernel lets it.
 *
 * A time namespace cannot do this: its offsets are fixed before its first process starts, and the
 * wall clock has none. libfaketime reads its file anew each time, which a confined daemon may not.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct jumps {
    int64_t wall_ns, boot_ns, behind_ns;
};

static const struct jumps none;
static const volatile struct jumps *jumps = &none;
static int (*kernel_gettime)(clockid_t clock, struct timespec *out);

static void find_gettime(void)
{
    *(void **)&kernel_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    if (!kernel_gettime)
        abort();
}

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("HOLDFAST_CLOCK_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = fd >= 0 ? mmap(NULL, sizeof(none), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (fd >= 0)
        close(fd);
    if (map != MAP_FAILED)
        jumps = map;
    find_gettime();
}

static int64_t jump_of(clockid_t clock)
{
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        return jumps->wall_ns;
    case CLOCK_BOOTTIME:
        return jumps->boot_ns - jumps->behind_ns;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
        return -jumps->behind_ns;
    default: /* of processor time */
        return 0;
    }
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int64_t jump = jump_of(clock);
    int64_t ns;

    if (!kernel_gettime)
        find_gettime();
    if (kernel_gettime(clock, out) < 0)
        return -1;
    ns = out->tv_sec * INT64_C(1000000000) + out->tv_nsec + jump;
    out->tv_sec = ns / 1000000000;
    out->tv_nsec = ns % 1000000000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}
