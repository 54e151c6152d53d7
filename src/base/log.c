#include "base/log.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log_queue.h"
#include "base/text.h"
#include "base/utf8.h"

enum {
    LINE_MAX_BYTES = 4096, /* a longer log line is cut, and its end says so */
    /* in each window of this length, only a burst of lines of one kind may pass */
    WINDOW_S = 10,
    KINDS_MAX = 256, /* a power of two, several times the number of event names that exist */
    /* how long a reader that takes nothing may delay the exit of the process */
    STOP_MS = 5000,
    PAST_QUEUE_MS = 100, /* how long a line that bypasses the queue may wait for the reader */
};

static const char *const LEVELS[] = {"error", "warn", "info", "debug"};
/* the journal's prefixes for log levels, as in syslog(3) */
static const char *const PRIORITIES[] = {"<3>", "<4>", "<6>", "<7>"};

/* The counts of one event name: how many of its lines passed and were left out in the current
 * window. */
struct kind {
    const char *event; /* the event's name; NULL: this slot is free */
    uint64_t window_start_s;
    uint32_t in_window;
    uint32_t held_back;
};

static struct {
    enum hf_log_level level;
    enum hf_log_format format;
    /* The mutex guards the fields that follow. A thread takes it before the queue's own mutex. */
    pthread_mutex_t mutex;
    struct kind kinds[KINDS_MAX];
} logger = {HF_LOG_INFO, HF_LOG_TEXT, PTHREAD_MUTEX_INITIALIZER, {{0}}};

/* A log line under construction; text that does not fit is dropped, and `cut` is set. */
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

/* True if standard error is the stream to the journal that systemd gave us: JOURNAL_STREAM names
 * that stream's device and inode, which differ if standard error was redirected since. */
static bool is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    char ours[64];
    struct stat st;

    if (!stream || fstat(STDERR_FILENO, &st) < 0)
        return false;
    hf_format(ours, sizeof(ours), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    return strcmp(stream, ours) == 0;
}

static bool journal; /* the result of the first call, kept for later calls */

static void look_for_journal(void)
{
    journal = is_journal();
}

static bool to_journal(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, look_for_journal);
    return journal;
}

const char *hf_log_priority(enum hf_log_level level)
{
    return to_journal() ? PRIORITIES[level] : "";
}

static void put(struct line *line, const char *text, size_t len)
{
    enum { TAIL = 8 }; /* how many bytes are reserved for the end of the line */
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

/* Writes a quoted string. Text and JSON format share JSON's rules, which are strict enough for
 * both. */
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

/* True for a word, which needs no quotes in the text format. */
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
    if (!to_journal()) {
        put_time(line);
        put_str(line, " ");
    }
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
        /* a field goes in whole or not at all, so that the line stays valid JSON */
        if (line->cut) {
            line->len = mark;
            break;
        }
    }
}

/* ---- at most so many lines of a kind ---- */

static uint64_t now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec;
}

/*
 * Finds the counts of an event. Events are string constants, so an event's address identifies it.
 */
static struct kind *kind_of(const char *event)
{
    size_t slot = ((uintptr_t)event * 0x9e3779b97f4a7c15u) >> 56;

    for (size_t i = 0; i < KINDS_MAX; i++) {
        struct kind *kind = &logger.kinds[(slot + i) % KINDS_MAX];

        if (kind->event == event)
            return kind;
        if (!kind->event) {
            kind->event = event;
            return kind;
        }
    }
    HF_UNREACHABLE();
}

/* True if a line of this kind may pass now. *held_back then says how many lines of the kind were
 * left out since the last one that passed. */
static bool may_pass(struct kind *kind, unsigned burst, uint64_t *held_back)
{
    uint64_t now = now_s();

    if (now >= kind->window_start_s + WINDOW_S) {
        kind->window_start_s = now;
        kind->in_window = 0;
    }
    if (kind->in_window >= burst) {
        if (kind->held_back++ == 0)
            hf_log_queue_want_report();
        return false;
    }
    kind->in_window++;
    *held_back = kind->held_back;
    kind->held_back = 0;
    return true;
}

