/*
 * The kernel's own POSIX locks, one process per owner, on a file in memory.
 *
 * Whether a process waits is not guessed from the time it takes: /proc/PID/syscall names the system
 * call in which a task *sleeps*, and says "running" as soon as it has been woken. The kernel wakes
 * waiters before the call that freed a lock returns. A task can also sleep in F_SETLKW before the
 * kernel has looked for a conflict, for example while another program reads /proc/locks; such a
 * sleep cannot be interrupted (state D), the wait for a lock can (state S). So once every process
 * has either answered or sleeps in F_SETLKW in state S, and none has answered since the first look,
 * nothing moves any more.
 */
#ifndef HF_DIFFERENTIAL_KERNEL_H
#define HF_DIFFERENTIAL_KERNEL_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>

enum { OWNERS = 5 };

struct kernel;

/* Starts the processes; NULL: this machine does not let us see in which call a process sleeps. */
struct kernel *kernel_new(void);
void kernel_free(struct kernel *kernel);

/* Makes one process, which is idle, call fcntl(command) for this lock; returns when no process
 * moves any more. */
void kernel_ask(struct kernel *kernel, unsigned owner, int command, const struct flock *lock);

/* Interrupts a process that waits. */
void kernel_interrupt(struct kernel *kernel, unsigned owner);

bool kernel_waits(const struct kernel *kernel, unsigned owner);

/* What the latest call of the process returned: 0, or errno. */
int kernel_result(const struct kernel *kernel, unsigned owner);

/* What F_GETLK found: the owner that holds a conflicting lock, or -1. */
int kernel_found(const struct kernel *kernel, unsigned owner, struct flock *lock);

/* True if some process holds a lock that would conflict with one of this type there. */
bool kernel_is_locked(struct kernel *kernel, short type, off_t start, off_t len);

#endif
