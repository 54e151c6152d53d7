/*
 * rpcbind, program 100000 (RFC 1833): how clients find the port of a program. Holdfast either
 * registers with the rpcbind of the system (client.h, watch.h) or is the host's rpcbind itself
 * (server.h), so that a host without one needs no other package; an NFS server on the same host can
 * then register with Holdfast. The option rpcbind.mode chooses (SPEC section 6).
 */
#ifndef HF_RPCBIND_RPCBIND_H
#define HF_RPCBIND_RPCBIND_H

#include <stdint.h>

#include "base/addr.h"
#include "rpc/program.h"

/* The local socket on which programs of this host first try to reach rpcbind. */
#define HF_RPCBIND_SOCKET "/run/rpcbind.sock"

enum { HF_RPCBIND_PORT = 111 };

/* One service that rpcbind lists: one version of a program, on one transport at one address. */
struct hf_rpcbind_service {
    uint32_t prog;
    uint32_t vers;
    enum hf_transport transport;
    struct hf_addr addr;
};

/* The names and constants that rpcbind uses for a transport of one address family. */
struct hf_rpcbind_netid {
    const char *name; /* the netid: "udp", "tcp", "udp6" or "tcp6" */
    uint8_t family;   /* HF_ADDR_IPV4, HF_ADDR_IPV6 */
    enum hf_transport transport;
    const char *protofmly;
    const char *proto;
};

/* Returns the name of the netid for a family (IPv4 or IPv6) and a transport. */
const char *hf_rpcbind_netid_name(uint8_t family, enum hf_transport transport);

/* Returns the netid with this name, or NULL if rpcbind does not know the name. */
const struct hf_rpcbind_netid *hf_rpcbind_netid_find(const char *name);

#endif
