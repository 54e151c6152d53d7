#include "base/clock.h"

#include <time.h>

static struct timespec read_clock(clockid_t clock)
{
    struct timespec ts = {0};

    (void)clock_gettime(clock, &ts);
    return ts;
}

static int64_t to_ms(struct timespec ts)
{
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t hf_clock_wall_ms(void)
{
    return to_ms(read_clock(CLOCK_REALTIME));
}

uint64_t hf_clock_mono_ns(void)
{
    struct timespec ts = read_clock(CLOCK_MONOTONIC);

    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint64_t hf_clock_mono_ms(void)
{
    return (uint64_t)to_ms(read_clock(CLOCK_MONOTONIC));
}

uint64_t hf_clock_boot_ms(void)
{
    return (uint64_t)to_ms(read_clock(CLOCK_BOOTTIME));
}
