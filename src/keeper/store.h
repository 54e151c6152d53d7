/*
 * Keeps what outlives a worker. When a worker is killed, the guard keeps its open descriptions, and
 * their locks (guard.h). systemd has copies of the descriptions that stay locked (FDSTORE), in case
 * both processes are gone: killed together, or restarted (COH-04). The name of a copy has the
 * file's handle. What is held is read from /proc/self/fdinfo when the next worker adopts a
 * description.
 *
 * Each copy costs two messages to systemd, which a lock that is gone within a second is not worth:
 * so systemd has copies of locked files that were opened more than a second ago, and of all locked
 * files when the worker ends in order.
 */
#ifndef HF_KEEPER_STORE_H
#define HF_KEEPER_STORE_H

#include "keeper/files.h"

enum {
    HF_STORE_AGE_MS = 1000,
    HF_STORE_PERIOD_MS = 250,
    HF_STORE_BATCH = 64, /* how many copies are given in one period */
};

/* In the guard: takes over what systemd kept for this process. Must be called before anything else
 * opens a file. */
void hf_store_take(size_t max);

/* In a worker: adopts the descriptions that the guard has. Returns how many of them have locks. */
size_t hf_store_adopt(struct hf_keeper_files *files, int64_t now_ms);

/* Gives systemd copies of locked files that have been open for a while, at most every
 * HF_STORE_PERIOD_MS. Returns how long the loop may sleep, -1: for ever. */
int hf_store_step(struct hf_keeper_files *files, int64_t now_ms);

/*
 * With standbys, the timer that goes off when the lease ends (a timerfd of CLOCK_BOOTTIME) is kept
 * like a file: the next worker knows from it for how long it may hold what it adopts.
 */
void hf_store_give_lease(int timer);

/* Takes the file's copy away from systemd, if there is one. The locks of the file must be released
 * before. */
void hf_store_remove(struct hf_keeper_file *file);

/* At the end of a worker: gives systemd copies of all files that are locked, as many as it may
 * have. */
void hf_store_keep_all(struct hf_keeper_files *files);

#endif
