#include "base/network.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/text.h"

static unsigned width_of(const struct hf_addr *addr)
{
    return addr->family == HF_ADDR_IPV4 ? 32 : 128;
}

/* Returns the mask of an address's first n bits, as far as they lie in this byte of the address. */
static uint8_t mask_of(unsigned byte, unsigned n)
{
    unsigned left = n > 8 * byte ? n - 8 * byte : 0;

    return left >= 8 ? 0xff : (uint8_t)(0xff00U >> left);
}

static bool has_spare_bits(const struct hf_network *network)
{
    for (unsigned i = 0; i < sizeof(network->addr.bytes); i++) {
        if (network->addr.bytes[i] & ~mask_of(i, network->bits))
            return true;
    }
    return false;
}

int hf_network_parse(const char *text, struct hf_network *out)
{
    char copy[HF_NETWORK_TEXT_MAX];
    char *slash;
    char *end;

    if (!hf_text_copy(copy, sizeof(copy), text))
        return HF_EINVAL;
    slash = strchr(copy, '/');
    if (slash)
        *slash = '\0';
    if (hf_addr_parse(copy, &out->addr) < 0)
        return HF_EINVAL;
    out->bits = width_of(&out->addr);
    if (slash) {
        unsigned long bits = strtoul(slash + 1, &end, 10);

        if (!isdigit((unsigned char)slash[1]) || *end || bits > width_of(&out->addr))
            return HF_EINVAL;
        out->bits = (unsigned)bits;
    }
    return has_spare_bits(out) ? HF_EINVAL : 0;
}

char *hf_network_format(const struct hf_network *network, char text[HF_NETWORK_TEXT_MAX])
{
    char addr[HF_ADDR_TEXT_MAX];

    hf_format(text, HF_NETWORK_TEXT_MAX, "%s/%u", hf_addr_format(&network->addr, addr),
              network->bits);
    return text;
}

bool hf_network_contains(const struct hf_network *network, const struct hf_addr *addr)
{
    if (network->addr.family != addr->family)
        return false;
    for (unsigned i = 0; 8 * i < network->bits; i++) {
        if ((network->addr.bytes[i] ^ addr->bytes[i]) & mask_of(i, network->bits))
            return false;
    }
    return true;
}
