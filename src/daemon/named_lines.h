/*
 * Lines of the log about a file: with its path, where one is known (NAM-01). If the name must be
 * asked for first, the line waits for it, two seconds at most; a few lines can wait at a time, the
 * others are written without.
 */
#ifndef HF_DAEMON_NAMED_LINES_H
#define HF_DAEMON_NAMED_LINES_H

#include "admin/names.h"
#include "core/view.h"

enum { HF_NAMED_LINES_MAX = 16, HF_NAMED_LINE_MS = 2000 };

/* Writes the line; path NULL: not known. */
typedef void (*hf_named_line_write)(const struct hf_event *event, const char *path);

struct hf_named_lines {
    struct hf_names *names; /* NULL: there are none */
    uv_loop_t *loop;
    hf_named_line_write write;
    struct hf_named_line {
        struct hf_names_wait wait;
        struct hf_named_lines *lines; /* NULL: free */
        struct hf_event event;
    } waiting[HF_NAMED_LINES_MAX];
};

void hf_named_lines_init(struct hf_named_lines *lines, hf_named_line_write write);

/* True while a line waits, so that lines must not be freed. */
bool hf_named_lines_wait(const struct hf_named_lines *lines);

/* Writes the line of an event, now or when its file has a name. */
void hf_named_lines_put(struct hf_named_lines *lines, const struct hf_event *event);

#endif
