/*
 * Paths as one word of printable text: each control character, backslash, byte that is not part of
 * valid UTF-8, and character that cannot be seen, looks like a space without being one, or changes
 * the direction of text (utf8.c has the table) is written as \xHH, byte by byte. Every path has
 * exactly one such form, and the form of two paths is equal only if the paths are; so quoted paths
 * can be sent in lines, shown and compared.
 */
#ifndef HF_BASE_QUOTE_H
#define HF_BASE_QUOTE_H

#include <stddef.h>

#include "base/bytes.h"

enum {
    HF_PATH_BYTES_MAX = 4096,                      /* PATH_MAX of Linux */
    HF_PATH_QUOTED_MAX = 4 * HF_PATH_BYTES_MAX + 1 /* room for the NUL is included */
};

/* Quotes the path. Returns the length, with a NUL behind it in out, or HF_EINVAL if it does not
 * fit. */
int hf_path_quote(struct hf_bytes path, char *out, size_t size);

/* Reverses hf_path_quote(), and also accepts bytes that need not have been quoted. Returns
 * HF_EINVAL for a backslash that begins no \xHH, for a NUL, and for a result too long for out. */
int hf_path_unquote(struct hf_bytes text, char *out, size_t size);

/*
 * Takes the next word off a line; a single space ends it. At the end of the line the word is empty.
 */
struct hf_bytes hf_quote_word(struct hf_bytes *line);

#endif
