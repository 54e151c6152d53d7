#include <errno.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin/fh_map.h"
#include "admin/private.h"
#include "admin/rows.h"
#include "admin/token.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/socket.h"

/* ---- libmicrohttpd under the loop ---- */

static void on_timer(uv_timer_t *timer);

/* Lets libmicrohttpd do one round: connections, reads, writes, and the answers that turns.h lets it
 * make. What remains (an unfinished list, a timeout) is left to a later turn of the loop. */
void hf_admin_listener_run(struct listener *listener)
{
    struct turns *turns = &listener->admin->turns;
    uint64_t start_ns = uv_hrtime();
    MHD_UNSIGNED_LONG_LONG pause_ms;

    listener->kicked = false;
    MHD_run(listener->daemon);
    hf_admin_turns_used(turns, start_ns);
    if (listener->kicked) {
        uv_timer_start(&listener->timer, on_timer, 0, 0);
    } else if (MHD_get_timeout(listener->daemon, &pause_ms) == MHD_YES) {
        if (pause_ms == 0 && !hf_admin_turns_has_budget(turns))
            pause_ms = TURNS_WINDOW_MS;
        uv_timer_start(&listener->timer, on_timer, pause_ms, 0);
    } else {
        uv_timer_stop(&listener->timer);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events);

static void on_timer(uv_timer_t *timer)
{
    struct listener *listener = timer->data;

    uv_poll_start(&listener->poll, UV_READABLE, on_readable);
    hf_admin_listener_run(listener);
}

/* Runs libmicrohttpd. Connections and requests that come when the budget is used wait in the
 * kernel. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;

    (void)status;
    (void)events;
    if (hf_admin_turns_has_budget(&listener->admin->turns)) {
        hf_admin_listener_run(listener);
    } else {
        uv_poll_stop(poll);
        uv_timer_start(&listener->timer, on_timer, TURNS_WINDOW_MS, 0);
    }
}

void hf_admin_listener_kick(struct listener *listener)
{
    listener->kicked = true;
    uv_timer_start(&listener->timer, on_timer, 0, 0);
}

/* ---- a request ---- */

static struct request *request_new(struct listener *listener, struct MHD_Connection *connection,
                                   const char *url, const char *method)
{
    struct request *request = hf_calloc(&hf_alloc_heap, 1, sizeof(*request));

    if (!request)
        return NULL;
    request->admin = listener->admin;
    request->listener = listener;
    request->connection = connection;
    request->method = method;
    request->path = url;
    hf_buf_init(&request->body, &hf_alloc_heap);
    hf_buf_init(&request->backup.out, &hf_alloc_heap);
    hf_list_init(&request->link);
    hf_list_init(&request->turn.link);
    hf_list_init(&request->names_wait.link);
    return request;
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct request *request = *state;

    (void)code;
    hf_connections_completed(ctx, connection);
    if (!request)
        return;
    hf_list_remove(&request->link);
    hf_admin_turns_cancel(&request->turn);
    hf_names_cancel(&request->names_wait);
    hf_admin_by_path_free(request->by_path);
    hf_admin_history_free(request->asked);
    json_decref(request->pending);
    hf_buf_free(&request->body);
    hf_buf_free(&request->backup.out);
    hf_free(&hf_alloc_heap, request);
    *state = NULL;
}

/* True if an announced body is too long: it is refused before any of it is read. */
static bool announces_too_much(struct MHD_Connection *connection)
{
    const char *length =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t n;

    return length && (!hf_admin_parse_id(length, &n) || n > BODY_MAX);
}

/* Answers the request when its turn has come; until then the request waits. */
static enum MHD_Result answer(struct request *request)
{
    struct turns *turns = &request->admin->turns;

    if (!hf_admin_turns_take(turns, &request->turn)) {
        hf_admin_turns_wait(turns, &request->turn, request->listener, request->connection);
        return MHD_YES;
    }
    return request->ready ? hf_admin_reply_pending(request) : hf_admin_route(request);
}

/* libmicrohttpd calls this function with the headers of a request, then for each part of the body,
 * then for the answer; and once more when a suspended request is resumed. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **state)
{
    struct request *request = *state;

    (void)version;
    if (!request) {
        request = request_new(ctx, connection, url, method);
        if (!request)
            return MHD_NO;
        *state = request;
        if (announces_too_much(connection))
            return hf_admin_reply_problem(request, MHD_HTTP_CONTENT_TOO_LARGE,
                                          "The body is too long.");
        return MHD_YES;
    }
    if (*size > 0) {
        if (hf_buf_len(&request->body) + *size > BODY_MAX ||
            hf_buf_append(&request->body, data, *size) < 0)
            return MHD_NO; /* a body that is longer than announced closes the connection */
        *size = 0;
        return MHD_YES;
    }
    return answer(request);
}

