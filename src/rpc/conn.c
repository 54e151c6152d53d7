#include <netinet/in.h>
#include <sys/socket.h>

#include "base/check.h"
#include "rpc/server_private.h"

/* ---- output buffers, kept for reuse so that an idle connection holds none ---- */

static struct hf_buf buffer_take(struct hf_rpc_server *server)
{
    struct hf_buf buf;

    if (server->n_spare_buffers > 0)
        return server->spare_buffers[--server->n_spare_buffers];
    hf_buf_init(&buf, server->config.alloc);
    return buf;
}

static void buffer_give_back(struct hf_rpc_server *server, struct hf_buf *buf)
{
    if (buf->data && buf->size <= 2 * (size_t)OUT_MAX && server->n_spare_buffers < SPARE_BUFFERS) {
        hf_buf_clear(buf);
        server->spare_buffers[server->n_spare_buffers++] = *buf;
        hf_buf_init(buf, server->config.alloc);
    } else {
        hf_buf_free(buf);
    }
}

/* ---- closing ---- */

static void on_closed(uv_handle_t *handle)
{
    struct hf_rpc_conn *conn = handle->data;
    struct hf_rpc_listener *listener = conn->listener;

    hf_marking_free(&conn->marking);
    buffer_give_back(listener->server, &conn->out);
    buffer_give_back(listener->server, &conn->writing);
    hf_free(listener->server->config.alloc, conn);
    hf_rpc_listener_handle_closed(listener);
}

void hf_rpc_conn_close(struct hf_rpc_conn *conn)
{
    if (conn->closing)
        return;
    conn->closing = true;
    conn->listener->server->counters.connections--;
    hf_list_remove(&conn->link);
    hf_list_remove(&conn->dirty);
    /* What is under way goes on: its answer is kept for the client's next connection. */
    hf_list_foreach_safe (node, &conn->calls) {
        hf_list_entry(node, struct hf_rpc_call, link)->conn = NULL;
        hf_list_remove(node);
    }
    uv_close((uv_handle_t *)&conn->tcp.stream, on_closed);
}

/* ---- writing ---- */

static void update_reading(struct hf_rpc_conn *conn);

static void on_written(uv_write_t *request, int status)
{
    struct hf_rpc_conn *conn = request->data;

    buffer_give_back(conn->listener->server, &conn->writing);
    conn->stuck_ms = 0;
    if (conn->closing)
        return;
    if (status < 0) {
        hf_rpc_conn_close(conn);
        return;
    }
    hf_rpc_conn_flush(conn);
}

/* What uv_try_write() left over: libuv finishes it when the peer reads on. */
static void write_rest(struct hf_rpc_conn *conn)
{
    struct hf_bytes rest;
    uv_buf_t buf;

    conn->writing = conn->out;
    conn->out = buffer_take(conn->listener->server);
    rest = hf_buf_view(&conn->writing);
    buf = uv_buf_init((char *)(uintptr_t)rest.data, (unsigned)rest.len);
    conn->stuck_ms = uv_now(conn->tcp.stream.loop);
    conn->write.data = conn;
    if (uv_write(&conn->write, &conn->tcp.stream, &buf, 1, on_written) < 0) {
        conn->stuck_ms = 0;
        hf_rpc_conn_close(conn);
    }
}

void hf_rpc_conn_flush(struct hf_rpc_conn *conn)
{
    hf_list_remove(&conn->dirty);
    if (conn->closing)
        return;
    if (hf_buf_len(&conn->out) > 0 && !conn->stuck_ms) {
        struct hf_bytes all = hf_buf_view(&conn->out);
        uv_buf_t buf = uv_buf_init((char *)(uintptr_t)all.data, (unsigned)all.len);
        int n = uv_try_write(&conn->tcp.stream, &buf, 1);

        if (n < 0 && n != UV_EAGAIN) {
            hf_rpc_conn_close(conn);
            return;
        }
        if (n > 0)
            hf_buf_consume(&conn->out, (size_t)n);
        if (hf_buf_len(&conn->out) > 0)
            write_rest(conn);
        else
            buffer_give_back(conn->listener->server, &conn->out);
    }
    if (!conn->closing)
        update_reading(conn);
}

