#include "rpc/program.h"

#include <string.h>

#include "base/assert.h"
#include "rpc/server_private.h"

/* ---- requests ---- */

/* True if the account has as many requests in progress as it may have now. A request by UDP is
 * already among them, because counting it keeps the host's record alive. */
static bool is_over_quota(const struct hf_rpc_server *server, const struct hf_rpc_origin *origin)
{
    const struct hf_rpc_host *host = origin->host;

    if (host->exempt)
        return host->n_calls > CALLS_TOTAL_MAX / 2;
    return host->n_calls > server->config.max_calls_per_host ||
           !hf_trust_has_share(CALLS_TOTAL_MAX, server->n_calls, host->n_calls - !origin->conn);
}

static struct hf_rpc_call *call_new(struct hf_rpc_server *server,
                                    const struct hf_rpc_origin *origin, struct hf_bytes message)
{
    struct hf_rpc_call *call = hf_list_first(&server->spare_calls, struct hf_rpc_call, link);

    if (is_over_quota(server, origin)) {
        server->counters.over_quota++;
        return NULL;
    }
    if (call)
        hf_list_remove(&call->link);
    else if (server->n_calls < CALLS_TOTAL_MAX)
        call = hf_malloc(server->config.alloc, sizeof(*call));
    if (!call)
        return NULL;
    call->transport = origin->conn ? HF_TRANSPORT_TCP : HF_TRANSPORT_UDP;
    call->peer = *origin->peer;
    call->local = *origin->local;
    call->program = NULL;
    call->procedure = NULL;
    call->server = server;
    call->host = origin->host;
    call->asked = (uint32_t)message.len;
    call->trust = origin->trust;
    call->uid = origin->conn ? origin->conn->uid : HF_RPC_UID_UNKNOWN;
    call->conn = origin->conn;
    call->udp = origin->conn ? NULL : &origin->listener->udp;
    call->dup = NULL;
    hf_list_init(&call->link);
    server->n_calls++;
    call->host->n_calls++;
    if (call->conn) {
        hf_list_add_tail(&call->conn->calls, &call->link);
        call->conn->n_calls++;
    }
    return call;
}

static void call_del(struct hf_rpc_call *call)
{
    struct hf_rpc_conn *conn = call->conn;

    call->server->n_calls--;
    call->host->n_calls--;
    hf_list_remove(&call->link);
    hf_list_add_head(&call->server->spare_calls, &call->link);
    if (conn)
        hf_rpc_conn_answered(conn);
    else
        hf_rpc_hosts_release(&call->server->hosts, call->host);
}

/* Handles a repeat of a request that is still in progress: the answer will go to where the repeat
 * came from. */
static void redirect(struct hf_rpc_call *first, struct hf_rpc_call *repeat)
{
    struct hf_rpc_conn *old = first->conn;

    if (old != repeat->conn || first->udp != repeat->udp) {
        hf_list_remove(&first->link);
        if (repeat->conn) {
            hf_list_add_tail(&repeat->conn->calls, &first->link);
            repeat->conn->n_calls++;
        }
        first->conn = repeat->conn;
        first->udp = repeat->udp;
        first->transport = repeat->transport;
        if (old)
            hf_rpc_conn_answered(old);
    }
    first->peer = repeat->peer;
    first->local = repeat->local;
    call_del(repeat);
}

static const struct hf_rpc_program *find_program(const struct hf_rpc_listener *listener,
                                                 uint32_t number)
{
    for (size_t i = 0; i < listener->n_programs; i++) {
        if (listener->programs[i]->number == number)
            return listener->programs[i];
    }
    return NULL;
}

static const struct hf_rpc_version *find_version(const struct hf_rpc_program *program,
                                                 uint32_t number)
{
    for (size_t i = 0; i < program->n_versions; i++) {
        if (program->versions[i].number == number)
            return &program->versions[i];
    }
    return NULL;
}

static void send_header(struct hf_rpc_call *call, const uint8_t *header, size_t len);

static void refuse(struct hf_rpc_call *call, enum hf_rpc_verdict verdict)
{
    uint8_t header[HF_RPC_REPLY_HEADER_MAX];
    uint32_t xid = call->header.xid;
    size_t len;

    call->server->counters.refused++;
    if (verdict == HF_RPC_BAD_VERSION)
        len = hf_rpc_put_rpc_mismatch(header, xid);
    else
        len = hf_rpc_put_auth_error(
            header, xid, verdict == HF_RPC_TOO_WEAK ? HF_RPC_AUTH_TOOWEAK : HF_RPC_AUTH_BADCRED);
    send_header(call, header, len);
}

