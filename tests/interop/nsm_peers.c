/*
 * Ten thousand hosts, played by one process: it answers on every address that is local here, with
 * an rpcbind on port 111 and a status monitor on a port of its own, UDP and TCP, and counts the
 * SM_NOTIFYs that arrive. For tests of Holdfast's notices (tests/interop/test_nsm_crowd.py).
 *
 *     nsm_peers [PREFIX]
 *
 * When it serves it prints "ready"; for each line on its standard input it prints how many hosts
 * (addresses) have been notified so far, and how many notices came by TCP and by UDP. With a PREFIX
 * ("10.1.") only addresses that begin so are hosts; others get no answer.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    RPCBIND_PORT = 111,
    STATUS_PORT = 32765,
    RPCBIND = 100000,
    NSM = 100024,
    GETPORT = 3,
    NOTIFY = 6,
    TCP = 6,
    CALL_WORDS = 10, /* 32-bit words in the header of a call with empty credentials */
    MESSAGE_MAX = 4096,
    EVENTS = 256,
};

static const char *prefix = "";
static uint8_t notified[1 << 21]; /* one bit for each address of a /8 */
static unsigned hosts, by_tcp, by_udp, lookups;

static void die(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

static bool plays(uint32_t addr)
{
    char text[INET_ADDRSTRLEN];
    struct in_addr in = {addr};

    return strncmp(inet_ntop(AF_INET, &in, text, sizeof(text)), prefix, strlen(prefix)) == 0;
}

static void count_host(uint32_t addr)
{
    uint32_t n = ntohl(addr) & 0xffffff;

    if (!(notified[n / 8] & 1U << n % 8)) {
        notified[n / 8] |= (uint8_t)(1U << n % 8);
        hosts++;
    }
}

/* Makes the reply to a call, in the same buffer, and returns its length; 0: no reply. */
static size_t answer(uint32_t *words, size_t len, uint32_t local, bool tcp)
{
    uint32_t result = 0;
    bool has_result = false;

    if (len < CALL_WORDS * 4 || !plays(local))
        return 0;
    if (ntohl(words[3]) == RPCBIND && ntohl(words[5]) == GETPORT) {
        result = htonl(STATUS_PORT);
        has_result = true;
        lookups++;
    } else if (ntohl(words[3]) == NSM && ntohl(words[5]) == NOTIFY) {
        count_host(local);
        if (tcp)
            by_tcp++;
        else
            by_udp++;
    }
    words[1] = htonl(1); /* the reply: accepted, no verifier, SUCCESS */
    words[2] = words[3] = words[4] = words[5] = 0;
    words[6] = result;
    return has_result ? 28 : 24;
}

static int open_socket(int type, uint16_t port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, type | SOCK_NONBLOCK, 0);
    int on = 1;
    int size = 8 << 20;

    if (fd < 0)
        die("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
    if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        die("bind");
    if (type == SOCK_STREAM && listen(fd, 16384) < 0)
        die("listen");
    return fd;
}

/* Sends each answer from the address that was asked, by returning the control message as it came.
 */
static void serve_udp(int fd)
{
    uint32_t message[MESSAGE_MAX / 4];
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct in_pktinfo))];
    struct sockaddr_in peer;

    for (;;) {
        struct iovec iov = {message, sizeof(message)};
        struct msghdr msg = {&peer, sizeof(peer), &iov, 1, control, sizeof(control), 0};
        ssize_t n = recvmsg(fd, &msg, 0);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        struct in_pktinfo info;

        if (n < 0)
            return;
        if (!c)
            continue;
        memcpy(&info, CMSG_DATA(c), sizeof(info));
        iov.iov_len = answer(message, (size_t)n, info.ipi_addr.s_addr, false);
        info.ipi_spec_dst = info.ipi_addr;
        info.ipi_ifindex = 0;
        memcpy(CMSG_DATA(c), &info, sizeof(info));
        if (iov.iov_len > 0)
            (void)sendmsg(fd, &msg, 0);
    }
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        die("epoll_ctl");
}

static void accept_all(int epoll, int listener)
{
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
        watch(epoll, fd);
}

/* Answers a call on a connection; a call is so small that it comes in one piece, or the test fails.
 */
static void serve_tcp(int fd)
{
    uint32_t record[1 + MESSAGE_MAX / 4];
    struct sockaddr_in local;
    socklen_t len = sizeof(local);
    ssize_t n = read(fd, record, sizeof(record));
    size_t size;

    if (n <= 4 || getsockname(fd, (struct sockaddr *)&local, &len) < 0) {
        if (n >= 0 || errno != EAGAIN)
            close(fd);
        return;
    }
    size = answer(record + 1, (size_t)n - 4, local.sin_addr.s_addr, true);
    if (size > 0) {
        record[0] = htonl(0x80000000U | (uint32_t)size);
        (void)!write(fd, record, size + 4);
    }
}

int main(int argc, char **argv)
{
    int udp[] = {open_socket(SOCK_DGRAM, RPCBIND_PORT), open_socket(SOCK_DGRAM, STATUS_PORT)};
    int tcp[] = {open_socket(SOCK_STREAM, RPCBIND_PORT), open_socket(SOCK_STREAM, STATUS_PORT)};
    struct epoll_event events[EVENTS];
    struct rlimit limit;
    int epoll = epoll_create1(0);

    if (argc > 1)
        prefix = argv[1];
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < 2; i++) {
        watch(epoll, udp[i]);
        watch(epoll, tcp[i]);
    }
    watch(epoll, STDIN_FILENO);
    puts("ready");
    fflush(stdout);
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);

        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == udp[0] || fd == udp[1]) {
                serve_udp(fd);
            } else if (fd == tcp[0] || fd == tcp[1]) {
                accept_all(epoll, fd);
            } else if (fd == STDIN_FILENO) {
                char line[64];
                if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
                    return EXIT_SUCCESS;
                printf("%u %u %u %u\n", hosts, by_tcp, by_udp, lookups);
                fflush(stdout);
            } else {
                serve_tcp(fd);
            }
        }
    }
}
