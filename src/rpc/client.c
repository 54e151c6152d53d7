#include "rpc/client.h"

#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/programs.h"
#include "proto/rpcbind.h"
#include "rpc/client_private.h"
#include "rpc/credit.h"
#include "rpc/server.h"

/* ---- questions ---- */

/* Encodes header and arguments into buf as one message. Its transaction id is set when the message
 * is sent. */
static int build(struct hf_rpc_client *client, const struct hf_rpc_header *header, hf_codec encode,
                 const void *args, struct hf_buf *buf)
{
    size_t len = HF_RPC_CALL_HEADER_SIZE;
    XDR xdr;

    hf_rpc_put_call(client->scratch, header);
    if (encode) {
        xdrmem_create(&xdr, (char *)client->scratch + len, (u_int)(MESSAGE_MAX - len), XDR_ENCODE);
        if (!encode(&xdr, (void *)(uintptr_t)args)) /* the codec only reads the arguments */
            return HF_EFORMAT;
        len += xdr_getpos(&xdr);
    }
    hf_buf_clear(buf);
    return hf_buf_append(buf, client->scratch, len);
}

/* Returns a transaction id that cannot be guessed from earlier ones (SEC-07), and that no waiting
 * call uses. */
static uint32_t new_xid(struct hf_rpc_client *client)
{
    uint32_t xid;

    do
        xid = (uint32_t)hf_siphash_u64(&client->xid_key, client->n_xids++, 0);
    while (hf_rpc_exchange_is_awaited(client, xid));
    return xid;
}

/* Makes message the call's question, and gives it a new transaction id. */
static int put_question(struct hf_rpc_outcall *call, struct hf_bytes message)
{
    uint32_t xid = new_xid(call->client);
    uint32_t wire = htonl(xid);

    /* If message is the question buffer itself, nothing needs copying. */
    if (message.data != call->question.data) {
        hf_buf_clear(&call->question);
        if (hf_buf_append(&call->question, message.data, message.len) < 0)
            return HF_ENOMEM;
    }
    memcpy(call->question.data, &wire, sizeof(wire));
    call->xid = xid;
    return 0;
}

/* Sends message to a port of the peer by this transport. */
static int ask(struct hf_rpc_outcall *call, struct hf_bytes message, uint16_t port,
               enum hf_transport via, uint64_t give_up_ms)
{
    int rv = put_question(call, message);

    if (rv < 0)
        return rv;
    call->to = call->call_args.peer;
    call->to.port = port;
    hf_rpc_exchange_begin(call, via, give_up_ms);
    if (call->phase == PHASE_CALL && call->sends > 0)
        hf_lanes_sent(call);
    return 0;
}

/* Builds rpcbind's GETPORT request of version 2, which every port mapper understands. */
static int build_getport(struct hf_rpc_outcall *call)
{
    struct hf_rpc_header header = {0, HF_PROGRAM_RPCBIND, HF_PMAP_VERS, HF_PMAP_GETPORT};
    hf_pmap map = {
        .prog = call->call_args.prog,
        .vers = call->call_args.vers,
        .prot = call->wanted == HF_TRANSPORT_TCP ? IPPROTO_TCP : IPPROTO_UDP,
    };

    return build(call->client, &header, xdr_hf_pmap, &map, &call->question);
}

/* Builds rpcbind's GETADDR request of version 4: in version 2 the arguments cannot name an IPv6
 * transport. */
static int build_getaddr(struct hf_rpc_outcall *call)
{
    static char tcp6[] = "tcp6";
    static char udp6[] = "udp6";
    static char empty[] = "";
    struct hf_rpc_header header = {0, HF_PROGRAM_RPCBIND, HF_RPCB_VERS4, HF_RPCB4_GETADDR};
    hf_rpcb map = {
        .prog = call->call_args.prog,
        .vers = call->call_args.vers,
        .netid = call->wanted == HF_TRANSPORT_TCP ? tcp6 : udp6,
        .addr = empty,
        .owner = empty,
    };

    return build(call->client, &header, xdr_hf_rpcb, &map, &call->question);
}

/*
 * Returns for how much of the time that is left rpcbind is asked by the first transport. The kernel
 * repeats a SYN after a second. A call whose packets are charged has two seconds in all, and the
 * second transport gets less than one of them, so that its SYN is sent only once.
 */
static uint64_t first_part(const struct hf_rpc_outcall *call, uint64_t left)
{
    bool udp_first = call->call_args.peer.family != HF_ADDR_IPV6;

    return call->call_args.charged && udp_first ? left * 11 / 20 : left * 2 / 5;
}

