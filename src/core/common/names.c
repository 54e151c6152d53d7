/* Host names in requests are data: the core never resolves them, and compares them without ASCII
 * case. */
#include "core/common/names.h"

#include <string.h>

static uint8_t fold(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

/*
 * Makes eight bytes lower case at once, because each request folds its client's name. Adding a
 * constant to the lower seven bits of a byte sets the highest bit if the byte is at least 'A';
 * adding another constant does so if it is beyond 'Z'.
 */
static void fold_eight(const uint8_t *in, uint8_t *out)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t x, low, upper;

    memcpy(&x, in, sizeof(x));
    low = x & ones * 0x7f;
    upper = (low + ones * (0x80 - 'A')) & ~(low + ones * (0x7f - 'Z')) & ~x & ones * 0x80;
    x |= upper >> 2; /* moves bit 0x80 to 0x20, which makes a letter lower case */
    memcpy(out, &x, sizeof(x));
}

bool hf_name_equal(struct hf_bytes a, struct hf_bytes b)
{
    if (hf_bytes_equal(a, b))
        return true; /* the common case, because a host always spells its name alike */
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        if (fold(a.data[i]) != fold(b.data[i]))
            return false;
    }
    return true;
}

size_t hf_name_fold(struct hf_bytes name, uint8_t *out)
{
    size_t i = 0;

    for (; i + 8 <= name.len; i += 8)
        fold_eight(name.data + i, out + i);
    for (; i < name.len; i++)
        out[i] = fold(name.data[i]);
    return name.len;
}

struct hf_bytes hf_name_short(struct hf_bytes name)
{
    const uint8_t *dot = name.len > 0 ? memchr(name.data, '.', name.len) : NULL;

    return dot ? hf_bytes(name.data, (size_t)(dot - name.data)) : hf_bytes(NULL, 0);
}

bool hf_name_same_host(struct hf_bytes a, struct hf_bytes b)
{
    struct hf_bytes a_short = hf_name_short(a);
    struct hf_bytes b_short = hf_name_short(b);

    return hf_name_equal(a, b) || (a_short.len > 0 && hf_name_equal(a_short, b)) ||
           (b_short.len > 0 && hf_name_equal(a, b_short));
}

bool hf_name_is_addr(struct hf_bytes name, struct hf_addr *out)
{
    char text[HF_ADDR_TEXT_MAX];

    if (name.len == 0 || name.len >= sizeof(text) || memchr(name.data, '\0', name.len))
        return false;
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    return hf_addr_parse(text, out) == 0;
}
