/*
 * Accepts new connections: finds the account that the peer has, whether the peer may connect, and
 * which older connection makes way.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/sockdiag.h"
#include "rpc/server_private.h"

/* ---- who it is ---- */

static int endpoint(uv_tcp_t *tcp, int (*get)(const uv_tcp_t *, struct sockaddr *, int *),
                    struct hf_addr *out)
{
    struct sockaddr_storage sa;
    int len = sizeof(sa);

    if (get(tcp, (struct sockaddr *)&sa, &len) < 0)
        return -1;
    return hf_addr_from_sockaddr((const struct sockaddr *)&sa, out);
}

/* Sets the addresses of a connection on the local socket: its caller counts as one from loopback,
 * and root as one from a reserved port, because a reserved port has always stood for root. */
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
    conn->uid = cred.uid;
    return 0;
}

/*
 * Returns the user at the other end of a connection from this host, whichever of its addresses the
 * connection comes from. The kernel is asked once, when the connection is accepted; for a
 * connection from another host it knows no user. *here tells whether the peer is on this host, also
 * if its process has closed the connection meanwhile, so that the user is not known.
 */
static uint32_t user_of(const struct hf_rpc_conn *conn, bool *here)
{
    int fd = conn->listener->server->diag_fd;
    struct hf_sockdiag found;

    *here = hf_addr_same_host(&conn->peer, &conn->local);
    if (conn->uid != HF_RPC_UID_UNKNOWN)
        return conn->uid;
    if (fd < 0 || hf_sockdiag_connection(fd, &conn->peer, &conn->local, &found) < 0)
        return HF_UID_UNKNOWN;
    *here = true;
    return found.uid;
}

static int tcp_endpoints(struct hf_rpc_conn *conn)
{
    uv_tcp_nodelay(&conn->tcp.tcp, 1);
    if (endpoint(&conn->tcp.tcp, uv_tcp_getpeername, &conn->peer) < 0)
        return -1;
    return endpoint(&conn->tcp.tcp, uv_tcp_getsockname, &conn->local);
}

/* ---- quotas ---- */

static unsigned conns_max(const struct hf_rpc_server *server, const struct hf_rpc_host *host)
{
    if (host->exempt) /* an exempt host leaves a quarter of all connections to other hosts */
        return server->config.max_connections - server->config.max_connections / 4;
    return server->config.max_connections_per_host;
}

/*
 * Returns the connection of the host, other than the new one, that has been silent longest. It
 * comes first in the host's list; to search for it would let a host that opens and closes
 * connections make each of them cost a walk over all others.
 */
static struct hf_rpc_conn *most_silent_of(const struct hf_rpc_host *host,
                                          const struct hf_rpc_conn *fresh)
{
    struct hf_rpc_conn *first = hf_list_first(&host->conns, struct hf_rpc_conn, host_link);

    HF_ASSERT(first && first != fresh); /* the new connection is the last of several */
    return first;
}

/*
 * Chooses the connection that makes way when all connections are taken. fresh: the new connection;
 * NULL: it could not be accepted, and its host is unknown. If the new connection's own host has
 * more than an equal share, that host's most silent connection goes. Otherwise the most silent
 * connection of any host with more than its share goes, searched for only among the connections
 * that have been silent longest; if none is found, the most silent connection of all goes.
 */
static struct hf_rpc_conn *find_victim(struct hf_rpc_server *server, struct hf_rpc_conn *fresh)
{
    enum { LOOKS = 256 };
    uint64_t share = server->counters.connections / server->n_host_conns;
    unsigned looks = 0;

    if (fresh && fresh->host->n_conns > share && fresh->host->n_conns > 1)
        return most_silent_of(fresh->host, fresh);
    hf_list_foreach (node, &server->conns) {
        struct hf_rpc_conn *conn = hf_list_entry(node, struct hf_rpc_conn, link);
        if (conn != fresh && conn->host->n_conns > share)
            return conn;
        if (++looks == LOOKS)
            break;
    }
    return hf_list_first(&server->conns, struct hf_rpc_conn, link);
}

/*
 * Closes an older connection, if a limit demands that, for the new one, which is counted already.
 */
static void make_room(struct hf_rpc_conn *conn)
{
    struct hf_rpc_server *server = conn->listener->server;

    if (conn->host->n_conns > conns_max(server, conn->host)) {
        server->counters.over_quota++;
        hf_rpc_conn_close(most_silent_of(conn->host, conn));
    } else if (server->counters.connections > server->config.max_connections) {
        server->counters.evicted++;
        hf_rpc_conn_close(find_victim(server, conn));
    }
}

/* ---- a new connection ---- */

