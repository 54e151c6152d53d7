/*
 * holdfast-clients: up to a million hosts, played by one process, each with an address of its own.
 *
 *     holdfast-clients --server 10.0.0.1 --clients 100000 --locks 10
 *
 * Each host has an rpcbind (port 111) and a status monitor (port 32765), over UDP and TCP, and
 * takes as many locks as --locks says, each on a file of its own. It asks for one lock at a time,
 * over UDP, as the clients that it stands for do; a request that is not answered within a second is
 * sent again. A host that is told of the server's restart (SM_NOTIFY) reclaims all its locks, one
 * after the other. With
 * --mortal N each N-th host has its address in 10.32/12 instead of 10.16/12, which the caller may
 * cut off.
 *
 * On standard input: "lock" takes the locks of all hosts; "restart N" begins a new count, and N
 * hosts are expected to be told; "?" asks for the counts. It prints one line of JSON each time the
 * locks are held, all hosts are told, all locks are reclaimed, and for each "?". Times in it are
 * those of the monotonic clock, in seconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "put.h"

enum {
    RPCBIND_PORT = 111,
    STATUS_PORT = 32765,
    CLIENT_PORT = 700,
    RPCBIND = 100000,
    NSM = 100024,
    NLM = 100021,
    GETPORT = 3,
    NOTIFY = 6,
    LOCK = 2,
    CALL_BYTES = 40, /* header of a call with empty credentials */
    MESSAGE_MAX = 1024,
    EVENTS = 256,
    DATAGRAMS = 64,
    WINDOW = 1000, /* how many hosts take their locks at the same time */
    RESEND_NS = 1000000000,
    LISTEN_BACKLOG = 16384,
    ALIVE = 0x0a100000,  /* 10.16.0.0 */
    MORTAL = 0x0a200000, /* 10.32.0.0 */
    HOSTS_MAX = 1 << 20,
};

struct host {
    TAILQ_ENTRY(host) entry; /* the host's place in `waiting`, in the order of sent_ns */
    uint64_t sent_ns;
    uint32_t done; /* how many locks of the host were answered */
    bool busy, told;
};

static struct {
    struct sockaddr_in server;
    uint32_t hosts, mortal, locks;
} opt = {.server = {.sin_family = AF_INET}, .hosts = 10, .locks = 10};

static struct host *hosts;
static TAILQ_HEAD(, host) waiting = TAILQ_HEAD_INITIALIZER(waiting);
static int client_fd, epoll_fd;
static bool reclaiming;
static uint32_t life;     /* how often the server has restarted; part of each xid */
static uint32_t expected; /* how many hosts can be told of the restart, and then reclaim */
static uint32_t begun, ended, told, granted, refused, resent, lookups, notices;
static uint64_t began_ns;

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "holdfast-clients: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static void say(const char *what)
{
    printf("{\"what\":\"%s\",\"at\":%.6f,\"began\":%.6f,\"ended\":%u,\"told\":%u,\"granted\":%u,"
           "\"refused\":%u,\"resent\":%u,\"lookups\":%u,\"notices\":%u}\n",
           what, (double)now_ns() / 1e9, (double)began_ns / 1e9, ended, told, granted, refused,
           resent, lookups, notices);
    fflush(stdout);
}

/* ---- the hosts' addresses ---- */

static uint32_t address_of(uint32_t number)
{
    bool mortal = opt.mortal && number % opt.mortal == opt.mortal - 1;

    return (mortal ? MORTAL : ALIVE) + number;
}

static struct host *host_at(struct in_addr addr)
{
    uint32_t a = ntohl(addr.s_addr);
    uint32_t number = a - (a >= MORTAL ? MORTAL : ALIVE);

    return number < opt.hosts && address_of(number) == a ? &hosts[number] : NULL;
}

/* ---- locks ---- */

static uint8_t *put_lock(uint8_t *p, uint32_t number, uint32_t lock)
{
    char name[16];
    char oh[16] = "owner";
    uint8_t fh[32] = "file";

    memcpy(oh + 8, &number, 4);
    memcpy(fh + 16, &number, 4);
    memcpy(fh + 24, &lock, 4);
    p = put_opaque(p, name, (uint32_t)snprintf(name, sizeof(name), "client%u", number));
    p = put_opaque(p, fh, sizeof(fh));
    p = put_opaque(p, oh, sizeof(oh));
    p = put32(p, 1); /* svid */
    p = put64(p, 0);
    return put64(p, 0);
}

/* The numbers of the restart and of the lock distinguish an answer from one to an earlier request
 * of the host. */
static uint32_t xid_of(const struct host *h)
{
    return life << 24 | (h->done & 0xffffff);
}

