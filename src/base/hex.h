/* Converts bytes to hexadecimal text, two digits per byte, and back. */
#ifndef HF_BASE_HEX_H
#define HF_BASE_HEX_H

#include <stddef.h>
#include <stdint.h>

/* Decodes an even, non-zero number of digits, of either case, into at most max bytes. Returns the
 * number of bytes, or -1. */
int hf_hex_decode(const char *text, size_t len, uint8_t *out, size_t max);

/* Writes two lower-case hexadecimal digits per byte, without a terminating NUL. */
void hf_hex_encode(const uint8_t *bytes, size_t len, char *out);

#endif