/*
 * Asks the peer's rpcbind for the port. Over IPv4 the question goes by UDP first and then, in the
 * time that is left, by TCP, because some firewalls pass only TCP. Over IPv6 it goes by the
 * transport for which the port is wanted, because version 4 answers for the transport of the
 * question (RFC 1833, section 2.2.1). The first attempt leaves time for the second.
 */
static int begin_lookup(struct hf_rpc_outcall *call, enum hf_transport via)
{
    bool ipv6 = call->call_args.peer.family == HF_ADDR_IPV6;
    uint64_t now = uv_now(call->client->loop);
    uint64_t left = call->deadline_ms > now ? call->deadline_ms - now : 0;
    bool last = ipv6 ? call->wanted == HF_TRANSPORT_UDP || !call->call_args.udp_fallback
                     : via == HF_TRANSPORT_TCP;
    int rv = ipv6 ? build_getaddr(call) : build_getport(call);

    if (rv < 0)
        return rv;
    if (call->on_trial) {
        /* by UDP: over TCP the kernel would repeat the SYN, for which there may be no credit */
        via = HF_TRANSPORT_UDP;
        left = left < TRIAL_MS ? left : TRIAL_MS;
        last = true;
    }
    call->phase = PHASE_LOOKUP;
    return ask(call, hf_buf_view(&call->question), RPCBIND_PORT,
               ipv6 && !call->on_trial ? call->wanted : via,
               now + (last ? left : first_part(call, left)));
}

static int begin_call(struct hf_rpc_outcall *call, uint16_t port)
{
    uint64_t give_up_ms = uv_now(call->client->loop) + TRIAL_MS;

    if (!call->on_trial || !call->call_args.expendable || give_up_ms > call->deadline_ms)
        give_up_ms = call->deadline_ms;
    call->phase = PHASE_CALL;
    return ask(call, hf_buf_view(&call->message), port, call->wanted, give_up_ms);
}

/* ---- the end of a call ---- */

static void recycle(struct hf_rpc_outcall *call)
{
    hf_lanes_leave(call);
    call->client->n_active--;
    hf_list_remove(&call->link);
    hf_list_add_head(&call->client->spare, &call->link);
}

static struct hf_portcache_key port_key(const struct hf_rpc_outcall *call)
{
    return (struct hf_portcache_key){call->call_args.peer, call->call_args.prog,
                                     call->call_args.vers, call->wanted};
}

/* True if rpcbind named the port during this call, and a credit paid for that question: the next
 * attempt must not pay for another search. */
static bool is_port_new(const struct hf_rpc_outcall *call)
{
    return call->on_trial && call->phase == PHASE_CALL && !call->hinted;
}

static void finish(struct hf_rpc_outcall *call, int error, XDR *results)
{
    bool shut = error < 0 && !hf_rpc_gate_is_open(call->client->gate);
    struct hf_rpc_response response = {
        .error = shut ? HF_EBUSY : error,
        .results = results,
        .peer = call->to,
        .elapsed_ms = (uint32_t)(uv_now(call->client->loop) - call->started_ms),
        .sent = call->sends > 0,
        .repeated = call->sends > 1,
        .tried = error == 0 || (call->tried && !shut),
    };
    hf_rpc_done done = call->done;
    void *ctx = call->ctx;

    if (error < 0 && call->begun && call->call_args.remember_port && !is_port_new(call)) {
        struct hf_portcache_key key = port_key(call);
        hf_portcache_forget(&call->client->ports, &key);
    }
    recycle(call);
    done(ctx, &response);
}

static void go_on_or_finish(struct hf_rpc_outcall *call, int begun)
{
    if (begun >= 0)
        return;
    /* Our own host caused this failure, whatever became of the previous question. */
    call->tried = false;
    finish(call, begun, NULL);
}

/* ---- answers ---- */

