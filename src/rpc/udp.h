/*
 * A UDP socket that knows, for each datagram, which of our addresses it was sent to, and sends from
 * the address it is told (IP_PKTINFO, IPV6_PKTINFO): on a host with several addresses a client
 * takes an answer only from the one it asked. libuv's own uv_udp_t cannot do that, so this is a
 * plain socket under a uv_poll_t.
 *
 * Many datagrams move per system call: recvmmsg() in, and what is queued to go out leaves with one
 * sendmmsg() when hf_udp_flush() is called. A datagram that the kernel will not take is dropped, as
 * the network might have done; senders repeat.
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

enum { HF_UDP_DATAGRAM_MAX = 8 * 1024 }; /* the largest NLM call is under 6 KiB */

struct hf_udp;
struct hf_udp_io; /* buffers and message headers of the system calls */

typedef void (*hf_udp_received)(struct hf_udp *udp, const struct hf_addr *peer,
                                const struct hf_addr *local, struct hf_bytes datagram);

struct hf_udp {
    uv_poll_t poll;
    int fd;
    struct hf_addr bound; /* with the port that was chosen */
    struct hf_udp_io *io;
    hf_udp_received received;
    void (*closed)(struct hf_udp *udp);
    void *ctx; /* the owner's */
    const struct hf_alloc *alloc;
    uint64_t dropped; /* datagrams too long, or not taken by the kernel */
};

/*
 * Binds and starts to listen. With reserved, the port is one below 1024 that is free (HF_EDENIED
 * without the privilege); otherwise addr->port, 0 meaning any.
 */
int hf_udp_open(struct hf_udp *udp, uv_loop_t *loop, const struct hf_addr *addr, bool reserved,
                const struct hf_alloc *alloc, hf_udp_received received, void *ctx);

/*
 * Room for one datagram of up to HF_UDP_DATAGRAM_MAX bytes, to be filled and then queued with
 * hf_udp_queue(). local may be NULL or of family NONE: then the kernel chooses.
 */
uint8_t *hf_udp_room(struct hf_udp *udp);
void hf_udp_queue(struct hf_udp *udp, const struct hf_addr *peer, const struct hf_addr *local,
                  size_t len);
void hf_udp_flush(struct hf_udp *udp);

/* Stops; closed is called from the loop once the memory may go. */
void hf_udp_close(struct hf_udp *udp, void (*closed)(struct hf_udp *udp));

#endif
