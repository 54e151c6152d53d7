#include <errno.h>
#include <unistd.h>

#include "base/assert.h"
#include "rpc/server_private.h"

/* ---- output buffers, pooled so that an idle connection holds none ---- */

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

/* ---- answers that peers do not read ---- */

static size_t unread_answers(const struct hf_rpc_conn *conn)
{
    return hf_buf_len(&conn->out) + hf_buf_len(&conn->writing);
}

/* Counts the bytes of unread answers that a peer which has stopped reading makes us keep: for the
 * peer's account, and for all peers together. */
static void count_unread(struct hf_rpc_conn *conn)
{
    size_t now = conn->stuck_ms ? unread_answers(conn) : 0;

    if (now == conn->unread || !conn->host)
        return;
    conn->listener->server->unread += now - conn->unread;
    conn->host->unread += now - conn->unread;
    conn->unread = now;
}

/* True if unread answers take too much memory, and this connection's account has more than an equal
 * share of it. */
static bool keeps_too_much(const struct hf_rpc_conn *conn)
{
    const struct hf_rpc_server *server = conn->listener->server;

    return server->unread > server->config.max_unread &&
           conn->host->unread > server->unread / server->n_host_conns;
}

/* ---- closing ---- */

static void on_closed(uv_handle_t *handle)
{
    struct hf_rpc_conn *conn = handle->data;
    struct hf_rpc_listener *listener = conn->listener;

    hf_marking_free(&conn->marking);
    buffer_give_back(listener->server, &conn->input);
    buffer_give_back(listener->server, &conn->out);
    buffer_give_back(listener->server, &conn->writing);
    hf_free(listener->server->config.alloc, conn);
    hf_rpc_listener_handle_closed(listener);
}

static void leave_host(struct hf_rpc_conn *conn)
{
    struct hf_rpc_server *server = conn->listener->server;

    if (!conn->host)
        return;
    conn->stuck_ms = 0;
    count_unread(conn);
    hf_rpc_host_charge(server, conn->host, CONNECTION_COST);
    hf_list_remove(&conn->host_link);
    if (--conn->host->n_conns == 0)
        server->n_host_conns--;
    hf_rpc_hosts_release(&server->hosts, conn->host);
    conn->host = NULL;
}

void hf_rpc_conn_close(struct hf_rpc_conn *conn)
{
    if (conn->closing)
        return;
    conn->closing = true;
    conn->listener->server->counters.connections--;
    hf_list_remove(&conn->link);
    hf_list_remove(&conn->dirty);
    hf_list_remove(&conn->turn);
    /* Let requests in progress go on: the duplicate request cache keeps their answers for the
     * client's next connection. */
    hf_list_foreach_safe (node, &conn->calls) {
        hf_list_entry(node, struct hf_rpc_call, link)->conn = NULL;
        hf_list_remove(node);
    }
    leave_host(conn);
    uv_close((uv_handle_t *)&conn->tcp.stream, on_closed);
}

/* ---- writing ---- */

static void update_reading(struct hf_rpc_conn *conn);

static void on_written(uv_write_t *request, int status)
{
    struct hf_rpc_conn *conn = request->data;

    buffer_give_back(conn->listener->server, &conn->writing);
    conn->stuck_ms = 0;
    count_unread(conn);
    if (conn->closing)
        return;
    if (status < 0) {
        hf_rpc_conn_close(conn);
        return;
    }
    hf_rpc_conn_flush(conn);
}

/* Hands the bytes that uv_try_write() could not send to libuv, which sends them when the peer reads
 * again. */
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
    count_unread(conn);
    if (uv_write(&conn->write, &conn->tcp.stream, &buf, 1, on_written) < 0)
        hf_rpc_conn_close(conn);
}