uint8_t *hf_rpc_conn_room(struct hf_rpc_conn *conn, size_t size)
{
    uint8_t *room;

    if (!conn->out.data)
        conn->out = buffer_take(conn->listener->server);
    room = hf_buf_reserve(&conn->out, HF_RPC_MARK_SIZE + size);
    return room ? room + HF_RPC_MARK_SIZE : NULL;
}

void hf_rpc_conn_commit(struct hf_rpc_conn *conn, size_t len)
{
    hf_marking_put(conn->out.data + conn->out.end, len);
    hf_buf_commit(&conn->out, HF_RPC_MARK_SIZE + len);
    if (!hf_list_linked(&conn->dirty))
        hf_list_add_tail(&conn->listener->server->dirty, &conn->dirty);
    /* One read can hold a thousand short questions with long answers: they cannot all wait here. */
    if (hf_buf_len(&conn->out) >= OUT_MAX)
        hf_rpc_conn_flush(conn);
    if (hf_buf_len(&conn->out) > OUT_LIMIT)
        hf_rpc_conn_close(conn);
}

void hf_rpc_conn_answered(struct hf_rpc_conn *conn)
{
    HF_ASSERT(conn->n_calls > 0);
    conn->n_calls--;
    /* Even an answer that was withheld may have been all a paused or ended peer waited for. */
    if ((conn->paused || conn->ended) && !hf_list_linked(&conn->dirty))
        hf_list_add_tail(&conn->listener->server->dirty, &conn->dirty);
}

/* ---- reading ---- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct hf_rpc_conn *conn = handle->data;

    (void)suggested;
    /* One buffer for all: what is read is used up, or copied, before the next read. */
    *buf = uv_buf_init((char *)conn->listener->server->read_chunk, READ_CHUNK);
}

static void take_records(struct hf_rpc_conn *conn, struct hf_bytes input)
{
    struct hf_rpc_server *server = conn->listener->server;
    struct hf_rpc_origin origin = {conn->listener, conn, &conn->peer, &conn->local};
    struct hf_bytes record;
    int rv;

    while ((rv = hf_marking_next(&conn->marking, &input, &record)) > 0) {
        hf_rpc_dispatch(server, &origin, record);
        if (conn->closing)
            return;
        conn->owes_ms = 0;
    }
    if (rv < 0) {
        server->counters.broken_records++;
        hf_rpc_conn_close(conn);
        return;
    }
    /* The clock runs from the first byte of a record, so trickling bytes does not help. */
    if (!hf_marking_partial(&conn->marking))
        conn->owes_ms = 0;
    else if (conn->owes_ms == 0)
        conn->owes_ms = uv_now(conn->tcp.stream.loop);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct hf_rpc_conn *conn = stream->data;

    if (n == 0)
        return;
    if (n < 0) {
        if (n != UV_EOF) {
            hf_rpc_conn_close(conn);
            return;
        }
        conn->ended = true; /* it may still want the answers it is owed */
    } else {
        conn->active_ms = uv_now(stream->loop);
        hf_rpc_server_read(conn->listener->server);
        hf_list_remove(&conn->link);
        hf_list_add_tail(&conn->listener->server->conns, &conn->link);
        take_records(conn, hf_bytes(buf->base, (size_t)n));
    }
    if (!conn->closing)
        hf_rpc_conn_flush(conn);
}

/* Reads on or pauses by the limits; ends the connection when there is nothing left to say. */
static void update_reading(struct hf_rpc_conn *conn)
{
    size_t unread = hf_buf_len(&conn->out) + hf_buf_len(&conn->writing);
    bool pause = conn->ended || unread >= OUT_MAX || conn->n_calls >= CALLS_MAX;

    if (conn->ended && conn->n_calls == 0 && unread == 0) {
        hf_rpc_conn_close(conn);
        return;
    }
    if (pause && !conn->paused)
        uv_read_stop(&conn->tcp.stream);
    if (!pause && conn->paused && uv_read_start(&conn->tcp.stream, on_alloc, on_read) < 0) {
        hf_rpc_conn_close(conn);
        return;
    }
    conn->paused = pause;
}

/* ---- accepting ---- */

static int endpoint(uv_tcp_t *tcp, int (*get)(const uv_tcp_t *, struct sockaddr *, int *),
                    struct hf_addr *out)
{
    struct sockaddr_storage sa;
    int len = sizeof(sa);

