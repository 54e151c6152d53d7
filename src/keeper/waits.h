/*
 * Claims that wait for a holder outside (COH-03). Nothing in the kernel tells of a release, so a
 * thread of a small pool waits in F_OFD_SETLKW for each of the oldest waits; the other waits are
 * tried again after pauses, and get a thread when one is free. The pauses stay below 50 ms while
 * such waits are few, and grow with their number, so that all of them together cost little. A
 * thread that waits costs no time.
 *
 * One rule keeps threads and ranges.h together: **the loop changes the locks of a file only while
 * no thread waits in that part of the file**. hf_waits_interrupt() takes the threads out by a
 * signal; their waits get a thread again at the next hf_waits_step(). So a thread knows nothing but
 * one system call, and everything else happens on the loop.
 */
#ifndef HF_KEEPER_WAITS_H
#define HF_KEEPER_WAITS_H

#include <pthread.h>

#include "keeper/files.h"

enum {
    HF_WAIT_PAUSE_MIN_MS = 10,
    HF_WAIT_PAUSE_LONG_MS = 32,  /* pauses grow to this while few waits have no thread */
    HF_WAIT_PAUSE_MAX_MS = 1000, /* pauses grow to this while many waits have no thread */
    /* How many tries all waits together may make: one percent of a processor. */
    HF_WAIT_TRIES_PER_MS = 2,
    /* Pauses end at multiples of this, so that one turn of the loop makes many tries. */
    HF_WAIT_GRID_MS = 8,
    HF_WAIT_THREADS_MAX = 256,
};

struct hf_waiting_thread;

struct hf_wait {
    struct hf_map_node node; /* links the wait into the map of waits by id */
    /* Links the wait into the list of all waits, or into that of free ones. */
    struct hf_list link;
    struct hf_list file_link; /* links the wait into the file's waits */
    uint64_t id;
    struct hf_keeper_file *file; /* the file to lock; NULL: it is not open yet */
    struct hf_span part;
    /* The stretch that the kernel refused last, which a thread waits for. */
    struct hf_span refused;
    struct hf_waiting_thread *thread; /* the thread that waits; NULL: no thread does */
    bool over;       /* the wait has its result; the next sweep takes it out of the lists */
    int64_t next_ms; /* when a wait without a thread is tried again */
    int64_t pause_ms;
    uint8_t handle_len;
    uint8_t handle[HF_KEEPER_HANDLE_MAX];
};

struct hf_waits {
    struct hf_keeper_files *files;
    struct hf_wait *pool;
    struct hf_list all, unused;
    struct hf_map map;
    struct hf_hash_key key;
    size_t max, count, n_over;
    size_t n_tried; /* how many waits without a thread are tried again after pauses */
    /* Something has changed since the last step: a wait or a thread may have something to do. */
    bool changed;
    int64_t next_ms; /* when the first wait is due; -1: no wait is */
    struct hf_waiting_thread *threads;
    size_t n_threads, n_busy;
    int wake[2]; /* the loop polls wake[0]; a thread that is through sends a byte */
    void (*made)(void *ctx, const struct hf_wait *wait, enum hf_keeper_status status);
    void *ctx;
};

/*
 * Starts the threads. Must be called before the process gives up the right to start threads. made()
 * is called when a wait has its result; the wait is gone afterwards. Returns HF_ENOMEM,
 * HF_EUNAVAIL.
 */
int hf_waits_init(struct hf_waits *waits, struct hf_keeper_files *files, size_t max,
                  size_t n_threads,
                  void (*made)(void *, const struct hf_wait *, enum hf_keeper_status), void *ctx);
void hf_waits_free(struct hf_waits *waits);

/* Tries to make a claim at once, and waits if a holder outside or a lease is in the way. made() may
 * be called before this function returns. Returns OK if a result follows, else TOO_MANY_WAITS. */
enum hf_keeper_status hf_waits_add(struct hf_waits *waits, int64_t now_ms,
                                   const struct hf_keeper_op *op);

/* Ends the wait with this id, if there is one: made() is called with this status, unless the claim
 * of the wait was made before. */
void hf_waits_cancel(struct hf_waits *waits, uint64_t id, enum hf_keeper_status status);

/* Ends all waits of a file (NULL: of all files). A file without pins or locks is closed then. */
void hf_waits_cancel_all(struct hf_waits *waits, struct hf_keeper_file *file,
                         enum hf_keeper_status status);

/* Interrupts threads: when this function returns, no thread waits in the part (NULL: in the whole
 * file). */
void hf_waits_interrupt(struct hf_waits *waits, struct hf_keeper_file *file,
                        const struct hf_span *part);

/* Reads the bytes that threads sent to wake the loop. */
void hf_waits_drain(struct hf_waits *waits);

/* Hands out the locks that threads have got, tries waits that are due, and gives threads to waits.
 * Returns how long the loop may sleep, -1: for ever. */
int hf_waits_step(struct hf_waits *waits, int64_t now_ms);

#endif
