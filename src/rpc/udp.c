#include "rpc/udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/socket.h"

enum {
    BATCH = 32, /* how many datagrams one system call moves */
    ROUNDS = 4, /* how many system calls a socket makes before the loop serves other sockets */
    ARENA = 16 * HF_UDP_DATAGRAM_MAX,
    /* the socket buffer size to ask for; the kernel may grant less */
    KERNEL_BUFFER = 4 * 1024 * 1024,
};

struct control {
    _Alignas(struct cmsghdr) uint8_t space[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

struct batch {
    struct mmsghdr msgs[BATCH];
    struct iovec iovs[BATCH];
    struct sockaddr_storage names[BATCH];
    struct control controls[BATCH];
    unsigned *receipts[BATCH]; /* the receipts of the datagrams in the batch to be sent */
};

struct hf_udp_io {
    struct batch in;
    struct batch out;
    unsigned n_in;    /* how many datagrams of the batch were received */
    unsigned at_in;   /* the first received datagram that was not passed on yet */
    unsigned n_out;   /* how many datagrams are queued to be sent */
    size_t arena_len; /* how many bytes of the arena the queued datagrams use */
    uint8_t arena[ARENA];
    uint8_t received[BATCH][HF_UDP_DATAGRAM_MAX];
};

/* Finds the local address to which a received datagram was sent. */
static void read_local(const struct hf_udp *udp, struct msghdr *msg, struct hf_addr *local)
{
    *local = udp->bound;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo info;
            memcpy(&info, CMSG_DATA(c), sizeof(info));
            memcpy(local->bytes, &info.ipi_spec_dst, 4);
        } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo info;
            memcpy(&info, CMSG_DATA(c), sizeof(info));
            memcpy(local->bytes, &info.ipi6_addr, 16);
            local->scope = IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr) ? info.ipi6_ifindex : 0;
        }
    }
}

/* Tells the kernel to send a datagram from this local address. */
static void write_local(struct msghdr *msg, const struct hf_addr *local)
{
    struct cmsghdr *c;

    msg->msg_controllen = sizeof(struct control);
    c = CMSG_FIRSTHDR(msg);
    if (local->family == HF_ADDR_IPV4) {
        struct in_pktinfo info = {0};
        memcpy(&info.ipi_spec_dst, local->bytes, 4);
        c->cmsg_level = IPPROTO_IP;
        c->cmsg_type = IP_PKTINFO;
        c->cmsg_len = CMSG_LEN(sizeof(info));
        memcpy(CMSG_DATA(c), &info, sizeof(info));
        msg->msg_controllen = CMSG_SPACE(sizeof(info));
    } else {
        struct in6_pktinfo info = {.ipi6_ifindex = local->scope};
        memcpy(&info.ipi6_addr, local->bytes, 16);
        c->cmsg_level = IPPROTO_IPV6;
        c->cmsg_type = IPV6_PKTINFO;
        c->cmsg_len = CMSG_LEN(sizeof(info));
        memcpy(CMSG_DATA(c), &info, sizeof(info));
        msg->msg_controllen = CMSG_SPACE(sizeof(info));
    }
}

static void take(struct hf_udp *udp, unsigned i)
{
    struct msghdr *msg = &udp->io->in.msgs[i].msg_hdr;
    struct hf_addr peer;
    struct hf_addr local;

    if (msg->msg_flags & MSG_TRUNC) {
        udp->dropped++;
        return;
    }
    if (hf_addr_from_sockaddr(msg->msg_name, &peer) < 0)
        return;
    read_local(udp, msg, &local);
    udp->received(udp, &peer, &local, hf_bytes(udp->io->received[i], udp->io->in.msgs[i].msg_len));
}

/* Receives a batch of datagrams. An error is a late ICMP report about an earlier datagram and is
 * ignored, because senders repeat. */
static void receive_batch(struct hf_udp *udp)
{
    struct batch *in = &udp->io->in;
    int n;

    for (unsigned i = 0; i < BATCH; i++) {
        in->iovs[i] = (struct iovec){udp->io->received[i], HF_UDP_DATAGRAM_MAX};
        in->msgs[i].msg_hdr = (struct msghdr){
            .msg_name = &in->names[i],
            .msg_namelen = sizeof(in->names[i]),
            .msg_iov = &in->iovs[i],
            .msg_iovlen = 1,
            .msg_control = &in->controls[i],
            .msg_controllen = sizeof(in->controls[i]),
        };
    }
    n = recvmmsg(udp->fd, in->msgs, BATCH, MSG_DONTWAIT, NULL);
    udp->io->n_in = n > 0 ? (unsigned)n : 0;
    udp->io->at_in = 0;
}

/* Passes on the datagrams that were received; false if others must be served first and some are
 * left. */
static bool drain(struct hf_udp *udp)
{
    struct hf_udp_io *io = udp->io;

    while (io->at_in < io->n_in) {
        take(udp, io->at_in++);
        if (udp->gives_way && udp->gives_way(udp))
            return false;
    }
    return true;
}

/* Drops all datagrams that arrive while the gate is shut: clients repeat them, and the node that
 * serves then will answer. */
static bool drop_unread(struct hf_udp *udp)
{
    if (hf_rpc_gate_is_open(udp->gate))
        return false;
    udp->io->at_in = udp->io->n_in;
    return true;
}

