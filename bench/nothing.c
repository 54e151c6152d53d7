/*
 * A server that does nothing: it cuts records, and answers every call as if it had succeeded, with
 * the cookie it came with. No server of this shape (one thread, one write for all that was read
 * from a connection, one buffer to read into) can be faster on this machine; how close another
 * comes says what its work costs. With a second argument it looks for input for so many
 * microseconds before it sleeps, as server.busy_poll lets Holdfast do: one request at a time then
 * waits for no processor to wake.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    BUFFER = 256 * 1024,
    EVENTS = 256,
    DATAGRAMS = 64,
    CALL_HEAD = 40,
    CALL_MAX = 512,
    REPLY = 36,
    REPLY_NULL = 24,
};

struct conn {
    int fd;
    size_t len;
    uint8_t left[CALL_MAX]; /* the beginning of a call whose end has not come yet */
};

static uint8_t in[BUFFER];
static uint8_t out[BUFFER];

static size_t answer(const uint8_t *call, size_t len, uint8_t *reply)
{
    uint32_t proc;
    /* The reply's header: xid, REPLY, accepted, no verifier, SUCCESS. */
    uint32_t head[6] = {0, htonl(1)};

    memcpy(&proc, call + 20, 4);
    memcpy(head, call, 4);
    memcpy(reply, head, sizeof(head));
    if (proc == 0 || len < CALL_HEAD + 8)
        return REPLY_NULL;
    memcpy(reply + REPLY_NULL, call + CALL_HEAD, 8); /* the cookie: a length of 4, and the bytes */
    memset(reply + REPLY_NULL + 8, 0, 4);            /* GRANTED */
    return REPLY;
}

static bool serve_stream(struct conn *c)
{
    size_t len = c->len;
    size_t at = 0;
    size_t out_len = 0;
    ssize_t n;

    memcpy(in, c->left, len);
    n = recv(c->fd, in + len, sizeof(in) - len, 0);
    if (n <= 0)
        return false;
    len += (size_t)n;
    while (len - at >= 4) {
        uint32_t mark;
        size_t call_len;
        size_t reply_len;

        memcpy(&mark, in + at, 4);
        call_len = ntohl(mark) & 0x7fffffff;
        if (call_len > CALL_MAX - 4 || call_len < CALL_HEAD)
            return false;
        if (len - at < 4 + call_len)
            break;
        reply_len = answer(in + at + 4, call_len, out + out_len + 4);
        mark = htonl(0x80000000U | (uint32_t)reply_len);
        memcpy(out + out_len, &mark, 4);
        out_len += 4 + reply_len;
        at += 4 + call_len;
    }
    c->len = len - at;
    memcpy(c->left, in + at, c->len);
    return out_len == 0 || send(c->fd, out, out_len, MSG_NOSIGNAL) == (ssize_t)out_len;
}

static void serve_datagrams(int fd)
{
    static struct sockaddr_storage from[DATAGRAMS];
    static struct iovec vectors[DATAGRAMS];
    static struct mmsghdr messages[DATAGRAMS];
    int n;

    for (unsigned i = 0; i < DATAGRAMS; i++) {
        vectors[i] = (struct iovec){in + (size_t)i * CALL_MAX, CALL_MAX};
        messages[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
                                              .msg_namelen = sizeof(from[i]),
                                              .msg_iov = &vectors[i],
                                              .msg_iovlen = 1};
    }
    n = recvmmsg(fd, messages, DATAGRAMS, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++) {
        uint8_t *reply = out + (size_t)i * CALL_MAX;
        size_t len = messages[i].msg_len;
        vectors[i] =
            (struct iovec){reply, len < CALL_HEAD ? 0 : answer(vectors[i].iov_base, len, reply)};
    }
    if (n > 0)
        sendmmsg(fd, messages, (unsigned)n, 0);
}

static void accept_one(int listener, int epoll_fd)
{
    struct conn *c = malloc(sizeof(*c));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    int on = 1;

    if (!c)
        return;
    c->len = 0;
    c->fd = accept(listener, NULL, NULL);
    if (c->fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event) < 0) {
        free(c);
        return;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void raise_file_limit(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int bound(int kind, uint16_t port)
{
    struct sockaddr_in addr = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    int on = 1;
    int size = 4 << 20;
    int fd = socket(AF_INET, kind, 0);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (kind == SOCK_DGRAM)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        perror("nothing");
        exit(EXIT_FAILURE);
    }
    return fd;
}

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Looks for input for look_us before it sleeps. */
static int wait_for_input(int epoll_fd, struct epoll_event *events, uint64_t look_us)
{
    uint64_t began_us = look_us > 0 ? now_us() : 0;
    int n = 0;

    while (look_us > 0 && n == 0 && now_us() - began_us < look_us)
        n = epoll_wait(epoll_fd, events, EVENTS, 0);
    return n != 0 ? n : epoll_wait(epoll_fd, events, EVENTS, -1);
}

int main(int argc, char **argv)
{
    static struct conn listener;
    static struct conn datagrams;
    struct epoll_event event = {.events = EPOLLIN};
    struct epoll_event events[EVENTS];
    int epoll_fd = epoll_create1(0);

    uint64_t look_us = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: nothing PORT [MICROSECONDS]\n");
        return 2;
    }
    raise_file_limit();
    listener.fd = bound(SOCK_STREAM, (uint16_t)atoi(argv[1]));
    datagrams.fd = bound(SOCK_DGRAM, (uint16_t)atoi(argv[1]));
    listen(listener.fd, 4096);
    event.data.ptr = &listener;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener.fd, &event);
    event.data.ptr = &datagrams;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, datagrams.fd, &event);
    for (;;) {
        int n = wait_for_input(epoll_fd, events, look_us);

        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (c == &listener) {
                accept_one(listener.fd, epoll_fd);
            } else if (c == &datagrams) {
                serve_datagrams(datagrams.fd);
            } else if (!serve_stream(c)) {
                close(c->fd);
                free(c);
            }
        }
    }
}
