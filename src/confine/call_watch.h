/*
 * The thread that hears of system calls outside the filter (system_calls.c): the kernel holds up
 * the call until this thread has logged its name and answered, with ENOSYS or with the end of the
 * process. A signal (SECCOMP_RET_TRAP) would not do: the C library blocks all signals where it
 * starts and ends threads, and a call that is trapped there would end the process without a line in
 * the log.
 */
#ifndef HF_CONFINE_CALL_WATCH_H
#define HF_CONFINE_CALL_WATCH_H

#include <stdbool.h>

/*
 * Starts the thread, which calls confine() for itself and waits for hf_call_watch_listen(). ending
 * is a call that confine() lets end the process; the thread makes it after it has told of a fatal
 * call. In a build with sanitizers, HOLDFAST_RECORD_CALLS in the environment names a file to which
 * each unexpected call is written instead, and no call is fatal. HF_EUNAVAIL: the thread cannot be
 * started.
 */
int hf_call_watch_start(int (*confine)(void), bool (*is_fatal)(int call), int ending);

/* Gives the thread the descriptor that hears of calls, once the filter is loaded; -1: the filter is
 * not loaded, and the thread ends. */
void hf_call_watch_listen(int fd);

#endif
