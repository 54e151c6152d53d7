/*
 * Finds the user who owns the socket at the other end of a connection within this host, or at a
 * port of this host. The kernel tells this to every user (sock_diag(7)).
 *
 * A question takes two system calls, one to ask and one to read the answer, and never waits.
 */
#ifndef HF_BASE_SOCKDIAG_H
#define HF_BASE_SOCKDIAG_H

#include <stdint.h>

#include "base/addr.h"
#include "base/transport.h"

struct hf_sockdiag {
    uint32_t uid;
    /*
     * The socket's inode, as in /proc/PID/fd (socket:[inode]); 0: no process has the socket open.
     */
    uint32_t inode;
};

/* Returns a descriptor through which to ask the kernel, or HF_EUNAVAIL where the kernel cannot be
 * asked. */
int hf_sockdiag_open(void);

/*
 * Finds the TCP socket of this host at `at` that is connected to `to`. Returns HF_ENOENT if there
 * is none. If its process has closed it, the kernel no longer knows the owner, and uid is
 * HF_UID_UNKNOWN.
 */
int hf_sockdiag_connection(int fd, const struct hf_addr *at, const struct hf_addr *to,
                           struct hf_sockdiag *out);

/* Finds the socket of this host that receives packets sent to this address and port. */
int hf_sockdiag_service(int fd, enum hf_transport transport, const struct hf_addr *at,
                        struct hf_sockdiag *out);

#endif
