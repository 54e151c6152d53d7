/*
 * Which user has the socket at the other end of a connection from this host, or at a port of it?
 * The kernel says so (sock_diag(7)), to every user.
 *
 * A question is one system call to ask and one to read the answer, and does not wait.
 */
#ifndef HF_BASE_SOCKDIAG_H
#define HF_BASE_SOCKDIAG_H

#include <stdint.h>

#include "base/addr.h"
#include "base/transport.h"

struct hf_sockdiag {
    uint32_t uid;
    uint32_t inode; /* as in /proc/PID/fd: socket:[inode]; 0: of no process */
};

/* A file to ask with, or HF_EUNAVAIL where the kernel cannot be asked. */
int hf_sockdiag_open(void);

/*
 * The TCP socket of this host at `at`, connected to `to`. HF_ENOENT: there is none, or its process
 * has closed it: then the kernel does not know any more whose it was, and says 0.
 */
int hf_sockdiag_connection(int fd, const struct hf_addr *at, const struct hf_addr *to,
                           struct hf_sockdiag *out);

/* The socket of this host that receives what is sent to this address and port. */
int hf_sockdiag_service(int fd, enum hf_transport transport, const struct hf_addr *at,
                        struct hf_sockdiag *out);

#endif
