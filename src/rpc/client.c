#include "rpc/client.h"

#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "proto/rpcbind.h"
#include "rpc/client_private.h"
#include "rpc/server.h"

/* ---- questions ---- */

/* Puts header and arguments into buf as one message; the transaction id is set when it is sent. */
static int build(struct hf_rpc_client *client, const struct hf_rpc_header *header, xdrproc_t encode,
                 const void *args, struct hf_buf *buf)
{
    size_t len = HF_RPC_CALL_HEADER_SIZE;
    XDR xdr;

    hf_rpc_put_call(client->scratch, header);
    if (encode) {
        xdrmem_create(&xdr, (char *)client->scratch + len, (u_int)(MESSAGE_MAX - len), XDR_ENCODE);
        if (!encode(&xdr, args))
            return HF_EFORMAT;
        len += xdr_getpos(&xdr);
    }
    hf_buf_clear(buf);
    return hf_buf_append(buf, client->scratch, len);
}

/* Makes message, under a new transaction id, the question. */
static int put_question(struct hf_rpc_outcall *call, struct hf_bytes message)
{
    uint32_t xid = htonl(++call->client->next_xid);

    /* The question may be the very buffer that message views: then there is nothing to copy. */
    if (message.data != call->question.data) {
        hf_buf_clear(&call->question);
        if (hf_buf_append(&call->question, message.data, message.len) < 0)
            return HF_ENOMEM;
    }
    memcpy(call->question.data, &xid, sizeof(xid));
    call->xid = call->client->next_xid;
    return 0;
}

/* Sends message to a port of the peer. */
static int ask(struct hf_rpc_outcall *call, struct hf_bytes message, uint16_t port,
               enum hf_rpc_transport via, uint64_t give_up_ms)
{
    int rv = put_question(call, message);

    if (rv < 0)
        return rv;
    call->to = call->request.peer;
    call->to.port = port;
    hf_rpc_exchange_begin(call, via, give_up_ms);
    return 0;
}

/* The question to version 2, which every port mapper speaks. */
static int build_getport(struct hf_rpc_outcall *call)
{
    struct hf_rpc_header header = {0, RPCBIND_PROG, HF_PMAP_VERS, HF_PMAP_GETPORT};
    hf_pmap map = {
        .prog = call->request.prog,
        .vers = call->request.vers,
        .prot = call->wanted == HF_RPC_TCP ? IPPROTO_TCP : IPPROTO_UDP,
    };

    return build(call->client, &header, (xdrproc_t)xdr_hf_pmap, &map, &call->question);
}

/* The question to version 4, for IPv6, which version 2 has no room for. */
static int build_getaddr(struct hf_rpc_outcall *call)
{
    static char tcp6[] = "tcp6";
    static char udp6[] = "udp6";
    static char empty[] = "";
    struct hf_rpc_header header = {0, RPCBIND_PROG, HF_RPCB_VERS4, HF_RPCB4_GETADDR};
    hf_rpcb map = {
        .prog = call->request.prog,
        .vers = call->request.vers,
        .netid = call->wanted == HF_RPC_TCP ? tcp6 : udp6,
        .addr = empty,
        .owner = empty,
    };

    return build(call->client, &header, (xdrproc_t)xdr_hf_rpcb, &map, &call->question);
}

/*
 * Asks the peer's rpcbind for the port. Over IPv4 by UDP first and then, with the time left, by
 * TCP: some hosts let only that through. Over IPv6 by the transport that is wanted, because version
 * 4 answers for the transport the question came by (RFC 1833, section 2.2.1). Whatever comes second
 * is left some time.
 */
static int begin_lookup(struct hf_rpc_outcall *call, enum hf_rpc_transport via)
{
    bool ipv6 = call->request.peer.family == HF_ADDR_IPV6;
    uint64_t now = uv_now(call->client->loop);
    uint64_t left = call->deadline_ms > now ? call->deadline_ms - now : 0;
    bool last = ipv6 ? call->wanted == HF_RPC_UDP || call->request.path == HF_RPC_BY_TCP
                     : via == HF_RPC_TCP;
    int rv = ipv6 ? build_getaddr(call) : build_getport(call);

    if (rv < 0)
        return rv;
    call->phase = PHASE_LOOKUP;
    return ask(call, hf_buf_view(&call->question), RPCBIND_PORT, ipv6 ? call->wanted : via,
               now + (last ? left : left * 2 / 5));
}

