/* Decides which parts of a text chosen by a peer are safe to show. */
#ifndef HF_BASE_UTF8_H
#define HF_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/*
 * Returns the length of the valid UTF-8 sequence of two or more bytes at p, or 0 if there is none
 * that is safe to print: malformed sequences, characters that cannot be seen or that look like a
 * space, line breaks and characters that change the direction of text are not.
 */
size_t hf_utf8_printable(const uint8_t *p, size_t left);

#endif
