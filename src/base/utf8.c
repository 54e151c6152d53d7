#include "base/utf8.h"

size_t hf_utf8_printable(const uint8_t *p, size_t left)
{
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    uint32_t code;

    if (p[0] < 0xc2 || p[0] > 0xf4 || len > left)
        return 0;
    code = p[0] & (0x7fU >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    if ((len == 3 && code < 0x800) || (len == 4 && code < 0x10000) || code > 0x10ffff)
        return 0; /* overlong, or beyond Unicode */
    if (code < 0xa0 || (code >= 0xd800 && code <= 0xdfff))
        return 0; /* C1 controls, surrogates */
    if ((code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
        (code >= 0x2066 && code <= 0x2069) || code == 0xfeff)
        return 0; /* invisible characters, line breaks and changes of direction could make a
                     terminal show false text */
    return len;
}
