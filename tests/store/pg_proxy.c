#include "pg_proxy.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fixture.h"

enum { CHUNK = 65536, TICK_MS = 20 };

/* libpq finds a Unix socket by this name; the proxy's socket has the next number. */
static struct sockaddr_un address(const struct pg_server *server, unsigned port)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int len = snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/.s.PGSQL.%u", server->dir, port);

    MUST(len > 0 && (size_t)len < sizeof(sun.sun_path));
    return sun;
}

static int dial(const struct pg_server *server)
{
    struct sockaddr_un sun = address(server, server->port);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    MUST(fd >= 0);
    if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

/* Binding the prepared statement "commit": message type B, length, portal "", statement name. */
static const char *find_commit(const char *data, size_t len)
{
    static const char NAME[] = "\0commit";
    const char *at = memmem(data, len, NAME, sizeof(NAME));

    return at && at - data >= 5 && at[-5] == 'B' ? at - 5 : NULL;
}

/* Waits until the server has sent CommandComplete for COMMIT: from then on it is durable. */
static void await_committed(int server_fd)
{
    char data[CHUNK];
    size_t have = 0;
    ssize_t n;

    while (!memmem(data, have, "COMMIT", sizeof("COMMIT")) && have < sizeof(data) &&
           (n = recv(server_fd, data + have, sizeof(data) - have, 0)) > 0)
        have += (size_t)n;
}

/* From the store to the server. False when the connection is to be cut. */
static bool forward(struct pg_proxy *proxy, int client_fd, int server_fd)
{
    char data[CHUNK];
    ssize_t n = recv(client_fd, data, sizeof(data), 0);
    const char *commit = n > 0 ? find_commit(data, (size_t)n) : NULL;
    int cut;

    if (n <= 0)
        return false;
    if (proxy->silent)
        return true;
    cut = commit ? atomic_exchange(&proxy->cut, CUT_NONE) : CUT_NONE;
    if (cut == CUT_NONE)
        return send_all(server_fd, data, (size_t)n);
    proxy->cuts++;
    if (cut == CUT_BEFORE_COMMIT) {
        (void)send_all(server_fd, data, (size_t)(commit - data));
    } else {
        (void)send_all(server_fd, data, (size_t)n);
        if (cut == CUT_AFTER_COMMIT)
            await_committed(server_fd);
    }
    return false;
}

/* From the server to the store. */
static bool answer(int client_fd, int server_fd)
{
    char data[CHUNK];
    ssize_t n = recv(server_fd, data, sizeof(data), 0);

    return n > 0 && send_all(client_fd, data, (size_t)n);
}

/* Serves one connection until either side, or the proxy itself, closes it. */
static void serve(struct pg_proxy *proxy, int client_fd)
{
    int server_fd = dial(proxy->server);
    bool alive = server_fd >= 0;

    while (alive && !proxy->stopping) {
        struct pollfd fds[] = {
            {.fd = client_fd, .events = POLLIN},
            {.fd = server_fd, .events = POLLIN},
        };

        if (poll(fds, 2, TICK_MS) < 0)
            break;
        if (fds[0].revents)
            alive = forward(proxy, client_fd, server_fd);
        if (alive && fds[1].revents)
            alive = answer(client_fd, server_fd);
    }
    if (server_fd >= 0)
        close(server_fd);
    close(client_fd);
}

static void *run(void *arg)
{
    struct pg_proxy *proxy = arg;
    struct pollfd fd = {.fd = proxy->listener, .events = POLLIN};

    while (!proxy->stopping) {
        if (poll(&fd, 1, TICK_MS) > 0)
            serve(proxy, accept(proxy->listener, NULL, NULL));
    }
    return NULL;
}

void pg_proxy_start(struct pg_proxy *proxy, const struct pg_server *server)
{
    struct sockaddr_un sun = address(server, server->port + 1);

    *proxy = (struct pg_proxy){.server = server};
    snprintf(proxy->dsn, sizeof(proxy->dsn), "%s port=%u", server->dsn, server->port + 1);
    unlink(sun.sun_path);
    proxy->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    MUST(proxy->listener >= 0);
    MUST(bind(proxy->listener, (struct sockaddr *)&sun, sizeof(sun)) == 0);
    MUST(listen(proxy->listener, 8) == 0);
    MUST(pthread_create(&proxy->thread, NULL, run, proxy) == 0);
}

void pg_proxy_stop(struct pg_proxy *proxy)
{
    proxy->stopping = true;
    pthread_join(proxy->thread, NULL);
    close(proxy->listener);
}