/* ---- writing ---- */

static void build_line(struct line *line, enum hf_log_level level, const char *event,
                       const struct hf_field *fields)
{
    line->len = 0;
    line->cut = false;
    put_str(line, hf_log_priority(level));
    if (logger.format == HF_LOG_JSON) {
        build_json(line, level, event, fields);
        line->text[line->len++] = '}';
    } else {
        build_text(line, level, event, fields);
        if (line->cut) {
            memcpy(line->text + line->len, " ...", 4);
            line->len += 4;
        }
    }
    line->text[line->len++] = '\n';
}

static void write_line(enum hf_log_level level, const char *event, const struct hf_field *fields)
{
    static struct line line; /* the line under construction, guarded by the mutex */

    build_line(&line, level, event, fields);
    hf_log_queue_put(line.text, line.len);
}

void hf_log_write_past_queue(enum hf_log_level level, const char *event,
                             const struct hf_field *fields)
{
    struct pollfd reader = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct line line;

    build_line(&line, level, event, fields);
    if (poll(&reader, 1, PAST_QUEUE_MS) == 1)
        (void)!write(STDERR_FILENO, line.text, line.len);
}

/* Writes a line with the fields, an array that ends with HF_FIELD_END, and behind them the count of
 * lines that were left out. */
static void write_counted(enum hf_log_level level, const char *event, const struct hf_field *fields,
                          uint64_t held_back)
{
    struct hf_field all[HF_LOG_FIELDS_MAX + 2];
    size_t n = 0;

    for (; fields[n].type != HF_FIELD_END; n++) {
        HF_ASSERT(n < HF_LOG_FIELDS_MAX);
        all[n] = fields[n];
    }
    all[n++] = HF_UINT("held_back", held_back);
    all[n] = (struct hf_field){.type = HF_FIELD_END};
    write_line(level, event, all);
}

void hf_log_write(enum hf_log_level level, unsigned burst, const char *event,
                  const struct hf_field *fields)
{
    uint64_t held_back = 0;

    pthread_mutex_lock(&logger.mutex);
    if (may_pass(kind_of(event), burst, &held_back)) {
        if (held_back > 0)
            write_counted(level, event, fields, held_back);
        else
            write_line(level, event, fields);
    }
    pthread_mutex_unlock(&logger.mutex);
}

/* Logs how many lines were left out of each kind whose window is over or, with at_end, of every
 * kind. Returns true if some are still to be reported. */
static bool report_left_out(bool at_end)
{
    uint64_t now = now_s();
    bool more = false;

    for (size_t i = 0; i < KINDS_MAX; i++) {
        struct kind *kind = &logger.kinds[i];

        if (kind->held_back == 0)
            continue;
        if (!at_end && now < kind->window_start_s + WINDOW_S) {
            more = true;
            continue;
        }
        write_line(HF_LOG_WARN, "log lines left out",
                   (const struct hf_field[]){HF_STR("of", kind->event),
                                             HF_UINT("lines", kind->held_back),
                                             {.type = HF_FIELD_END}});
        kind->held_back = 0;
    }
    return more;
}

static bool report(uint64_t lost)
{
    bool more;

    pthread_mutex_lock(&logger.mutex);
    if (lost > 0)
        write_line(HF_LOG_WARN, "log lines lost",
                   (const struct hf_field[]){HF_UINT("lines", lost),
                                             HF_STR("reason", "the reader of the log was too slow"),
                                             {.type = HF_FIELD_END}});
    more = report_left_out(false);
    pthread_mutex_unlock(&logger.mutex);
    return more;
}

int hf_log_start(void)
{
    return hf_log_queue_start(report);
}

void hf_log_stop(void)
{
    pthread_mutex_lock(&logger.mutex);
    (void)report_left_out(true);
    pthread_mutex_unlock(&logger.mutex);
    hf_log_queue_stop(STOP_MS);
}
