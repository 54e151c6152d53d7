/*
 * Connections of the load generator. Requests are gathered and sent once a turn: over TCP in one
 * write, over UDP in one sendmmsg. All read into one buffer, so that ten thousand connections fit
 * into the cache and the generator is not what is measured.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "load.h"

enum { IN_MAX = 64 * 1024, DATAGRAMS = 64 };

static int epoll;
static uint8_t in[IN_MAX];

uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void die(const char *what)
{
    fprintf(stderr, "holdfast-bench: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

void wrong(const char *what)
{
    fprintf(stderr, "holdfast-bench: wrong answer: %s\n", what);
    exit(EXIT_FAILURE);
}

int connect_to_server(bool udp)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port)};
    int on = 1;
    int size = 4 << 20;
    int fd = socket(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, 0);

    inet_pton(AF_INET, opt.host, &addr.sin_addr);
    /* SM_MON needs a reserved port on the server's own host (SEC-01). There are few of them, and
     * the kernel keeps those of an earlier run for a minute. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd >= 0 && opt.weights[OP_MON] > 0 && bindresvport(fd, NULL) < 0)
        die("a reserved port");
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        die("connect");
    if (udp)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    else
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

void conn_open(struct conn *c, uint32_t number, int epoll_fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};

    epoll = epoll_fd;
    c->number = number;
    c->fd = connect_to_server(opt.udp);
    c->out = malloc(opt.in_flight * REQUEST_MAX);
    if (!c->out || epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event) < 0)
        die("epoll_ctl");
}

/* ---- sending ---- */

uint8_t *conn_room(struct conn *c)
{
    return c->out + c->out_len;
}

static size_t record_len(const uint8_t *record)
{
    uint32_t mark;

    memcpy(&mark, record, MARK);
    return ntohl(mark) & 0x7fffffff;
}

/* Sends the gathered records over UDP, each as a datagram without its mark, and returns how many
 * bytes were sent. */
static ssize_t send_datagrams(struct conn *c)
{
    struct mmsghdr messages[DATAGRAMS];
    struct iovec vectors[DATAGRAMS];
    size_t at = c->out_sent;
    unsigned n = 0;
    int sent;

    memset(messages, 0, sizeof(messages));
    for (; n < DATAGRAMS && at < c->out_len; n++) {
        vectors[n] = (struct iovec){c->out + at + MARK, record_len(c->out + at)};
        messages[n].msg_hdr.msg_iov = &vectors[n];
        messages[n].msg_hdr.msg_iovlen = 1;
        at += MARK + vectors[n].iov_len;
    }
    sent = sendmmsg(c->fd, messages, n, MSG_DONTWAIT);
    if (sent < 0)
        return -1;
    at = 0;
    for (int i = 0; i < sent; i++)
        at += MARK + vectors[i].iov_len;
    return (ssize_t)at;
}

static void watch(struct conn *c, bool out)
{
    struct epoll_event event = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = c};

    if (c->want_out == out)
        return;
    c->want_out = out;
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event) < 0)
        die("epoll_ctl");
}

void conn_flush(struct conn *c)
{
    while (c->out_sent < c->out_len) {
        ssize_t n = opt.udp ? send_datagrams(c)
                            : send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent,
                                   MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == ENOBUFS))
            break;
        if (n < 0)
            die("send");
        c->out_sent += (size_t)n;
    }
    memmove(c->out, c->out + c->out_sent, c->out_len - c->out_sent);
    c->out_len -= c->out_sent;
    c->out_sent = 0;
    watch(c, c->out_len > 0);
}

/* ---- receiving ---- */

static void read_stream(struct conn *c,
                        void (*take)(struct conn *c, const uint8_t *reply, size_t len))
{
    size_t len = c->left_len;
    size_t at = 0;
    ssize_t n;

    memcpy(in, c->left, len);
    n = recv(c->fd, in + len, sizeof(in) - len, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n < 0)
        die("recv");
    if (n == 0)
        wrong("the server closed the connection");
    len += (size_t)n;
    while (len - at >= MARK && len - at >= MARK + record_len(in + at)) {
        take(c, in + at + MARK, record_len(in + at));
        at += MARK + record_len(in + at);
    }
    if (len - at > sizeof(c->left))
        wrong("longer than any that is right");
    c->left_len = len - at;
    memcpy(c->left, in + at, c->left_len);
}

static void read_datagrams(struct conn *c,
                           void (*take)(struct conn *c, const uint8_t *reply, size_t len))
{
    struct mmsghdr messages[DATAGRAMS];
    struct iovec vectors[DATAGRAMS];
    int n;

    memset(messages, 0, sizeof(messages));
    for (unsigned i = 0; i < DATAGRAMS; i++) {
        vectors[i] = (struct iovec){in + (size_t)i * REPLY_MAX, REPLY_MAX};
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    n = recvmmsg(c->fd, messages, DATAGRAMS, MSG_DONTWAIT, NULL);
    if (n < 0 && errno != EAGAIN)
        die("recv");
    for (int i = 0; i < n; i++)
        take(c, vectors[i].iov_base, messages[i].msg_len);
}

void conn_read(struct conn *c, void (*take)(struct conn *c, const uint8_t *reply, size_t len))
{
    if (opt.udp)
        read_datagrams(c, take);
    else
        read_stream(c, take);
    conn_flush(c);
}
