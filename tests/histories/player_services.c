/* What the server asks of the host: its rpcbind, its status monitor, its lock manager; see
 * player.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "player.h"
#include "put.h"

enum {
    MESSAGE_MAX = 1024,
    MARK = 4,
    RPCBIND_PORT = 111,
    CALL_HEAD = 24, /* bytes of a call before the credentials */
    SOCKETS_MAX = 64,
    LISTENING = 4, /* four sockets: rpcbind and service, each over UDP and TCP */
};

/* The place in a call where reading goes on, and how much is left. */
struct cursor {
    const uint8_t *p;
    size_t left;
    bool bad;
};

static uint32_t take32(struct cursor *c)
{
    uint32_t v;

    if (c->left < 4) {
        c->bad = true;
        return 0;
    }
    v = get32(c->p);
    c->p += 4;
    c->left -= 4;
    return v;
}

static const uint8_t *take_opaque(struct cursor *c, uint32_t *len)
{
    const uint8_t *data;
    size_t padded;

    *len = take32(c);
    padded = ((size_t)*len + 3) / 4 * 4;
    if (c->bad || c->left < padded) {
        c->bad = true;
        *len = 0;
        return c->p;
    }
    data = c->p;
    c->p += padded;
    c->left -= padded;
    return data;
}

/* ---- programs ---- */

static uint64_t dice; /* of this thread */

/* Answers GETPORT (version 2) and GETADDR (3 and 4): every program is at the same port, over both
 * transports. */
static uint8_t *answer_rpcbind(uint8_t *p, uint32_t version)
{
    char address[32];
    int len =
        snprintf(address, sizeof(address), "0.0.0.0.%d.%d", SERVICE_PORT >> 8, SERVICE_PORT & 255);

    return version == 2 ? put32(p, SERVICE_PORT) : put_opaque(p, address, (uint32_t)len);
}

enum { MOST_LATE_NS = 20000000 };

static unsigned accepted; /* the grant that the reply of the last serve() accepts; 0: none */

static void reply_sent(void)
{
    if (accepted)
        log_answered(accepted);
}

/* Answers a GRANTED call; NULL: the answer is lost. */
static uint8_t *answer_granted(struct cursor *c, uint8_t *p)
{
    uint32_t cookie_len, len, svid;
    const uint8_t *cookie = take_opaque(c, &cookie_len), *file;
    struct range range = {.mode = take32(c) ? MODE_EXCLUSIVE : MODE_SHARED};
    uint64_t length;
    unsigned granting = 0;
    bool taken;

    (void)take_opaque(c, &len); /* the caller: us */
    file = take_opaque(c, &len);
    while (range.file < host.n_files && (len != host.handles[range.file].len ||
                                         memcmp(file, host.handles[range.file].bytes, len) != 0))
        range.file++;
    (void)take_opaque(c, &len); /* the owner's handle, which says the same as svid */
    svid = take32(c);
    (void)take32(c);
    range.first = take32(c);
    length = (uint64_t)take32(c) << 32;
    length |= take32(c);
    range.last = length ? range.first + (unsigned)length - 1 : CELLS - 1;
    taken = !c->bad && range.file < host.n_files && range.last < CELLS && svid < host.n_processes;
    if (host.slow_callbacks && random_below(&dice, 4) == 0)
        nanosleep(&(struct timespec){0, (long)random_below(&dice, MOST_LATE_NS)}, NULL);
    if (taken) {
        pthread_mutex_lock(&host.guard);
        taken = process_granted(&host.processes[svid], &range, &granting);
        pthread_mutex_unlock(&host.guard);
    }
    if (taken && host.forgetful && random_below(&dice, 4) == 0)
        return NULL;
    if (taken)
        accepted = granting;
    p = put_opaque(p, cookie, cookie_len);
    return put32(p, taken ? STAT_GRANTED : STAT_DENIED);
}

static uint8_t *answer_notice(struct cursor *c, uint8_t *p)
{
    uint32_t len;
    int32_t state;

    (void)take_opaque(c, &len);
    state = (int32_t)take32(c);
    if (!c->bad) {
        pthread_mutex_lock(&host.guard);
        host_told_of_restart(state);
        pthread_mutex_unlock(&host.guard);
    }
    return p;
}

