#include "rpc/server_private.h"

/* ---- one slice ---- */

void hf_rpc_slice_begin(const struct hf_rpc_server *server, unsigned limit, bool counts_work,
                        struct hf_rpc_slice *slice)
{
    *slice = (struct hf_rpc_slice){.limit = limit,
                                   .began_ns = server->read_ns,
                                   .work = hf_rpc_work(server),
                                   .counts_work = counts_work};
}

/* True if the slice has taken too long. Where work is not counted, time is measured instead,
 * although it depends on what else the machine does. */
static bool takes_long(struct hf_rpc_slice *slice)
{
    uint64_t now_ns;

    if (slice->requests % SLICE_CHECK != 0)
        return false;
    now_ns = uv_hrtime();
    if (slice->began_ns == 0)
        slice->began_ns = now_ns;
    return now_ns - slice->began_ns >= SLICE_NS;
}

/* The caller must ask once after each request, which this counts. */
bool hf_rpc_slice_is_over(const struct hf_rpc_server *server, struct hf_rpc_slice *slice)
{
    uint64_t spent = ++slice->requests;
    uint64_t simple = SIMPLE_NODES * spent;
    uint64_t nodes = slice->counts_work ? hf_rpc_work(server) - slice->work : 0;

    if (nodes > simple)
        spent += (nodes - simple) / NODES_PER_REQUEST;
    else if (!server->config.work && takes_long(slice))
        spent = slice->limit;
    slice->spent = spent < slice->limit ? (unsigned)spent : slice->limit;
    return slice->spent == slice->limit;
}

/* ---- hosts ---- */

static void enter_turn(struct hf_rpc_server *server, struct hf_rpc_host *host)
{
    if (host->turn == server->turn)
        return;
    if (server->last_host && server->last_host != host)
        server->switched_ms = uv_now(server->config.loop);
    server->last_host = host;
    server->n_turn_hosts += !host->exempt;
    host->turn = server->turn;
    host->spent = 0;
    host->nodes = 0;
}

void hf_rpc_turn_begin(struct hf_rpc_server *server)
{
    server->turn++;
    server->n_turn_hosts_before = server->n_turn_hosts;
    server->n_turn_hosts = 0;
    server->turn_spent = 0;
}

/*
 * Returns an account's share of a turn of the loop. The longer a turn, the longer a request waits
 * that comes in its middle, so all accounts share a fixed number of requests per turn. An account
 * that comes when that is used up, because the previous turn had fewer accounts, still gets a
 * little.
 */
static unsigned share_of_turn(const struct hf_rpc_server *server)
{
    unsigned hosts = server->n_turn_hosts_before > 0 ? server->n_turn_hosts_before : 1;
    unsigned slice = TURN_REQUESTS / hosts;

    if (uv_now(server->config.loop) - server->switched_ms > ALONE_MS)
        return HOST_SLICE_ALONE;
    return slice > HOST_SLICE_LEAST && server->turn_spent < TURN_REQUESTS ? slice
                                                                          : HOST_SLICE_LEAST;
}

/*
 * Returns how much of this turn the connections of this account may still use, in simple requests.
 */
unsigned hf_rpc_host_left(struct hf_rpc_server *server, struct hf_rpc_host *host)
{
    unsigned slice;

    enter_turn(server, host);
    if (host->exempt) /* connections of an exempt host take turns one by one */
        return SLICE_REQUESTS;
    slice = share_of_turn(server);
    return host->spent < slice ? slice - host->spent : 0;
}

void hf_rpc_host_charge(struct hf_rpc_server *server, struct hf_rpc_host *host, unsigned requests)
{
    enter_turn(server, host);
    host->spent += requests;
    if (!host->exempt)
        server->turn_spent += requests;
}

/* True if further datagrams of this host are served in this turn of the loop. */
bool hf_rpc_host_may_ask(struct hf_rpc_server *server, struct hf_rpc_host *host)
{
    enter_turn(server, host);
    return host->exempt || host->nodes < UDP_SLICE_NODES;
}

/* ---- turns ---- */

void hf_rpc_turn_wait(struct hf_rpc_conn *conn)
{
    struct hf_rpc_server *server = conn->listener->server;

    server->counters.gave_way++;
    hf_list_add_tail(&server->waiting, &conn->turn);
}

/*
 * Serves a slice of each waiting connection, in the order in which they began to wait. Connections
 * whose host has used its share of this turn stay at the front of the queue, so that all
 * connections of a host are served in the end.
 */
void hf_rpc_turn_serve(struct hf_rpc_server *server)
{
    struct hf_list queue;
    struct hf_list left;
    struct hf_rpc_conn *conn;

    hf_list_init(&queue);
    hf_list_init(&left);
    hf_list_splice_tail(&queue, &server->waiting);
    while ((conn = hf_list_first(&queue, struct hf_rpc_conn, turn))) {
        hf_list_remove(&conn->turn);
        if (hf_rpc_host_left(server, conn->host) == 0)
            hf_list_add_tail(&left, &conn->turn);
        else
            hf_rpc_conn_continue(conn);
    }
    hf_list_splice_tail(&left, &server->waiting);
    hf_list_splice_tail(&server->waiting, &left);
}
