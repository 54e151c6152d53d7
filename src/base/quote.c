#include "base/quote.h"

#include <string.h>

#include "base/error.h"
#include "base/hex.h"
#include "base/utf8.h"

/* Returns how many bytes at p need no quoting; 0: the first byte must be quoted. */
static size_t plain(const uint8_t *p, size_t left)
{
    if (p[0] >= 0x80)
        return hf_utf8_printable(p, left);
    return p[0] >= 0x20 && p[0] != 0x7f && p[0] != '\\' ? 1 : 0;
}

int hf_path_quote(struct hf_bytes path, char *out, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < path.len;) {
        size_t n = plain(path.data + i, path.len - i);

        if (used + (n ? n : 4) >= size)
            return HF_EINVAL;
        if (n) {
            memcpy(out + used, path.data + i, n);
            used += n;
        } else {
            memcpy(out + used, "\\x", 2);
            hf_hex_encode(path.data + i, 1, out + used + 2);
            used += 4;
        }
        i += n ? n : 1;
    }
    if (used >= size)
        return HF_EINVAL;
    out[used] = '\0';
    return (int)used;
}

int hf_path_unquote(struct hf_bytes text, char *out, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < text.len; used++) {
        uint8_t byte = text.data[i++];

        if (byte == '\\') {
            if (text.len - i < 3 || text.data[i] != 'x' ||
                hf_hex_decode((const char *)text.data + i + 1, 2, &byte, 1) != 1)
                return HF_EINVAL;
            i += 3;
        }
        if (byte == '\0' || used + 1 >= size)
            return HF_EINVAL;
        out[used] = (char)byte;
    }
    if (used >= size)
        return HF_EINVAL;
    out[used] = '\0';
    return (int)used;
}

struct hf_bytes hf_quote_word(struct hf_bytes *line)
{
    const uint8_t *space = line->len ? memchr(line->data, ' ', line->len) : NULL;
    size_t len = space ? (size_t)(space - line->data) : line->len;
    struct hf_bytes found = hf_bytes(line->data, len);

    line->data += len + (space ? 1 : 0);
    line->len -= len + (space ? 1 : 0);
    return found;
}
