/*
 * The log: one line per event, an event name and typed fields, as text for people or JSON for
 * machines. There is no format string anywhere in it, and every byte that is not printable ASCII or
 * valid UTF-8 text is escaped, so nothing a peer sends can forge a line (CVE-2000-0666).
 *
 *     hf_log(HF_LOG_INFO, "client registered", HF_STR("name", name), HF_INT("locks", n));
 *
 * What a peer can provoke at will goes through hf_log_limited(), which lets a burst pass and then
 * counts what it keeps back, saying so with the next line that passes.
 *
 * One thread writes at a time; the lines of two threads never mix.
 */
#ifndef HF_BASE_LOG_H
#define HF_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/bytes.h"

enum hf_log_level { HF_LOG_ERROR, HF_LOG_WARN, HF_LOG_INFO, HF_LOG_DEBUG };
enum hf_log_format { HF_LOG_TEXT, HF_LOG_JSON };

enum hf_field_type {
    HF_FIELD_END,
    HF_FIELD_BYTES,
    HF_FIELD_INT,
    HF_FIELD_UINT,
    HF_FIELD_REAL,
    HF_FIELD_ADDR
};

struct hf_field {
    const char *key;
    enum hf_field_type type;
    union {
        struct hf_bytes bytes;
        int64_t i;
        uint64_t u;
        double real;
        const struct hf_addr *addr;
    };
};

#define HF_STR(k, v) \
    ((struct hf_field){.key = (k), .type = HF_FIELD_BYTES, .bytes = hf_bytes_str(v)})
#define HF_BYTES(k, v) ((struct hf_field){.key = (k), .type = HF_FIELD_BYTES, .bytes = (v)})
#define HF_INT(k, v)   ((struct hf_field){.key = (k), .type = HF_FIELD_INT, .i = (v)})
#define HF_UINT(k, v)  ((struct hf_field){.key = (k), .type = HF_FIELD_UINT, .u = (v)})
#define HF_REAL(k, v)  ((struct hf_field){.key = (k), .type = HF_FIELD_REAL, .real = (v)})
#define HF_ADDR(k, v)  ((struct hf_field){.key = (k), .type = HF_FIELD_ADDR, .addr = (v)})

/* Standard error, text, info, until told otherwise. */
void hf_log_configure(enum hf_log_level level, enum hf_log_format format);
bool hf_log_enabled(enum hf_log_level level);

void hf_log_write(enum hf_log_level level, const char *event, const struct hf_field *fields);

#define hf_log(level, ...) \
    (hf_log_enabled(level) ? HF_LOG_EXPAND(level, __VA_ARGS__, {.type = HF_FIELD_END}) : (void)0)
#define HF_LOG_EXPAND(level, event, ...) \
    hf_log_write(level, event, (const struct hf_field[]){__VA_ARGS__})

/* A burst of lines, then a slow drip; static storage, zero-initialised, one per place in the code.
 */
struct hf_log_limit {
    uint64_t window_start_s;
    uint32_t in_window;
    uint32_t held_back;
};

/* True if a line may pass now; *held_back then says how many were kept back since the last one. */
bool hf_log_limit_pass(struct hf_log_limit *limit, uint64_t *held_back);

#define hf_log_limited(level, ...)                                             \
    do {                                                                       \
        static struct hf_log_limit hf_limit_;                                  \
        uint64_t hf_held_;                                                     \
        if (hf_log_enabled(level) && hf_log_limit_pass(&hf_limit_, &hf_held_)) \
            HF_LOG_EXPAND(level, __VA_ARGS__,                                  \
                          {.key = "held_back",                                 \
                           .type = hf_held_ ? HF_FIELD_UINT : HF_FIELD_END,    \
                           .u = hf_held_},                                     \
                          {.type = HF_FIELD_END});                             \
    } while (0)

#endif
