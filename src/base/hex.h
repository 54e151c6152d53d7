/* Bytes as people write them: hexadecimal digits, two a byte, in either case. */
#ifndef HF_BASE_HEX_H
#define HF_BASE_HEX_H

#include <stddef.h>
#include <stdint.h>

/* Even, non-empty hex into at most max bytes: how many there are, or -1. */
int hf_hex_decode(const char *text, size_t len, uint8_t *out, size_t max);

/* Two digits a byte, in lower case; no NUL behind them. */
void hf_hex_encode(const uint8_t *bytes, size_t len, char *out);

#endif
