/*
 * A peer made of plain sockets: a service on one address and port, UDP and TCP, that answers each
 * call as its behaviour function says and remembers the caller's address. The test calls
 * fake_serve() between two turns of the loop.
 */
#ifndef HF_TESTS_FAKE_PEER_H
#define HF_TESTS_FAKE_PEER_H

#include <string.h>

#include "loop.h"
#include "rpc/marking.h"
#include "rpc_words.h"

enum { FAKE_CONNS = 1200, FAKE_HELD = 1200 };

struct fake {
    int udp, tcp;
    int conns[FAKE_CONNS];
    unsigned n_conns;
    /* Writes the complete answer to a call into reply; an empty one means no answer. */
    void (*behave)(struct fake *fake, struct hf_bytes call, int type, struct words *reply);
    unsigned n_udp, n_tcp; /* calls received */
    struct hf_addr asker;  /* the address that sent the last call */
    struct hf_addr at;
};

/* Writes a reply: SUCCESS, with one word as result. */
static inline void put_success(struct words *reply, uint32_t xid, uint32_t value)
{
    const uint32_t head[] = {xid, 1, 0, 0, 0, 0, value};

    for (size_t i = 0; i < HF_COUNT_OF(head); i++)
        word(reply, head[i]);
}

static inline void fake_open(struct fake *fake, const char *host, uint16_t port)
{
    struct hf_addr addr = address(host, port);
    int size = 8 * 1024 * 1024;

    for (;;) {
        fake->udp = plain_socket(SOCK_DGRAM, &addr);
        fake->at = bound_address(fake->udp);
        fake->tcp = plain_socket_if_free(SOCK_STREAM, &fake->at);
        if (fake->tcp >= 0)
            break;
        assert_int_equal(port, 0); /* the kernel may have chosen a TCP port that is still in use */
        close(fake->udp);
    }
    setsockopt(fake->udp, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    assert_int_equal(listen(fake->tcp, FAKE_CONNS), 0);
}

static inline void fake_close(struct fake *fake)
{
    for (unsigned i = 0; i < fake->n_conns; i++)
        close(fake->conns[i]);
    if (fake->udp > 0)
        close(fake->udp);
    if (fake->tcp > 0)
        close(fake->tcp);
    *fake = (struct fake){0};
}

static inline void fake_serve_udp(struct fake *fake)
{
    uint8_t message[8192];
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    ssize_t n;

    while ((n = recvfrom(fake->udp, message, sizeof(message), 0, (struct sockaddr *)&sa, &len)) >
           0) {
        struct words reply = {.len = 0};

        fake->n_udp++;
        hf_addr_from_sockaddr((struct sockaddr *)&sa, &fake->asker);
        fake->behave(fake, hf_bytes(message, (size_t)n), SOCK_DGRAM, &reply);
        if (reply.len > 0)
            sendto(fake->udp, reply.bytes, reply.len, 0, (struct sockaddr *)&sa, len);
        len = sizeof(sa);
    }
}

static inline void fake_accept(struct fake *fake)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    int fd;

    while ((fd = accept4(fake->tcp, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK)) >= 0) {
        assert_true(fake->n_conns < FAKE_CONNS);
        hf_addr_from_sockaddr((struct sockaddr *)&sa, &fake->asker);
        fake->conns[fake->n_conns++] = fd;
        len = sizeof(sa);
    }
}

/* Serves TCP. Calls are short, so each arrives in one read. */
static inline void fake_serve_tcp(struct fake *fake)
{
    uint8_t record[8192];

    fake_accept(fake);
    for (unsigned i = 0; i < fake->n_conns; i++) {
        ssize_t n = recv(fake->conns[i], record, sizeof(record), 0);
        uint8_t mark[HF_RPC_MARK_SIZE];
        struct words reply = {.len = 0};

        if (n <= HF_RPC_MARK_SIZE)
            continue;
        fake->n_tcp++;
        fake->behave(fake, hf_bytes(record + HF_RPC_MARK_SIZE, (size_t)n - HF_RPC_MARK_SIZE),
                     SOCK_STREAM, &reply);
        if (reply.len == 0)
            continue;
        hf_marking_put(mark, reply.len);
        plain_send(fake->conns[i], hf_bytes(mark, sizeof(mark)));
        plain_send(fake->conns[i], view(&reply));
    }
}

static inline void fake_serve(struct fake *fake)
{
    if (fake->udp > 0)
        fake_serve_udp(fake);
    if (fake->tcp > 0)
        fake_serve_tcp(fake);
}

#endif
