#include "rpc/server_private.h"

/* ---- one slice ---- */

void hf_rpc_slice_begin(const struct hf_rpc_server *server, bool counts_work,
                        struct hf_rpc_slice *slice)
{
    *slice = (struct hf_rpc_slice){
        .began_ns = server->read_ns, .work = hf_rpc_work(server), .counts_work = counts_work};
}

/* Where work is not counted, time stands for it, though it depends on what else the machine does.
 */
static bool is_costly(const struct hf_rpc_server *server, struct hf_rpc_slice *slice)
{
    uint64_t now_ns;

    if (server->config.work)
        return slice->counts_work && hf_rpc_work(server) - slice->work >= SLICE_WORK;
    now_ns = uv_hrtime();
    if (slice->began_ns == 0)
        slice->began_ns = now_ns;
    return now_ns - slice->began_ns >= SLICE_NS;
}

/* Call after each request. Most slices have so few requests that their cost is not looked at. */
bool hf_rpc_slice_is_over(const struct hf_rpc_server *server, struct hf_rpc_slice *slice)
{
    slice->requests++;
    if (slice->requests % SLICE_CHECK != 0)
        return false;
    slice->costly = is_costly(server, slice);
    return slice->costly || slice->requests >= SLICE_REQUESTS;
}

/* ---- hosts ---- */

/* The number of requests of this host that may still be served in this turn. */
unsigned hf_rpc_host_left(const struct hf_rpc_server *server, struct hf_rpc_host *host)
{
    /* Loopback is this host with all its users; its connections take turns one by one. */
    if (host->loopback)
        return SLICE_REQUESTS;
    if (host->turn != server->turn) {
        host->turn = server->turn;
        host->spent = 0;
    }
    return host->spent < HOST_SLICE_REQUESTS ? HOST_SLICE_REQUESTS - host->spent : 0;
}

/* ---- turns ---- */

void hf_rpc_turn_wait(struct hf_rpc_conn *conn)
{
    struct hf_rpc_server *server = conn->listener->server;

    server->counters.gave_way++;
    hf_list_add_tail(&server->waiting, &conn->turn);
}

/*
 * Serves a slice of each connection that waits, in the order in which they came to wait. Those
 * whose host has used its share of this turn stay in front of the queue, so that all connections of
 * a host are served in the end.
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
