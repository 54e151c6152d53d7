#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/error.h"
#include "rpc/client_private.h"
#include "rpc/server.h"
#include "rpc/socket.h"

static void on_timer(uv_timer_t *timer);

/* Wakes the call at the next repeat or at its end, whichever is first; 0: at once. */
static void arm(struct hf_rpc_outcall *call, uint64_t pause_ms)
{
    uint64_t now = uv_now(call->client->loop);
    uint64_t left = call->give_up_ms > now ? call->give_up_ms - now : 0;

    uv_timer_start(&call->timer, on_timer, pause_ms < left ? pause_ms : left, 0);
}

/* The loop reports it: whoever began the exchange is still at work. */
static void fail_soon(struct hf_rpc_outcall *call, int error)
{
    call->pending_error = error;
    arm(call, 0);
}

/* ---- UDP: shared sockets, answers found by transaction id and sender ---- */

static bool xid_matches(const struct hf_map_node *node, const void *key)
{
    return hf_container_of(node, const struct hf_rpc_outcall, node)->xid == *(const uint32_t *)key;
}

void hf_rpc_exchange_reply(struct hf_rpc_client *client, const struct hf_addr *peer,
                           struct hf_bytes datagram)
{
    struct hf_rpc_outcall *call;
    struct hf_map_node *node;
    uint32_t xid;

    if (hf_rpc_parse_reply_xid(datagram, &xid) < 0)
        return;
    node = hf_map_find(&client->waiting, hf_hash_u64(&client->hash_key, xid, 0), xid_matches, &xid);
    if (!node)
        return; /* late, or nobody's */
    call = hf_container_of(node, struct hf_rpc_outcall, node);
    if (!hf_addr_equal(&call->to, peer))
        return; /* an answer from whom we did not ask is no answer */
    hf_rpc_outcall_answered(call, datagram);
}

static void on_datagram(struct hf_udp *udp, const struct hf_addr *peer, const struct hf_addr *local,
                        struct hf_bytes datagram)
{
    (void)local;
    hf_rpc_exchange_reply(udp->ctx, peer, datagram);
}

/* The socket for this call, opened when first needed. */
static int udp_socket(struct hf_rpc_client *client, const struct hf_rpc_outcall *call,
                      struct hf_udp **out)
{
    bool ipv6 = call->to.family == HF_ADDR_IPV6;
    bool reserved = call->request.reserved_port && call->phase != PHASE_LOOKUP;
    unsigned i = (ipv6 ? 1U : 0U) + (reserved ? 2U : 0U);

    if (call->request.listening_port && call->phase != PHASE_LOOKUP && client->server) {
        *out = hf_rpc_server_socket(client->server, &call->request.local);
        if (*out)
            return 0;
    }
    if (!client->socket_open[i]) {
        struct hf_addr any = {.family = call->to.family};
        int rv = hf_udp_open(&client->sockets[i], client->loop, &any, reserved, client->alloc,
                             on_datagram, client);
        if (rv < 0)
            return rv;
        client->socket_open[i] = true;
        client->open_handles++;
    }
    *out = &client->sockets[i];
    return 0;
}

static void on_socket_closed(struct hf_udp *udp)
{
    hf_rpc_client_handle_closed(udp->ctx);
}

void hf_rpc_exchange_close_sockets(struct hf_rpc_client *client)
{
    for (unsigned i = 0; i < SOCKETS; i++) {
        if (client->socket_open[i])
            hf_udp_close(&client->sockets[i], on_socket_closed);
        client->socket_open[i] = false;
    }
}

static void udp_send(struct hf_rpc_outcall *call)
{
    struct hf_bytes question = hf_buf_view(&call->question);
    struct hf_udp *udp;
    int rv = udp_socket(call->client, call, &udp);

    if (rv < 0) {
        fail_soon(call, rv);
        return;
    }
    if (call->phase == PHASE_CALL)
        call->sends++;
    memcpy(hf_udp_room(udp), question.data, question.len);
    hf_udp_queue(udp, &call->to, &call->request.local, question.len);
    arm(call, call->resend_pause_ms);
    call->resend_pause_ms *= 2;
}