/* ---- sockets ---- */

static int listen_tcp(const char *text, int *out)
{
    struct sockaddr_storage sa;
    struct hf_addr addr;
    socklen_t len;
    int on = 1;
    int fd;

    if (hf_addr_parse_port(text, &addr) < 0)
        return -EINVAL;
    len = hf_addr_to_sockaddr(&addr, &sa);
    fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, (struct sockaddr *)&sa, len) < 0 || listen(fd, SOMAXCONN) < 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    *out = fd;
    return 0;
}

/* All users may connect; access.c decides by the peer's credentials what they may see and do. */
static int listen_local(const char *path, int *out)
{
    int fd = hf_socket_listen_local(path, SOCK_STREAM, 0666, SOMAXCONN);

    if (fd < 0)
        return -errno;
    *out = fd;
    return 0;
}

/* ---- opening and closing ---- */

static void handle_closed(struct hf_admin *admin)
{
    if (--admin->open_handles > 0)
        return;
    hf_admin_process_close(admin);
    hf_free(&hf_alloc_heap, admin);
}

static void on_closed(uv_handle_t *handle)
{
    handle_closed(((struct listener *)handle->data)->admin);
}

static void on_turns_closed(uv_handle_t *handle)
{
    handle_closed(hf_container_of(handle->data, struct hf_admin, turns));
}

static int start(struct hf_admin *admin, struct listener *listener, int fd)
{
    const unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
    const union MHD_DaemonInfo *info;

    listener->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, listener, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, &listener->connections,
        MHD_OPTION_NOTIFY_CONNECTION, hf_connections_notify, &listener->connections,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)(CONNECTIONS_MAX + CONNECTIONS_CLOSING),
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CONNECTION_IDLE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_END);
    if (!listener->daemon)
        return -ENOMEM;
    hf_connections_init(&listener->connections, admin->config.loop);
    info = MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    HF_ASSERT(info);
    uv_poll_init(admin->config.loop, &listener->poll, info->epoll_fd);
    uv_timer_init(admin->config.loop, &listener->timer);
    listener->poll.data = listener->timer.data = listener;
    uv_poll_start(&listener->poll, UV_READABLE, on_readable);
    admin->open_handles += 3;
    return 0;
}

/* Opens a listener. A failure is logged, and the daemon goes on without the listener. */
static void open_listener(struct hf_admin *admin, struct listener *listener, const char *where)
{
    int fd = -1;
    int rv;

    if (!where[0])
        return;
    rv = listener->local ? listen_local(where, &fd) : listen_tcp(where, &fd);
    if (rv == 0) {
        rv = start(admin, listener, fd);
        if (rv < 0)
            close(fd);
    }
    if (rv < 0)
        hf_log(HF_LOG_WARN, "no administration here", HF_STR("at", where),
               HF_STR("reason", strerror(-rv)),
               HF_STR("advice", "locks are served all the same; see admin.listen, admin.socket"));
    else
        hf_log(HF_LOG_INFO, "administration", HF_STR("at", where));
}

/* Reads the token files and the map. A file that cannot be used is logged and left out, because
 * locks depend on none of them. */