static void refuse_version(struct hf_rpc_call *call, const struct hf_rpc_program *program)
{
    uint8_t header[HF_RPC_REPLY_HEADER_MAX];
    uint32_t low = program->versions[0].number;
    uint32_t high = program->versions[program->n_versions - 1].number;

    call->server->counters.refused++;
    send_header(call, header, hf_rpc_put_prog_mismatch(header, call->header.xid, low, high));
}

/* Finds program, version and procedure of a call. If one of them is not served, answers with an
 * error and returns false. */
static bool resolve(struct hf_rpc_call *call, const struct hf_rpc_listener *listener)
{
    const struct hf_rpc_version *version;

    call->program = find_program(listener, call->header.prog);
    if (!call->program) {
        hf_rpc_reply_error(call, HF_RPC_PROG_UNAVAIL);
        return false;
    }
    version = find_version(call->program, call->header.vers);
    if (!version) {
        refuse_version(call, call->program);
        return false;
    }
    if (call->header.proc >= version->n_procedures ||
        !version->procedures[call->header.proc].name) {
        hf_rpc_reply_error(call, HF_RPC_PROC_UNAVAIL);
        return false;
    }
    call->procedure = &version->procedures[call->header.proc];
    return true;
}

/* Checks the duplicate request cache, so that a retransmitted request gets its first answer again
 * (SPEC section 4). Returns true if the request is new. */
static bool first_time(struct hf_rpc_call *call, uint64_t hash)
{
    struct hf_rpc_server *server = call->server;
    struct hf_dup *entry;
    struct hf_bytes reply;

    switch (hf_dupcache_check(&server->dups, uv_now(server->config.loop), &call->host->dups,
                              call->header.xid, hash, &entry)) {
    case HF_DUP_NEW:
        entry->call = call;
        call->dup = entry;
        return true;
    case HF_DUP_IN_FLIGHT:
        server->counters.duplicates++;
        redirect(entry->call, call);
        return false;
    case HF_DUP_ANSWERED:
        server->counters.duplicates++;
        reply = hf_dup_reply(entry);
        send_header(call, reply.data, reply.len);
        return false;
    }
    HF_UNREACHABLE();
}

void hf_rpc_dispatch(struct hf_rpc_server *server, const struct hf_rpc_origin *origin,
                     struct hf_bytes message)
{
    struct hf_rpc_header header;
    size_t args_offset;
    enum hf_rpc_verdict verdict = hf_rpc_parse_call(message, &header, &args_offset);
    struct hf_rpc_call *call;
    uint64_t hash = 0;

    if (verdict == HF_RPC_DROP) {
        uint32_t xid;
        if (!origin->conn && server->reply && hf_rpc_parse_reply_xid(message, &xid) == 0)
            server->reply(server->reply_ctx, origin->peer, message);
        else
            server->counters.undecodable++;
        return;
    }
    call = call_new(server, origin, message);
    if (!call)
        /* Drop the request, as the network might have: memory ran out, or too many requests are in
         * progress. The client repeats it. */
        return;
    call->header = header;
    call->received_ns = server->read_ns;
    server->counters.calls++;
    if (verdict != HF_RPC_OK) {
        refuse(call, verdict);
        return;
    }
    if (!resolve(call, origin->listener))
        return;
    if (call->procedure->once)
        hash = hf_dupcache_hash(&server->dups, &call->host->dups,
                                &(struct hf_dup_path){&call->peer, &call->local, call->transport},
                                message);
    if (!hf_rpc_decode(call->procedure,
                       hf_bytes(message.data + args_offset, message.len - args_offset))) {
        hf_rpc_reply_error(call, HF_RPC_GARBAGE_ARGS);
        return;
    }
    if (call->procedure->once && !first_time(call, hash))
        return;
    call->procedure->handle(call, call->procedure->args);
}

/* ---- answers ---- */

/* Returns the memory into which to encode the answer, whose size is at most `size`. */
static uint8_t *reply_room(struct hf_rpc_call *call, size_t size)
{
    HF_ASSERT(call->server);
    if (call->conn)
        return hf_rpc_conn_room(call->conn, size);
    if (call->udp)
        return hf_udp_room(call->udp);
    /* the connection is closed: the answer is encoded only for a repeat */
    return call->server->scratch;
}

static void answer_datagram(struct hf_rpc_call *call, size_t len)
{
    hf_udp_queue(call->udp, &call->peer, &call->local, len, NULL);
    if (!hf_addr_is_loopback(&call->peer))
        hf_credit_answered(&call->server->credits, &call->peer, len);
}