    if (get(tcp, (struct sockaddr *)&sa, &len) < 0)
        return -1;
    return hf_addr_from_sockaddr((const struct sockaddr *)&sa, out);
}

/*
 * Who is behind the local socket: a caller there counts as one from loopback, and root as one from
 * a reserved port, which is what that port has always stood for.
 */
static int local_endpoints(struct hf_rpc_conn *conn)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    uv_os_fd_t fd;

    if (uv_fileno((uv_handle_t *)&conn->tcp.stream, &fd) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return -1;
    hf_addr_parse("127.0.0.1", &conn->local);
    conn->peer = conn->local;
    conn->peer.port = cred.uid == 0 ? 1 : UINT16_MAX;
    return 0;
}

static int tcp_endpoints(struct hf_rpc_conn *conn)
{
    uv_tcp_nodelay(&conn->tcp.tcp, 1);
    if (endpoint(&conn->tcp.tcp, uv_tcp_getpeername, &conn->peer) < 0)
        return -1;
    return endpoint(&conn->tcp.tcp, uv_tcp_getsockname, &conn->local);
}

static bool start(struct hf_rpc_conn *conn)
{
    if (uv_accept(&conn->listener->tcp.stream, &conn->tcp.stream) < 0)
        return false; /* the peer is gone already */
    if ((conn->listener->local ? local_endpoints(conn) : tcp_endpoints(conn)) < 0)
        return false;
    return uv_read_start(&conn->tcp.stream, on_alloc, on_read) == 0;
}

void hf_rpc_conn_accept(struct hf_rpc_listener *listener)
{
    struct hf_rpc_server *server = listener->server;
    struct hf_rpc_conn *conn;

    if (server->counters.connections >= server->config.max_connections) {
        server->counters.evicted++;
        conn = hf_list_first(&server->conns, struct hf_rpc_conn, link);
        HF_ASSERT(conn);
        hf_rpc_conn_close(conn);
    }
    conn = hf_calloc(server->config.alloc, 1, sizeof(*conn));
    if (!conn) {
        /* libuv takes no other before this one, so the sweep tries again. */
        listener->backed_up = true;
        return;
    }
    conn->listener = listener;
    conn->active_ms = uv_now(server->config.loop);
    hf_marking_init(&conn->marking, server->config.alloc);
    hf_buf_init(&conn->out, server->config.alloc);
    hf_buf_init(&conn->writing, server->config.alloc);
    hf_list_init(&conn->dirty);
    hf_list_init(&conn->calls);
    hf_list_add_tail(&server->conns, &conn->link);
    if (listener->local)
        uv_pipe_init(server->config.loop, &conn->tcp.pipe, 0);
    else
        uv_tcp_init(server->config.loop, &conn->tcp.tcp);
    conn->tcp.stream.data = conn;
    listener->open_handles++;
    server->open_handles++;
    server->counters.connections++;
    server->counters.accepted++;
    if (!start(conn))
        hf_rpc_conn_close(conn);
}

/* ---- silence ---- */

static bool overdue(const struct hf_rpc_conn *conn, uint64_t now_ms)
{
    const struct hf_rpc_server_config *config = &conn->listener->server->config;

    if (conn->owes_ms && now_ms - conn->owes_ms > config->stall_ms)
        return true;
    if (conn->stuck_ms && now_ms - conn->stuck_ms > config->stall_ms)
        return true;
    return conn->n_calls == 0 && now_ms - conn->active_ms > config->idle_ms;
}

void hf_rpc_conn_sweep(struct hf_rpc_server *server)
{
    uint64_t now_ms = uv_now(server->config.loop);

    hf_list_foreach_safe (node, &server->conns) {
        struct hf_rpc_conn *conn = hf_list_entry(node, struct hf_rpc_conn, link);
        if (overdue(conn, now_ms)) {
            server->counters.timed_out++;
            hf_rpc_conn_close(conn);
        }
    }
    hf_list_foreach (node, &server->listeners) {
        struct hf_rpc_listener *listener = hf_list_entry(node, struct hf_rpc_listener, link);
        if (listener->backed_up) {
            listener->backed_up = false;
            hf_rpc_conn_accept(listener);
        }
    }
}
