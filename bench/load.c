/*
 * holdfast-bench: a load of NLM version 4 or NSM version 1 on any server, over TCP or UDP; prints
 * requests per second and latencies, for people or as JSON. Every answer is checked.
 */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"

enum { IN_MAX = 64 * 1024, EVENTS = 256, RESEND_MS = 1000 };

struct slot {
    struct target target;
    unsigned step;
    uint32_t xid;
    uint64_t sent_ns;
};

struct conn {
    int fd;
    struct slot *slots;
    size_t in_len;
    uint8_t *in; /* TCP: an answer that has not come whole yet */
    size_t out_len, out_sent;
    uint8_t *out;
    bool want_out;
};

static struct {
    const char *host;
    const char *fh_hex; /* base of the file handles; NULL: made up */
    uint16_t port;
    bool udp, json;
    unsigned connections, in_flight;
    double seconds, warmup;
    uint64_t held; /* locks held by others throughout */
    uint64_t rate; /* requests a second; 0: as many as go */
    enum mix mix;
} opt = {.host = "127.0.0.1",
         .port = 4045,
         .connections = 8,
         .in_flight = 16,
         .seconds = 3,
         .warmup = 0.5};

static struct conn *conns;
static int epoll_fd;
static struct histogram latencies;
static uint64_t answered;
static bool counting;

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "holdfast-bench: %s: %s\n", what, errno ? strerror(errno) : "wrong answer");
    exit(EXIT_FAILURE);
}

/* ---- targets ---- */

/* Each file handle differs in its last bytes; a given one keeps its first. */
static void make_target(uint32_t id, struct target *t)
{
    memset(t, 0, sizeof(*t));
    t->id = id;
    t->fh_len = 32;
    for (size_t i = 0; opt.fh_hex && opt.fh_hex[2 * i] && i < sizeof(t->fh); i++) {
        unsigned byte;
        if (sscanf(opt.fh_hex + 2 * i, "%2x", &byte) != 1)
            break;
        t->fh[i] = (uint8_t)byte;
        t->fh_len = (uint32_t)i + 1;
    }
    /* What an earlier run left locked must not be in the way. */
    if (opt.fh_hex) {
        t->offset = ((uint64_t)getpid() << 32 | id) * 100; /* one real file: ranges apart */
    } else {
        pid_t pid = getpid();
        memcpy(t->fh + 24, &id, sizeof(id));
        memcpy(t->fh + 28, &pid, sizeof(pid));
    }
}

/* ---- sending ---- */

static void watch(struct conn *c, bool out)
{
    struct epoll_event event = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = c};

    if (c->want_out == out)
        return;
    c->want_out = out;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event) < 0)
        die("epoll_ctl");
}

static void flush(struct conn *c)
{
    while (c->out_sent < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            die("send");
        c->out_sent += (size_t)n;
    }
    if (c->out_sent == c->out_len)
        c->out_sent = c->out_len = 0;
    watch(c, c->out_len > 0);
}

static void post(struct conn *c, const uint8_t *request, size_t len)
{
    if (opt.udp) {
        if (send(c->fd, request + MARK, len - MARK, MSG_NOSIGNAL) < 0 && errno != EAGAIN &&
            errno != ENOBUFS)
            die("send");
        return;
    }
    memcpy(c->out + c->out_len, request, len);
    c->out_len += len;
}

static void post_step(struct conn *c, struct slot *s, uint64_t now)
{
    uint8_t request[REQUEST_MAX];

    s->sent_ns = now;
    post(c, request, request_build(opt.mix, s->step, s->xid, &s->target, request));
}

/* ---- receiving ---- */

static void take_reply(struct conn *c, const uint8_t *reply, size_t len, uint64_t now)
{
    uint32_t xid;
    struct slot *s;

    memcpy(&xid, reply, 4);
    xid = ntohl(xid);
    s = &c->slots[xid % opt.in_flight];
    if (s->xid != xid) {
        if (opt.udp)
            return; /* the answer to a repeat */
        errno = 0;
        die("answer to a request nobody made");
    }
    if (!reply_check(opt.mix, s->step, xid, reply, len)) {
        errno = 0;
        die(mix_name(opt.mix));
    }
    if (counting) {
        histogram_add(&latencies, now - s->sent_ns);
        answered++;
    }
    s->step = (s->step + 1) % mix_steps(opt.mix);
    s->xid += opt.in_flight;
    if (opt.rate)
        s->sent_ns = 0; /* idle: the pacer sends the next */
    else
        post_step(c, s, now);
}

