#include <string.h>

#include "base/assert.h"
#include "rpcbind/rpcbind.h"

static const struct hf_rpcbind_netid NETIDS[] = {
    {"udp", HF_ADDR_IPV4, HF_TRANSPORT_UDP, "inet", "udp"},
    {"tcp", HF_ADDR_IPV4, HF_TRANSPORT_TCP, "inet", "tcp"},
    {"udp6", HF_ADDR_IPV6, HF_TRANSPORT_UDP, "inet6", "udp"},
    {"tcp6", HF_ADDR_IPV6, HF_TRANSPORT_TCP, "inet6", "tcp"},
};

const char *hf_rpcbind_netid_name(uint8_t family, enum hf_transport transport)
{
    for (size_t i = 0; i < HF_COUNT_OF(NETIDS); i++) {
        if (NETIDS[i].family == family && NETIDS[i].transport == transport)
            return NETIDS[i].name;
    }
    HF_UNREACHABLE();
}

const struct hf_rpcbind_netid *hf_rpcbind_netid_find(const char *name)
{
    for (size_t i = 0; i < HF_COUNT_OF(NETIDS); i++) {
        if (strcmp(NETIDS[i].name, name) == 0)
            return &NETIDS[i];
    }
    return NULL;
}
