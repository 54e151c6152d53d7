/* Writes a path as one word of printable text. These are written as \xHH, byte by byte: control
 * characters, backslashes, bytes that are not part of valid UTF-8, and characters that cannot be
 * seen, look like a space without being one, or change the direction of text (utf8.c has the
 * table). Every path has exactly one quoted form, and two paths have equal forms only if the paths
 * are equal; so quoted paths can be sent in lines, shown and compared. */
#ifndef HF_BASE_QUOTE_H
#define HF_BASE_QUOTE_H

#include <stddef.h>

#include "base/bytes.h"

enum {
    HF_PATH_BYTES_MAX = 4096,                      /* PATH_MAX of Linux */
    HF_PATH_QUOTED_MAX = 4 * HF_PATH_BYTES_MAX + 1 /* the longest quoted path, with its NUL */
};

/* Quotes a path. Returns the length of the result, which ends with a NUL in out, or HF_EINVAL if it
 * does not fit. */
int hf_path_quote(struct hf_bytes path, char *out, size_t size);

/*
 * Reverses hf_path_quote(), and also accepts bytes that need not have been quoted. Returns
 * HF_EINVAL for a backslash that does not begin \xHH, for a NUL, and for a result too long for out.
 */
int hf_path_unquote(struct hf_bytes text, char *out, size_t size);

/* Takes the next word off a line; a single space ends a word. At the end of the line the word is
 * empty. */
struct hf_bytes hf_quote_word(struct hf_bytes *line);

#endif
