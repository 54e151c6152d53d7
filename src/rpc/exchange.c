#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/socket.h"
#include "rpc/client_private.h"
#include "rpc/credit.h"
#include "rpc/server.h"

/* After so many records on a connection that answer no call of ours, the connection is closed. */
enum { STRANGERS_MAX = 8 };

/* The sizes of SYN and RST packets on Linux over IPv4, for the peer's credit. An RST is the
 * shortest answer to a SYN. */
enum { SYN_SIZE = 60, RST_SIZE = 40 };

static void on_timer(uv_timer_t *timer);

/* Sets the timer for the next repeat or the end of the exchange, whichever comes first. A pause of
 * 0 means at once. */
static void arm(struct hf_rpc_outcall *call, uint64_t pause_ms)
{
    uint64_t now = uv_now(call->client->loop);
    uint64_t left = call->give_up_ms > now ? call->give_up_ms - now : 0;

    uv_timer_start(&call->timer, on_timer, pause_ms < left ? pause_ms : left, 0);
}

void hf_rpc_exchange_fail_soon(struct hf_rpc_outcall *call, int error)
{
    call->pending_error = error;
    uv_timer_start(&call->timer, on_timer, 0, 0);
}

void hf_rpc_exchange_hurry(struct hf_rpc_outcall *call, uint64_t until_ms)
{
    if (call->pending_error || call->deadline_ms <= until_ms)
        return;
    call->deadline_ms = until_ms;
    if (call->give_up_ms > until_ms)
        call->give_up_ms = until_ms;
    arm(call, UINT64_MAX);
}

/* Counts the sending of a call itself; a question to rpcbind does not count. */
static void count_send(struct hf_rpc_outcall *call)
{
    if (call->phase != PHASE_CALL)
        return;
    call->sends++;
    if (call->sends > 1 && call->call_args.repeated)
        *call->call_args.repeated = true;
}

/* ---- UDP: shared sockets, answers found by transaction id, sender and socket ---- */

static bool xid_matches(const struct hf_map_node *node, const void *key)
{
    return hf_container_of(node, const struct hf_rpc_outcall, node)->xid == *(const uint32_t *)key;
}

static struct hf_rpc_outcall *find_by_xid(const struct hf_rpc_client *client, uint32_t xid)
{
    struct hf_map_node *node =
        hf_map_find(&client->waiting, hf_hash_u64(&client->hash_key, xid, 0), xid_matches, &xid);

    return node ? hf_container_of(node, struct hf_rpc_outcall, node) : NULL;
}

bool hf_rpc_exchange_is_awaited(const struct hf_rpc_client *client, uint32_t xid)
{
    return find_by_xid(client, xid);
}

static bool is_charged(const struct hf_rpc_outcall *call)
{
    return call->call_args.charged && call->client->server;
}

/* Charges the peer's account for a packet of this size and its headers. */
static void charge(const struct hf_rpc_outcall *call, size_t size)
{
    if (is_charged(call))
        hf_credit_answered(hf_rpc_server_credits(call->client->server), &call->to,
                           size - HF_CREDIT_HEADERS);
}

/* Takes a reply datagram. udp is the socket that received it; NULL: the socket of the port that we
 * serve on. */
static void take_reply(struct hf_rpc_client *client, const struct hf_rpc_udp_port *udp,
                       const struct hf_addr *peer, struct hf_bytes datagram)
{
    struct hf_rpc_outcall *call;
    uint32_t xid;

    if (hf_rpc_parse_reply_xid(datagram, &xid) < 0)
        return;
    call = find_by_xid(client, xid);
    if (!call)
        return; /* the answer is late, or answers no call of ours */
    /* An answer that does not come from the address and port that were asked may be forged. */
    if (call->udp != udp || !hf_addr_equal(&call->to, peer))
        return;
    /* the serving port counts its datagrams itself */
    if (udp && (call->on_trial || is_charged(call)))
        hf_credit_came(hf_rpc_server_credits(client->server), peer, datagram.len);
    hf_rpc_outcall_answered(call, datagram);
}

void hf_rpc_exchange_reply(struct hf_rpc_client *client, const struct hf_addr *peer,
                           struct hf_bytes datagram)
{
    take_reply(client, NULL, peer, datagram);
}

/* ---- UDP from random ports ---- */

