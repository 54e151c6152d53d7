/*
 * The queue between the log and standard error: a bounded queue of finished lines and the thread
 * that writes them. Without the thread the caller writes each line at once.
 */
#ifndef HF_BASE_LOG_QUEUE_H
#define HF_BASE_LOG_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Puts a line into the queue. While the thread runs, this never blocks: a line that finds the queue
 * full is lost, and counted. */
void hf_log_queue_put(const char *line, size_t len);

/*
 * Starts the thread that writes the queue. Once a second, when no line waits and either lines were
 * lost or a report is wanted, it calls report with the number of lines lost since the last call.
 * report may put lines, and returns true to be called again. Returns HF_EUNAVAIL if the system
 * refuses a thread.
 */
int hf_log_queue_start(bool (*report)(uint64_t lost));

void hf_log_queue_want_report(void);

/*
 * Waits until all lines that were put before the call are written, but no longer than the timeout.
 */
void hf_log_queue_flush(unsigned timeout_ms);

/* Flushes the queue and ends its thread; lines put later are written at once. If standard error
 * takes nothing before the timeout, the thread is left behind and later lines are dropped. */
void hf_log_queue_stop(unsigned timeout_ms);

#endif
