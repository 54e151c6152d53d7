/*
 * Between the log and standard error: a bounded queue of finished lines and the thread that writes
 * them. Without the thread a line is written at once, by the caller.
 */
#ifndef HF_BASE_LOG_QUEUE_H
#define HF_BASE_LOG_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Never blocks while the thread runs: a line that finds the queue full is lost, and counted. */
void hf_log_queue_put(const char *line, size_t len);

/*
 * Starts the thread. While lines were lost or a report was wanted, it calls report once a second,
 * when nothing waits to be written, with the number of lines lost since the last call. report may
 * put lines, and returns true to be called again. HF_EUNAVAIL if there can be no thread.
 */
int hf_log_queue_start(bool (*report)(uint64_t lost));

void hf_log_queue_want_report(void);

/* Waits until all lines that were put before are written, but no longer than the timeout. */
void hf_log_queue_flush(unsigned timeout_ms);

/* Flushes and ends the thread; lines put later are written at once. If standard error takes nothing
 * in that time, the thread is left behind and later lines are dropped. */
void hf_log_queue_stop(unsigned timeout_ms);

#endif