static void read_tcp(struct conn *c)
{
    ssize_t n = recv(c->fd, c->in + c->in_len, IN_MAX - c->in_len, 0);
    uint64_t now = now_ns();
    size_t at = 0;

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        die("the server closed the connection");
    c->in_len += (size_t)n;
    while (c->in_len - at >= MARK) {
        uint32_t mark;
        size_t len;

        memcpy(&mark, c->in + at, 4);
        len = ntohl(mark) & 0x7fffffff;
        if (c->in_len - at < MARK + len)
            break;
        take_reply(c, c->in + at + MARK, len, now);
        at += MARK + len;
    }
    memmove(c->in, c->in + at, c->in_len - at);
    c->in_len -= at;
    flush(c);
}

static void read_udp(struct conn *c)
{
    uint8_t reply[2048];
    ssize_t n;

    while ((n = recv(c->fd, reply, sizeof(reply), MSG_DONTWAIT)) > 0)
        take_reply(c, reply, (size_t)n, now_ns());
}

/* UDP loses; a request unanswered for a second is sent again. */
static void resend_lost(uint64_t now)
{
    for (unsigned i = 0; i < opt.connections; i++) {
        for (unsigned k = 0; k < opt.in_flight; k++) {
            struct slot *s = &conns[i].slots[k];
            if (s->sent_ns && now - s->sent_ns > RESEND_MS * 1000000ULL)
                post_step(&conns[i], s, now);
        }
    }
}

/* Sends as many requests as are due at the given rate, on slots that are free. */
static void pace(uint64_t start, uint64_t now, uint64_t *sent)
{
    static unsigned next;
    uint64_t due = (uint64_t)((double)(now - start) * (double)opt.rate / 1e9);
    unsigned slots = opt.connections * opt.in_flight;

    for (unsigned tried = 0; *sent < due && tried < slots; tried++) {
        struct conn *c = &conns[next % opt.connections];
        struct slot *s = &c->slots[next / opt.connections % opt.in_flight];

        next = (next + 1) % slots;
        if (s->sent_ns)
            continue;
        post_step(c, s, now);
        flush(c);
        ++*sent;
    }
}

/* ---- setting up ---- */

static int connect_to_server(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(opt.port)};
    int on = 1;
    int fd = socket(AF_INET, opt.udp ? SOCK_DGRAM : SOCK_STREAM, 0);

    if (fd < 0 || inet_pton(AF_INET, opt.host, &addr.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        die("connect");
    if (!opt.udp)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

/* One LOCK after the other on a connection of its own, many in flight, until all are held. */
static void hold(uint64_t first, uint64_t count)
{
    enum { WINDOW = 512 };
    static uint8_t buffer[WINDOW * REQUEST_MAX];
    int fd = connect_to_server();

    for (uint64_t done = 0; done < count;) {
        uint64_t n = count - done < WINDOW ? count - done : WINDOW;
        size_t len = 0;

        for (uint64_t i = 0; i < n; i++) {
            struct target t;
            make_target((uint32_t)(first + done + i), &t);
            len += request_hold((uint32_t)(done + i), &t, buffer + len);
        }
        if (send(fd, buffer, len, MSG_NOSIGNAL) != (ssize_t)len)
            die("send");
        for (uint64_t i = 0; i < n; i++) {
            uint8_t reply[256];
            uint32_t mark;
            size_t reply_len;

            if (recv(fd, &mark, 4, MSG_WAITALL) != 4)
                die("recv");
            reply_len = ntohl(mark) & 0x7fffffff;
            if (reply_len > sizeof(reply) ||
                recv(fd, reply, reply_len, MSG_WAITALL) != (ssize_t)reply_len)
                die("recv");
            memcpy(&mark, reply, 4);
            errno = 0;
            if (!reply_is_granted(ntohl(mark), reply, reply_len))
                die("a lock to be held was not granted");
        }
        done += n;
    }
    close(fd);
}

static void open_connections(void)
{
    conns = calloc(opt.connections, sizeof(*conns));
    for (unsigned i = 0; i < opt.connections; i++) {
        struct conn *c = &conns[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};

        c->fd = connect_to_server();
        c->slots = calloc(opt.in_flight, sizeof(*c->slots));
        c->in = malloc(IN_MAX);
        c->out = malloc((size_t)opt.in_flight * REQUEST_MAX);
        for (unsigned k = 0; k < opt.in_flight; k++) {
            c->slots[k].xid = k + opt.in_flight;
            make_target(1 + i * opt.in_flight + k, &c->slots[k].target);
        }
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event) < 0)
            die("epoll_ctl");
    }
}

/* ---- running ---- */

static void run_until(uint64_t end)
{
    static uint64_t pace_start, sent;
    struct epoll_event events[EVENTS];
    uint64_t now;

    if (opt.rate && !pace_start)
        pace_start = now_ns();
    while ((now = now_ns()) < end) {
        int n;

        if (opt.rate)
            pace(pace_start, now, &sent);
        n = epoll_wait(epoll_fd, events, EVENTS, opt.rate ? 0 : 100);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT)
                flush(c);
            if (!(events[i].events & EPOLLIN))
                continue;
            if (opt.udp)
                read_udp(c);
            else
                read_tcp(c);
        }
        if (opt.udp && n == 0)
            resend_lost(now);
    }
}

