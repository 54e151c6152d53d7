#include "base/hex.h"

#include <ctype.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int hf_hex_decode(const char *text, size_t len, uint8_t *out, size_t max)
{
    if (len == 0 || len % 2 != 0 || len / 2 > max)
        return -1;
    for (size_t i = 0; i < len; i += 2) {
        int high = hex_digit(text[i]);
        int low = hex_digit(text[i + 1]);
        if (high < 0 || low < 0)
            return -1;
        out[i / 2] = (uint8_t)(high << 4 | low);
    }
    return (int)(len / 2);
}

void hf_hex_encode(const uint8_t *bytes, size_t len, char *out)
{
    static const char DIGITS[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = DIGITS[bytes[i] >> 4];
        out[2 * i + 1] = DIGITS[bytes[i] & 15];
    }
}
