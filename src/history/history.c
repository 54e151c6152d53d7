#include "history/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "history/private.h"

const char *hf_history_file_path(const struct hf_history *history, bool older, char out[PATH_BYTES])
{
    hf_format(out, PATH_BYTES, "%s/history%s", history->config.directory, older ? ".old" : "");
    return out;
}

/* ---- the worker: one buffer to the file ---- */

static bool fail(struct hf_history *history, const char *what)
{
    hf_format(history->error, sizeof(history->error), "%s: %s", what, strerror(errno));
    if (history->fd >= 0)
        close(history->fd);
    history->fd = -1;
    return false;
}

/* Ends a last line that a crash cut short with a newline, so that the next line can be read. */
static bool end_last_line(struct hf_history *history)
{
    char last = '\n';

    if (history->written == 0)
        return true;
    if (pread(history->fd, &last, 1, (off_t)history->written - 1) != 1)
        return fail(history, "cannot read the history");
    if (last == '\n')
        return true;
    if (write(history->fd, "\n", 1) != 1)
        return fail(history, "cannot write the history");
    history->written++;
    return true;
}

/* Opens the history file. A symbolic link in its place is not followed, and a file that is not a
 * regular one is not used. */
static bool open_file(struct hf_history *history)
{
    char path[PATH_BYTES];
    struct stat st;

    history->fd = open(hf_history_file_path(history, false, path),
                       O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (history->fd < 0 || fstat(history->fd, &st) < 0)
        return fail(history, "cannot open the history");
    if (!S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return fail(history, "the history is not a regular file");
    }
    history->written = (uint64_t)st.st_size;
    return end_last_line(history);
}

static bool turn_over(struct hf_history *history)
{
    char path[PATH_BYTES], old[PATH_BYTES];

    close(history->fd);
    history->fd = -1;
    if (rename(hf_history_file_path(history, false, path),
               hf_history_file_path(history, true, old)) < 0)
        return fail(history, "cannot rename the history");
    return open_file(history);
}

static bool write_lines(struct hf_history *history, const char *lines, size_t len)
{
    if (history->fd < 0 && !open_file(history))
        return false;
    if (history->written > 0 && history->written + len > history->config.bytes / 2 &&
        !turn_over(history))
        return false;
    while (len > 0) {
        ssize_t n = write(history->fd, lines, len);

        if (n < 0 && errno != EINTR)
            return fail(history, "cannot write the history");
        if (n > 0) {
            lines += n;
            len -= (size_t)n;
            history->written += (uint64_t)n;
        }
    }
    history->error[0] = '\0';
    return true;
}

/* Restores a packed entry: its views again point to their bytes, which follow the entry in the
 * buffer. */
static const struct packed *unpack(struct hf_bytes bytes, struct hf_history_entry *out)
{
    const struct packed *packed = (const void *)bytes.data;
    const uint8_t *next = packed->bytes;

    *out = packed->entry;
    out->client.data = next;
    out->fh.data = next += out->client.len;
    out->oh.data = next += out->fh.len;
    next += out->oh.len;
    out->path = packed->path_size > 0 ? (const char *)next : NULL;
    next += packed->path_size;
    out->text = packed->text_size > 0 ? (const char *)next : NULL;
    return packed;
}

static void work(uv_work_t *request)
{
    enum { ROOM = 16 * HF_HISTORY_LINE_MAX };
    struct hf_history *history = request->data;
    struct hf_history_entry entry;
    char lines[ROOM];
    uint64_t n = 0; /* how many lines of this buffer were written */
    size_t len = 0;

    while (hf_buf_len(&history->out) > 0) {
        hf_buf_consume(&history->out, unpack(hf_buf_view(&history->out), &entry)->size);
        len += hf_history_encode(&entry, lines + len);
        n++;
        if (ROOM - len >= HF_HISTORY_LINE_MAX && hf_buf_len(&history->out) > 0)
            continue;
        if (!write_lines(history, lines, len))
            history->lost += n;
        n = len = 0;
    }
    hf_buf_clear(&history->out);
}

static void on_worked(uv_work_t *request, int status)
{
    struct hf_history *history = request->data;

    (void)status;
    history->writing = false;
    history->counters.lost += history->lost;
    if (history->lost > 0)
        hf_log_limited(HF_LOG_WARN, "history is incomplete", HF_UINT("lines", history->lost),
                       HF_STR("reason", history->error));
    history->lost = 0;
    hf_history_free_if_unused(history);
}

/* ---- the loop's thread ---- */

struct hf_history *hf_history_new(uv_loop_t *loop, const struct hf_history_config *config)
{
    struct hf_history *history = hf_calloc(&hf_alloc_heap, 1, sizeof(*history));

    if (!history)
        return NULL;
    history->loop = loop;
    history->config = *config;
    history->fd = -1;
    history->work.data = history;
    hf_buf_init(&history->gathering, &hf_alloc_heap);
    hf_buf_init(&history->out, &hf_alloc_heap);
    return history;
}

static struct hf_bytes cut(struct hf_bytes bytes, size_t max)
{
    return hf_bytes(bytes.data, bytes.len < max ? bytes.len : max);
}

static size_t size_of(const char *text)
{
    size_t len = text ? strlen(text) : 0;

    return len == 0 || len > HF_HISTORY_TEXT_MAX ? 0 : len + 1;
}

static uint8_t *add(uint8_t *to, const void *from, size_t len)
{
    if (len > 0)
        memcpy(to, from, len);
    return to + len;
}

/* Copies the entry into the buffer; the worker later makes a line of it. */
void hf_history_put(struct hf_history *history, const struct hf_history_entry *entry)
{
    struct packed head = {
        .entry = *entry, .path_size = size_of(entry->path), .text_size = size_of(entry->text)};
    size_t bytes;
    uint8_t *to;

    history->counters.lines++;
    head.entry.client = cut(entry->client, HF_HISTORY_NAME_MAX);
    head.entry.fh = cut(entry->fh, entry->fh.len <= HF_HISTORY_FH_MAX ? HF_HISTORY_FH_MAX : 0);
    head.entry.oh = cut(entry->oh, HF_HISTORY_OH_MAX);
    bytes = head.entry.client.len + head.entry.fh.len + head.entry.oh.len + head.path_size +
            head.text_size;
    /* Round the size up, so that the next packed entry is aligned. */
    head.size = (sizeof(head) + bytes + 7) & ~(size_t)7;
    if (hf_buf_len(&history->gathering) + head.size > HF_HISTORY_BUFFER_BYTES ||
        !(to = hf_buf_reserve(&history->gathering, head.size))) {
        history->counters.lost++;
        return;
    }
    hf_buf_commit(&history->gathering, head.size);
    to = add(to, &head, sizeof(head));
    to = add(to, head.entry.client.data, head.entry.client.len);
    to = add(to, head.entry.fh.data, head.entry.fh.len);
    to = add(to, head.entry.oh.data, head.entry.oh.len);
    to = add(to, entry->path, head.path_size);
    (void)add(to, entry->text, head.text_size);
}

void hf_history_end_turn(struct hf_history *history)
{
    struct hf_buf out = history->out;

    if (history->writing || hf_buf_len(&history->gathering) == 0)
        return;
    history->out = history->gathering;
    history->gathering = out;
    history->writing = true;
    uv_queue_work(history->loop, &history->work, work, on_worked);
}

struct hf_history_counters hf_history_counters(const struct hf_history *history)
{
    return history->counters;
}

const char *hf_history_error(const struct hf_history *history)
{
    return history->writing ? "" : history->error;
}

void hf_history_free_if_unused(struct hf_history *history)
{
    if (!history->closing || history->writing || history->n_jobs > 0)
        return;
    hf_history_end_turn(history);
    if (history->writing)
        return; /* the rest is being written, and the end of that calls this function again */
    if (history->fd >= 0)
        close(history->fd);
    hf_buf_free(&history->gathering);
    hf_buf_free(&history->out);
    hf_free(&hf_alloc_heap, history);
}

void hf_history_close(struct hf_history *history)
{
    if (!history)
        return;
    for (unsigned i = 0; i < HF_HISTORY_SEARCHES_MAX; i++) {
        if (history->jobs[i] && history->jobs[i]->search)
            hf_history_search_free(history->jobs[i]->search);
    }
    history->closing = true;
    hf_history_free_if_unused(history);
}
