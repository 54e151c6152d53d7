/*
 * Two processes with one table of descriptors. The worker does all the work; the guard, its parent,
 * shares its open files (clone(2) with CLONE_FILES) and waits. The kernel releases the locks of a
 * description when no process has it open any more: so locks outlive a worker that crashes or is
 * killed, however young they are, and the guard starts the next worker, which adopts them
 * (store.h). The handle by which each descriptor was opened is in memory that both share.
 *
 * The guard takes no input but signals. When it dies the worker gets SIGTERM, and ends in order.
 */
#ifndef HF_KEEPER_GUARD_H
#define HF_KEEPER_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "keeper/protocol.h"

enum { HF_GUARD_WORKER = -1 };

/* An open file description that may have locks. */
struct hf_guarded {
    uint8_t handle[HF_KEEPER_HANDLE_MAX];
    uint8_t handle_len; /* the length of the handle; 0: no file is guarded here */
    bool writable;
    bool stored; /* systemd has a copy of the description (store.h) */
};

/* Makes room to guard descriptors below n. Without this call, the functions below do nothing.
 * Returns HF_ENOMEM without memory. */
int hf_guard_open(size_t n);

/* A description must be set before its first lock is made, and cleared before it is closed. */
void hf_guard_set(int fd, struct hf_bytes handle, bool writable, bool stored);
void hf_guard_clear(int fd);

/* Finds the first guarded descriptor with a number of at least fd; -1: there is none. */
int hf_guard_next(int fd, struct hf_guarded *out);

/* Guards the timer of the lease, which is kept open like a file. */
void hf_guard_set_lease(int fd, bool stored);
int hf_guard_lease(bool *stored);

/*
 * Starts a worker: returns HF_GUARD_WORKER in that process. In the guard it returns when a worker
 * has ended by itself, with its exit status, or was killed before it was ready. `low` and all
 * descriptors below it, and the listener, stay open for the next worker.
 */
int hf_guard_run(int low, int listener, const volatile sig_atomic_t *stopping);

/* In the worker: tells the guard that the worker serves, so that another may follow it. */
void hf_guard_ready(void);

/* For a signal handler in the guard: ends the worker. */
void hf_guard_end_worker(void);

#endif
