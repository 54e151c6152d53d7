#include "daemon/named_lines.h"

#include <string.h>

#include "base/assert.h"

void hf_named_lines_init(struct hf_named_lines *lines, hf_named_line_write write, void *ctx)
{
    *lines = (struct hf_named_lines){.write = write, .ctx = ctx};
}

static void write_now(struct hf_named_lines *lines, struct hf_bytes fh, const void *line)
{
    const char *path = NULL;

    if (fh.len > 0 && lines->names)
        (void)hf_names_show(lines->names, fh, &path);
    lines->write(lines->ctx, line, path);
}

static void on_name(struct hf_names_wait *wait)
{
    struct hf_named_line *line = hf_container_of(wait, struct hf_named_line, wait);
    struct hf_named_lines *lines = line->lines;

    line->lines = NULL;
    write_now(lines, hf_bytes(line->fh, line->fh_len), line->line);
}

static struct hf_named_line *find_free(struct hf_named_lines *lines)
{
    for (size_t i = 0; i < HF_NAMED_LINES_MAX; i++) {
        if (!lines->waiting[i].lines)
            return &lines->waiting[i];
    }
    return NULL;
}

/* Makes a line wait until the name of its file is known. If no further line can wait, the name is
 * not even asked for: a client that loses many locks at once must not flood the namer. */
static bool put_off(struct hf_named_lines *lines, struct hf_bytes fh, const void *bytes,
                    size_t size)
{
    struct hf_named_line *line = find_free(lines);

    if (!line || !hf_names_ask(lines->names, fh))
        return false;
    hf_list_init(&line->wait.link);
    if (!hf_names_wait(lines->names, &line->wait, uv_now(lines->loop) + HF_NAMED_LINE_MS, on_name))
        return false;
    line->lines = lines;
    line->fh_len = fh.len;
    memcpy(line->fh, fh.data, fh.len);
    memcpy(line->line, bytes, size);
    return true;
}

bool hf_named_lines_wait(const struct hf_named_lines *lines)
{
    for (size_t i = 0; i < HF_NAMED_LINES_MAX; i++) {
        if (lines->waiting[i].lines)
            return true;
    }
    return false;
}

void hf_named_lines_put(struct hf_named_lines *lines, struct hf_bytes fh, const void *line,
                        size_t size)
{
    HF_ASSERT(size <= HF_NAMED_LINE_BYTES);
    if (fh.len == 0 || fh.len > HF_NAMES_HANDLE_MAX || !lines->names ||
        !put_off(lines, fh, line, size))
        write_now(lines, fh, line);
}
