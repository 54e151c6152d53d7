/*
 * Sockets created and bound before libuv takes them over, for the options that libuv cannot set:
 * an IPv6 socket that refuses IPv4, a reserved port, and an address that the host does not have
 * yet.
 */
#ifndef HF_BASE_SOCKET_H
#define HF_BASE_SOCKET_H

#include <stdbool.h>

#include "base/addr.h"

/*
 * Opens a non-blocking socket of the given type (SOCK_STREAM, SOCK_DGRAM) and of addr's family. An
 * IPv6 socket accepts IPv6 only. Returns the descriptor, or HF_ELIMIT when the process has no
 * descriptor left, or HF_EUNAVAIL when the kernel does not support the family.
 */
int hf_socket_open(const struct hf_addr *addr, int type);

enum hf_bind {
    HF_BIND_EXACTLY,
    HF_BIND_RESERVED, /* bind to any free port from 512 to 1023 instead of addr's port */
    HF_BIND_ABSENT,   /* bind even if the host does not have the address, or not yet */
};

/* Binds to addr. Returns HF_EBUSY if the address is in use, HF_EDENIED if the process lacks the
 * privilege, HF_EINVAL if the host does not have this address. */
int hf_socket_bind(int fd, const struct hf_addr *addr, enum hf_bind how);

/* True if this host has the address; false also when that cannot be found out. */
bool hf_socket_is_own_address(const struct hf_addr *addr);

#endif
