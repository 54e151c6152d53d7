#include "rpc/server.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/sockdiag.h"
#include "base/socket.h"
#include "base/text.h"
#include "rpc/server_private.h"

enum {
    SWEEP_MS = 1000,
    /* the listen backlog: long, because thousands of clients reconnect at once after a restart */
    BACKLOG = 4096,
    PORT_TRIES = 16, /* how often to try to find a port that is free on both UDP and TCP */
};

static void on_idle(uv_idle_t *idle)
{
    /*
     * does nothing: an active idle handle keeps the loop from sleeping; on_prepare() does the work
     */
    (void)idle;
}

/* Writes all completed answers to their connections and sockets. */
static void flush(struct hf_rpc_server *server)
{
    hf_list_foreach_safe (node, &server->dirty) {
        hf_rpc_conn_flush(hf_list_entry(node, struct hf_rpc_conn, dirty));
    }
    hf_list_foreach (node, &server->listeners) {
        struct hf_rpc_listener *listener = hf_list_entry(node, struct hf_rpc_listener, link);
        if (!listener->local)
            hf_udp_flush(&listener->udp);
    }
}

/* Serves the datagrams that were left over from the previous turn. */
static void continue_udp(struct hf_rpc_server *server)
{
    server->udp_waits = false;
    hf_list_foreach (node, &server->listeners) {
        struct hf_rpc_listener *listener = hf_list_entry(node, struct hf_rpc_listener, link);
        if (!listener->local && hf_udp_continue(&listener->udp))
            server->udp_waits = true;
    }
}

/* True if the loop should poll for more input before it sleeps (RPC-04). */
static bool looks_on(struct hf_rpc_server *server)
{
    bool input = server->counters.calls != server->polled_calls;
    bool on;

    if (server->config.busy_poll_ns == 0)
        return false;
    on = hf_busy_poll_turn(&server->busy_poll, uv_hrtime(), input, server->n_calls);
    server->polled_calls = server->counters.calls;
    server->counters.busy_poll_ns = server->busy_poll.looked_ns;
    return on;
}

/* Begins a turn of the loop: serves the input left over from the previous turn, and writes the
 * completed answers. */
static void on_prepare(uv_prepare_t *handle)
{
    struct hf_rpc_server *server = handle->data;
    bool waited = server->udp_waits || !hf_list_empty(&server->waiting);

    hf_rpc_turn_begin(server);
    hf_rpc_hosts_end_turn(&server->hosts);
    if (waited) {
        hf_rpc_turn_serve(server);
        continue_udp(server);
    }
    flush(server);
    /*
     * After serving the last waiting input, let the loop turn once more: requests that were served
     * just now may have changes to commit, and the engine has ended its part of this turn already.
     */
    if (looks_on(server) || waited)
        uv_idle_start(&server->idle, on_idle);
    else
        uv_idle_stop(&server->idle);
}

static void on_sweep(uv_timer_t *timer)
{
    hf_rpc_conn_sweep(timer->data);
}

static void on_dups_emptied(void *ctx, struct hf_dup_host *dups)
{
    struct hf_rpc_server *server = ctx;

    hf_rpc_hosts_release(&server->hosts, hf_container_of(dups, struct hf_rpc_host, dups));
}

void hf_rpc_server_reconfigure(struct hf_rpc_server *server, unsigned max_connections_per_host,
                               unsigned max_calls_per_host, const struct hf_rpc_access *access)
{
    server->config.max_connections_per_host =
        max_connections_per_host ? max_connections_per_host : UINT_MAX;
    server->config.max_calls_per_host = max_calls_per_host ? max_calls_per_host : UINT_MAX;
    server->config.access = *access;
}

