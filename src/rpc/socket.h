/*
 * Plain sockets, made ready before libuv gets them, for the options libuv has no name for.
 */
#ifndef HF_RPC_SOCKET_H
#define HF_RPC_SOCKET_H

#include <stdbool.h>

#include "base/addr.h"

/*
 * A non-blocking socket of the given type (SOCK_STREAM, SOCK_DGRAM) and of addr's family; an IPv6
 * socket speaks IPv6 only. Returns the descriptor or an error code.
 */
int hf_socket_open(const struct hf_addr *addr, int type);

/*
 * Binds to addr. With reserved, to any free port below 1024. HF_EBUSY: the address is taken;
 * HF_EDENIED: not without privilege; HF_EINVAL: not an address of this host.
 */
int hf_socket_bind(int fd, const struct hf_addr *addr, bool reserved);

#endif
