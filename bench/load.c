/*
 * holdfast-bench: a load of NLM version 4 or NSM version 1 on any server, over TCP or UDP; prints
 * requests per second and latencies, for people or as JSON. Every answer is checked.
 */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "histogram.h"

enum { EVENTS = 256, RESEND_MS = 1000, SILENCE_MS = 30000, IDLE_NS = 100 * 1000 * 1000 };

struct slot {
    uint64_t due_ns;  /* when the request was due: its latency counts from then */
    uint64_t sent_ns; /* when the request was sent; 0: none is in flight */
    uint32_t xid;
    uint8_t op, step;
};

static struct conn *conns;
static struct slot *slots; /* in_flight slots for each connection */
static int *idle_fds;
static int epoll_fd;
static struct histogram latencies;
static uint64_t posted, received, resent, answered; /* answered: the answers that count */
static bool counting, finishing;
static uint64_t turn_ns; /* the time at which the loop turned to this connection */
static volatile sig_atomic_t stopped;
static FILE *times; /* latencies, written as they are measured; the buffer is large */

/* ---- one slot ---- */

static struct slot *conn_slots(const struct conn *c)
{
    return slots + c->number * opt.in_flight;
}

/* Returns the operations in turn, each as often as its weight says: the sequence is the same in
 * every run. */
static enum op next_op(void)
{
    static enum op op;
    static uint64_t left;

    while (left == 0) {
        op = (op + 1) % OPS;
        left = opt.weights[op];
    }
    left--;
    return op;
}

static void post(struct conn *c, struct slot *s, uint64_t now)
{
    uint32_t id = 1 + (uint32_t)(s - slots);

    s->sent_ns = now;
    c->out_len += request_build(s->op, s->step, s->xid, id, conn_room(c));
}

static void post_next(struct conn *c, struct slot *s, uint64_t due, uint64_t now)
{
    if ((opt.requests && posted == opt.requests) || (finishing && s->step == 0))
        return;
    posted++;
    s->due_ns = due;
    post(c, s, now);
}

static void note_times(const struct slot *s, uint64_t answered_ns)
{
    uint64_t three[] = {s->due_ns, s->sent_ns, answered_ns};

    if (times && fwrite(three, sizeof(three), 1, times) != 1)
        die(opt.times);
}

static void take_reply(struct conn *c, const uint8_t *reply, size_t len)
{
    uint64_t now = turn_ns;
    uint32_t xid;
    struct slot *s;

    if (len < sizeof(xid))
        wrong("cut short");
    memcpy(&xid, reply, sizeof(xid));
    xid = ntohl(xid);
    s = conn_slots(c) + xid % opt.in_flight;
    if (s->xid != xid || !s->sent_ns) {
        if (opt.udp)
            return; /* this is the answer to a repeated request */
        wrong("to a request that was not sent");
    }
    if (!reply_check(s->op, s->step, xid, reply, len))
        wrong(op_names[s->op]);
    if (counting) {
        histogram_add(&latencies, now > s->due_ns ? now - s->due_ns : 0);
        answered++;
        note_times(s, now);
    }
    received++;
    s->sent_ns = 0;
    s->xid += (uint32_t)opt.in_flight;
    if (++s->step == op_steps(s->op)) {
        s->step = 0;
        s->op = next_op();
    }
    if (!opt.rate || finishing)
        post_next(c, s, now, now);
}

/* ---- requests that no answer causes ---- */

static void post_all(void)
{
    uint64_t now = now_ns();

    for (uint64_t i = 0; i < opt.connections; i++) {
        for (uint64_t k = 0; k < opt.in_flight; k++)
            post_next(&conns[i], conn_slots(&conns[i]) + k, now, now);
        conn_flush(&conns[i]);
    }
}

/* UDP loses packets: a request that is unanswered for a second is sent again, and its latency goes
 * on counting. */
static void resend_lost(uint64_t now)
{
    for (uint64_t i = 0; i < opt.connections; i++) {
        struct conn *c = &conns[i];

        for (uint64_t k = 0; k < opt.in_flight && c->out_len == 0; k++) {
            struct slot *s = conn_slots(c) + k;
            if (s->sent_ns && now - s->sent_ns > RESEND_MS * 1000000ULL) {
                post(c, s, now);
                conn_flush(c);
                resent++;
            }
        }
    }
}

