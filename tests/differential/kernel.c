#include "kernel.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"

/* Memory shared with the process of one owner. */
struct desk {
    int command;
    struct flock lock;
    int result;
    atomic_uint answered; /* how many commands of this owner have returned */
};

struct kernel {
    struct desk *desks; /* one per owner, in memory that all processes share */
    pid_t pids[OWNERS];
    int bells[OWNERS];    /* pipes; a byte in one says that the owner's desk has a command */
    int syscalls[OWNERS]; /* /proc/PID/syscall */
    int states[OWNERS];   /* /proc/PID/stat */
    unsigned asked[OWNERS];
    int file;
};

static void interrupted(int signal)
{
    (void)signal;
}

static void work(struct desk *desk, int file, int bell)
{
    struct sigaction action = {.sa_handler = interrupted}; /* without SA_RESTART */
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigaction(SIGUSR1, &action, NULL);
    while (read(bell, &byte, 1) == 1) {
        desk->result = fcntl(file, desk->command, &desk->lock) < 0 ? errno : 0;
        atomic_fetch_add(&desk->answered, 1);
    }
    _exit(0);
}

static int open_in_proc(pid_t pid, const char *name)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void hire(struct kernel *kernel, unsigned owner)
{
    int ends[2];

    HF_ASSERT(pipe2(ends, O_CLOEXEC) == 0);
    kernel->pids[owner] = fork();
    HF_ASSERT(kernel->pids[owner] >= 0);
    if (kernel->pids[owner] == 0) {
        for (unsigned i = 0; i < owner; i++)
            /* Otherwise the other processes would not see the end of their pipes. */
            close(kernel->bells[i]);
        close(ends[1]);
        work(&kernel->desks[owner], kernel->file, ends[0]);
    }
    close(ends[0]);
    kernel->bells[owner] = ends[1];
    kernel->syscalls[owner] = open_in_proc(kernel->pids[owner], "syscall");
    kernel->states[owner] = open_in_proc(kernel->pids[owner], "stat");
}

struct kernel *kernel_new(void)
{
    struct kernel *kernel = calloc(1, sizeof(*kernel));
    bool seen = true;

    HF_ASSERT(kernel);
    kernel->desks = mmap(NULL, OWNERS * sizeof(struct desk), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    kernel->file = memfd_create("locks", MFD_CLOEXEC);
    HF_ASSERT(kernel->desks != MAP_FAILED && kernel->file >= 0);
    fflush(stdout);
    for (unsigned i = 0; i < OWNERS; i++) {
        hire(kernel, i);
        seen = seen && kernel->syscalls[i] >= 0 && kernel->states[i] >= 0;
    }
    if (seen)
        return kernel;
    kernel_free(kernel);
    return NULL;
}

void kernel_free(struct kernel *kernel)
{
    for (unsigned i = 0; i < OWNERS; i++) {
        close(kernel->bells[i]);
        kill(kernel->pids[i], SIGKILL);
        waitpid(kernel->pids[i], NULL, 0);
        if (kernel->syscalls[i] >= 0)
            close(kernel->syscalls[i]);
        if (kernel->states[i] >= 0)
            close(kernel->states[i]);
    }
    munmap(kernel->desks, OWNERS * sizeof(struct desk));
    close(kernel->file);
    free(kernel);
}

static bool is_busy(const struct kernel *kernel, unsigned owner)
{
    return atomic_load(&kernel->desks[owner].answered) != kernel->asked[owner];
}

/* Reads a short file of /proc afresh. */
static void look(int file, char *text, size_t size)
{
    ssize_t n = pread(file, text, size - 1, 0);

    HF_ASSERT(n > 0);
    text[n] = '\0';
}

/*
 * The process waits for a lock in fcntl(F_SETLKW). The state is read last: a process that has left
 * the call by then has also answered, which settle() sees.
 */
static bool waits_for_lock(const struct kernel *kernel, unsigned owner)
{
    char text[512];
    unsigned long call, file, command;
    const char *name_end;

    look(kernel->syscalls[owner], text, sizeof(text));
    if (sscanf(text, "%lu %lx %lx", &call, &file, &command) != 3 || call != SYS_fcntl ||
        command != F_SETLKW)
        return false;
    look(kernel->states[owner], text, sizeof(text));
    name_end = strrchr(text, ')');
    return name_end && strncmp(name_end, ") S", 3) == 0;
}

static unsigned answers(const struct kernel *kernel)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < OWNERS; i++)
        sum += atomic_load(&kernel->desks[i].answered);
    return sum;
}

static void settle(const struct kernel *kernel)
{
    unsigned before;

    do {
        before = answers(kernel);
        for (unsigned i = 0; i < OWNERS; i++) {
            while (is_busy(kernel, i) && !waits_for_lock(kernel, i))
                sched_yield();
        }
    } while (answers(kernel) != before);
}

void kernel_ask(struct kernel *kernel, unsigned owner, int command, const struct flock *lock)
{
    struct desk *desk = &kernel->desks[owner];

    HF_ASSERT(!is_busy(kernel, owner));
    desk->command = command;
    desk->lock = *lock;
    kernel->asked[owner]++;
    HF_ASSERT(write(kernel->bells[owner], "", 1) == 1);
    settle(kernel);
}

void kernel_interrupt(struct kernel *kernel, unsigned owner)
{
    kill(kernel->pids[owner], SIGUSR1);
    while (is_busy(kernel, owner))
        sched_yield();
    settle(kernel);
}

bool kernel_waits(const struct kernel *kernel, unsigned owner)
{
    return is_busy(kernel, owner);
}

int kernel_result(const struct kernel *kernel, unsigned owner)
{
    return kernel->desks[owner].result;
}

int kernel_found(const struct kernel *kernel, unsigned owner, struct flock *lock)
{
    *lock = kernel->desks[owner].lock;
    for (unsigned i = 0; i < OWNERS && lock->l_type != F_UNLCK; i++) {
        if (kernel->pids[i] == lock->l_pid)
            return (int)i;
    }
    return -1;
}

/* Asks as an owner of its own, which holds nothing. */
bool kernel_is_locked(struct kernel *kernel, short type, off_t start, off_t len)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};

    HF_ASSERT(fcntl(kernel->file, F_OFD_GETLK, &lock) == 0);
    return lock.l_type != F_UNLCK;
}
