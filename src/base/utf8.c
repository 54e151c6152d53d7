#include "base/utf8.h"

#include <stdbool.h>

/*
 * Characters of two and more bytes, in ascending order, that a reader cannot see, takes for a
 * space, or that change how the text around them is shown: C1 controls, surrogates and
 * noncharacters; the spaces; Unicode's default ignorable characters, formats and changes of
 * direction; line breaks.
 */
static const struct {
    uint32_t first, last;
} HIDDEN[] = {
    {0x80, 0xa0},       {0xad, 0xad},       {0x34f, 0x34f},     {0x61c, 0x61c},
    {0x115f, 0x1160},   {0x1680, 0x1680},   {0x17b4, 0x17b5},   {0x180b, 0x180f},
    {0x2000, 0x200f},   {0x2028, 0x202f},   {0x205f, 0x206f},   {0x2800, 0x2800},
    {0x3000, 0x3000},   {0x3164, 0x3164},   {0xd800, 0xdfff},   {0xfdd0, 0xfdef},
    {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
    {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

static bool is_hidden(uint32_t code)
{
    if ((code & 0xfffe) == 0xfffe)
        return true; /* the last two characters of each plane are noncharacters */
    for (size_t i = 0; i < sizeof(HIDDEN) / sizeof(HIDDEN[0]) && code >= HIDDEN[i].first; i++) {
        if (code <= HIDDEN[i].last)
            return true;
    }
    return false;
}

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
        return 0; /* an overlong sequence, or a number beyond Unicode */
    return is_hidden(code) ? 0 : len;
}
