/* Writes lines about a file, of the log or of the history, with the file's path if it is known
 * (NAM-01). If the path must be looked up first, the line waits for that for two seconds at most. A
 * few lines can wait at a time; others are written without a path. */
#ifndef HF_DAEMON_NAMED_LINES_H
#define HF_DAEMON_NAMED_LINES_H

#include <stdalign.h>

#include "admin/names.h"

enum { HF_NAMED_LINES_MAX = 16, HF_NAMED_LINE_MS = 2000, HF_NAMED_LINE_BYTES = 448 };

/* Writes the line that was made from these bytes. path is NULL if the file's path is not known. */
typedef void (*hf_named_line_write)(void *ctx, const void *line, const char *path);

struct hf_named_lines {
    struct hf_names *names; /* looks up the names of files; NULL: there are none */
    uv_loop_t *loop;
    hf_named_line_write write;
    void *ctx;
    struct hf_named_line {
        struct hf_names_wait wait;
        /* The owner of this waiting line; NULL: the slot is free. */
        struct hf_named_lines *lines;
        size_t fh_len;
        uint8_t fh[HF_NAMES_HANDLE_MAX];
        alignas(8) uint8_t line[HF_NAMED_LINE_BYTES];
    } waiting[HF_NAMED_LINES_MAX];
};

void hf_named_lines_init(struct hf_named_lines *lines, hf_named_line_write write, void *ctx);

/* True while a line waits for the name of its file: *lines must not be freed then. */
bool hf_named_lines_wait(const struct hf_named_lines *lines);

/* Writes a line, now or when its file has a name. It copies the bytes from which the line is made,
 * at most HF_NAMED_LINE_BYTES. With an empty handle the line is about no file. */
void hf_named_lines_put(struct hf_named_lines *lines, struct hf_bytes fh, const void *line,
                        size_t size);

#endif
