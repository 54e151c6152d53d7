#include "keeper/guard.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"

/* MANY is more than the number of descriptors that a worker has open beside its files. */
enum { MANY = 512, SHORT_LIFE_S = 1, PAUSE_MS = 100 };

struct table {
    bool ready;
    int lease; /* the descriptor of the lease's timer; -1: there is none */
    bool lease_stored;
    int top; /* the highest descriptor that was ever guarded; read it with top() */
    struct hf_guarded files[];
};

static struct table *table; /* memory that guard and worker share */
static size_t n_files;
static volatile sig_atomic_t worker; /* in the guard: the process id of the worker */

int hf_guard_open(size_t n)
{
    void *memory = mmap(NULL, sizeof(*table) + n * sizeof(table->files[0]), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return HF_ENOMEM;
    table = memory;
    table->lease = -1;
    n_files = n;
    return 0;
}

/* Returns the highest guarded descriptor. The guard checks what it reads from shared memory: an
 * attacker who controls one worker must not control the next one, nor end the guard. */
static int top(void)
{
    int n = table->top;

    return n >= 0 && (size_t)n < n_files ? n : (int)n_files - 1;
}

void hf_guard_set(int fd, struct hf_bytes handle, bool writable, bool stored)
{
    struct hf_guarded *file;

    if (!table || (size_t)fd >= n_files)
        return;
    HF_ASSERT(handle.len > 0 && handle.len <= HF_KEEPER_HANDLE_MAX);
    file = &table->files[fd];
    memcpy(file->handle, handle.data, handle.len);
    file->writable = writable;
    file->stored = stored;
    if (fd > table->top)
        table->top = fd;
    file->handle_len = (uint8_t)handle.len;
}

void hf_guard_clear(int fd)
{
    if (table && (size_t)fd < n_files)
        table->files[fd].handle_len = 0;
}

int hf_guard_next(int fd, struct hf_guarded *out)
{
    for (; table && fd <= top(); fd++) {
        *out = table->files[fd];
        if (out->handle_len > 0 && out->handle_len <= HF_KEEPER_HANDLE_MAX)
            return fd;
    }
    return -1;
}

void hf_guard_set_lease(int fd, bool stored)
{
    if (!table)
        return;
    table->lease = fd;
    table->lease_stored = stored;
}

int hf_guard_lease(bool *stored)
{
    *stored = table && table->lease_stored;
    return table ? table->lease : -1;
}

void hf_guard_ready(void)
{
    if (table)
        table->ready = true;
}

void hf_guard_end_worker(void)
{
    if (worker > 0)
        (void)kill(worker, SIGTERM);
}

/* ---- the guard ---- */

/* Starts a worker that shares the guard's descriptors and nothing else, which fork(3) cannot do. */
static pid_t start_worker(void)
{
    unsigned long flags = CLONE_FILES | SIGCHLD;

#ifdef __s390__
    return (pid_t)syscall(SYS_clone, 0UL, flags, 0UL, 0UL, 0UL);
#else
    return (pid_t)syscall(SYS_clone, flags, 0UL, 0UL, 0UL, 0UL);
#endif
}

/* Closes what the ended worker had open beside its files: the daemon sees the end of its connection
 * only when the guard has closed it. */
static void close_others(int low, int listener)
{
    struct hf_guarded file;
    int kept = hf_guard_next(0, &file);

    for (int fd = low + 1; fd <= top() + MANY; fd++) {
        if (kept >= 0 && kept < fd)
            kept = hf_guard_next(fd, &file);
        if (fd != kept && fd != listener && fd != table->lease)
            close(fd);
    }
}

static int wait_for_worker(void)
{
    int status;

    while (waitpid(worker, &status, 0) < 0) {
        if (errno != EINTR)
            return EXIT_FAILURE;
    }
    worker = 0;
    return status;
}

static int64_t now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

/* True if another worker may follow the one that was killed. */
static bool may_follow(int status, int64_t started_s, const volatile sig_atomic_t *stopping)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};

    hf_log(HF_LOG_ERROR, "the worker was killed", HF_INT("signal", WTERMSIG(status)),
           HF_STR("then", table->ready ? "its files stay locked, and another one takes them over"
                                       : "it was not ready yet: there is no other"));
    if (!table->ready || *stopping)
        return false;
    if (now_s() - started_s <= SHORT_LIFE_S)
        (void)nanosleep(&pause, NULL);
    return true;
}

int hf_guard_run(int low, int listener, const volatile sig_atomic_t *stopping)
{
    pid_t guard = getpid();

    for (;;) {
        int64_t started_s = now_s();
        int status;
        pid_t pid;

        table->ready = false;
        pid = start_worker();
        if (pid < 0)
            return EXIT_FAILURE;
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
            if (getppid() != guard)
                (void)raise(SIGTERM);
            return HF_GUARD_WORKER;
        }
        worker = pid;
        if (*stopping)
            hf_guard_end_worker();
        status = wait_for_worker();
        if (WIFEXITED(status))
            return WEXITSTATUS(status);
        if (!may_follow(status, started_s, stopping))
            return EXIT_FAILURE;
        close_others(low, listener);
    }
}