/*
 * Sends as many requests as are due at the given rate, on slots that are free. A request is due at
 * its time whether a slot is free or not, and its latency counts from then: a server that stalls is
 * charged for all requests that were due meanwhile (no coordinated omission). Returns how long it
 * is until the next is due: between them the generator sleeps, and leaves its core to others.
 */
static uint64_t pace(uint64_t start, uint64_t now)
{
    static uint64_t next, sent;
    uint64_t all = opt.connections * opt.in_flight;

    for (uint64_t tried = 0; tried < all; tried++) {
        struct conn *c = &conns[next % opt.connections];
        struct slot *s = conn_slots(c) + next / opt.connections;
        uint64_t due = start + (uint64_t)((double)sent * 1e9 / (double)opt.rate);

        if (due > now)
            return due - now;
        next = (next + 1) % all;
        if (s->sent_ns)
            continue;
        post_next(c, s, due, now);
        conn_flush(c);
        sent++;
    }
    return IDLE_NS; /* all slots are taken: an answer ends the wait */
}

/* ---- setting up ---- */

static void receive_granted(int fd)
{
    uint8_t reply[REPLY_MAX];
    uint32_t mark;
    uint32_t xid;
    size_t len;

    if (recv(fd, &mark, MARK, MSG_WAITALL) != MARK)
        die("recv");
    len = ntohl(mark) & 0x7fffffff;
    if (len < sizeof(xid) || len > sizeof(reply))
        wrong("its length");
    if (recv(fd, reply, len, MSG_WAITALL) != (ssize_t)len)
        die("recv");
    memcpy(&xid, reply, sizeof(xid));
    if (!reply_is_granted(ntohl(xid), reply, len))
        wrong("a lock to be held was not granted");
}

/* Takes locks on a connection of its own, many requests in flight, until all are held. */
static void hold(uint64_t first, uint64_t count)
{
    enum { WINDOW = 512 };
    static uint8_t buffer[WINDOW * REQUEST_MAX];
    int fd = connect_to_server(false);

    for (uint64_t done = 0; done < count;) {
        uint64_t n = count - done < WINDOW ? count - done : WINDOW;
        size_t len = 0;

        for (uint64_t i = done; i < done + n; i++)
            len += request_hold((uint32_t)i, (uint32_t)(first + i), buffer + len);
        if (send(fd, buffer, len, MSG_NOSIGNAL) != (ssize_t)len)
            die("send");
        for (uint64_t i = 0; i < n; i++)
            receive_granted(fd);
        done += n;
    }
    close(fd);
}

static void raise_file_limit(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Makes the first xid: a multiple of the requests in flight, so that an xid leads to its slot. It
 * comes from the clock, which runs faster than xids are used; otherwise a server would take a
 * second run for repeats of the first, and answer from memory. */
static uint32_t first_xid(void)
{
    /* Far below the largest number. */
    uint32_t microseconds = (uint32_t)(now_ns() / 1000) & 0x3fffffff;

    return microseconds - microseconds % (uint32_t)opt.in_flight;
}

/* Opens the file of latencies. All of it stays in memory until the end, so that no write is
 * measured. */
static void open_times(void)
{
    enum { TIMES_MAX = 256 << 20 };

    if (!opt.times)
        return;
    times = fopen(opt.times, "w");
    if (!times || setvbuf(times, NULL, _IOFBF, TIMES_MAX) != 0)
        die(opt.times);
}

static void open_connections(void)
{
    uint32_t xid = first_xid();

    conns = calloc(opt.connections, sizeof(*conns));
    slots = calloc(opt.connections * opt.in_flight, sizeof(*slots));
    idle_fds = calloc(opt.idle + 1, sizeof(*idle_fds));
    epoll_fd = epoll_create1(0);
    if (!conns || !slots || !idle_fds || epoll_fd < 0)
        die("set-up");
    for (uint64_t i = 0; i < opt.idle; i++)
        idle_fds[i] = connect_to_server(false);
    for (uint64_t i = 0; i < opt.connections; i++) {
        conn_open(&conns[i], (uint32_t)i, epoll_fd);
        for (uint64_t k = 0; k < opt.in_flight; k++) {
            struct slot *s = conn_slots(&conns[i]) + k;
            s->xid = xid + (uint32_t)k;
            s->op = next_op();
        }
    }
}

/* The server must neither have closed an idle connection nor have sent anything on it. */
static void check_idle(void)
{
    for (uint64_t i = 0; i < opt.idle; i++) {
        uint8_t byte;
        if (recv(idle_fds[i], &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN)
            wrong("an idle connection was closed");
    }
}

/* ---- running ---- */

static bool is_over(uint64_t end)
{
    if (finishing)
        return received == posted;
    return stopped || (opt.requests ? answered == opt.requests : turn_ns >= end);
}

/* Looks from time to time for lost requests, and whether the server still answers. */
static void look_around(void)
{
    static uint64_t looked_ns, heard_ns, heard;

    if (turn_ns - looked_ns < RESEND_MS * 1000000ULL / 4)
        return;
    looked_ns = turn_ns;
    if (opt.udp)
        resend_lost(turn_ns);
    if (received != heard || received == posted || !heard_ns)
        heard_ns = turn_ns;
    heard = received;
    if (turn_ns - heard_ns > SILENCE_MS * 1000000ULL)
        wrong("none for half a minute");
}

static void run_until(uint64_t end)
{
    static uint64_t pace_start;
    struct epoll_event events[EVENTS];

    turn_ns = now_ns();
    if (!pace_start)
        pace_start = turn_ns;
    while (!is_over(end)) {
        uint64_t wait_ns = opt.rate && !finishing ? pace(pace_start, turn_ns) : IDLE_NS;
        struct timespec wait = {.tv_nsec = opt.spin ? 0 : (long)wait_ns};
        int n = epoll_pwait2(epoll_fd, events, EVENTS, &wait, NULL);

        turn_ns = now_ns();
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT)
                conn_flush(c);
            turn_ns = now_ns();
            if (events[i].events & ~(uint32_t)EPOLLOUT)
                conn_read(c, take_reply);
        }
        look_around();
    }
}

