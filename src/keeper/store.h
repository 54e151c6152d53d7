/*
 * Keeps copies of the open descriptions in systemd (FDSTORE), so that the locks outlive a keeper
 * that is killed or upgraded (COH-04). The name of a copy has the file's handle; what is held is
 * read from /proc/self/fdinfo when a new process gets the copies back.
 *
 * Only files that stay locked for a while are given away: each costs a message to systemd, and a
 * lock that is gone within a second is not worth two of them. A keeper that is killed loses the
 * locks of the last second; the daemon notices and claims them again.
 */
#ifndef HF_KEEPER_STORE_H
#define HF_KEEPER_STORE_H

#include "keeper/files.h"

enum {
    HF_STORE_AGE_MS = 1000,
    HF_STORE_PERIOD_MS = 250,
    HF_STORE_BATCH = 64, /* how many copies are given in one period */
};

/* Takes the descriptions that systemd kept for this process, before anything else opens a file.
 * Returns how many of them had locks. */
size_t hf_store_take(struct hf_keeper_files *files, int64_t now_ms, size_t max);

/* Gives systemd copies of the files that have been open for a while, at most every
 * HF_STORE_PERIOD_MS. Returns how long the loop may sleep, -1: for ever. */
int hf_store_step(struct hf_keeper_files *files, int64_t now_ms);

/*
 * With standbys, systemd also keeps the timer that goes off when the lease ends (a timerfd of
 * CLOCK_BOOTTIME): a keeper that is started again knows from it for how long it may hold what it
 * got back. hf_store_lease() returns the timer that was kept, -1 if there was none.
 */
void hf_store_give_lease(int timer);
int hf_store_lease(void);

/* Takes the copy away, if systemd has one. Its locks must be released before. */
void hf_store_remove(struct hf_keeper_file *file);

#endif
