/*
 * Texts for log lines and error messages in buffers of a fixed size: a text that is too long is
 * cut, and always terminated. Where a cut text would be wrong, use snprintf() and check its result.
 */
#ifndef HF_BASE_TEXT_H
#define HF_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

void hf_format(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Copies the whole text to out. Returns false, and leaves out unchanged, if the text does not fit.
 */
bool hf_text_copy(char *out, size_t size, const char *text);

#endif