/* Returns the port in an answer of rpcbind; 0 if the program is not registered; or an error. */
static int read_port(const struct hf_rpc_outcall *call, XDR *xdr)
{
    char text[HF_RPCB_MAXADDR + 1];
    char *p = text;
    struct hf_addr addr;
    u_int port;

    if (call->call_args.peer.family != HF_ADDR_IPV6) {
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

/* Tries the call by UDP, if the caller allows it, after a peer turned out not to serve TCP. */
static bool try_udp_instead(struct hf_rpc_outcall *call)
{
    if (call->wanted != HF_TRANSPORT_TCP || !call->call_args.udp_fallback)
        return false;
    call->wanted = HF_TRANSPORT_UDP;
    go_on_or_finish(call, begin_lookup(call, HF_TRANSPORT_UDP));
    return true;
}

static void lookup_answered(struct hf_rpc_outcall *call, XDR *xdr)
{
    int port = read_port(call, xdr);

    if (port > 0 && port == call->call_args.not_port) {
        finish(call, HF_EDENIED, NULL);
        return;
    }
    if (port > 0 && call->call_args.remember_port) {
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

/* Asks rpcbind for the port after the port that the caller remembered did not answer as expected:
 * the program has probably moved. */
static bool look_up_anew(struct hf_rpc_outcall *call)
{
    if (!call->hinted || call->phase != PHASE_CALL)
        return false;
    call->hinted = false;
    go_on_or_finish(call, begin_lookup(call, HF_TRANSPORT_UDP));
    return true;
}

static void on_waited_out(uv_timer_t *timer)
{
    finish(timer->data, 0, NULL);
}

/* Keeps an acknowledged call until its time is over, as the caller asked (wait_out). */
static void wait_out(struct hf_rpc_outcall *call)
{
    uint64_t now = uv_now(call->client->loop);
    uint64_t left = call->deadline_ms > now ? call->deadline_ms - now : 0;

    hf_lanes_leave(call);
    uv_timer_start(&call->timer, on_waited_out, left, 0);
}

/* Sends the second call over the connection of the first, or from its UDP socket. */
static void begin_second(struct hf_rpc_outcall *call)
{
    struct hf_bytes second = hf_buf_view(&call->second);
    uint16_t port = call->to.port;

    call->phase = PHASE_SECOND;
    if (call->via == HF_TRANSPORT_TCP && put_question(call, second) == 0 &&
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

    hf_lanes_answered(call);
    if (rv == 0 && call->phase == PHASE_CALL && call->call_args.also) {
        begin_second(call);
        return;
    }
    hf_rpc_exchange_end(call);
    if (call->phase == PHASE_SECOND) {
        finish(call, 0, NULL);
        return;
    }
    if (rv == HF_EUNREGISTERED) {
        call->sends = 0; /* an unrelated program received the call and did nothing with it */
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
    else if (call->call_args.wait_out)
        wait_out(call);
    else
        finish(call, 0, &xdr);
}

/* Asks rpcbind in another way after it did not answer: over IPv4 by TCP, over IPv6 for the other
 * transport. */
static bool look_up_otherwise(struct hf_rpc_outcall *call, enum hf_transport failed)
{
    if (call->call_args.peer.family == HF_ADDR_IPV6)
        return try_udp_instead(call);
    if (failed == HF_TRANSPORT_TCP)
        return false;
    go_on_or_finish(call, begin_lookup(call, HF_TRANSPORT_TCP));
    return true;
}

void hf_rpc_outcall_failed(struct hf_rpc_outcall *call, int error)
{
    bool time_left = uv_now(call->client->loop) < call->deadline_ms;
    enum hf_transport via = call->via;

    hf_rpc_exchange_end(call);
    if (call->on_trial || !via)
        time_left = false;
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
    hf_rpc_exchange_flush(handle->data);
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
    /* Transaction ids are hashed with a key of their own: they are sent to peers, and must reveal
     * nothing about other hashes. */
    if (getrandom(&client->xid_key, sizeof(client->xid_key), 0) < 0)
        client->xid_key = (struct hf_hash_key){hf_siphash_u64(hash_key, uv_hrtime(), 1),
                                               hf_siphash_u64(hash_key, uv_hrtime(), 2)};
    if (hf_map_init(&client->waiting, alloc) < 0)
        goto err_client;
    if (hf_portcache_init(&client->ports, hash_key, alloc) < 0)
        goto err_map;
    if (hf_lanes_init(client) < 0)
        goto err_ports;
    hf_list_init(&client->active);
    hf_list_init(&client->spare);
    hf_list_init(&client->udp_ports);
    uv_prepare_init(loop, &client->prepare);
    client->prepare.data = client;
    uv_prepare_start(&client->prepare, on_prepare);
    client->open_handles = 2;
    *out = client;
    return 0;

err_ports:
    hf_portcache_free(&client->ports);
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

void hf_rpc_client_set_gate(struct hf_rpc_client *client, const struct hf_rpc_gate *gate)
{
    client->gate = gate;
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
    hf_list_init(&call->queued);
    hf_buf_init(&call->message, client->alloc);
    hf_buf_init(&call->second, client->alloc);
    hf_buf_init(&call->question, client->alloc);
    uv_timer_init(client->loop, &call->timer);
    call->timer.data = call;
    client->open_handles++;
    hf_list_add_head(&client->spare, &call->link);
    return call;
}

int hf_rpc_outcall_begin(struct hf_rpc_outcall *call)
{
    uint16_t port = call->call_args.peer.port;

    call->begun = true;
    if (port == 0 && call->call_args.remember_port) {
        struct hf_portcache_key key = port_key(call);
        port = hf_portcache_get(&call->client->ports, &key, uv_now(call->client->loop));
    }
    call->hinted = port != 0 && call->call_args.prog != HF_PROGRAM_RPCBIND;
    return port ? begin_call(call, port) : begin_lookup(call, HF_TRANSPORT_UDP);
}

void hf_rpc_outcall_give_up(struct hf_rpc_outcall *call)
{
    call->client->counters.gave_way++;
    hf_rpc_exchange_end(call);
    finish(call, 0, NULL);
}

/* Encodes the call's message, and that of the second call if there is one. */
static int encode(struct hf_rpc_outcall *call, const struct hf_rpc_outcall_args *call_args)
{
    struct hf_rpc_header header = {0, call_args->prog, call_args->vers, call_args->proc};
    int rv = build(call->client, &header, call_args->encode, call_args->args, &call->message);

    if (rv == 0 && call_args->also)
        rv = build(call->client, &header, call_args->encode, call_args->also, &call->second);
    return rv;
}

static struct hf_addr *source_of(struct hf_rpc_client *client, uint8_t family)
{
    return &client->sources[family == HF_ADDR_IPV6];
}

void hf_rpc_client_set_source(struct hf_rpc_client *client, const struct hf_addr *addr)
{
    struct hf_addr *source = source_of(client, addr->family);

    *source = *addr;
    source->port = 0;
}

static void choose_source(struct hf_rpc_client *client, struct hf_rpc_outcall_args *call_args)
{
    const struct hf_addr *source = source_of(client, call_args->peer.family);

    if (source->family == HF_ADDR_NONE || hf_addr_is_loopback(&call_args->peer))
        return;
    if (call_args->local.family != call_args->peer.family || hf_addr_is_any(&call_args->local))
        call_args->local = *source;
}

int hf_rpc_client_call(struct hf_rpc_client *client, const struct hf_rpc_outcall_args *call_args,
                       hf_rpc_done done, void *ctx, struct hf_rpc_outcall **out)
{
    struct hf_rpc_outcall *call = call_new(client);
    int rv;

    if (!call)
        return HF_ENOMEM;
    HF_ASSERT(call_args->peer.family != HF_ADDR_NONE);
    HF_ASSERT(call_args->transport == HF_TRANSPORT_UDP || call_args->transport == HF_TRANSPORT_TCP);
    call->call_args = *call_args;
    call->call_args.args = NULL;
    choose_source(client, &call->call_args);
    call->done = done;
    call->ctx = ctx;
    call->sends = 0;
    call->left = 0;
    call->tried = false;
    call->begun = false;
    call->phase = PHASE_LOOKUP;
    call->to = call_args->peer;
    call->wanted = call_args->transport;
    uv_update_time(client->loop);
    call->started_ms = uv_now(client->loop);
    call->deadline_ms = call->started_ms + call_args->timeout_ms;
    call->on_trial = call_args->provoked && client->server &&
                     hf_rpc_server_needs_credit(client->server, &call_args->peer);
    rv = encode(call, call_args);
    if (rv == 0)
        rv = hf_lanes_enter(call);
    client->counters.refused += rv == HF_ELIMIT;
    if (rv < 0)
        return rv; /* the call is still in the list of spare calls */
    client->counters.started++;
    hf_list_remove(&call->link);
    hf_list_add_tail(&client->active, &call->link);
    client->n_active++;
    if (out)
        *out = call;
    return 0;
}

void hf_rpc_client_took_lock(struct hf_rpc_client *client, const struct hf_addr *peer)
{
    if (client->server)
        hf_rpc_server_took_lock(client->server, peer);
}

void hf_rpc_client_cancel(struct hf_rpc_outcall *call)
{
    hf_rpc_exchange_end(call);
    recycle(call);
}

struct hf_rpc_client_counters hf_rpc_client_counters(const struct hf_rpc_client *client)
{
    struct hf_rpc_client_counters counters = client->counters;

    counters.running = client->lanes.running;
    counters.waiting = client->lanes.queued;
    return counters;
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
    hf_lanes_free(client);
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

static void on_handle_closed(uv_handle_t *handle)
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
    hf_rpc_exchange_close_ports(client);
    uv_close((uv_handle_t *)&client->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&client->lanes.timer, on_handle_closed);
}
