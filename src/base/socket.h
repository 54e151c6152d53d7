/*
 * Creates and binds sockets before libuv takes them over, for the options that libuv cannot set: an
 * IPv6 socket that refuses IPv4, a reserved port, an address that the host does not have yet, and
 * the mode of a Unix socket.
 */
#ifndef HF_BASE_SOCKET_H
#define HF_BASE_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/addr.h"

/*
 * Opens a non-blocking socket of this type (SOCK_STREAM, SOCK_DGRAM) and of addr's family. An IPv6
 * socket accepts IPv6 only. Returns the descriptor, or HF_ELIMIT when the process has no descriptor
 * left, or HF_EUNAVAIL when the kernel does not support the family.
 */
int hf_socket_open(const struct hf_addr *addr, int type);

enum hf_bind {
    HF_BIND_EXACTLY,
    HF_BIND_RESERVED, /* bind to any free port from 512 to 1023 instead of addr's port */
    HF_BIND_ABSENT,   /* bind even if the host does not have the address, or does not have it yet */
};

/* Binds a socket to addr. Returns HF_EBUSY if the address is in use, HF_EDENIED if the process
 * lacks the privilege, HF_EINVAL if the host does not have this address. */
int hf_socket_bind(int fd, const struct hf_addr *addr, enum hf_bind how);

/*
 * Removes the Unix socket at path if its process is gone. Returns HF_EBUSY if a process still
 * listens there; HF_EEXIST if the path is not a socket, which is never removed; HF_EINVAL for a
 * path that is too long; HF_EDENIED.
 */
int hf_socket_clear_local(const char *path, int type);

/*
 * Listens on a non-blocking Unix socket of this type at path, and replaces a socket that a killed
 * process left there. The socket gets its mode before it gets its name: in a directory that belongs
 * to another user a link could take the place of the name, and chmod() by root would change the
 * file behind the link. To be called while the process has one thread, because it changes the umask
 * for a moment. Returns the descriptor, or an error of hf_socket_clear_local(), or HF_EUNAVAIL with
 * the reason in errno.
 */
int hf_socket_listen_local(const char *path, int type, mode_t mode, int backlog);

/* True if this host has the address; also false if that cannot be found out. */
bool hf_socket_is_own_address(const struct hf_addr *addr);

#endif
