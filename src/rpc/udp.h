/*
 * A UDP socket that reports the local address to which each datagram was sent, and sends from a
 * given local address (IP_PKTINFO, IPV6_PKTINFO). On a host with several addresses a client accepts
 * an answer only from the address that it asked. libuv's uv_udp_t supports neither, so this is a
 * plain socket under a uv_poll_t.
 *
 * One system call moves many datagrams: recvmmsg() receives, and hf_udp_flush() sends everything
 * queued with one sendmmsg(). A datagram that the kernel does not take (its local address or a
 * route is missing, the buffer is full) is dropped; senders repeat. A sender that draws conclusions
 * from silence learns by its receipt whether the kernel took the datagram.
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

/* the longest datagram that is accepted; the largest NLM call is under 6 KiB */
enum { HF_UDP_DATAGRAM_MAX = 8 * 1024 };

struct hf_udp;
struct hf_udp_io; /* the buffers and message headers for the socket's system calls */

typedef void (*hf_udp_received)(struct hf_udp *udp, const struct hf_addr *peer,
                                const struct hf_addr *local, struct hf_bytes datagram);

struct hf_udp {
    uv_poll_t poll;
    int fd;
    struct hf_addr bound; /* the address of the socket, with the port that it is bound to */
    struct hf_udp_io *io;
    hf_udp_received received;
    void (*closed)(struct hf_udp *udp);
    void *ctx; /* the owner's pointer for its callbacks */
    const struct hf_alloc *alloc;
    /* Asked after each datagram; NULL: never. If it returns true, the socket passes on no more
     * datagrams for now; hf_udp_continue() passes on those that were received already. */
    bool (*gives_way)(struct hf_udp *udp);
    /* The gate, asked before each system call; NULL: always open. */
    const struct hf_rpc_gate *gate;
    /* Datagrams that were too long, that a shut gate kept back, or that the kernel did not take. */
    uint64_t dropped;
};

/*
 * Opens and binds the socket, and starts to receive. With HF_BIND_RESERVED the port is any free one
 * below 1024 (HF_EDENIED without the privilege); otherwise it is addr->port, where 0 means any
 * port.
 */
int hf_udp_open(struct hf_udp *udp, uv_loop_t *loop, const struct hf_addr *addr, enum hf_bind how,
                const struct hf_alloc *alloc, hf_udp_received received, void *ctx);

/* hf_udp_hold() leaves datagrams unread in the socket until hf_udp_read() is called. */
void hf_udp_hold(struct hf_udp *udp);
void hf_udp_read(struct hf_udp *udp);

/*
 * hf_udp_room() returns room for one datagram of up to HF_UDP_DATAGRAM_MAX bytes, to be filled and
 * then queued with hf_udp_queue(). If local is NULL or of family NONE, the kernel chooses the local
 * address. *receipt is increased when the kernel has taken the datagram; receipt may be NULL, and
 * must stay valid until hf_udp_flush().
 */
uint8_t *hf_udp_room(struct hf_udp *udp);
void hf_udp_queue(struct hf_udp *udp, const struct hf_addr *peer, const struct hf_addr *local,
                  size_t len, unsigned *receipt);
void hf_udp_flush(struct hf_udp *udp);

/* Passes on the datagrams that were received, but left when gives_way() returned true. Returns true
 * if some are left again. */
bool hf_udp_continue(struct hf_udp *udp);

/* Closes the socket; closed is called from the loop once its memory may be freed. */
void hf_udp_close(struct hf_udp *udp, void (*closed)(struct hf_udp *udp));

#endif
