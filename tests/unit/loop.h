/*
 * A real event loop for tests: it runs until the awaited condition is true. No test depends on how
 * long that takes; PATIENCE_MS only ends a test that would hang.
 */
#ifndef HF_TESTS_LOOP_H
#define HF_TESTS_LOOP_H

#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/addr.h"
#include "base/bytes.h"
#include "unit.h"

enum { PATIENCE_MS = 20000 };

static uv_loop_t loop;
static uv_timer_t heartbeat; /* this timer keeps a turn of the loop from waiting long */
static unsigned heartbeats;

static inline void on_heartbeat(uv_timer_t *timer)
{
    (void)timer;
    heartbeats++;
}

static inline void loop_begin(void)
{
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &heartbeat);
    uv_timer_start(&heartbeat, on_heartbeat, 2, 2);
}

/* All handles on the loop must be closed or closing by now. */
static inline void loop_end(void)
{
    uv_close((uv_handle_t *)&heartbeat, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

#define TURN_UNTIL(condition)                                   \
    do {                                                        \
        uint64_t end_ms_ = uv_hrtime() / 1000000 + PATIENCE_MS; \
        while (!(condition)) {                                  \
            if (uv_hrtime() / 1000000 > end_ms_)                \
                fail_msg("waited in vain for " #condition);     \
            uv_run(&loop, UV_RUN_ONCE);                         \
        }                                                       \
    } while (0)

/* Runs the loop for a few heartbeats, to see that something does not happen. */
static inline void turn_a_while(void)
{
    unsigned until = heartbeats + 10;

    TURN_UNTIL(heartbeats >= until);
}

static inline struct hf_addr address(const char *text, uint16_t port)
{
    struct hf_addr addr;

    assert_int_equal(hf_addr_parse(text, &addr), 0);
    addr.port = port;
    return addr;
}

/* ---- the peer, as plain non-blocking sockets ---- */

/* Makes a bound socket; returns -1 if the address is taken. */
static inline int plain_socket_if_free(int type, const struct hf_addr *bound)
{
    struct sockaddr_storage sa;
    unsigned len = hf_addr_to_sockaddr(bound, &sa);
    int on = 1;
    int fd = socket(sa.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&sa, len) == 0)
        return fd;
    close(fd);
    return -1;
}

static inline int plain_socket(int type, const struct hf_addr *bound)
{
    int fd = plain_socket_if_free(type, bound);

    assert_true(fd >= 0);
    return fd;
}

static inline struct hf_addr bound_address(int fd)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    struct hf_addr addr;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    assert_int_equal(hf_addr_from_sockaddr((struct sockaddr *)&sa, &addr), 0);
    return addr;
}

/* Connects; the kernel completes a connection on loopback before the server accepts it. */
static inline int plain_connect(int type, const struct hf_addr *to)
{
    struct hf_addr any = {.family = to->family};
    struct sockaddr_storage sa;
    unsigned len = hf_addr_to_sockaddr(to, &sa);
    int fd = plain_socket(type, &any);

    assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, len), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static inline void plain_send(int fd, struct hf_bytes bytes)
{
    assert_int_equal(send(fd, bytes.data, bytes.len, MSG_NOSIGNAL), (ssize_t)bytes.len);
}

#endif