bool hf_udp_continue(struct hf_udp *udp)
{
    (void)drop_unread(udp);
    if (udp->io->at_in == udp->io->n_in)
        return false;
    (void)drain(udp);
    return udp->io->at_in < udp->io->n_in;
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct hf_udp *udp = handle->data;

    (void)events;
    if (status < 0)
        /* libuv has stopped reading, because the socket has an error (a tool has aborted it, say);
         * the next read takes the error from the socket, which works on. */
        hf_udp_read(udp);
    if (udp->io->at_in < udp->io->n_in)
        return; /* hf_udp_continue() must first pass on the datagrams that are left */
    for (int round = 0; round < ROUNDS; round++) {
        receive_batch(udp);
        if (drop_unread(udp))
            continue;
        if (!drain(udp) || udp->io->n_in < BATCH)
            break;
    }
    hf_udp_flush(udp);
}

static int configure(int fd, const struct hf_addr *addr)
{
    int on = 1;
    int size = KERNEL_BUFFER;
    bool ipv6 = addr->family == HF_ADDR_IPV6;

    if (setsockopt(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_RECVPKTINFO : IP_PKTINFO, &on,
                   sizeof(on)) < 0)
        return HF_EUNAVAIL;
    /* Ask for a buffer that holds a burst from thousands of clients; a smaller buffer is no error.
     * Root gets the size it asks for, other users what net.core.rmem_max allows. */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    return 0;
}

void hf_udp_hold(struct hf_udp *udp)
{
    uv_poll_stop(&udp->poll);
}

void hf_udp_read(struct hf_udp *udp)
{
    uv_poll_start(&udp->poll, UV_READABLE, on_poll);
}

int hf_udp_open(struct hf_udp *udp, uv_loop_t *loop, const struct hf_addr *addr, enum hf_bind how,
                const struct hf_alloc *alloc, hf_udp_received received, void *ctx)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    int rv;

    *udp = (struct hf_udp){.received = received, .ctx = ctx, .alloc = alloc};
    udp->io = hf_calloc(alloc, 1, sizeof(*udp->io));
    if (!udp->io)
        return HF_ENOMEM;
    rv = udp->fd = hf_socket_open(addr, SOCK_DGRAM);
    if (rv < 0)
        goto err_io;
    rv = configure(udp->fd, addr);
    if (rv == 0)
        rv = hf_socket_bind(udp->fd, addr, how);
    if (rv < 0)
        goto err_fd;
    rv = HF_EUNAVAIL;
    if (getsockname(udp->fd, (struct sockaddr *)&sa, &len) < 0 ||
        hf_addr_from_sockaddr((const struct sockaddr *)&sa, &udp->bound) < 0 ||
        uv_poll_init(loop, &udp->poll, udp->fd) < 0)
        goto err_fd;
    udp->poll.data = udp;
    hf_udp_read(udp);
    return 0;

err_fd:
    close(udp->fd);
err_io:
    hf_free(alloc, udp->io);
    udp->io = NULL;
    return rv;
}

uint8_t *hf_udp_room(struct hf_udp *udp)
{
    if (udp->io->n_out == BATCH || ARENA - udp->io->arena_len < HF_UDP_DATAGRAM_MAX)
        hf_udp_flush(udp);
    return udp->io->arena + udp->io->arena_len;
}

void hf_udp_queue(struct hf_udp *udp, const struct hf_addr *peer, const struct hf_addr *local,
                  size_t len, unsigned *receipt)
{
    struct hf_udp_io *io = udp->io;
    struct batch *out = &io->out;
    unsigned i = io->n_out;

    HF_ASSERT(i < BATCH && len <= HF_UDP_DATAGRAM_MAX);
    out->receipts[i] = receipt;
    out->iovs[i] = (struct iovec){io->arena + io->arena_len, len};
    out->msgs[i].msg_hdr = (struct msghdr){
        .msg_name = &out->names[i],
        .msg_namelen = hf_addr_to_sockaddr(peer, &out->names[i]),
        .msg_iov = &out->iovs[i],
        .msg_iovlen = 1,
    };
    if (local && local->family == peer->family && !hf_addr_is_any(local)) {
        out->msgs[i].msg_hdr.msg_control = &out->controls[i];
        write_local(&out->msgs[i].msg_hdr, local);
    }
    io->arena_len += len;
    io->n_out++;
}

static void give_receipts(struct batch *out, unsigned from, unsigned n)
{
    for (unsigned i = from; i < from + n; i++) {
        if (out->receipts[i])
            ++*out->receipts[i];
    }
}

void hf_udp_flush(struct hf_udp *udp)
{
    struct hf_udp_io *io = udp->io;
    unsigned sent = 0;

    if (io->n_out > 0 && !hf_rpc_gate_is_open(udp->gate)) {
        udp->dropped += io->n_out;
        sent = io->n_out;
    }
    while (sent < io->n_out) {
        int n = sendmmsg(udp->fd, io->out.msgs + sent, io->n_out - sent, MSG_DONTWAIT);
        if (n > 0) {
            give_receipts(&io->out, sent, (unsigned)n);
            sent += (unsigned)n;
        } else {
            /*
             * The first datagram cannot be sent (unreachable, or the buffer is full): drop only
             * that one.
             */
            udp->dropped++;
            sent++;
        }
    }
    io->n_out = 0;
    io->arena_len = 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct hf_udp *udp = handle->data;

    close(udp->fd);
    hf_free(udp->alloc, udp->io);
    udp->io = NULL;
    if (udp->closed)
        udp->closed(udp);
}

void hf_udp_close(struct hf_udp *udp, void (*closed)(struct hf_udp *udp))
{
    hf_udp_flush(udp);
    udp->closed = closed;
    uv_poll_stop(&udp->poll);
    uv_close((uv_handle_t *)&udp->poll, on_closed);
}
