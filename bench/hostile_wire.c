#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "hostile.h"
#include "put.h"

enum {
    REQUEST_MAX = 512,
    MARK = 4,
    REPLY_HEAD = 24, /* xid, REPLY, accepted, verifier, status */
    PORT_LOW = 520,
    PORT_HIGH = 1023,
    WAIT_S = 120,
};

uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void die(const char *what)
{
    fprintf(stderr, "hostile: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static struct sockaddr_in address(const char *host, unsigned port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    if (inet_pton(AF_INET, host, &addr.sin_addr) != 1)
        die(host);
    return addr;
}

static void bind_reserved(int fd, const char *from)
{
    static unsigned port = PORT_HIGH;

    for (unsigned tries = 0; tries <= PORT_HIGH - PORT_LOW; tries++) {
        struct sockaddr_in addr = address(from, port);

        port = port > PORT_LOW ? port - 1 : PORT_HIGH;
        if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
            return;
    }
    die("bind");
}

int connect_from(const char *from, const char *to, bool udp)
{
    struct sockaddr_in addr = address(to, target.port);
    int fd = socket(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, 0);
    int on = 1;

    if (fd < 0)
        die("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    bind_reserved(fd, from);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

struct peer *peer_new(const char *from, const char *to, bool udp, const char *name)
{
    struct timeval wait = {.tv_sec = WAIT_S};
    int fd = connect_from(from, to, udp);
    struct peer *p;
    int on = 1;

    if (fd < 0)
        return NULL;
    p = calloc(1, sizeof(*p));
    if (!p)
        die("calloc");
    p->fd = fd;
    p->udp = udp;
    p->name = name;
    p->xid = (uint32_t)now_ns();
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    if (!udp)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return p;
}

struct peer *peer_new_from_any_port(const char *to, const char *name)
{
    struct sockaddr_in addr = address(to, target.port);
    struct timeval wait = {.tv_sec = 1};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct peer *p;

    if (fd < 0)
        die("socket");
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        close(fd);
        return NULL;
    }
    p = calloc(1, sizeof(*p));
    if (!p)
        die("calloc");
    p->fd = fd;
    p->name = name;
    return p;
}

void peer_del(struct peer *p)
{
    close(p->fd);
    free(p);
}

bool peer_has_room(const struct peer *p)
{
    return p->out_len + REQUEST_MAX <= sizeof(p->out);
}

/* ---- requests ---- */

static uint8_t *put_owner(uint8_t *p, const struct peer *peer, const struct request *r)
{
    uint8_t fh[32] = "hostile";
    char oh[16] = "owner";

    memcpy(fh + 28, &r->file, sizeof(r->file));
    memcpy(oh + 12, &r->owner, sizeof(r->owner));
    p = put_opaque(p, r->name ? r->name : peer->name,
                   (uint32_t)strlen(r->name ? r->name : peer->name));
    p = put_opaque(p, fh, sizeof(fh));
    return put_opaque(p, oh, sizeof(oh));
}

static uint8_t *put_lock(uint8_t *p, const struct peer *peer, const struct request *r)
{
    p = put_owner(p, peer, r);
    p = put32(p, r->owner);
    p = put64(p, r->offset);
    return put64(p, r->length);
}

static uint8_t *put_args(uint8_t *p, const struct peer *peer, const struct request *r)
{
    if (r->proc == PROC_FREE_ALL) {
        p = put_opaque(p, peer->name, (uint32_t)strlen(peer->name));
        return put32(p, 0);
    }
    p = put_opaque(p, &peer->xid, sizeof(peer->xid));
    if (r->proc == PROC_SHARE || r->proc == PROC_UNSHARE) {
        p = put_owner(p, peer, r);
        p = put32(p, 0);    /* deny none */
        p = put32(p, 1);    /* access read */
        return put32(p, 0); /* reclaim */
    }
    if (r->proc == PROC_LOCK || r->proc == PROC_CANCEL)
        p = put32(p, r->block);
    if (r->proc != PROC_UNLOCK)
        p = put32(p, r->exclusive);
    p = put_lock(p, peer, r);
    if (r->proc == PROC_LOCK) {
        p = put32(p, r->reclaim);
        p = put32(p, 1); /* state */
    }
    return p;
}

void peer_put(struct peer *peer, const struct request *r)
{
    uint8_t *begin = peer->out + peer->out_len;
    uint32_t prog = r->prog ? r->prog : NLM;
    uint8_t *p = put_head(begin + MARK, ++peer->xid, prog, prog == NLM ? 4 : 1, r->proc);

    if (prog == NLM)
        p = put_args(p, peer, r);
    put32(begin, 0x80000000U | (uint32_t)(p - begin - MARK));
    peer->out_len = (size_t)(p - peer->out);
    peer->pending++;
}

void peer_flush(struct peer *p)
{
    if (p->udp) {
        (void)!send(p->fd, p->out + MARK, p->out_len - MARK, MSG_DONTWAIT);
        p->pending = 0;
    }
    for (size_t sent = 0; !p->udp && sent < p->out_len;) {
        ssize_t n = send(p->fd, p->out + sent, p->out_len - sent, MSG_NOSIGNAL);

        if (n <= 0)
            die("send");
        sent += (size_t)n;
    }
    p->out_len = 0;
}

bool peer_try_flush(struct peer *p)
{
    size_t sent = 0;
    struct timeval wait = {.tv_usec = 100000};

    setsockopt(p->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    while (!p->broken && sent < p->out_len) {
        ssize_t n = send(p->fd, p->out + sent, p->out_len - sent, MSG_NOSIGNAL);

        p->broken = n <= 0;
        sent += n > 0 ? (size_t)n : 0;
    }
    p->out_len = 0;
    return !p->broken;
}

/* ---- answers ---- */

static unsigned status_of(const uint8_t *reply, size_t len)
{
    uint32_t stat;

    if (len < REPLY_HEAD + 12 || get32(reply + 20) != 0 || get32(reply + REPLY_HEAD) != 4)
        return STATS;
    stat = get32(reply + REPLY_HEAD + 8);
    return stat < STATS ? stat : STATS;
}

static unsigned take_answers(struct peer *p)
{
    unsigned stat = STATS;
    size_t at = 0;

    while (p->in_len - at >= MARK) {
        size_t len = get32(p->in + at) & 0x7fffffffU;

        if (len > sizeof(p->in) - MARK)
            die("an answer is too long");
        if (p->in_len - at < MARK + len)
            break;
        stat = status_of(p->in + at + MARK, len);
        p->answers[stat]++;
        p->pending--;
        at += MARK + len;
    }
    memmove(p->in, p->in + at, p->in_len - at);
    p->in_len -= at;
    return stat;
}

static unsigned drain(struct peer *p)
{
    unsigned stat = STATS;

    while (p->pending > 0) {
        ssize_t n = recv(p->fd, p->in + p->in_len, sizeof(p->in) - p->in_len, 0);

        if (n <= 0)
            die("recv");
        p->in_len += (size_t)n;
        stat = take_answers(p);
    }
    return stat;
}

void peer_drain(struct peer *p)
{
    drain(p);
}

void peer_discard(struct peer *p)
{
    ssize_t n;

    while ((n = recv(p->fd, p->in, sizeof(p->in), MSG_DONTWAIT)) > 0)
        p->accepted = true;
    p->broken |= n == 0 || errno != EAGAIN;
    p->accepted |= n == 0 || errno != EAGAIN;
    p->pending = 0;
}

bool peer_has_answer(const struct peer *p)
{
    struct pollfd fd = {.fd = p->fd, .events = POLLIN};

    return poll(&fd, 1, 0) > 0;
}

unsigned peer_ask(struct peer *p, const struct request *request)
{
    peer_put(p, request);
    peer_flush(p);
    return drain(p);
}

int be_silent(const char *host)
{
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
    int fd = -1;

    for (size_t i = 0; i < 2; i++) {
        struct sockaddr_in addr = address(host, 111);

        fd = socket(AF_INET, types[i], 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
            die("bind to port 111");
        if (types[i] == SOCK_STREAM && listen(fd, 1) < 0)
            die("listen");
    }
    return fd;
}