int hf_rpc_server_new(const struct hf_rpc_server_config *config, struct hf_rpc_server **out)
{
    struct hf_rpc_server *server = hf_calloc(config->alloc, 1, sizeof(*server));

    if (!server)
        return HF_ENOMEM;
    server->config = *config;
    hf_rpc_server_reconfigure(server, config->max_connections_per_host, config->max_calls_per_host,
                              &config->access);
    if (server->config.max_unread == 0)
        server->config.max_unread = HF_RPC_UNREAD_DEFAULT;
    server->credits.key = config->hash_key;
    server->diag_fd = hf_sockdiag_open();
    hf_busy_poll_init(&server->busy_poll, config->busy_poll_ns);
    if (hf_rpc_hosts_init(&server->hosts, &config->hash_key, config->alloc) < 0)
        goto err_server;
    server->hosts.roams = config->roams;
    server->hosts.ctx = config->roams_ctx;
    if (hf_dupcache_init(&server->dups, &config->hash_key, config->alloc, on_dups_emptied, server) <
        0)
        goto err_hosts;
    hf_list_init(&server->waiting);
    uv_idle_init(config->loop, &server->idle);
    server->idle.data = server;
    hf_list_init(&server->listeners);
    hf_list_init(&server->conns);
    hf_list_init(&server->dirty);
    hf_list_init(&server->spare_calls);
    uv_prepare_init(config->loop, &server->prepare);
    server->prepare.data = server;
    uv_prepare_start(&server->prepare, on_prepare);
    uv_timer_init(config->loop, &server->sweep);
    server->sweep.data = server;
    uv_timer_start(&server->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    server->open_handles = 3;
    *out = server;
    return 0;

err_hosts:
    hf_rpc_hosts_free(&server->hosts);
err_server:
    if (server->diag_fd >= 0)
        close(server->diag_fd);
    hf_free(config->alloc, server);
    return HF_ENOMEM;
}

void hf_rpc_server_took_lock(struct hf_rpc_server *server, const struct hf_addr *peer)
{
    hf_credit_shown(&server->credits, peer, uv_now(server->config.loop));
}

bool hf_rpc_server_needs_credit(const struct hf_rpc_server *server, const struct hf_addr *peer)
{
    enum hf_trust trust = hf_credit_trust(&server->credits, peer, uv_now(server->config.loop));

    /* Loopback addresses cannot be forged: the kernel drops packets with such addresses from
     * outside. */
    return hf_trust_rights[trust].bytes_out != 0 && !hf_addr_is_loopback(peer);
}

struct hf_credits *hf_rpc_server_credits(struct hf_rpc_server *server)
{
    return &server->credits;
}

const struct hf_rpc_counters *hf_rpc_server_counters(const struct hf_rpc_server *server)
{
    return &server->counters;
}

struct hf_udp *hf_rpc_server_socket(struct hf_rpc_server *server, const struct hf_addr *local)
{
    hf_list_foreach (node, &server->listeners) {
        struct hf_rpc_listener *listener = hf_list_entry(node, struct hf_rpc_listener, link);
        const struct hf_addr *bound = &listener->udp.bound;

        if (!listener->local && bound->family == local->family &&
            (hf_addr_is_any(bound) || hf_addr_same_host(bound, local)))
            /* Prefer the first listener: the daemon listens for its own programs before rpcbind. */
            return &listener->udp;
    }
    return NULL;
}

void hf_rpc_server_on_reply(struct hf_rpc_server *server,
                            void (*reply)(void *ctx, const struct hf_addr *peer,
                                          struct hf_bytes datagram),
                            void *ctx)
{
    server->reply = reply;
    server->reply_ctx = ctx;
}

/* ---- listening ---- */

bool hf_rpc_access_allows(const struct hf_rpc_listener *listener, const struct hf_addr *peer,
                          bool udp)
{
    const struct hf_rpc_access *access = &listener->server->config.access;
    bool allowed = access->n_allow == 0;

    if (hf_addr_is_loopback(peer))
        return true;
    if ((udp && access->no_udp) ||
        (access->reserved_ports && !listener->any_port && !hf_addr_is_reserved_port(peer)))
        return false;
    for (unsigned i = 0; i < access->n_allow && !allowed; i++)
        allowed = hf_network_contains(&access->allow[i], peer);
    return allowed;
}

/*
 * Serves one datagram. The datagrams of all hosts come through one queue of the kernel, so one host
 * cannot be made to wait without the others. If a host's requests have cost more than a slice of
 * work in this turn, its further datagrams are dropped, as an overloaded network would do; clients
 * repeat them.
 */
static void serve_datagram(const struct hf_rpc_origin *origin, struct hf_bytes datagram)
{
    struct hf_rpc_server *server = origin->listener->server;
    uint64_t before = hf_rpc_work(server);

    if (!hf_rpc_host_may_ask(server, origin->host)) {
        server->counters.too_costly++;
        return;
    }
    hf_rpc_dispatch(server, origin, datagram);
    origin->host->nodes += hf_rpc_work(server) - before;
}

static void on_datagram(struct hf_udp *udp, const struct hf_addr *peer, const struct hf_addr *local,
                        struct hf_bytes datagram)
{
    struct hf_rpc_listener *listener = udp->ctx;
    struct hf_rpc_server *server = listener->server;
    bool here = hf_addr_same_host(peer, local) || hf_addr_is_loopback(local);
    enum hf_trust trust = hf_trust_of(HF_TRANSPORT_UDP, peer, HF_UID_UNKNOWN, here);
    struct hf_addr account = hf_trust_account(trust, peer, HF_UID_UNKNOWN);
    struct hf_rpc_origin origin = {listener, NULL, peer, local, NULL, trust};

    hf_rpc_server_read(server);
    if (listener->slice_turn != server->turn) {
        hf_rpc_slice_begin(server, SLICE_REQUESTS, false, &listener->slice);
        listener->slice_turn = server->turn;
    }
    if (!hf_rpc_access_allows(listener, peer, true)) {
        server->counters.denied++;
        return;
    }
    origin.host = hf_rpc_hosts_get(&server->hosts, &account);
    if (!origin.host)
        return;
    if (!hf_addr_is_loopback(peer))
        hf_credit_came(&server->credits, peer, datagram.len);
    origin.host->n_calls++; /* counting the datagram as a request keeps the host's record alive */
    serve_datagram(&origin, datagram);
    origin.host->n_calls--;
    hf_rpc_hosts_release(&server->hosts, origin.host);
}

static bool udp_gives_way(struct hf_udp *udp)
{
    struct hf_rpc_listener *listener = udp->ctx;

    if (!hf_rpc_slice_is_over(listener->server, &listener->slice))
        return false;
    listener->server->udp_waits = true;
    return true;
}

void hf_rpc_server_read_on(struct hf_rpc_server *server)
{
    if (!server->config.held)
        return;
    server->config.held = false;
    hf_list_foreach (node, &server->listeners) {
        struct hf_rpc_listener *listener = hf_list_entry(node, struct hf_rpc_listener, link);

        if (!listener->local)
            hf_udp_read(&listener->udp);
    }
    hf_rpc_conn_accept_backlog(server);
}

void hf_rpc_server_gate_opened(struct hf_rpc_server *server)
{
    hf_list_foreach_safe (node, &server->conns)
        hf_rpc_conn_flush(hf_list_entry(node, struct hf_rpc_conn, link));
    hf_rpc_conn_accept_backlog(server);
}

void hf_rpc_listener_handle_closed(struct hf_rpc_listener *listener)
{
    struct hf_rpc_server *server = listener->server;

    if (--listener->open_handles == 0) {
        hf_list_remove(&listener->link);
        hf_free(server->config.alloc, listener);
    }
    hf_rpc_server_handle_closed(server);
}

static void on_poll_closed(uv_handle_t *handle)
{
    hf_rpc_listener_handle_closed(handle->data);
}

static void on_udp_closed(struct hf_udp *udp)
{
    hf_rpc_listener_handle_closed(udp->ctx);
}

/* Accepts connections at the listening socket fd from now on; the listener owns fd, unless this
 * fails. */
static int accept_at(struct hf_rpc_listener *listener, int fd)
{
    if (uv_poll_init_socket(listener->server->config.loop, &listener->poll, fd) < 0)
        return HF_EUNAVAIL;
    listener->fd = fd;
    listener->poll.data = listener;
    listener->open_handles++;
    listener->server->open_handles++;
    hf_rpc_conn_accept_on(listener);
    return 0;
}

/* Opens a listening TCP socket at addr. */
static int open_tcp(struct hf_rpc_listener *listener, const struct hf_addr *addr)
{
    int on = 1;
    int rv;
    int fd = hf_socket_open(addr, SOCK_STREAM);

    if (fd < 0)
        return fd;
    /* Allow the port of a previous process at once, without waiting until its old connections time
     * out, because clients return to this port. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    rv = hf_socket_bind(fd, addr, listener->server->config.bind);
    if (rv == 0 && listen(fd, BACKLOG) < 0)
        rv = errno == EADDRINUSE ? HF_EBUSY : HF_EUNAVAIL;
    if (rv == 0)
        rv = accept_at(listener, fd);
    if (rv < 0)
        close(fd);
    return rv;
}

static void listener_close(struct hf_rpc_listener *listener)
{
    if (listener->fd >= 0) {
        uv_close((uv_handle_t *)&listener->poll, on_poll_closed);
        close(listener->fd);
    }
    if (listener->local)
        (void)unlink(listener->path);
    else
        hf_udp_close(&listener->udp, on_udp_closed);
}

/* Opens both sockets of a listener, or none: UDP first, then TCP on that port. */
static int listen_both(struct hf_rpc_listener *listener, struct hf_addr *addr)
{
    struct hf_rpc_server *server = listener->server;
    struct hf_addr at = *addr;
    int rv = hf_udp_open(&listener->udp, server->config.loop, &at, server->config.bind,
                         server->config.alloc, on_datagram, listener);

    if (rv < 0)
        return rv;
    listener->udp.gives_way = udp_gives_way;
    listener->udp.gate = server->config.gate;
    if (server->config.held)
        hf_udp_hold(&listener->udp);
    listener->open_handles++;
    server->open_handles++;
    at.port = listener->udp.bound.port;
    rv = open_tcp(listener, &at);
    if (rv == 0)
        *addr = at;
    return rv;
}

static int listen_local(struct hf_rpc_listener *listener, const char *path)
{
    int fd = hf_socket_listen_local(path, SOCK_STREAM, 0666, BACKLOG);
    int rv = fd;

    listener->local = true;
    if (fd >= 0 && (rv = accept_at(listener, fd)) < 0)
        close(fd);
    if (rv == 0)
        hf_format(listener->path, sizeof(listener->path), "%s", path);
    return rv;
}

static struct hf_rpc_listener *listener_new(struct hf_rpc_server *server,
                                            const struct hf_rpc_program *const *programs, size_t n)
{
    struct hf_rpc_listener *listener = hf_calloc(server->config.alloc, 1, sizeof(*listener));

    if (listener) {
        listener->server = server;
        listener->fd = -1;
        listener->programs = programs;
        listener->n_programs = n;
        listener->any_port = n > 0;
        for (size_t i = 0; i < n; i++)
            listener->any_port = listener->any_port && programs[i]->any_port;
        hf_list_init(&listener->link);
    }
    return listener;
}

/* Adds the listener to the server or, after an error, closes it and returns the error. */
static int listener_keep(struct hf_rpc_listener *listener, int error)
{
    if (error == 0)
        hf_list_add_tail(&listener->server->listeners, &listener->link);
    else if (listener->open_handles == 0)
        hf_free(listener->server->config.alloc, listener);
    else
        listener_close(listener); /* the listener is freed when its handles are closed */
    return error;
}

static int listen_once(struct hf_rpc_server *server, struct hf_addr *addr,
                       const struct hf_rpc_program *const *programs, size_t n)
{
    struct hf_rpc_listener *listener = listener_new(server, programs, n);

    return listener ? listener_keep(listener, listen_both(listener, addr)) : HF_ENOMEM;
}

int hf_rpc_server_listen_local(struct hf_rpc_server *server, const char *path,
                               const struct hf_rpc_program *const *programs, size_t n)
{
    struct hf_rpc_listener *listener = listener_new(server, programs, n);

    return listener ? listener_keep(listener, listen_local(listener, path)) : HF_ENOMEM;
}

int hf_rpc_server_listen(struct hf_rpc_server *server, struct hf_addr *addr,
                         const struct hf_rpc_program *const *programs, size_t n)
{
    int tries = addr->port == 0 ? PORT_TRIES : 1;
    int rv = HF_EBUSY;

    while (tries-- > 0 && rv == HF_EBUSY)
        rv = listen_once(server, addr, programs, n);
    return rv;
}

/* ---- closing ---- */

static void server_del(struct hf_rpc_server *server)
{
    const struct hf_alloc *alloc = server->config.alloc;
    void (*closed)(void *ctx) = server->closed;
    void *ctx = server->closed_ctx;

    hf_list_foreach_safe (node, &server->spare_calls) {
        hf_free(alloc, hf_list_entry(node, struct hf_rpc_call, link));
    }
    while (server->n_spare_buffers > 0)
        hf_buf_free(&server->spare_buffers[--server->n_spare_buffers]);
    hf_dupcache_free(&server->dups);
    hf_rpc_hosts_free(&server->hosts);
    if (server->diag_fd >= 0)
        close(server->diag_fd);
    hf_free(alloc, server);
    if (closed)
        closed(ctx);
}

void hf_rpc_server_handle_closed(struct hf_rpc_server *server)
{
    HF_ASSERT(server->open_handles > 0);
    if (--server->open_handles == 0)
        server_del(server);
}

static void on_handle_closed(uv_handle_t *handle)
{
    hf_rpc_server_handle_closed(handle->data);
}

void hf_rpc_server_close(struct hf_rpc_server *server, void (*closed)(void *ctx), void *ctx)
{
    HF_ASSERT(server->n_calls == 0);
    server->closed = closed;
    server->closed_ctx = ctx;
    flush(server);
    hf_list_foreach_safe (node, &server->conns) {
        hf_rpc_conn_close(hf_list_entry(node, struct hf_rpc_conn, link));
    }
    hf_list_foreach (node, &server->listeners) {
        listener_close(hf_list_entry(node, struct hf_rpc_listener, link));
    }
    uv_close((uv_handle_t *)&server->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&server->sweep, on_handle_closed);
    uv_close((uv_handle_t *)&server->idle, on_handle_closed);
}
