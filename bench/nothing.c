/*
 * A server that does nothing: it cuts records, and answers every call as if it had succeeded, with
 * the first four bytes of its arguments' cookie. No server of this shape can be faster on this
 * machine; how close another comes says what its work costs.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 256 * 1024, EVENTS = 256, CALL_HEAD = 40, REPLY = 36, REPLY_NULL = 24 };

struct conn {
    int fd;
    size_t len;
    uint8_t in[BUFFER];
};

static uint8_t out[BUFFER * 2];

static size_t answer(const uint8_t *call, size_t len, uint8_t *reply)
{
    uint32_t proc;
    uint32_t head[6] = {0, htonl(1)}; /* xid, REPLY, accepted, no verifier, success */

    memcpy(&proc, call + 20, 4);
    memcpy(head, call, 4);
    memcpy(reply, head, sizeof(head));
    if (proc == 0 || len < CALL_HEAD + 8)
        return REPLY_NULL;
    memcpy(reply + REPLY_NULL, call + CALL_HEAD, 8); /* the cookie: a length of 4, and the bytes */
    memset(reply + REPLY_NULL + 8, 0, 4);            /* GRANTED */
    return REPLY;
}

static bool serve(struct conn *c)
{
    ssize_t n = recv(c->fd, c->in + c->len, sizeof(c->in) - c->len, 0);
    size_t at = 0;
    size_t out_len = 0;

    if (n <= 0)
        return false;
    c->len += (size_t)n;
    while (c->len - at >= 4) {
        uint32_t mark;
        size_t len;
        size_t reply_len;

        memcpy(&mark, c->in + at, 4);
        len = ntohl(mark) & 0x7fffffff;
        if (len > sizeof(c->in) - 4 || len < CALL_HEAD)
            return false;
        if (c->len - at < 4 + len)
            break;
        reply_len = answer(c->in + at + 4, len, out + out_len + 4);
        mark = htonl(0x80000000U | (uint32_t)reply_len);
        memcpy(out + out_len, &mark, 4);
        out_len += 4 + reply_len;
        at += 4 + len;
    }
    memmove(c->in, c->in + at, c->len - at);
    c->len -= at;
    return out_len == 0 || send(c->fd, out, out_len, MSG_NOSIGNAL) == (ssize_t)out_len;
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

int main(int argc, char **argv)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN};
    struct epoll_event events[EVENTS];
    struct rlimit limit;
    int on = 1;
    int epoll_fd = epoll_create1(0);
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    if (argc != 2) {
        fprintf(stderr, "usage: nothing PORT\n");
        return 2;
    }
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    addr.sin_port = htons((uint16_t)atoi(argv[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(listener, 4096) < 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event) < 0) {
        perror("nothing");
        return 1;
    }
    for (;;) {
        int n = epoll_wait(epoll_fd, events, EVENTS, -1);

        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (!c) {
                accept_one(listener, epoll_fd);
            } else if (!serve(c)) {
                close(c->fd);
                free(c);
            }
        }
    }
}