static void send_from(int fd, uint32_t from, const void *data, size_t len,
                      const struct sockaddr_in *to)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct in_pktinfo))] = {0};
    struct iovec iov = {(void *)(uintptr_t)data, len};
    struct msghdr msg = {(void *)(uintptr_t)to, sizeof(*to), &iov, 1, control, sizeof(control), 0};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    struct in_pktinfo info = {.ipi_spec_dst.s_addr = htonl(from)};

    c->cmsg_level = IPPROTO_IP;
    c->cmsg_type = IP_PKTINFO;
    c->cmsg_len = CMSG_LEN(sizeof(info));
    memcpy(CMSG_DATA(c), &info, sizeof(info));
    (void)sendmsg(fd, &msg, MSG_DONTWAIT); /* a request that is lost is sent again */
}

static void ask(struct host *h, uint64_t now)
{
    uint32_t number = (uint32_t)(h - hosts);
    uint8_t message[MESSAGE_MAX];
    uint8_t *p = put_head(message, xid_of(h), NLM, 4, LOCK);

    p = put_opaque(p, "c", 1);
    p = put32(p, 0); /* block */
    p = put32(p, 1); /* exclusive */
    p = put_lock(p, number, h->done);
    p = put32(p, reclaiming);
    p = put32(p, 3); /* state */
    send_from(client_fd, address_of(number), message, (size_t)(p - message), &opt.server);
    if (h->busy)
        TAILQ_REMOVE(&waiting, h, entry);
    h->busy = true;
    h->sent_ns = now;
    TAILQ_INSERT_TAIL(&waiting, h, entry);
}

static void begin(struct host *h, uint64_t now)
{
    begun++;
    h->done = 0;
    ask(h, now);
}

static void begin_more(uint64_t now)
{
    while (!reclaiming && begun < opt.hosts && begun - ended < WINDOW)
        begin(&hosts[begun], now);
}

static void take_answer(struct host *h, const uint8_t *reply, size_t len)
{
    uint64_t now = now_ns();

    /* the reply's header, a cookie of one byte, the status */
    if (!h || !h->busy || len < 24 + 8 + 4 || get32(reply) != xid_of(h))
        return;
    if (get32(reply + 32) == 0)
        granted++;
    else
        refused++;
    TAILQ_REMOVE(&waiting, h, entry);
    h->busy = false;
    if (++h->done < opt.locks) {
        ask(h, now);
        return;
    }
    if (++ended == expected)
        say(reclaiming ? "reclaimed" : "locked");
    begin_more(now);
}

static void resend_lost(uint64_t now)
{
    struct host *h;

    while ((h = TAILQ_FIRST(&waiting)) && now - h->sent_ns > RESEND_NS) {
        resent++;
        ask(h, now);
    }
}

/* ---- what the server asks a host ---- */

static void hear_notice(struct host *h)
{
    notices++;
    if (h->told)
        return;
    h->told = true;
    if (++told == expected)
        say("told");
    if (reclaiming && opt.locks > 0)
        begin(h, now_ns());
}

/* Makes the reply to a call, in the same buffer, and returns its length; 0: no reply. */
static size_t answer(uint8_t *m, size_t len, struct in_addr local)
{
    struct host *h = host_at(local);
    bool is_lookup;

    if (len < CALL_BYTES || !h)
        return 0;
    is_lookup = get32(m + 12) == RPCBIND && get32(m + 20) == GETPORT;
    if (is_lookup)
        lookups++;
    else if (get32(m + 12) == NSM && get32(m + 20) == NOTIFY)
        hear_notice(h);
    put32(m + 4, 1);      /* REPLY */
    memset(m + 8, 0, 16); /* the reply: accepted, no verifier, SUCCESS */
    /* The port of the status monitor; its own callers ignore this field. */
    put32(m + 24, STATUS_PORT);
    return is_lookup ? 28 : 24;
}

/* Reads and answers datagrams until none is left. */
static void serve_udp(int fd)
{
    static uint8_t in[DATAGRAMS][MESSAGE_MAX];
    static _Alignas(struct cmsghdr)
        uint8_t control[DATAGRAMS][CMSG_SPACE(sizeof(struct in_pktinfo))];
    struct mmsghdr messages[DATAGRAMS];
    struct iovec iov[DATAGRAMS];
    struct sockaddr_in peers[DATAGRAMS];
    int n;

    do {
        for (unsigned i = 0; i < DATAGRAMS; i++) {
            iov[i] = (struct iovec){in[i], MESSAGE_MAX};
            messages[i].msg_hdr = (struct msghdr){&peers[i],  sizeof(peers[i]),   &iov[i], 1,
                                                  control[i], sizeof(control[i]), 0};
        }
        n = recvmmsg(fd, messages, DATAGRAMS, MSG_DONTWAIT, NULL);
        for (int i = 0; i < n; i++) {
            struct cmsghdr *c = CMSG_FIRSTHDR(&messages[i].msg_hdr);
            struct in_pktinfo info;
            size_t len;

            if (!c)
                continue;
            memcpy(&info, CMSG_DATA(c), sizeof(info));
            if (fd == client_fd) {
                take_answer(host_at(info.ipi_addr), in[i], messages[i].msg_len);
                continue;
            }
            len = answer(in[i], messages[i].msg_len, info.ipi_addr);
            if (len > 0)
                send_from(fd, ntohl(info.ipi_addr.s_addr), in[i], len, &peers[i]);
        }
    } while (n == DATAGRAMS);
}