static int begin_call(struct hf_rpc_outcall *call, uint16_t port)
{
    call->phase = PHASE_CALL;
    return ask(call, hf_buf_view(&call->message), port, call->wanted, call->deadline_ms);
}

/* ---- ends ---- */

static void recycle(struct hf_rpc_outcall *call)
{
    call->client->n_active--;
    hf_list_remove(&call->link);
    hf_list_add_head(&call->client->spare, &call->link);
}

static struct hf_portcache_key port_key(const struct hf_rpc_outcall *call)
{
    return (struct hf_portcache_key){call->request.peer, call->request.prog, call->request.vers,
                                     call->wanted};
}

static void finish(struct hf_rpc_outcall *call, int error, XDR *results)
{
    struct hf_rpc_response response = {
        .error = error,
        .results = results,
        .peer = call->to,
        .elapsed_ms = (uint32_t)(uv_now(call->client->loop) - call->started_ms),
        .sent = call->sends > 0,
        .repeated = call->sends > 1,
    };
    hf_rpc_done done = call->done;
    void *ctx = call->ctx;

    if (error < 0 && call->request.remember_port) {
        struct hf_portcache_key key = port_key(call);
        hf_portcache_forget(&call->client->ports, &key);
    }
    recycle(call);
    done(ctx, &response);
}

static void go_on_or_finish(struct hf_rpc_outcall *call, int begun)
{
    if (begun < 0)
        finish(call, begun, NULL);
}

/* ---- answers ---- */

/* The port in an answer of rpcbind: 0 if the program is not registered, or an error. */
static int read_port(const struct hf_rpc_outcall *call, XDR *xdr)
{
    char text[HF_RPCB_MAXADDR + 1];
    char *p = text;
    struct hf_addr addr;
    u_int port;

    if (call->request.peer.family != HF_ADDR_IPV6) {
        if (!xdr_u_int(xdr, &port) || port > UINT16_MAX)
            return HF_EFORMAT;
        return (int)port;
    }
    if (!xdr_hf_rpcb_addr(xdr, &p))
        return HF_EFORMAT;
    if (text[0] == '\0')
        return 0;
    return hf_addr_parse_uaddr(text, &addr) < 0 ? HF_EFORMAT : addr.port;
}

/* This transport will not do; another may. */
static bool try_udp_instead(struct hf_rpc_outcall *call)
{
    if (call->wanted != HF_RPC_TCP || call->request.path != HF_RPC_BY_TCP_OR_UDP)
        return false;
    call->wanted = HF_RPC_UDP;
    go_on_or_finish(call, begin_lookup(call, HF_RPC_UDP));
    return true;
}

static void lookup_answered(struct hf_rpc_outcall *call, XDR *xdr)
{
    int port = read_port(call, xdr);

    if (port > 0 && call->request.remember_port) {
        struct hf_portcache_key key = port_key(call);
        hf_portcache_put(&call->client->ports, &key, (uint16_t)port, uv_now(call->client->loop));
    }
    if (port > 0)
        go_on_or_finish(call, begin_call(call, (uint16_t)port));
    else if (port < 0)
        finish(call, port, NULL);
    else if (!try_udp_instead(call))
        finish(call, HF_EUNREGISTERED, NULL);
}

/* The port the caller remembered leads nowhere: it has moved, so ask. */
static bool look_up_anew(struct hf_rpc_outcall *call)
{
    if (!call->hinted || call->phase != PHASE_CALL)
        return false;
    call->hinted = false;
    go_on_or_finish(call, begin_lookup(call, HF_RPC_UDP));
    return true;
}

static void on_waited_out(uv_timer_t *timer)
{
    finish(timer->data, 0, NULL);
}

/* The receipt is here; whoever called wants to know when the time is over. */
static void wait_out(struct hf_rpc_outcall *call)
{
    uint64_t now = uv_now(call->client->loop);
    uint64_t left = call->deadline_ms > now ? call->deadline_ms - now : 0;

    uv_timer_start(&call->timer, on_waited_out, left, 0);
}

/* Over the connection there is, or from the same socket. */
static void begin_second(struct hf_rpc_outcall *call)
{
    struct hf_bytes second = hf_buf_view(&call->second);
    uint16_t port = call->to.port;

    call->phase = PHASE_SECOND;
    if (call->via == HF_RPC_TCP && put_question(call, second) == 0 &&
        hf_rpc_exchange_continue(call) == 0)
        return;
    hf_rpc_exchange_end(call);
    if (ask(call, second, port, call->wanted, call->deadline_ms) < 0)
        finish(call, 0, NULL);
}

