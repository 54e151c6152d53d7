/* Decides which parts of a text chosen by a client are safe to show. */
#ifndef HF_BASE_UTF8_H
#define HF_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/*
 * Returns the length of the valid UTF-8 sequence of two or more bytes at p if it is safe to print,
 * else 0. Malformed sequences are not safe, nor are characters that cannot be seen or that look
 * like a space, line breaks, and characters that change the direction of text.
 */
size_t hf_utf8_printable(const uint8_t *p, size_t left);

#endif
