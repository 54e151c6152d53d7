#include "pg_proxy.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Finds the message that binds the prepared statement "commit": message type B, length, portal "",
 * statement name. */
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

/* The place of one direction of a connection in the protocol's messages, each of which is a type, a
 * length and the rest. */
struct stream {
    unsigned char head[5];
    unsigned have;
    size_t left;    /* bytes that are left of the message whose head was read */
    bool has_types; /* messages have a type; the first message from the store has none */
};

/* Takes one byte. True if a message ends with it. */
static bool ends_message(struct stream *s, unsigned char byte)
{
    unsigned need = s->has_types ? 5 : 4;
    const unsigned char *len = s->head + need - 4;

    if (s->left > 0)
        return --s->left == 0;
    s->head[s->have++] = byte;
    if (s->have < need)
        return false;
    s->have = 0;
    s->has_types = true;
    s->left = ((size_t)len[0] << 24 | (size_t)len[1] << 16 | (size_t)len[2] << 8 | len[3]) - 4;
    return s->left == 0;
}

/* How many of the bytes pass before the connection is cut; n: all of them do. */
static size_t count_messages(struct stream *s, const char *data, size_t n, _Atomic int *budget)
{
    for (size_t i = 0; i < n; i++) {
        if (ends_message(s, (unsigned char)data[i]) && *budget > 0 &&
            atomic_fetch_sub(budget, 1) == 1)
            return i + 1;
    }
    return n;
}

struct connection {
    struct pg_proxy *proxy;
    int client_fd;
    int server_fd;
    struct stream sent;
    struct stream answered;
};

/* Passes on the bytes before the cut. False when the connection is to be cut. */
static bool pass(struct connection *c, bool sent, const char *data, size_t n)
{
    struct pg_proxy *proxy = c->proxy;
    _Atomic int *budget = sent ? &proxy->sent : &proxy->answered;
    bool counts = *budget > 0;
    size_t passes = count_messages(sent ? &c->sent : &c->answered, data, n, budget);
    bool cut = passes < n || (counts && *budget == 0);

    if (!send_all(sent ? c->server_fd : c->client_fd, data, passes))
        return false;
    proxy->cuts += cut;
    return !cut;
}

/* Passes bytes from the store to the server. False when the connection is to be cut. */
static bool forward(struct connection *c)
{
    struct pg_proxy *proxy = c->proxy;
    char data[CHUNK];
    ssize_t n = recv(c->client_fd, data, sizeof(data), 0);
    const char *commit = n > 0 ? find_commit(data, (size_t)n) : NULL;
    int cut;

    if (n <= 0)
        return false;
    if (proxy->silent)
        return true;
    cut = commit ? atomic_exchange(&proxy->cut, CUT_NONE) : CUT_NONE;
    if (cut == CUT_NONE)
        return pass(c, true, data, (size_t)n);
    proxy->cuts++;
    if (cut == CUT_BEFORE_COMMIT) {
        (void)send_all(c->server_fd, data, (size_t)(commit - data));
    } else {
        (void)send_all(c->server_fd, data, (size_t)n);
        if (cut == CUT_AFTER_COMMIT)
            await_committed(c->server_fd);
    }
    return false;
}

/* Passes bytes from the server to the store. */
static bool answer(struct connection *c)
{
    char data[CHUNK];
    ssize_t n = recv(c->server_fd, data, sizeof(data), 0);

    return n > 0 && pass(c, false, data, (size_t)n);
}

/* Serves one connection until either side, or the proxy itself, closes it. */
static void *serve(void *arg)
{
    struct connection *c = arg;
    struct pg_proxy *proxy = c->proxy;
    bool alive;

    c->server_fd = dial(proxy->server);
    alive = c->server_fd >= 0;
    while (alive && !proxy->stopping) {
        struct pollfd fds[] = {
            {.fd = c->client_fd, .events = POLLIN},
            {.fd = c->server_fd, .events = POLLIN},
        };

        if (poll(fds, 2, TICK_MS) < 0)
            break;
        if (fds[0].revents)
            alive = forward(c);
        if (alive && fds[1].revents)
            alive = answer(c);
    }
    if (c->server_fd >= 0)
        close(c->server_fd);
    close(c->client_fd);
    free(c);
    proxy->connections--;
    return NULL;
}

static void begin(struct pg_proxy *proxy, int client_fd)
{
    struct connection *c = calloc(1, sizeof(*c));
    pthread_attr_t attr;
    pthread_t thread;

    MUST(c && client_fd >= 0);
    *c = (struct connection){.proxy = proxy, .client_fd = client_fd};
    c->answered.has_types = true;
    proxy->connections++;
    MUST(pthread_attr_init(&attr) == 0);
    MUST(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0);
    MUST(pthread_create(&thread, &attr, serve, c) == 0);
    pthread_attr_destroy(&attr);
}

static void *run(void *arg)
{
    struct pg_proxy *proxy = arg;
    struct pollfd fd = {.fd = proxy->listener, .events = POLLIN};

    while (!proxy->stopping) {
        if (poll(&fd, 1, TICK_MS) > 0)
            begin(proxy, accept(proxy->listener, NULL, NULL));
    }
    while (proxy->connections > 0)
        usleep(1000);
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
