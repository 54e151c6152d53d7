/* The log: one line per event, with an event name and typed fields, as text for people or JSON for
 * machines. The log uses no format strings, and escapes every byte that is not printable ASCII or
 * valid UTF-8 text, so nothing that a client sends can forge a line (CVE-2000-0666).
 *
 *     hf_log(HF_LOG_INFO, "client registered", HF_STR("name", name), HF_INT("locks", n));
 *
 * Every kind of line (one event name) is limited to a burst in ten seconds, so that no client can
 * fill a disk. Lines beyond that are left out and counted; the next line of the kind that passes
 * tells the count, or a line of its own does. Events that a client can provoke at will go through
 * hf_log_limited(), whose burst is small.
 *
 * Lines are written at once until hf_log_start(). From then on a thread writes them, so that a
 * terminal, pipe or journal that does not take them never delays the caller: lines wait in a
 * bounded queue, and lines that find it full are lost and counted. Any thread may log.
 *
 * If standard error is a stream of the journal (systemd sets JOURNAL_STREAM), each line begins with
 * its priority, such as "<3>" (sd-daemon(3)), so that `journalctl -p err` finds errors. The text
 * format then leaves out the time, which the journal adds itself. */
#ifndef HF_BASE_LOG_H
#define HF_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/bytes.h"

enum hf_log_level { HF_LOG_ERROR, HF_LOG_WARN, HF_LOG_INFO, HF_LOG_DEBUG };
enum hf_log_format { HF_LOG_TEXT, HF_LOG_JSON };

enum hf_field_type { HF_FIELD_END, HF_FIELD_BYTES, HF_FIELD_INT, HF_FIELD_UINT, HF_FIELD_ADDR };

struct hf_field {
    const char *key;
    enum hf_field_type type;
    union {
        struct hf_bytes bytes;
        int64_t i;
        uint64_t u;
        const struct hf_addr *addr;
    };
};

#define HF_STR(k, v) \
    ((struct hf_field){.key = (k), .type = HF_FIELD_BYTES, .bytes = hf_bytes_str(v)})
#define HF_BYTES(k, v) ((struct hf_field){.key = (k), .type = HF_FIELD_BYTES, .bytes = (v)})
#define HF_INT(k, v)   ((struct hf_field){.key = (k), .type = HF_FIELD_INT, .i = (v)})
#define HF_UINT(k, v)  ((struct hf_field){.key = (k), .type = HF_FIELD_UINT, .u = (v)})
#define HF_ADDR(k, v)  ((struct hf_field){.key = (k), .type = HF_FIELD_ADDR, .addr = (v)})

/* Sets the level and format of the log. Before the first call the log writes text, from level info
 * on. The log always goes to standard error. */
void hf_log_configure(enum hf_log_level level, enum hf_log_format format);
bool hf_log_enabled(enum hf_log_level level);

/* Returns the beginning of a line of this level: "<3>" in the journal, "" elsewhere. It is for
 * programs that write to standard error without the log. */
const char *hf_log_priority(enum hf_log_level level);

/* How many lines of one kind may pass in ten seconds: through hf_log(), through hf_log_limited(),
 * and at level debug. */
enum { HF_LOG_BURST = 100, HF_LOG_BURST_LIMITED = 10, HF_LOG_BURST_DEBUG = 10000 };

enum { HF_LOG_FIELDS_MAX = 16 };

/* Writes a log line. event must be a string constant, because the log keeps its address. */
void hf_log_write(enum hf_log_level level, unsigned burst, const char *event,
                  const struct hf_field *fields);

#define hf_log(level, ...)                                                                   \
    (hf_log_enabled(level)                                                                   \
         ? HF_LOG_EXPAND(level, (level) == HF_LOG_DEBUG ? HF_LOG_BURST_DEBUG : HF_LOG_BURST, \
                         __VA_ARGS__, {.type = HF_FIELD_END})                                \
         : (void)0)
#define hf_log_limited(level, ...)                                                         \
    (hf_log_enabled(level)                                                                 \
         ? HF_LOG_EXPAND(level, HF_LOG_BURST_LIMITED, __VA_ARGS__, {.type = HF_FIELD_END}) \
         : (void)0)
#define HF_LOG_EXPAND(level, burst, event, ...) \
    hf_log_write(level, burst, event, (const struct hf_field[]){__VA_ARGS__})

/* Writes a line at once, bypassing the queue, the limits and every lock. It is for a thread on
 * which other threads wait that may hold any of these locks. If the reader does not take the line
 * within a tenth of a second, the line is lost. */
#define hf_log_past_queue(level, ...) \
    HF_LOG_EXPAND_PAST_QUEUE(level, __VA_ARGS__, {.type = HF_FIELD_END})
#define HF_LOG_EXPAND_PAST_QUEUE(level, event, ...) \
    hf_log_write_past_queue(level, event, (const struct hf_field[]){__VA_ARGS__})
void hf_log_write_past_queue(enum hf_log_level level, const char *event,
                             const struct hf_field *fields);

/* Starts the thread that writes the log from now on. If the system refuses a thread (HF_EUNAVAIL),
 * lines are still written at once. */
int hf_log_start(void);

/* Writes the waiting lines, ends the thread, and goes back to writing lines at once. If the reader
 * takes nothing for five seconds, the remaining lines are lost, because the daemon must be able to
 * exit. */
void hf_log_stop(void);

#endif
