#include "daemon/named_lines.h"

void hf_named_lines_init(struct hf_named_lines *lines, hf_named_line_write write)
{
    *lines = (struct hf_named_lines){.write = write};
}

static void write_now(struct hf_named_lines *lines, const struct hf_event *event)
{
    const char *path = NULL;

    if (event->fh_len > 0 && lines->names)
        (void)hf_names_show(lines->names, hf_bytes(event->fh, event->fh_len), &path);
    lines->write(event, path);
}

static void on_name(struct hf_names_wait *wait)
{
    struct hf_named_line *line = hf_container_of(wait, struct hf_named_line, wait);
    struct hf_named_lines *lines = line->lines;

    line->lines = NULL;
    write_now(lines, &line->event);
}

static bool put_off(struct hf_named_lines *lines, const struct hf_event *event)
{
    for (size_t i = 0; i < HF_NAMED_LINES_MAX; i++) {
        struct hf_named_line *line = &lines->waiting[i];

        if (line->lines)
            continue;
        hf_list_init(&line->wait.link);
        if (!hf_names_wait(lines->names, &line->wait, uv_now(lines->loop) + HF_NAMED_LINE_MS,
                           on_name))
            return false;
        line->lines = lines;
        line->event = *event;
        return true;
    }
    return false;
}

bool hf_named_lines_wait(const struct hf_named_lines *lines)
{
    for (size_t i = 0; i < HF_NAMED_LINES_MAX; i++) {
        if (lines->waiting[i].lines)
            return true;
    }
    return false;
}

void hf_named_lines_put(struct hf_named_lines *lines, const struct hf_event *event)
{
    if (event->fh_len == 0 || !lines->names ||
        !hf_names_ask(lines->names, hf_bytes(event->fh, event->fh_len)) || !put_off(lines, event))
        write_now(lines, event);
}
