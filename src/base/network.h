/* A network: an IPv4 or IPv6 address and the number of leading bits that identify the network. */
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
 * Parses "192.0.2.0/24", "2001:db8::/32", or a single address. Returns HF_EINVAL if text is
 * neither, or if bits of the host part are set, which is more often a typing error than intended.
 */
int hf_network_parse(const char *text, struct hf_network *out);
char *hf_network_format(const struct hf_network *network, char text[HF_NETWORK_TEXT_MAX]);

bool hf_network_contains(const struct hf_network *network, const struct hf_addr *addr);

#endif