/*
 * One of a few random UDP source ports for exchanges (SEC-07). The kernel chooses the ports at
 * random, and each is used only for some seconds. A socket for each exchange would be still less
 * predictable, but costs eight system calls, and a forger must also guess the transaction id, which
 * is random.
 */
struct hf_rpc_udp_port {
    struct hf_udp udp;
    struct hf_rpc_client *client;
    struct hf_list link; /* links the port into client->udp_ports */
    uint64_t opened_ms;
    unsigned users; /* how many exchanges use the port */
    bool retired;   /* no new exchange uses the port; it is closed when its last exchange ends */
};

static void on_datagram(struct hf_udp *udp, const struct hf_addr *peer, const struct hf_addr *local,
                        struct hf_bytes datagram)
{
    struct hf_rpc_udp_port *port = udp->ctx;

    (void)local;
    take_reply(port->client, port, peer, datagram);
}

static void on_udp_closed(struct hf_udp *udp)
{
    struct hf_rpc_udp_port *port = udp->ctx;
    struct hf_rpc_client *client = port->client;

    hf_free(client->alloc, port);
    hf_rpc_client_handle_closed(client);
}

static void port_retire(struct hf_rpc_udp_port *port)
{
    port->retired = true;
    if (port->users == 0) {
        hf_list_remove(&port->link);
        hf_udp_close(&port->udp, on_udp_closed);
    }
}

static void port_release(struct hf_rpc_udp_port *port)
{
    port->users--;
    if (port->retired)
        port_retire(port);
}

static int port_open(struct hf_rpc_client *client, uint8_t family, bool reserved,
                     struct hf_rpc_udp_port **out)
{
    struct hf_addr any = {.family = family};
    struct hf_rpc_udp_port *port = hf_malloc(client->alloc, sizeof(*port));
    int rv;

    if (!port)
        return HF_ENOMEM;
    rv = hf_udp_open(&port->udp, client->loop, &any, reserved ? HF_BIND_RESERVED : HF_BIND_EXACTLY,
                     client->alloc, on_datagram, port);
    if (rv < 0) {
        hf_free(client->alloc, port);
        return rv;
    }
    port->udp.gate = client->gate;
    port->client = client;
    port->opened_ms = uv_now(client->loop);
    port->users = 0;
    port->retired = false;
    hf_list_add_tail(&client->udp_ports, &port->link);
    client->open_handles++;
    *out = port;
    return 0;
}

/* Chooses one of the UDP ports for the exchange, at random; opens a new port in its place if there
 * is none, or only an old one. */
static int port_take(struct hf_rpc_outcall *call)
{
    struct hf_rpc_client *client = call->client;
    bool ipv6 = call->to.family == HF_ADDR_IPV6;
    bool reserved = call->call_args.reserved_port && call->phase != PHASE_LOOKUP;
    struct hf_rpc_udp_port **place =
        &client->pool[(ipv6 ? 1U : 0U) + (reserved ? 2U : 0U)][call->xid % UDP_PORTS];

    if (*place && uv_now(client->loop) - (*place)->opened_ms > UDP_PORT_MS) {
        port_retire(*place);
        *place = NULL;
    }
    if (!*place) {
        int rv = port_open(client, call->to.family, reserved, place);
        if (rv < 0)
            return rv;
    }
    call->udp = *place;
    call->udp->users++;
    return 0;
}

void hf_rpc_exchange_flush(struct hf_rpc_client *client)
{
    hf_list_foreach (node, &client->udp_ports) {
        hf_udp_flush(&hf_list_entry(node, struct hf_rpc_udp_port, link)->udp);
    }
}

void hf_rpc_exchange_close_ports(struct hf_rpc_client *client)
{
    hf_list_foreach_safe (node, &client->udp_ports) {
        port_retire(hf_list_entry(node, struct hf_rpc_udp_port, link));
    }
}

/* ---- UDP, either ---- */

/* Returns the socket of the port that we serve on if the call is to leave from there, else NULL. */
static struct hf_udp *shared_socket(const struct hf_rpc_outcall *call)
{
    if (!call->call_args.listening_port || call->phase == PHASE_LOOKUP || !call->client->server)
        return NULL;
    return hf_rpc_server_socket(call->client->server, &call->call_args.local);
}

