/*
 * Texts for people, in buffers of a fixed size: they are cut where the buffer ends, and always
 * terminated. Where a cut text would be wrong rather than short, use snprintf() and look at what it
 * returns.
 */
#ifndef HF_BASE_TEXT_H
#define HF_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

void hf_format(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The whole text, or false if there is no room for it: then out is left alone. */
bool hf_text_copy(char *out, size_t size, const char *text);

#endif
