#include "base/log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/text.h"
#include "base/utf8.h"

enum {
    LINE_MAX_BYTES = 4096, /* a longer line is cut, and says so */
    BURST = 10,            /* lines of one kind per window */
    WINDOW_S = 10,
};

static const char *const LEVELS[] = {"error", "warn", "info", "debug"};

static struct {
    enum hf_log_level level;
    enum hf_log_format format;
    pthread_mutex_t mutex;
} logger = {HF_LOG_INFO, HF_LOG_TEXT, PTHREAD_MUTEX_INITIALIZER};

/* A line under construction; what does not fit is dropped, and cut is set. */
struct line {
    char text[LINE_MAX_BYTES];
    size_t len;
    bool cut;
};

void hf_log_configure(enum hf_log_level level, enum hf_log_format format)
{
    logger.level = level;
    logger.format = format;
}

bool hf_log_enabled(enum hf_log_level level)
{
    return level <= logger.level;
}

static void put(struct line *line, const char *text, size_t len)
{
    enum { TAIL = 8 }; /* kept free for what closes the line */
    size_t room = sizeof(line->text) - TAIL - line->len;

    if (len > room) {
        line->cut = true;
        return;
    }
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

static void put_str(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* Both formats quote alike: JSON's rules are strict enough for the text form too. */
static void put_quoted(struct line *line, struct hf_bytes bytes)
{
    put_str(line, "\"");
    for (size_t i = 0; i < bytes.len;) {
        uint8_t c = bytes.data[i];
        char escape[8];

        if (c == '"' || c == '\\') {
            char pair[2] = {'\\', (char)c};
            put(line, pair, 2);
            i++;
        } else if (c >= 0x20 && c < 0x7f) {
            put(line, (const char *)&bytes.data[i], 1);
            i++;
        } else {
            size_t len = hf_utf8_printable(bytes.data + i, bytes.len - i);
            if (len > 0) {
                put(line, (const char *)&bytes.data[i], len);
                i += len;
            } else {
                hf_format(escape, sizeof(escape), "\\u%04x", c);
                put_str(line, escape);
                i++;
            }
        }
    }
    put_str(line, "\"");
}

/* A word needs no quotes in the text form. */
static bool is_word(struct hf_bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        uint8_t c = bytes.data[i];
        if (c <= 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '=')
            return false;
    }
    return bytes.len > 0;
}

static void put_value(struct line *line, const struct hf_field *field, bool always_quote)
{
    char text[HF_ADDR_TEXT_MAX];
    struct hf_bytes bytes = field->bytes;

    switch (field->type) {
    case HF_FIELD_INT:
        hf_format(text, sizeof(text), "%" PRId64, field->i);
        put_str(line, text);
        return;
    case HF_FIELD_UINT:
        hf_format(text, sizeof(text), "%" PRIu64, field->u);
        put_str(line, text);
        return;
    case HF_FIELD_REAL:
        hf_format(text, sizeof(text), "%.6g", field->real);
        put_str(line, text);
        return;
    case HF_FIELD_ADDR:
        bytes = hf_bytes_str(field->addr->port ? hf_addr_format_port(field->addr, text)
                                               : hf_addr_format(field->addr, text));
        break;
    case HF_FIELD_BYTES:
    case HF_FIELD_END:
        break;
    }
    if (always_quote || !is_word(bytes))
        put_quoted(line, bytes);
    else
        put(line, (const char *)bytes.data, bytes.len);
}

static void put_time(struct line *line)
{
    struct timespec now;
    struct tm tm;
    char text[40];
    char whole[32];

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    (void)strftime(whole, sizeof(whole), "%Y-%m-%dT%H:%M:%S", &tm);
    hf_format(text, sizeof(text), "%s.%03dZ", whole, (int)(now.tv_nsec / 1000000));
    put_str(line, text);
}

static void build_text(struct line *line, enum hf_log_level level, const char *event,
                       const struct hf_field *fields)
{
    put_time(line);
    put_str(line, " ");
    put_str(line, LEVELS[level]);
    put_str(line, strlen(LEVELS[level]) == 4 ? "  " : " ");
    put_str(line, event);
    for (const struct hf_field *f = fields; f->type != HF_FIELD_END; f++) {
        put_str(line, " ");
        put_str(line, f->key);
        put_str(line, "=");
        put_value(line, f, false);
    }
}

static void build_json(struct line *line, enum hf_log_level level, const char *event,
                       const struct hf_field *fields)
{
    put_str(line, "{\"time\":\"");
    put_time(line);
    put_str(line, "\",\"level\":\"");
    put_str(line, LEVELS[level]);
    put_str(line, "\",\"event\":");
    put_quoted(line, hf_bytes_str(event));
    for (const struct hf_field *f = fields; f->type != HF_FIELD_END; f++) {
        size_t mark = line->len;
        put_str(line, ",\"");
        put_str(line, f->key);
        put_str(line, "\":");
        put_value(line, f, true);
        if (line->cut) { /* a field goes in whole or not at all: the line stays valid JSON */
            line->len = mark;
            break;
        }
    }
}

void hf_log_write(enum hf_log_level level, const char *event, const struct hf_field *fields)
{
    static struct line line; /* under the mutex */

    pthread_mutex_lock(&logger.mutex);
    line.len = 0;
    line.cut = false;
    if (logger.format == HF_LOG_JSON) {
        build_json(&line, level, event, fields);
        line.text[line.len++] = '}';
    } else {
        build_text(&line, level, event, fields);
        if (line.cut) {
            memcpy(line.text + line.len, " ...", 4);
            line.len += 4;
        }
    }
    line.text[line.len++] = '\n';
    (void)fwrite(line.text, 1, line.len, stderr);
    pthread_mutex_unlock(&logger.mutex);
}

bool hf_log_limit_pass(struct hf_log_limit *limit, uint64_t *held_back)
{
    struct timespec now;
    bool pass;

    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&logger.mutex);
    if ((uint64_t)now.tv_sec >= limit->window_start_s + WINDOW_S) {
        limit->window_start_s = (uint64_t)now.tv_sec;
        limit->in_window = 0;
    }
    pass = limit->in_window < BURST;
    if (pass) {
        limit->in_window++;
        *held_back = limit->held_back;
        limit->held_back = 0;
    } else {
        limit->held_back++;
    }
    pthread_mutex_unlock(&logger.mutex);
    return pass;
}
