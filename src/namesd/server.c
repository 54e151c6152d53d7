#include "namesd/server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/socket.h"

/* ---- listening ---- */

int hf_namesd_server_open(struct hf_namesd_server *server, struct hf_resolver *resolver,
                          const char *path)
{
    /* Names of files are not for all users: only root and the group, which is holdfastd's, may
     * connect. */
    *server = (struct hf_namesd_server){
        .resolver = resolver,
        .listener = hf_socket_listen_local(path, SOCK_STREAM, 0660, HF_NAMESD_SERVER_CLIENTS_MAX),
    };
    return server->listener < 0 ? server->listener : 0;
}

/* ---- clients ---- */

static void drop(struct hf_namesd_server *server, struct hf_namesd_client *client)
{
    close(client->fd);
    hf_buf_free(&client->in);
    hf_buf_free(&client->out);
    *client = server->clients[--server->n_clients];
}

static void accept_one(struct hf_namesd_server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct hf_namesd_client *client;

    if (fd < 0)
        return;
    if (server->n_clients == HF_NAMESD_SERVER_CLIENTS_MAX) /* one client is dropped and the newcomer
                                                              is served; holdfastd reconnects */
        drop(server, &server->clients[0]);
    client = &server->clients[server->n_clients++];
    *client = (struct hf_namesd_client){.fd = fd};
    hf_buf_init(&client->in, &hf_alloc_heap);
    hf_buf_init(&client->out, &hf_alloc_heap);
}

/* Answers one line of a client. False: the client must be dropped. */
static bool answer(struct hf_namesd_server *server, struct hf_namesd_client *client,
                   struct hf_bytes line)
{
    char path[HF_PATH_BYTES_MAX];
    struct hf_namesd_request request;
    enum hf_answer found;

    hf_namesd_request_read(line, &request);
    if (request.kind == HF_NAMESD_REQUEST_GREETING) {
        client->greeted = true;
        return hf_buf_append(&client->out, HF_NAMES_GREETING "\n", strlen(HF_NAMES_GREETING) + 1) ==
               0;
    }
    if (!client->greeted) {
        static const char SORRY[] = "0 error the first line is " HF_NAMES_GREETING "\n";

        (void)send(client->fd, SORRY, sizeof(SORRY) - 1, MSG_NOSIGNAL);
        return false;
    }
    if (request.kind == HF_NAMESD_REQUEST_BAD)
        return hf_namesd_request_refuse(&client->out, &request) == 0;
    found = hf_resolve(server->resolver, (int64_t)hf_clock_mono_ms(),
                       hf_bytes(request.handle, request.len), path);
    return hf_namesd_request_answer(&client->out, &request, found,
                                    found == HF_ANSWER_NAMED ? hf_bytes_str(path)
                                                             : hf_bytes("", 0)) == 0;
}

static bool has_line(const struct hf_namesd_client *client)
{
    struct hf_bytes in = hf_buf_view(&client->in);

    return in.len > 0 && memchr(in.data, '\n', in.len);
}

/* Answers some lines of the client; the answers leave at the end of the turn, because a daemon that
 * hears nothing for seconds cuts us off. False: the client must be dropped. */
static bool answer_some(struct hf_namesd_server *server, struct hf_namesd_client *client)
{
    uint64_t end_ms = hf_clock_mono_ms() + HF_NAMESD_SERVER_TURN_MS;
    bool ok = true;

    for (unsigned n = 0;
         ok && n < HF_NAMESD_SERVER_BATCH && (n == 0 || hf_clock_mono_ms() < end_ms) &&
         has_line(client) && hf_buf_len(&client->out) < HF_NAMESD_SERVER_UNREAD_MAX;
         n++) {
        struct hf_bytes in = hf_buf_view(&client->in);
        size_t len = (size_t)((const uint8_t *)memchr(in.data, '\n', in.len) - in.data);

        ok = answer(server, client, hf_bytes(in.data, len));
        hf_buf_consume(&client->in, len + 1);
    }
    hf_exports_close(&server->resolver->exports);
    return ok && (has_line(client) || hf_buf_len(&client->in) <= HF_NAMES_LINE_MAX);
}

static bool receive(struct hf_namesd_client *client)
{
    enum { PIECE = 16384 };
    uint8_t *room = hf_buf_reserve(&client->in, PIECE);
    ssize_t n = room ? read(client->fd, room, PIECE) : -1;

    if (n > 0)
        hf_buf_commit(&client->in, (size_t)n);
    return n > 0 || (n < 0 && room && (errno == EAGAIN || errno == EINTR));
}

static bool flush(struct hf_namesd_client *client)
{
    struct hf_bytes out = hf_buf_view(&client->out);
    ssize_t n = out.len ? send(client->fd, out.data, out.len, MSG_NOSIGNAL) : 0;

    if (n > 0)
        hf_buf_consume(&client->out, (size_t)n);
    return n >= 0 || errno == EAGAIN || errno == EINTR;
}

static bool serve(struct hf_namesd_server *server, struct hf_namesd_client *client, short events)
{
    bool ok = true;

    if (events & (POLLIN | POLLHUP | POLLERR))
        ok = has_line(client) || receive(client);
    return ok && answer_some(server, client) && flush(client);
}

/* ---- the loop ---- */

static short wanted_events(const struct hf_namesd_client *client)
{
    size_t unread = hf_buf_len(&client->out);

    return (short)((unread < HF_NAMESD_SERVER_UNREAD_MAX ? POLLIN : 0) |
                   (unread > 0 ? POLLOUT : 0));
}

/* A client that has lines left to be answered is served again without waiting. */
static bool is_ready(const struct hf_namesd_client *client)
{
    return has_line(client) && hf_buf_len(&client->out) < HF_NAMESD_SERVER_UNREAD_MAX;
}

void hf_namesd_server_run(struct hf_namesd_server *server, const volatile sig_atomic_t *stop)
{
    struct pollfd polled[HF_NAMESD_SERVER_CLIENTS_MAX + 1];

    while (!*stop) {
        int wait_ms = hf_walk_step(&server->resolver->walk, (int64_t)hf_clock_mono_ms());
        size_t n = server->n_clients;

        for (size_t i = 0; i < n; i++) {
            struct hf_namesd_client *client = &server->clients[i];

            polled[i] = (struct pollfd){.fd = client->fd, .events = wanted_events(client)};
            if (is_ready(client))
                wait_ms = 0;
        }
        polled[n] = (struct pollfd){.fd = server->listener, .events = POLLIN};
        if (poll(polled, n + 1, wait_ms) < 0)
            continue; /* poll() was interrupted by a signal */
        /*
         * The loop goes from the end, because dropping a client moves the last one into its place.
         */
        for (size_t i = n; i-- > 0;) {
            struct hf_namesd_client *client = &server->clients[i];

            if ((polled[i].revents || is_ready(client)) &&
                !serve(server, client, polled[i].revents))
                drop(server, client);
        }
        if (polled[n].revents)
            accept_one(server);
    }
}

void hf_namesd_server_close(struct hf_namesd_server *server)
{
    while (server->n_clients > 0)
        drop(server, &server->clients[0]);
    if (server->listener >= 0)
        close(server->listener);
}
