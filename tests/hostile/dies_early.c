/*
 * Preloaded into a daemon: it dies in its first turns, as it would by a system call that the filter
 * refuses. HOLDFAST_DIES_AT=poll: when the loop first sleeps. flush: when a thread other than the
 * first, which is the store's, first makes something durable.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

static void die_at(const char *where)
{
    const char *wanted = getenv("HOLDFAST_DIES_AT");

    if (wanted && strcmp(wanted, where) == 0)
        abort();
}

int epoll_pwait(int fd, struct epoll_event *events, int max, int timeout, const sigset_t *mask)
{
    die_at("poll");
    return (int)syscall(SYS_epoll_pwait, fd, events, max, timeout, mask, 8);
}

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
    return epoll_pwait(fd, events, max, timeout, NULL);
}

int fdatasync(int fd)
{
    if (syscall(SYS_gettid) != getpid())
        die_at("flush");
    return (int)syscall(SYS_fdatasync, fd);
}