void hf_rpc_conn_flush(struct hf_rpc_conn *conn)
{
    hf_list_remove(&conn->dirty);
    if (conn->closing)
        return;
    if (hf_buf_len(&conn->out) > 0 && !conn->stuck_ms &&
        hf_rpc_server_may_send(conn->listener->server)) {
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
    /* Send the gathered answers early: one read can hold a thousand short requests with long
     * answers, which cannot all be buffered here. */
    if (hf_buf_len(&conn->out) >= OUT_MAX)
        hf_rpc_conn_flush(conn);
    count_unread(conn);
    if (hf_buf_len(&conn->out) > OUT_LIMIT || (conn->unread > 0 && keeps_too_much(conn)))
        hf_rpc_conn_close(conn);
}

void hf_rpc_conn_answered(struct hf_rpc_conn *conn)
{
    HF_ASSERT(conn->n_calls > 0);
    conn->n_calls--;
    /* A paused connection, or one whose peer has ended it, may have waited for this answer, even if
     * the answer is never sent: look at the connection again. */
    if ((conn->paused || conn->ended) && !hf_list_linked(&conn->dirty))
        hf_list_add_tail(&conn->listener->server->dirty, &conn->dirty);
}

/* ---- reading ---- */

static bool must_pause(const struct hf_rpc_conn *conn)
{
    return unread_answers(conn) >= OUT_MAX || conn->n_calls >= CALLS_MAX ||
           !hf_rpc_server_may_send(conn->listener->server);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct hf_rpc_conn *conn = handle->data;

    (void)suggested;
    /*
     * Gives libuv the read buffer. One buffer serves all connections, because the bytes are
     * processed or copied before the next read. Without a buffer libuv does not read: the bytes
     * stay in the kernel, and on_read() gets UV_ENOBUFS.
     */
    if (hf_rpc_server_may_send(conn->listener->server) &&
        hf_rpc_host_left(conn->listener->server, conn->host) > 0)
        *buf = uv_buf_init((char *)conn->listener->server->read_chunk, READ_CHUNK);
    else
        *buf = uv_buf_init(NULL, 0);
}

/* Serves records until the input is used up, or until the connection or its host must let others
 * have their turn. */
static void take_records(struct hf_rpc_conn *conn, struct hf_bytes *input)
{
    struct hf_rpc_server *server = conn->listener->server;
    struct hf_rpc_origin origin = {conn->listener, conn,       &conn->peer,
                                   &conn->local,   conn->host, conn->trust};
    unsigned left = hf_rpc_host_left(server, conn->host);
    struct hf_rpc_slice slice;
    struct hf_bytes record;
    int rv;

    hf_rpc_slice_begin(server, left < SLICE_REQUESTS ? left : SLICE_REQUESTS, true, &slice);
    while ((rv = hf_marking_next(&conn->marking, input, &record)) > 0) {
        hf_rpc_dispatch(server, &origin, record);
        if (conn->closing)
            return;
        conn->owes_ms = 0;
        if (hf_rpc_slice_is_over(server, &slice))
            break;
    }
    hf_rpc_host_charge(server, conn->host, slice.spent);
    if (rv > 0)
        return;
    if (rv < 0) {
        server->counters.broken_records++;
        hf_rpc_conn_close(conn);
        return;
    }
    /* The time limit runs from the first byte of a record, so that a peer cannot extend it by
     * sending byte by byte. */
    if (!hf_marking_partial(&conn->marking))
        conn->owes_ms = 0;
    else if (conn->owes_ms == 0)
        conn->owes_ms = uv_now(conn->tcp.stream.loop);
}

/*
 * Serves the bytes that were read. Bytes that must wait for the next turn are kept in conn->input.
 */
static void serve(struct hf_rpc_conn *conn, struct hf_bytes input)
{
    hf_rpc_server_read(conn->listener->server);
    take_records(conn, &input);
    if (conn->closing || input.len == 0)
        return;
    conn->input = buffer_take(conn->listener->server);
    if (hf_buf_append(&conn->input, input.data, input.len) < 0)
        hf_rpc_conn_close(conn);
}

/* Handles the result of a read. n is the number of bytes in the buffer; 0: the peer has ended the
 * connection; negative: the connection is broken. */
static void received(struct hf_rpc_conn *conn, ssize_t n, const void *bytes)
{
    if (n < 0) {
        hf_rpc_conn_close(conn);
        return;
    }
    if (n == 0) {
        conn->ended = true; /* the peer may still read the answers to its requests */
    } else {
        conn->active_ms = uv_now(conn->tcp.stream.loop);
        hf_list_remove(&conn->link);
        hf_list_add_tail(&conn->listener->server->conns, &conn->link);
        hf_list_remove(&conn->host_link);
        hf_list_add_tail(&conn->host->conns, &conn->host_link);
        serve(conn, hf_bytes(bytes, (size_t)n));
    }
    if (!conn->closing)
        hf_rpc_conn_flush(conn);
}

/*
 * Reads from a connection whose bytes had to wait in the kernel. libuv would read from all such
 * connections of a host at once, and for most of them the host's share of the turn would be used
 * up.
 */
static void read_now(struct hf_rpc_conn *conn)
{
    struct hf_rpc_server *server = conn->listener->server;
    uv_os_fd_t fd = -1;
    ssize_t n;

    (void)uv_fileno((uv_handle_t *)&conn->tcp.stream, &fd);
    n = read(fd, server->read_chunk, READ_CHUNK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        hf_rpc_conn_flush(conn); /* after the flush libuv reads from the connection again */
    else
        received(conn, n, server->read_chunk);
}

void hf_rpc_conn_continue(struct hf_rpc_conn *conn)
{
    struct hf_bytes input = hf_buf_view(&conn->input);
    size_t before = input.len;

    if (must_pause(conn)) {
        hf_rpc_conn_flush(conn);
        return;
    }
    if (before == 0) {
        read_now(conn);
        return;
    }
    hf_rpc_server_read(conn->listener->server);
    take_records(conn, &input);
    if (conn->closing)
        return;
    hf_buf_consume(&conn->input, before - input.len);
    if (input.len == 0)
        buffer_give_back(conn->listener->server, &conn->input);
    hf_rpc_conn_flush(conn);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct hf_rpc_conn *conn = stream->data;

    if (n == UV_ENOBUFS) {
        if (hf_rpc_server_may_send(conn->listener->server))
            hf_rpc_turn_wait(conn);
        update_reading(conn);
    } else if (n != 0) {
        received(conn, n == UV_EOF ? 0 : n, buf->base);
    }
}

bool hf_rpc_conn_read(struct hf_rpc_conn *conn)
{
    conn->reading = uv_read_start(&conn->tcp.stream, on_alloc, on_read) == 0;
    return conn->reading;
}

/* Resumes or pauses reading according to the limits; queues input that was read already for the
 * next turn; and closes the connection when the peer has ended it and no answer is left to send. */
static void update_reading(struct hf_rpc_conn *conn)
{
    bool rest = hf_buf_len(&conn->input) > 0;
    bool read;

    if (conn->ended && !rest && conn->n_calls == 0 && unread_answers(conn) == 0) {
        hf_rpc_conn_close(conn);
        return;
    }
    conn->paused = conn->ended || must_pause(conn);
    if (rest && !conn->paused && !hf_list_linked(&conn->turn))
        hf_rpc_turn_wait(conn);
    read = !conn->paused && !rest && !hf_list_linked(&conn->turn);
    if (!read && conn->reading)
        uv_read_stop(&conn->tcp.stream);
    if (read && !conn->reading && !hf_rpc_conn_read(conn)) {
        hf_rpc_conn_close(conn);
        return;
    }
    conn->reading = read;
}

/* ---- timeouts ---- */

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
    hf_rpc_conn_accept_backlog(server);
}