/* Completes every operation that was begun, so that no run leaves locks to the next. */
static void finish(void)
{
    finishing = true;
    counting = false;
    for (uint64_t i = 0; i < opt.connections; i++) {
        for (uint64_t k = 0; k < opt.in_flight; k++) {
            struct slot *s = conn_slots(&conns[i]) + k;
            if (!s->sent_ns)
                post_next(&conns[i], s, turn_ns, turn_ns);
        }
        conn_flush(&conns[i]);
    }
    run_until(0);
}

/* Ends the run as if --seconds had said so, for measurements that last until something happens. */
static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

static void report(double seconds)
{
    const char *transport = opt.udp ? "udp" : "tcp";
    double rate = (double)answered / seconds;
    double p50 = (double)histogram_quantile(&latencies, 0.5) / 1000;
    double p99 = (double)histogram_quantile(&latencies, 0.99) / 1000;
    double p999 = (double)histogram_quantile(&latencies, 0.999) / 1000;

    if (opt.json)
        printf("{\"mix\":\"%s\",\"transport\":\"%s\",\"connections\":%" PRIu64
               ",\"in_flight\":%" PRIu64 ",\"requests\":%" PRIu64 ",\"resent\":%" PRIu64
               ",\"per_second\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f}\n",
               opt.mix_text, transport, opt.connections, opt.in_flight, answered, resent, rate, p50,
               p99, p999);
    else
        printf("%-7s %s %5" PRIu64 " x %-4" PRIu64
               " %10.0f/s   p50 %8.1f us   p99 %8.1f us   p99.9 %8.1f us\n",
               opt.mix_text, transport, opt.connections, opt.in_flight, rate, p50, p99, p999);
}

int main(int argc, char **argv)
{
    uint64_t start;

    options_parse(argc, argv);
    raise_file_limit();
    signal(SIGTERM, stop);
    prctl(PR_SET_TIMERSLACK, 1UL); /* requests leave exactly when they are due */
    if (opt.weights[OP_DENIED] || opt.weights[OP_WAIT])
        hold(ID_IN_THE_WAY | 1, opt.connections * opt.in_flight);
    if (opt.held)
        hold(ID_HELD, opt.held);
    open_connections();
    open_times();
    counting = opt.requests > 0;
    start = now_ns();
    if (!opt.rate)
        post_all();
    if (!opt.requests)
        run_until(start + (uint64_t)(opt.warmup * 1e9));
    if (!counting)
        start = now_ns();
    counting = true;
    run_until(start + (uint64_t)(opt.seconds * 1e9));
    if (answered == 0)
        wrong("none at all");
    report((double)(now_ns() - start) / 1e9);
    check_idle();
    if (!opt.requests) /* --requests asks for exactly so many, and no request more */
        finish();
    return times && fclose(times) != 0;
}