static void on_timer(uv_timer_t *timer)
{
    struct hf_rpc_outcall *call = timer->data;

    if (call->pending_error)
        hf_rpc_outcall_failed(call, call->pending_error);
    else if (uv_now(timer->loop) >= call->give_up_ms)
        hf_rpc_outcall_failed(call, HF_ETIMEDOUT);
    else if (call->via == HF_RPC_UDP)
        udp_send(call);
    else
        arm(call, UINT64_MAX); /* a timer may fire a little early */
}

/* ---- TCP: a connection of its own for each exchange ---- */

struct tcp_exchange {
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write, again;
    struct hf_rpc_client *client;
    struct hf_rpc_outcall *call; /* NULL once the call has lost interest */
    struct hf_marking marking;
    size_t len;
    uint8_t record[]; /* mark and message, until written */
};

static void on_tcp_closed(uv_handle_t *handle)
{
    struct tcp_exchange *x = handle->data;
    struct hf_rpc_client *client = x->client;

    hf_marking_free(&x->marking);
    hf_free(client->alloc, x);
    hf_rpc_client_handle_closed(client);
}

static int from_uv(int status)
{
    switch (status) {
    case UV_ECONNREFUSED:
    case UV_ECONNRESET:
    case UV_EPIPE:
    case UV_EOF:
        return HF_EREFUSED;
    case UV_ETIMEDOUT:
        return HF_ETIMEDOUT;
    default:
        return HF_EUNREACH;
    }
}

static void tcp_failed(struct tcp_exchange *x, int error)
{
    if (x->call)
        hf_rpc_outcall_failed(x->call, error);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct tcp_exchange *x = handle->data;

    (void)suggested;
    *buf = uv_buf_init((char *)x->client->read_chunk, sizeof(x->client->read_chunk));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct tcp_exchange *x = stream->data;
    struct hf_bytes input = hf_bytes(buf->base, n > 0 ? (size_t)n : 0);
    struct hf_bytes record;
    uint32_t xid;
    int rv;

    if (n < 0) {
        tcp_failed(x, from_uv((int)n));
        return;
    }
    while (x->call && (rv = hf_marking_next(&x->marking, &input, &record)) != 0) {
        if (rv < 0)
            tcp_failed(x, HF_EFORMAT);
        else if (hf_rpc_parse_reply_xid(record, &xid) == 0 && xid == x->call->xid)
            hf_rpc_outcall_answered(x->call, record);
    }
}

static void on_write(uv_write_t *request, int status)
{
    if (status < 0)
        tcp_failed(request->data, from_uv(status));
}

static void on_connect(uv_connect_t *request, int status)
{
    struct tcp_exchange *x = request->data;
    uv_buf_t buf = uv_buf_init((char *)x->record, (unsigned)x->len);

    if (!x->call)
        return;
    x->write.data = x;
    if (status == 0)
        status = uv_read_start((uv_stream_t *)&x->tcp, on_alloc, on_read);
    if (status == 0) {
        x->call->sends += x->call->phase == PHASE_CALL;
        status = uv_write(&x->write, (uv_stream_t *)&x->tcp, &buf, 1, on_write);
    }
    if (status < 0)
        tcp_failed(x, from_uv(status));
}