static bool join_host(struct hf_rpc_conn *conn)
{
    struct hf_rpc_server *server = conn->listener->server;
    bool here;
    uint32_t user = user_of(conn, &here);
    struct hf_addr account;
    struct hf_rpc_host *host;

    conn->trust = hf_trust_of(HF_TRANSPORT_TCP, &conn->peer, user, here);
    account = hf_trust_account(conn->trust, &conn->peer, user);
    host = hf_rpc_hosts_get(&server->hosts, &account);
    if (!host)
        return false;
    hf_rpc_host_charge(server, host, CONNECTION_COST);
    if (host->n_conns++ == 0)
        server->n_host_conns++;
    hf_list_add_tail(&host->conns, &conn->host_link);
    conn->host = host;
    return true;
}

/* Gives the accepted connection to libuv, which closes it from then on. */
static bool open_stream(struct hf_rpc_conn *conn, int fd)
{
    int rv =
        conn->listener->local ? uv_pipe_open(&conn->tcp.pipe, fd) : uv_tcp_open(&conn->tcp.tcp, fd);

    if (rv < 0)
        close(fd);
    return rv == 0;
}

static bool start(struct hf_rpc_conn *conn, int fd)
{
    struct hf_rpc_server *server = conn->listener->server;

    if (!open_stream(conn, fd))
        return false;
    if ((conn->listener->local ? local_endpoints(conn) : tcp_endpoints(conn)) < 0)
        return false;
    if (!hf_rpc_access_allows(conn->listener, &conn->peer, false)) {
        server->counters.denied++;
        return false;
    }
    if (!join_host(conn))
        return false;
    make_room(conn);
    return hf_rpc_conn_read(conn);
}

static void begin(struct hf_rpc_listener *listener, struct hf_rpc_conn *conn, int fd)
{
    struct hf_rpc_server *server = listener->server;

    conn->listener = listener;
    conn->uid = HF_RPC_UID_UNKNOWN;
    conn->active_ms = uv_now(server->config.loop);
    hf_marking_init(&conn->marking, server->config.alloc);
    hf_buf_init(&conn->input, server->config.alloc);
    hf_buf_init(&conn->out, server->config.alloc);
    hf_buf_init(&conn->writing, server->config.alloc);
    hf_list_init(&conn->dirty);
    hf_list_init(&conn->turn);
    hf_list_init(&conn->host_link);
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
    if (!start(conn, fd))
        hf_rpc_conn_close(conn);
}

/* Leaves the connections that wait in the kernel's queue until the next sweep. */
static void back_off(struct hf_rpc_listener *listener)
{
    listener->backed_up = true;
    uv_poll_stop(&listener->poll);
}

/*
 * Handles an accept() that failed although a connection waits. Mostly the process has no file left
 * for it, whatever limit made the kernel refuse one: then an older connection makes way, and the
 * next turn accepts the new one. If there is none, the files are used for other things.
 */
static void accept_failed(struct hf_rpc_listener *listener, int error)
{
    struct hf_rpc_server *server = listener->server;

    if (error == EAGAIN || error == EINTR || error == ECONNABORTED)
        return;
    hf_log_limited(HF_LOG_WARN, "cannot accept a connection", HF_STR("reason", strerror(error)),
                   HF_STR("advice", "raise the limit of open files (LimitNOFILE=)"));
    if ((error != EMFILE && error != ENFILE) || hf_list_empty(&server->conns)) {
        back_off(listener);
        return;
    }
    server->counters.evicted++;
    hf_rpc_conn_close(find_victim(server, NULL));
}

static bool accept_one(struct hf_rpc_listener *listener)
{
    const struct hf_alloc *alloc = listener->server->config.alloc;
    struct hf_rpc_conn *conn = NULL;
    int fd;

    if (!listener->server->config.held && hf_rpc_server_may_send(listener->server))
        conn = hf_calloc(alloc, 1, sizeof(*conn));
    if (!conn) {
        back_off(listener);
        return false;
    }
    fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        accept_failed(listener, errno);
        hf_free(alloc, conn);
        return false;
    }
    begin(listener, conn, fd);
    return true;
}

/* Accepts a few connections only, because a host that opens and closes connections would make all
 * others wait for so many. If more wait, the loop calls again in its next turn. */
static void on_connections(uv_poll_t *poll, int status, int events)
{
    struct hf_rpc_listener *listener = poll->data;
    unsigned n = 0;

    (void)events;
    if (status < 0) /* libuv has stopped the handle, because the socket has an error */
        back_off(listener);
    while (n < SLICE_ACCEPTS && accept_one(listener))
        n++;
}

/* libuv only tells that connections wait: its own loop that accepts them does not end while the
 * process has no file left (version 1.44). */
void hf_rpc_conn_accept_on(struct hf_rpc_listener *listener)
{
    listener->backed_up = false;
    uv_poll_start(&listener->poll, UV_READABLE, on_connections);
}

void hf_rpc_conn_accept_backlog(struct hf_rpc_server *server)
{
    hf_list_foreach (node, &server->listeners) {
        struct hf_rpc_listener *listener = hf_list_entry(node, struct hf_rpc_listener, link);
        if (listener->backed_up)
            hf_rpc_conn_accept_on(listener);
    }
}
