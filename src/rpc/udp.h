/*
 * A UDP socket that reports the local address each datagram was sent to, and sends from a given
 * local address (IP_PKTINFO, IPV6_PKTINFO). On a host with several addresses a client accepts an
 * answer only from the address it asked. libuv's uv_udp_t supports neither, so this is a plain
 * socket under a uv_poll_t.
 *
 * One system call moves many datagrams: recvmmsg() receives, and hf_udp_flush() sends everything
 * queued with one sendmmsg(). A datagram that the kernel does not take (its local address or a
 * route is missing, the buffer is full) is dropped; senders repeat. A sender that draws conclusions
 * from silence learns by its receipt whether the kernel took it.
 *
 * The owner embeds or allocates struct hf_udp and keeps it until the close callback has run.
 */
#ifndef HF_RPC_UDP_H
#define HF_RPC_UDP_H

#include <stdbool.h>
#include <uv.h>

#include "base/addr.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/socket.h"
#include "rpc/gate.h"

enum { HF_UDP_DATAGRAM_MAX = 8 * 1024 }; /* the largest NLM call is under 6 KiB */

struct hf_udp;
struct hf_udp_io; /* buffers and message headers of the system calls */

typedef void (*hf_udp_received)(struct hf_udp *udp, const struct hf_addr *peer,
                                const struct hf_addr *local, struct hf_bytes datagram);

struct hf_udp {
    uv_poll_t poll;
    int fd;
    struct hf_addr bound; /* the address of the socket, with the port that was bound */
    struct hf_udp_io *io;
    hf_udp_received received;
    void (*closed)(struct hf_udp *udp);
    void *ctx; /* a pointer of the owner's */
    const struct hf_alloc *alloc;
    /* Is asked after each datagram; NULL: never. If it returns true, no more are handed over now;
     * hf_udp_continue() hands over those that were received already. */
    bool (*gives_way)(struct hf_udp *udp);
    const struct hf_rpc_gate *gate; /* is asked before each system call; NULL: always open */
    uint64_t dropped; /* datagrams that were too long, kept back by the gate, or not taken by the
                         kernel */
};

/*
 * Binds and starts to receive. With reserved, the port is any free one below 1024 (HF_EDENIED
 * without the privilege); otherwise it is addr->port, where 0 means any.
 */
int hf_udp_open(struct hf_udp *udp, uv_loop_t *loop, const struct hf_addr *addr, enum hf_bind how,
                const struct hf_alloc *alloc, hf_udp_received received, void *ctx);

/* Leaves datagrams in the socket until hf_udp_read() is called. */
void hf_udp_hold(struct hf_udp *udp);
void hf_udp_read(struct hf_udp *udp);

/*
 * Returns room for one datagram of up to HF_UDP_DATAGRAM_MAX bytes, to be filled and then queued
 * with hf_udp_queue(). If local is NULL or of family NONE, the kernel chooses the local address.
 * receipt is increased when the kernel has taken the datagram; NULL: not wanted. It must stay valid
 * until hf_udp_flush().
 */
uint8_t *hf_udp_room(struct hf_udp *udp);
void hf_udp_queue(struct hf_udp *udp, const struct hf_addr *peer, const struct hf_addr *local,
                  size_t len, unsigned *receipt);
void hf_udp_flush(struct hf_udp *udp);

/* Hands over the datagrams that were received, but left when gives_way() returned true. Returns
 * true if some are left again. */
bool hf_udp_continue(struct hf_udp *udp);

/* Stops; closed is called from the loop once the memory may be freed. */
void hf_udp_close(struct hf_udp *udp, void (*closed)(struct hf_udp *udp));

#endif