/* Serves a call and returns the length of the reply; 0: it is no call, or the reply is lost. */
static size_t serve(const uint8_t *call, size_t len, uint8_t reply[MESSAGE_MAX])
{
    struct cursor c = {call + CALL_HEAD, len - CALL_HEAD, false};
    uint32_t program, version, procedure, n;
    uint8_t *p;

    accepted = 0;
    if (len < CALL_HEAD || get32(call + 4) != 0)
        return 0;
    program = get32(call + 12);
    version = get32(call + 16);
    procedure = get32(call + 20);
    for (int i = 0; i < 2; i++) { /* credentials, verifier */
        (void)take32(&c);
        (void)take_opaque(&c, &n);
    }
    p = put32(reply, get32(call));
    p = put32(p, 1); /* the reply: accepted, no verifier, SUCCESS */
    memset(p, 0, 16);
    p += 16;
    if (program == RPCBIND && procedure != 0)
        p = answer_rpcbind(p, version);
    else if (program == NSM && procedure == NSM_STAT)
        p = put32(put32(p, 0), (uint32_t)host.state);
    else if (program == NSM && procedure == NSM_NOTIFY)
        p = answer_notice(&c, p);
    else if (program == NLM && procedure == NLM_GRANTED)
        p = answer_granted(&c, p);
    return p ? (size_t)(p - reply) : 0;
}

/* ---- sockets ---- */

struct stream {
    uint8_t data[MARK + MESSAGE_MAX];
    size_t len;
};

/* The first four listen: UDP, TCP, UDP, TCP; connections follow. */
static struct pollfd sockets[SOCKETS_MAX];
static struct stream streams[SOCKETS_MAX];
static nfds_t n_sockets;

static int open_socket(int type, uint16_t port)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&here, sizeof(here)) < 0 ||
        (type == SOCK_STREAM && listen(fd, SOCKETS_MAX) < 0))
        die("cannot listen");
    return fd;
}

static void answer_datagram(int fd)
{
    uint8_t call[MESSAGE_MAX], reply[MESSAGE_MAX];
    struct sockaddr_storage from;
    socklen_t from_len = sizeof(from);
    ssize_t len =
        recvfrom(fd, call, sizeof(call), MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
    size_t n = len >= CALL_HEAD ? serve(call, (size_t)len, reply) : 0;

    if (n) {
        (void)sendto(fd, reply, n, MSG_DONTWAIT, (struct sockaddr *)&from, from_len);
        reply_sent();
    }
}

static void add_stream(int listening)
{
    int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    if (n_sockets == SOCKETS_MAX) {
        close(fd);
        return;
    }
    streams[n_sockets].len = 0;
    sockets[n_sockets++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

/* Reads what a connection has and answers it; false: the connection has ended. */
static bool answer_stream(int fd, struct stream *s)
{
    uint8_t reply[MARK + MESSAGE_MAX];
    ssize_t got = recv(fd, s->data + s->len, sizeof(s->data) - s->len, MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0)
        return false;
    s->len += (size_t)got;
    while (s->len >= MARK) {
        size_t len = get32(s->data) & 0x7fffffff;
        size_t n;

        if (len < CALL_HEAD || len > MESSAGE_MAX)
            return false;
        if (s->len < MARK + len)
            return true;
        n = serve(s->data + MARK, len, reply + MARK);
        put32(reply, 0x80000000U | (uint32_t)n);
        if (n && send(fd, reply, MARK + n, MSG_NOSIGNAL) != (ssize_t)(MARK + n))
            return false;
        reply_sent();
        s->len -= MARK + len;
        memmove(s->data, s->data + MARK + len, s->len);
    }
    return true;
}

static void *serve_for_ever(void *unused)
{
    (void)unused;
    for (;;) {
        (void)poll(sockets, n_sockets, -1);
        for (nfds_t i = n_sockets; i-- > LISTENING;) {
            if (!sockets[i].revents || answer_stream(sockets[i].fd, &streams[i]))
                continue;
            close(sockets[i].fd);
            sockets[i] = sockets[--n_sockets];
            streams[i] = streams[n_sockets];
        }
        for (nfds_t i = 0; i < LISTENING; i += 2) {
            if (sockets[i].revents)
                answer_datagram(sockets[i].fd);
            if (sockets[i + 1].revents)
                add_stream(sockets[i + 1].fd);
        }
    }
    return NULL;
}

void services_start(void)
{
    pthread_t thread;

    for (int i = 0; i < LISTENING; i++) {
        sockets[i].fd =
            open_socket(i % 2 ? SOCK_STREAM : SOCK_DGRAM, i < 2 ? RPCBIND_PORT : SERVICE_PORT);
        sockets[i].events = POLLIN;
    }
    n_sockets = LISTENING;
    if (pthread_create(&thread, NULL, serve_for_ever, NULL))
        die("thread");
}