static int udp_send_once(struct hf_rpc_outcall *call)
{
    struct hf_bytes question = hf_buf_view(&call->question);
    struct hf_udp *udp = shared_socket(call);
    unsigned *receipt = NULL;

    if (udp) {
        /* Count the message as sent without a receipt: a message from the serving port is an answer
         * of NLM, and silence after it means nothing. */
        call->left++;
    } else {
        int rv = call->udp ? 0 : port_take(call);
        if (rv < 0)
            return rv;
        udp = &call->udp->udp;
        receipt = &call->left;
    }
    memcpy(hf_udp_room(udp), question.data, question.len);
    hf_udp_queue(udp, &call->to, &call->call_args.local, question.len, receipt);
    return 0;
}

static bool may_send_on_trial(const struct hf_rpc_outcall *call)
{
    return call->datagrams < TRIAL_SENDS &&
           hf_credit_spend(hf_rpc_server_credits(call->client->server), &call->to,
                           hf_buf_len(&call->question));
}

static void udp_send(struct hf_rpc_outcall *call)
{
    int rv;

    if (call->on_trial && !may_send_on_trial(call)) {
        call->withheld = !call->call_args.apart;
        arm(call, UINT64_MAX);
        return;
    }
    rv = udp_send_once(call);
    if (rv < 0) {
        hf_rpc_exchange_fail_soon(call, rv);
        return;
    }
    call->datagrams++;
    charge(call, HF_CREDIT_HEADERS + hf_buf_len(&call->question));
    count_send(call);
    arm(call, call->resend_pause_ms);
    call->resend_pause_ms *= 2;
}

static void udp_begin(struct hf_rpc_outcall *call)
{
    struct hf_rpc_client *client = call->client;

    call->resend_pause_ms = RESEND_FIRST_MS;
    call->datagrams = 0;
    hf_map_insert(&client->waiting, &call->node, hf_hash_u64(&client->hash_key, call->xid, 0));
    udp_send(call);
}

static void on_timer(uv_timer_t *timer)
{
    struct hf_rpc_outcall *call = timer->data;

    if (call->pending_error)
        hf_rpc_outcall_failed(call, call->pending_error);
    else if (uv_now(timer->loop) >= call->give_up_ms)
        hf_rpc_outcall_failed(call, HF_ETIMEDOUT);
    else if (call->via == HF_TRANSPORT_UDP)
        udp_send(call);
    else
        arm(call, UINT64_MAX); /* the timer expired slightly early: set it again */
}

/* ---- TCP: one connection for each exchange ---- */

struct tcp_exchange {
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write, again;
    struct hf_rpc_client *client;
    /* the call that uses the connection; NULL: it has ended or moved on */
    struct hf_rpc_outcall *call;
    struct hf_marking marking;
    unsigned strangers; /* how many records on this connection answered no call of ours */
    size_t len;
    uint8_t record[]; /* the message to send, with its record mark, kept until it is written */
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
        if (rv > 0 && hf_rpc_parse_reply_xid(record, &xid) == 0 && xid == x->call->xid)
            hf_rpc_outcall_answered(x->call, record);
        else if (rv < 0 || ++x->strangers == STRANGERS_MAX)
            tcp_failed(x, HF_EFORMAT);
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
    if (is_charged(x->call) && (status == 0 || status == UV_ECONNREFUSED))
        hf_credit_came(hf_rpc_server_credits(x->client->server), &x->call->to,
                       RST_SIZE - HF_CREDIT_HEADERS);
    x->write.data = x;
    if (status == 0 && !hf_rpc_gate_is_open(x->client->gate))
        status = UV_ECANCELED;
    if (status == 0)
        status = uv_read_start((uv_stream_t *)&x->tcp, on_alloc, on_read);
    if (status == 0) {
        count_send(x->call);
        status = uv_write(&x->write, (uv_stream_t *)&x->tcp, &buf, 1, on_write);
        if (x->call->sends > 0)
            hf_lanes_sent(x->call);
    }
    if (status < 0)
        tcp_failed(x, from_uv(status));
}