static int read_files(struct hf_admin *admin, const struct hf_admin_config *config)
{
    admin->no_token = hf_token_read(config->token_file, "admin.token_file", admin->token) < 0;
    (void)hf_token_read(config->read_token_file, "admin.read_token_file", admin->read_token);
    return hf_names_new(config->loop, config->names, config->fh_map, &admin->names);
}

int hf_admin_new(const struct hf_admin_config *config, struct hf_admin **out)
{
    struct hf_admin *admin = hf_calloc(&hf_alloc_heap, 1, sizeof(*admin));
    int rv;

    if (!admin)
        return HF_ENOMEM;
    admin->config = *config;
    hf_list_init(&admin->waiting);
    rv = getrandom(&admin->file_key, sizeof(admin->file_key), 0) < 0 ? HF_EUNAVAIL
                                                                     : read_files(admin, config);
    if (rv < 0) {
        hf_free(&hf_alloc_heap, admin);
        return rv;
    }
    hf_admin_turns_init(&admin->turns, config->loop);
    hf_admin_process_open(admin);
    admin->open_handles = 2;
    admin->listeners[0] = (struct listener){.admin = admin};
    admin->listeners[1] = (struct listener){.admin = admin, .local = true};
    open_listener(admin, &admin->listeners[0], config->listen);
    open_listener(admin, &admin->listeners[1], config->socket);
    *out = admin;
    return 0;
}

struct row_context hf_admin_row_context_of(const struct request *request)
{
    struct hf_admin *admin = request->admin;

    return (struct row_context){
        .names = request->level >= ACCESS_FILES ? admin->names : NULL,
        .file_key = &admin->file_key,
        .wall_ms = hf_service_now(admin->config.service).wall_ms,
    };
}

struct hf_names *hf_admin_names(struct hf_admin *admin)
{
    return admin->names;
}

int hf_admin_check_files(const struct hf_admin_config *config)
{
    char token[TOKEN_MAX + 1];
    struct hf_fh_map map;
    int rv = hf_token_read(config->token_file, "admin.token_file", token);

    if (hf_token_read(config->read_token_file, "admin.read_token_file", token) < 0)
        rv = HF_EINVAL;
    hf_fh_map_init(&map);
    if (hf_fh_map_read(&map, config->fh_map) < 0)
        rv = HF_EINVAL;
    hf_fh_map_free(&map);
    return rv;
}

void hf_admin_reload(struct hf_admin *admin)
{
    hf_names_reload(admin->names);
}

void hf_admin_set_service(struct hf_admin *admin, struct hf_service *service)
{
    admin->config.service = service;
}

/* Lets all requests that wait go on, because libmicrohttpd must not be stopped while a connection
 * is suspended. */
static void let_all_go_on(struct hf_admin *admin)
{
    hf_admin_wait_abandon_all(admin);
    hf_admin_turns_close(&admin->turns);
}

void hf_admin_close(struct hf_admin *admin)
{
    let_all_go_on(admin);
    hf_names_close(admin->names); /* lists that wait for names go on without them */
    for (size_t i = 0; i < HF_COUNT_OF(admin->listeners); i++) {
        struct listener *listener = &admin->listeners[i];

        if (!listener->daemon)
            continue;
        uv_poll_stop(&listener->poll);
        MHD_run(listener->daemon); /* sends the answers that are ready */
        let_all_go_on(admin);      /* requests that are not done yet wait again */
        if (listener->local)
            (void)unlink(admin->config.socket);
        MHD_stop_daemon(listener->daemon);
        uv_close((uv_handle_t *)&listener->poll, on_closed);
        uv_close((uv_handle_t *)&listener->timer, on_closed);
        listener->connections.sweep.data = listener;
        uv_close((uv_handle_t *)&listener->connections.sweep, on_closed);
    }
    uv_close((uv_handle_t *)&admin->turns.timer, on_turns_closed);
    uv_close((uv_handle_t *)&admin->turns.idle, on_turns_closed);
}