/* Answers a call on a connection; a call is so small that it comes in one piece. */
static void serve_tcp(int fd)
{
    uint8_t record[4 + MESSAGE_MAX];
    struct sockaddr_in local;
    socklen_t local_len = sizeof(local);
    ssize_t n = read(fd, record, sizeof(record));
    size_t len;

    if (n <= 4 || getsockname(fd, (struct sockaddr *)&local, &local_len) < 0) {
        if (n >= 0 || errno != EAGAIN)
            close(fd);
        return;
    }
    len = answer(record + 4, (size_t)n - 4, local.sin_addr);
    put32(record, 0x80000000U | (uint32_t)len);
    if (len > 0 && write(fd, record, 4 + len) < 0)
        close(fd);
}

/* ---- the process ---- */

static void watch(int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        die("epoll_ctl");
}

static int open_socket(int type, uint16_t port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, type | SOCK_NONBLOCK, 0);
    int on = 1;
    int size = 16 << 20;

    if (fd < 0)
        die("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
    if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        die("bind");
    if (type == SOCK_STREAM && listen(fd, LISTEN_BACKLOG) < 0)
        die("listen");
    watch(fd);
    return fd;
}

static void start_counting(bool reclaim, uint32_t hosts_expected)
{
    struct host *h;

    while ((h = TAILQ_FIRST(&waiting))) {
        TAILQ_REMOVE(&waiting, h, entry);
        h->busy = false;
    }
    for (uint32_t i = 0; i < opt.hosts; i++)
        hosts[i].told = false;
    begun = ended = told = granted = refused = resent = lookups = notices = 0;
    reclaiming = reclaim;
    expected = hosts_expected;
    life++;
    began_ns = now_ns();
}

static void obey(void)
{
    char line[64];
    unsigned n_hosts;
    ssize_t n = read(STDIN_FILENO, line, sizeof(line) - 1);

    if (n <= 0)
        exit(EXIT_SUCCESS);
    line[n] = '\0';
    if (strcmp(line, "lock\n") == 0) {
        start_counting(false, opt.hosts);
        begin_more(began_ns);
    } else if (sscanf(line, "restart %u", &n_hosts) == 1) {
        start_counting(true, n_hosts);
        say("restart");
    } else {
        say("counts");
    }
}

static uint32_t number(const char *text, uint32_t max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (!*text || *end || value > max) {
        fprintf(stderr, "holdfast-clients: not a number, or too large: %s\n", text);
        exit(2);
    }
    return (uint32_t)value;
}

static void parse(int argc, char **argv)
{
    static const struct option OPTIONS[] = {{"server", 1, NULL, 's'},  {"port", 1, NULL, 'p'},
                                            {"clients", 1, NULL, 'c'}, {"mortal", 1, NULL, 'm'},
                                            {"locks", 1, NULL, 'l'},   {NULL, 0, NULL, 0}};
    int o;

    opt.server.sin_port = htons(4045);
    inet_pton(AF_INET, "10.0.0.1", &opt.server.sin_addr);
    while ((o = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        if (o == 's' && inet_pton(AF_INET, optarg, &opt.server.sin_addr) == 1)
            continue;
        if (o == 'p')
            opt.server.sin_port = htons((uint16_t)number(optarg, UINT16_MAX));
        else if (o == 'c')
            opt.hosts = number(optarg, HOSTS_MAX);
        else if (o == 'm')
            opt.mortal = number(optarg, HOSTS_MAX);
        else if (o == 'l')
            opt.locks = number(optarg, 0xffffff);
        else
            exit(2);
    }
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS];
    struct rlimit limit;
    int udp[2], tcp[2];

    parse(argc, argv);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    hosts = calloc(opt.hosts, sizeof(*hosts));
    epoll_fd = epoll_create1(0);
    if (!hosts || epoll_fd < 0)
        die("set-up");
    for (int i = 0; i < 2; i++) {
        udp[i] = open_socket(SOCK_DGRAM, i ? STATUS_PORT : RPCBIND_PORT);
        tcp[i] = open_socket(SOCK_STREAM, i ? STATUS_PORT : RPCBIND_PORT);
    }
    client_fd = open_socket(SOCK_DGRAM, CLIENT_PORT);
    watch(STDIN_FILENO);
    say("ready");
    for (;;) {
        int n = epoll_wait(epoll_fd, events, EVENTS, 100);

        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            int connection;

            if (fd == udp[0] || fd == udp[1] || fd == client_fd)
                serve_udp(fd);
            else if (fd == STDIN_FILENO)
                obey();
            else if (fd != tcp[0] && fd != tcp[1])
                serve_tcp(fd);
            else
                while ((connection = accept4(fd, NULL, NULL, SOCK_NONBLOCK)) >= 0)
                    watch(connection);
        }
        resend_lost(now_ns());
    }
}