/* A socket bound to the address, and the kind of port, that the call asks for. */
static int tcp_socket(const struct hf_rpc_outcall *call)
{
    const struct hf_rpc_request *request = &call->request;
    bool reserved = request->reserved_port && call->phase != PHASE_LOOKUP;
    struct hf_addr from = request->local;
    int on = 1;
    int rv = 0;
    int fd = hf_socket_open(&call->to, SOCK_STREAM);

    if (fd < 0)
        return fd;
    from.port = 0;
    if (from.family != call->to.family)
        from = (struct hf_addr){.family = call->to.family};
    if (reserved) {
        /* There are 512: none may stay behind for a minute in TIME_WAIT. */
        struct linger at_once = {1, 0};
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    } else {
        /* The port is chosen when the peer is known: the same one serves many peers. */
        (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    }
    if (reserved || !hf_addr_is_any(&from))
        rv = hf_socket_bind(fd, &from, reserved);
    if (rv < 0) {
        close(fd);
        return rv;
    }
    return fd;
}

static struct tcp_exchange *tcp_new(struct hf_rpc_outcall *call)
{
    struct hf_bytes question = hf_buf_view(&call->question);
    struct hf_rpc_client *client = call->client;
    struct tcp_exchange *x = hf_malloc(client->alloc, sizeof(*x) + HF_RPC_MARK_SIZE + question.len);

    if (!x)
        return NULL;
    *x = (struct tcp_exchange){.client = client, .call = call};
    x->len = HF_RPC_MARK_SIZE + question.len;
    hf_marking_put(x->record, question.len);
    memcpy(x->record + HF_RPC_MARK_SIZE, question.data, question.len);
    hf_marking_init(&x->marking, client->alloc);
    uv_tcp_init(client->loop, &x->tcp);
    client->open_handles++;
    x->tcp.data = x;
    x->connect.data = x;
    return x;
}

static void tcp_begin(struct hf_rpc_outcall *call)
{
    struct sockaddr_storage sa;
    int fd = tcp_socket(call);

    if (fd < 0) {
        fail_soon(call, fd);
        return;
    }
    call->tcp = tcp_new(call);
    if (!call->tcp || uv_tcp_open(&call->tcp->tcp, fd) < 0) {
        close(fd);
        fail_soon(call, HF_ENOMEM);
        return;
    }
    hf_addr_to_sockaddr(&call->to, &sa);
    if (uv_tcp_connect(&call->tcp->connect, &call->tcp->tcp, (struct sockaddr *)&sa, on_connect) <
        0)
        fail_soon(call, HF_EUNREACH);
    else
        arm(call, UINT64_MAX);
}

int hf_rpc_exchange_continue(struct hf_rpc_outcall *call)
{
    struct hf_bytes question = hf_buf_view(&call->question);
    struct tcp_exchange *x = call->tcp;
    uv_buf_t buf = uv_buf_init((char *)x->record, (unsigned)(HF_RPC_MARK_SIZE + question.len));

    /* What was in the record has been answered, so it has left. */
    if (buf.len > x->len)
        return HF_ELIMIT;
    hf_marking_put(x->record, question.len);
    memcpy(x->record + HF_RPC_MARK_SIZE, question.data, question.len);
    x->again.data = x;
    return uv_write(&x->again, (uv_stream_t *)&x->tcp, &buf, 1, on_write) < 0 ? HF_EUNREACH : 0;
}

/* ---- either ---- */

void hf_rpc_exchange_begin(struct hf_rpc_outcall *call, enum hf_rpc_transport via,
                           uint64_t give_up_ms)
{
    struct hf_rpc_client *client = call->client;

    call->via = via;
    call->give_up_ms = give_up_ms;
    call->pending_error = 0;
    if (via == HF_RPC_UDP) {
        call->resend_pause_ms = RESEND_FIRST_MS;
        hf_map_insert(&client->waiting, &call->node, hf_hash_u64(&client->hash_key, call->xid, 0));
        udp_send(call);
    } else {
        tcp_begin(call);
    }
}

void hf_rpc_exchange_end(struct hf_rpc_outcall *call)
{
    uv_timer_stop(&call->timer);
    if (call->via == HF_RPC_UDP)
        hf_map_remove(&call->client->waiting, &call->node);
    call->via = 0;
    if (call->tcp) {
        call->tcp->call = NULL;
        uv_close((uv_handle_t *)&call->tcp->tcp, on_tcp_closed);
        call->tcp = NULL;
    }
}
