/* A network: an IPv4 or IPv6 address and the number of its bits that count. */
#ifndef HF_BASE_NETWORK_H
#define HF_BASE_NETWORK_H

#include <stdbool.h>

#include "base/addr.h"

struct hf_network {
    struct hf_addr addr;
    unsigned bits;
};

enum { HF_NETWORK_TEXT_MAX = HF_ADDR_TEXT_MAX + 4 };

/*
 * Parses "192.0.2.0/24", "2001:db8::/32", or a single address. HF_EINVAL if it is neither, or if
 * bits of the address are set that do not count: that is a typing error more often than an intent.
 */
int hf_network_parse(const char *text, struct hf_network *out);
char *hf_network_format(const struct hf_network *network, char text[HF_NETWORK_TEXT_MAX]);

bool hf_network_contains(const struct hf_network *network, const struct hf_addr *addr);

#endif