void hf_rpc_outcall_answered(struct hf_rpc_outcall *call, struct hf_bytes message)
{
    size_t offset = 0;
    int rv = hf_rpc_parse_reply(message, &offset);
    XDR xdr;

    if (rv == 0 && call->phase == PHASE_CALL && call->request.also) {
        begin_second(call);
        return;
    }
    hf_rpc_exchange_end(call);
    if (call->phase == PHASE_SECOND) {
        finish(call, 0, NULL);
        return;
    }
    if (rv == HF_EUNREGISTERED) {
        call->sends = 0; /* it came to somebody else, who did nothing with it */
        if (look_up_anew(call))
            return;
    }
    if (rv < 0) {
        finish(call, rv, NULL);
        return;
    }
    xdrmem_create(&xdr, (char *)(uintptr_t)(message.data + offset), (u_int)(message.len - offset),
                  XDR_DECODE);
    if (call->phase == PHASE_LOOKUP)
        lookup_answered(call, &xdr);
    else if (call->request.wait_out)
        wait_out(call);
    else
        finish(call, 0, &xdr);
}

/* rpcbind did not answer: over IPv4 ask it by TCP, over IPv6 ask it for another transport. */
static bool look_up_otherwise(struct hf_rpc_outcall *call, enum hf_rpc_transport failed)
{
    if (call->request.peer.family == HF_ADDR_IPV6)
        return try_udp_instead(call);
    if (failed == HF_RPC_TCP)
        return false;
    go_on_or_finish(call, begin_lookup(call, HF_RPC_TCP));
    return true;
}

void hf_rpc_outcall_failed(struct hf_rpc_outcall *call, int error)
{
    bool time_left = uv_now(call->client->loop) < call->deadline_ms;
    enum hf_rpc_transport via = call->via;

    hf_rpc_exchange_end(call);
    if (time_left && call->phase == PHASE_LOOKUP && look_up_otherwise(call, via))
        return;
    if (time_left && call->phase == PHASE_CALL && error == HF_EREFUSED &&
        (look_up_anew(call) || try_udp_instead(call)))
        return;
    finish(call, call->phase == PHASE_SECOND ? 0 : error, NULL);
}

/* ---- the client ---- */

static void on_prepare(uv_prepare_t *handle)
{
    struct hf_rpc_client *client = handle->data;

    for (unsigned i = 0; i < SOCKETS; i++) {
        if (client->socket_open[i])
            hf_udp_flush(&client->sockets[i]);
    }
}

int hf_rpc_client_new(uv_loop_t *loop, const struct hf_alloc *alloc,
                      const struct hf_hash_key *hash_key, struct hf_rpc_client **out)
{
    struct hf_rpc_client *client = hf_calloc(alloc, 1, sizeof(*client));

    if (!client)
        return HF_ENOMEM;
    client->loop = loop;
    client->alloc = alloc;
    client->hash_key = *hash_key;
    /* The first id is not to be guessed; the key is random, and so is what it hashes to. */
    client->next_xid = (uint32_t)hf_siphash_u64(hash_key, uv_hrtime(), 0);
    if (hf_map_init(&client->waiting, alloc) < 0)
        goto err_client;
    if (hf_portcache_init(&client->ports, hash_key, alloc) < 0)
        goto err_map;
    hf_list_init(&client->active);
    hf_list_init(&client->spare);
    uv_prepare_init(loop, &client->prepare);
    client->prepare.data = client;
    uv_prepare_start(&client->prepare, on_prepare);
    client->open_handles = 1;
    *out = client;
    return 0;

err_map:
    hf_map_free(&client->waiting);
err_client:
    hf_free(alloc, client);
    return HF_ENOMEM;
}

static void on_server_reply(void *ctx, const struct hf_addr *peer, struct hf_bytes datagram)
{
    hf_rpc_exchange_reply(ctx, peer, datagram);
}

void hf_rpc_client_attach(struct hf_rpc_client *client, struct hf_rpc_server *server)
{
    client->server = server;
    hf_rpc_server_on_reply(server, on_server_reply, client);
}

static struct hf_rpc_outcall *call_new(struct hf_rpc_client *client)
{
    struct hf_rpc_outcall *call = hf_list_first(&client->spare, struct hf_rpc_outcall, link);