/* Opens a TCP socket bound to the local address and the kind of port that the call wants. */
static int tcp_socket(const struct hf_rpc_outcall *call)
{
    const struct hf_rpc_outcall_args *call_args = &call->call_args;
    bool reserved = call_args->reserved_port && call->phase != PHASE_LOOKUP;
    struct hf_addr from = call_args->local;
    int on = 1;
    int rv = 0;
    int fd = hf_socket_open(&call->to, SOCK_STREAM);

    if (fd < 0)
        return fd;
    from.port = 0;
    if (from.family != call->to.family)
        from = (struct hf_addr){.family = call->to.family};
    if (reserved) {
        /* Close without TIME_WAIT: there are only 512 reserved ports, and none may stay unusable
         * for a minute. */
        struct linger at_once = {1, 0};
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    } else {
        /*
         * Let the kernel choose the port at connect(), so that one port can serve connections to
         * many peers.
         */
        (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    }
    if (reserved || !hf_addr_is_any(&from))
        rv = hf_socket_bind(fd, &from, reserved ? HF_BIND_RESERVED : HF_BIND_EXACTLY);
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
    int fd = hf_rpc_gate_is_open(call->client->gate) ? tcp_socket(call) : HF_ECANCELED;
    int rv;

    if (fd < 0) {
        hf_rpc_exchange_fail_soon(call, fd);
        return;
    }
    call->tcp = tcp_new(call);
    if (!call->tcp || uv_tcp_open(&call->tcp->tcp, fd) < 0) {
        close(fd);
        hf_rpc_exchange_fail_soon(call, HF_ENOMEM);
        return;
    }
    hf_addr_to_sockaddr(&call->to, &sa);
    rv = uv_tcp_connect(&call->tcp->connect, &call->tcp->tcp, (struct sockaddr *)&sa, on_connect);
    if (rv < 0) {
        bool routed = rv != UV_ENETUNREACH && rv != UV_EHOSTUNREACH;

        hf_rpc_exchange_fail_soon(call, routed ? HF_EUNAVAIL : HF_EUNREACH);
        return;
    }
    call->left = 1; /* the kernel has found a route and sends its SYN */
    charge(call, SYN_SIZE);
    arm(call, UINT64_MAX);
}

int hf_rpc_exchange_continue(struct hf_rpc_outcall *call)
{
    struct hf_bytes question = hf_buf_view(&call->question);
    struct tcp_exchange *x = call->tcp;
    uv_buf_t buf = uv_buf_init((char *)x->record, (unsigned)(HF_RPC_MARK_SIZE + question.len));

    /* The previous message has been answered, so its buffer is free for the next one. */
    if (buf.len > x->len || !hf_rpc_gate_is_open(x->client->gate))
        return HF_ELIMIT;
    hf_marking_put(x->record, question.len);
    memcpy(x->record + HF_RPC_MARK_SIZE, question.data, question.len);
    x->again.data = x;
    return uv_write(&x->again, (uv_stream_t *)&x->tcp, &buf, 1, on_write) < 0 ? HF_EUNREACH : 0;
}

/* ---- both transports ---- */

void hf_rpc_exchange_begin(struct hf_rpc_outcall *call, enum hf_transport via, uint64_t give_up_ms)
{
    call->via = via;
    call->give_up_ms = give_up_ms;
    call->pending_error = 0;
    call->left = 0;
    call->withheld = false;
    if (via == HF_TRANSPORT_UDP)
        udp_begin(call);
    else
        tcp_begin(call);
}

/* Ends a UDP exchange. A datagram that the kernel refused to send cannot have arrived and does not
 * count. */
static void udp_end(struct hf_rpc_outcall *call)
{
    hf_map_remove(&call->client->waiting, &call->node);
    /* Flush first: only then do the receipts count the datagrams that are still queued. */
    if (call->udp && call->left < call->datagrams)
        hf_udp_flush(&call->udp->udp);
    if (call->phase == PHASE_CALL)
        call->sends -= call->datagrams - call->left;
}

void hf_rpc_exchange_end(struct hf_rpc_outcall *call)
{
    uv_timer_stop(&call->timer);
    call->pending_error = 0;
    if (call->via == HF_TRANSPORT_UDP)
        udp_end(call);
    if (call->via)
        call->tried = call->left > 0 || call->withheld;
    call->via = 0;
    if (call->udp)
        port_release(call->udp);
    call->udp = NULL;
    if (call->tcp) {
        call->tcp->call = NULL;
        uv_close((uv_handle_t *)&call->tcp->tcp, on_tcp_closed);
        call->tcp = NULL;
    }
}
