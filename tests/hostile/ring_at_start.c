/*
 * Preloaded into a daemon: the part of libuv 1.50 and later (Debian 13) that a filter of system
 * calls can break. uv_loop_init() makes an io_uring, by which changes to the set of watched
 * descriptors go to the kernel in one call; without one, libuv uses epoll_ctl(). A ring that was
 * made must go on to work: a failing io_uring_enter() is answered by abort().
 * libuv enters it when it polls; here that is done once, when the loop begins to run.
 */
#include <dlfcn.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

static int ring = -1;

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (!found)
        abort();
    return found;
}

int uv_loop_init(uv_loop_t *loop)
{
    int (*init)(uv_loop_t *);
    struct io_uring_params params = {0};

    *(void **)&init = next("uv_loop_init");
    ring = (int)syscall(SYS_io_uring_setup, 4, &params);
    return init(loop);
}

int uv_run(uv_loop_t *loop, uv_run_mode mode)
{
    int (*run)(uv_loop_t *, uv_run_mode);

    *(void **)&run = next("uv_run");
    if (ring >= 0 && syscall(SYS_io_uring_enter, ring, 0, 0, 0, NULL, 0) < 0) {
        perror("libuv: io_uring_enter(getevents)");
        abort();
    }
    return run(loop, mode);
}
