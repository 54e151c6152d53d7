/* The kernel's locks of one open file description (F_OFD_SETLK): single calls, and claims that
 * consist of calls. ranges.h knows what is held, so that a call is made only for what changes. */
#ifndef HF_KEEPER_KERNEL_LOCKS_H
#define HF_KEEPER_KERNEL_LOCKS_H

#include "keeper/files.h"

/* Makes one call to the kernel; span->mode may be NONE. Returns -1 with errno; EAGAIN: a program
 * outside holds a lock in the way. */
int hf_kernel_lock(int fd, const struct hf_span *span);

/* Waits for the lock as long as it takes, or until a signal comes (EINTR). */
int hf_kernel_wait(int fd, const struct hf_span *span);

void hf_kernel_unlock_all(int fd);

/* A holder outside, with the fields that struct hf_keeper_result has for it. */
struct hf_holder {
    uint64_t offset, length;
    int32_t pid;
    /* The mode of the lock; NONE: the holder was gone before it could be named. */
    enum hf_keeper_mode mode;
};

/* True if part conflicts with a lock of another program. */
bool hf_kernel_test(int fd, const struct hf_span *part, struct hf_holder *holder);

/*
 * Locks every byte of part in the kernel in at least the mode of part: all bytes, or none.
 * CONFLICT: *holder is the lock of another program, *refused the bytes that the kernel refused. No
 * thread may be waiting for a lock in the part.
 */
enum hf_keeper_status hf_keeper_claim(struct hf_keeper_files *files, struct hf_keeper_file *file,
                                      const struct hf_span *part, struct hf_holder *holder,
                                      struct hf_span *refused);

/* Sets every byte of part to exactly its mode: first lowers, then claims. */
enum hf_keeper_status hf_keeper_set(struct hf_keeper_files *files, struct hf_keeper_file *file,
                                    const struct hf_span *part, struct hf_holder *holder);

/* Sets the kernel's locks in the part to what the ranges say again, after a call that did more. */
void hf_restore(struct hf_keeper_file *file, const struct hf_span *part);

#endif