static void report(double seconds)
{
    double rate = (double)answered / seconds;
    double p50 = (double)histogram_quantile(&latencies, 0.5) / 1000;
    double p99 = (double)histogram_quantile(&latencies, 0.99) / 1000;
    double p999 = (double)histogram_quantile(&latencies, 0.999) / 1000;

    if (opt.json)
        printf("{\"mix\":\"%s\",\"transport\":\"%s\",\"connections\":%u,\"in_flight\":%u,"
               "\"requests\":%" PRIu64 ",\"per_second\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
               "\"p999_us\":%.1f}\n",
               mix_name(opt.mix), opt.udp ? "udp" : "tcp", opt.connections, opt.in_flight, answered,
               rate, p50, p99, p999);
    else
        printf("%-7s %s %5u x %-4u %10.0f/s   p50 %8.1f us   p99 %8.1f us   p99.9 %8.1f us\n",
               mix_name(opt.mix), opt.udp ? "udp" : "tcp", opt.connections, opt.in_flight, rate,
               p50, p99, p999);
}

static void print_help(void)
{
    puts("Usage: holdfast-bench [OPTION]...\n"
         "Loads an NLM or NSM server and checks every answer.\n\n"
         "  --host ADDRESS     IPv4 address of the server (127.0.0.1)\n"
         "  --port N           its port (4045)\n"
         "  --udp              over UDP instead of TCP\n"
         "  --mix NAME         lock, test, denied, mon or null (lock)\n"
         "  --connections N    (8)\n"
         "  --in-flight N      requests in flight on each (16)\n"
         "  --seconds N        how long to measure (3)\n"
         "  --warmup N         seconds before that which do not count (0.5)\n"
         "  --rate N           requests a second; 0: as many as go (0)\n"
         "  --held N           locks that another owner holds throughout (0)\n"
         "  --fh HEX           lock ranges of this file, instead of files that are made up\n"
         "  --json             one line of JSON");
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"host", 1, NULL, 'h'},        {"port", 1, NULL, 'p'},
        {"udp", 0, NULL, 'u'},         {"mix", 1, NULL, 'm'},
        {"connections", 1, NULL, 'c'}, {"in-flight", 1, NULL, 'i'},
        {"seconds", 1, NULL, 's'},     {"warmup", 1, NULL, 'w'},
        {"rate", 1, NULL, 'r'},        {"held", 1, NULL, 'H'},
        {"fh", 1, NULL, 'f'},          {"json", 0, NULL, 'j'},
        {"help", 0, NULL, '?'},        {NULL, 0, NULL, 0},
    };
    int o;

    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (o) {
        case 'h':
            opt.host = optarg;
            break;
        case 'p':
            opt.port = (uint16_t)atoi(optarg);
            break;
        case 'u':
            opt.udp = true;
            break;
        case 'm':
            if (!mix_parse(optarg, &opt.mix)) {
                fprintf(stderr, "holdfast-bench: no mix '%s'\n", optarg);
                exit(2);
            }
            break;
        case 'c':
            opt.connections = (unsigned)atoi(optarg);
            break;
        case 'i':
            opt.in_flight = (unsigned)atoi(optarg);
            break;
        case 's':
            opt.seconds = atof(optarg);
            break;
        case 'w':
            opt.warmup = atof(optarg);
            break;
        case 'r':
            opt.rate = strtoull(optarg, NULL, 10);
            break;
        case 'H':
            opt.held = strtoull(optarg, NULL, 10);
            break;
        case 'f':
            opt.fh_hex = optarg;
            break;
        case 'j':
            opt.json = true;
            break;
        default:
            print_help();
            exit(2);
        }
    }
    if (opt.connections == 0 || opt.in_flight == 0 || optind < argc) {
        print_help();
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    uint64_t start;

    parse(argc, argv);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    epoll_fd = epoll_create1(0);
    if (opt.mix == MIX_DENIED)
        hold(1, (uint64_t)opt.connections * opt.in_flight);
    if (opt.held)
        hold(0x10000000, opt.held);
    open_connections();
    start = now_ns();
    for (unsigned i = 0; i < opt.connections && !opt.rate; i++) {
        for (unsigned k = 0; k < opt.in_flight; k++)
            post_step(&conns[i], &conns[i].slots[k], start);
        if (!opt.udp)
            flush(&conns[i]);
    }
    run_until(start + (uint64_t)(opt.warmup * 1e9));
    counting = true;
    start = now_ns();
    run_until(start + (uint64_t)(opt.seconds * 1e9));
    report((double)(now_ns() - start) / 1e9);
    return 0;
}