static void reply_commit(struct hf_rpc_call *call, const uint8_t *room, size_t len)
{
    if (call->dup)
        hf_dup_answer(&call->server->dups, call->dup, hf_bytes(room, len));
    if (call->conn)
        hf_rpc_conn_commit(call->conn, len);
    else if (call->udp)
        answer_datagram(call, len);
    call_del(call);
}

/*
 * Returns the largest answer to a call (SEC-03). A question by UDP may be forged, and its answer
 * then goes to a host that never asked, whatever that host has proved before. So the answer must
 * not be much longer than the question. Loopback addresses cannot be forged.
 */
static size_t answer_max(const struct hf_rpc_call *call)
{
    if (!call->udp)
        return REPLY_ROOM_MAX;
    return hf_addr_is_loopback(&call->peer) ? HF_UDP_DATAGRAM_MAX
                                            : HF_TRUST_ANSWER_FACTOR * (size_t)call->asked;
}

static bool is_too_long(struct hf_rpc_call *call, size_t len)
{
    if (!call->udp || len <= answer_max(call))
        return false;
    call->server->counters.too_long++;
    return true;
}

size_t hf_rpc_reply_room(const struct hf_rpc_call *call)
{
    size_t max = answer_max(call);

    return max > HF_RPC_REPLY_HEADER_MAX ? max - HF_RPC_REPLY_HEADER_MAX : 0;
}

static void reply_abandon(struct hf_rpc_call *call)
{
    if (call->dup)
        hf_dup_forget(&call->server->dups, call->dup);
    call_del(call);
}

static void send_header(struct hf_rpc_call *call, const uint8_t *header, size_t len)
{
    uint8_t *room = is_too_long(call, len) ? NULL : reply_room(call, len);

    if (!room) {
        reply_abandon(call);
        return;
    }
    memcpy(room, header, len);
    reply_commit(call, room, len);
}

/* Returns the length of the encoded reply, or 0 if it does not fit into size bytes. */
static size_t encode_reply(uint8_t *room, size_t size, uint32_t xid, hf_codec encode,
                           const void *results)
{
    size_t len = hf_rpc_put_success(room, xid);
    XDR xdr;

    xdrmem_create(&xdr, (char *)room + len, (u_int)(size - len), XDR_ENCODE);
    if (!encode(&xdr, (void *)(uintptr_t)results)) /* the codec only reads the results */
        return 0;
    return len + xdr_getpos(&xdr);
}

void hf_rpc_reply(struct hf_rpc_call *call, hf_codec encode, const void *results)
{
    size_t sizes[] = {REPLY_ROOM, call->udp ? HF_UDP_DATAGRAM_MAX : REPLY_ROOM_MAX};

    for (size_t i = 0; i < HF_COUNT_OF(sizes); i++) {
        uint8_t *room = reply_room(call, sizes[i]);
        size_t len = room ? encode_reply(room, sizes[i], call->header.xid, encode, results) : 0;

        if (len > 0 && is_too_long(call, len))
            break;
        if (len > 0) {
            reply_commit(call, room, len);
            return;
        }
    }
    hf_rpc_reply_error(call, HF_RPC_SYSTEM_ERR);
}

void hf_rpc_reply_void(struct hf_rpc_call *call)
{
    uint8_t header[HF_RPC_REPLY_HEADER_MAX];

    send_header(call, header, hf_rpc_put_success(header, call->header.xid));
}

void hf_rpc_reply_void_if_paid(struct hf_rpc_call *call)
{
    uint8_t header[HF_RPC_REPLY_HEADER_MAX];
    size_t len = hf_rpc_put_success(header, call->header.xid);

    if (call->udp && hf_rpc_server_needs_credit(call->server, &call->peer) &&
        !hf_credit_has(&call->server->credits, &call->peer, len))
        reply_abandon(call);
    else
        send_header(call, header, len);
}

void hf_rpc_reply_error(struct hf_rpc_call *call, enum hf_rpc_accept stat)
{
    uint8_t header[HF_RPC_REPLY_HEADER_MAX];

    HF_ASSERT(stat != HF_RPC_SUCCESS && stat != HF_RPC_PROG_MISMATCH);
    call->server->counters.refused++;
    send_header(call, header, hf_rpc_put_accepted(header, call->header.xid, stat));
}

void hf_rpc_reply_never(struct hf_rpc_call *call)
{
    reply_abandon(call);
}

const struct hf_addr *hf_rpc_call_account(const struct hf_rpc_call *call)
{
    return &call->host->addr;
}

void hf_rpc_charge(struct hf_rpc_call *call, unsigned nodes)
{
    call->server->charged += nodes;
}

void hf_rpc_forget_answers(struct hf_rpc_call *call)
{
    hf_dupcache_clear(&call->server->dups);
}