    if (call)
        return call;
    call = hf_calloc(client->alloc, 1, sizeof(*call));
    if (!call)
        return NULL;
    call->client = client;
    hf_buf_init(&call->message, client->alloc);
    hf_buf_init(&call->second, client->alloc);
    hf_buf_init(&call->question, client->alloc);
    uv_timer_init(client->loop, &call->timer);
    call->timer.data = call;
    client->open_handles++;
    hf_list_add_head(&client->spare, &call->link);
    return call;
}

int hf_rpc_client_call(struct hf_rpc_client *client, const struct hf_rpc_request *request,
                       hf_rpc_done done, void *ctx, struct hf_rpc_outcall **out)
{
    struct hf_rpc_header header = {0, request->prog, request->vers, request->proc};
    struct hf_rpc_outcall *call = call_new(client);
    uint16_t port = request->peer.port;
    int rv;

    if (!call)
        return HF_ENOMEM;
    HF_ASSERT(request->peer.family != HF_ADDR_NONE);
    call->request = *request;
    call->request.args = NULL;
    call->done = done;
    call->ctx = ctx;
    call->sends = 0;
    call->wanted = request->path == HF_RPC_BY_UDP ? HF_RPC_UDP : HF_RPC_TCP;
    uv_update_time(client->loop);
    call->started_ms = uv_now(client->loop);
    if (port == 0 && request->remember_port) {
        struct hf_portcache_key key = port_key(call);
        port = hf_portcache_get(&client->ports, &key, call->started_ms);
    }
    call->hinted = port != 0 && request->prog != RPCBIND_PROG;
    call->deadline_ms = call->started_ms + request->timeout_ms;
    rv = build(client, &header, request->encode, request->args, &call->message);
    if (rv == 0 && request->also)
        rv = build(client, &header, request->encode, request->also, &call->second);
    if (rv == 0)
        rv = port ? begin_call(call, port) : begin_lookup(call, HF_RPC_UDP);
    if (rv < 0)
        return rv; /* the call is still among the spare ones */
    hf_list_remove(&call->link);
    hf_list_add_tail(&client->active, &call->link);
    client->n_active++;
    if (out)
        *out = call;
    return 0;
}

void hf_rpc_client_cancel(struct hf_rpc_outcall *call)
{
    hf_rpc_exchange_end(call);
    recycle(call);
}

unsigned hf_rpc_client_active(const struct hf_rpc_client *client)
{
    return client->n_active;
}

/* ---- closing ---- */

static void client_del(struct hf_rpc_client *client)
{
    void (*closed)(void *ctx) = client->closed;
    void *ctx = client->closed_ctx;

    hf_list_foreach_safe (node, &client->spare) {
        struct hf_rpc_outcall *call = hf_list_entry(node, struct hf_rpc_outcall, link);
        hf_buf_free(&call->message);
        hf_buf_free(&call->second);
        hf_buf_free(&call->question);
        hf_free(client->alloc, call);
    }
    hf_map_free(&client->waiting);
    hf_portcache_free(&client->ports);
    hf_free(client->alloc, client);
    if (closed)
        closed(ctx);
}

void hf_rpc_client_handle_closed(struct hf_rpc_client *client)
{
    HF_ASSERT(client->open_handles > 0);
    if (--client->open_handles == 0)
        client_del(client);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct hf_rpc_outcall *call = handle->data;

    hf_rpc_client_handle_closed(call->client);
}

static void on_prepare_closed(uv_handle_t *handle)
{
    hf_rpc_client_handle_closed(handle->data);
}

void hf_rpc_client_close(struct hf_rpc_client *client, void (*closed)(void *ctx), void *ctx)
{
    client->closed = closed;
    client->closed_ctx = ctx;
    if (client->server)
        hf_rpc_server_on_reply(client->server, NULL, NULL);
    hf_list_foreach_safe (node, &client->active) {
        hf_rpc_client_cancel(hf_list_entry(node, struct hf_rpc_outcall, link));
    }
    hf_list_foreach (node, &client->spare) {
        uv_close((uv_handle_t *)&hf_list_entry(node, struct hf_rpc_outcall, link)->timer,
                 on_timer_closed);
    }
    hf_rpc_exchange_close_sockets(client);
    uv_close((uv_handle_t *)&client->prepare, on_prepare_closed);
}
