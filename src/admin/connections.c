#include "admin/connections.h"

#include <sys/socket.h>

#include "admin/private.h"
#include "base/alloc.h"

enum { SWEEP_MS = 1000 };

struct connection {
    struct hf_list link; /* not linked: it was cut, and is about to be closed */
    struct MHD_Connection *connection;
    uint64_t since_ms; /* opened, or completed its last request */
};

static void move_to_tail(struct connections *connections, struct connection *c)
{
    c->since_ms = uv_now(connections->sweep.loop);
    hf_list_remove(&c->link);
    hf_list_add_tail(&connections->list, &c->link);
}

/* libmicrohttpd sees the end of the connection in its next round, and closes it. */
static void cut(struct connections *connections, struct connection *c)
{
    (void)shutdown(
        MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
        SHUT_RDWR);
    hf_list_remove(&c->link);
    connections->count--;
}

static bool is_waiting_for_us(const struct connection *c)
{
    return MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_SUSPENDED)
        ->suspended;
}

static void on_sweep(uv_timer_t *timer)
{
    struct connections *connections = timer->data;
    const uint64_t deadline_ms = (uint64_t)CONNECTION_DEADLINE_S * 1000;
    struct connection *c;

    while ((c = hf_list_first(&connections->list, struct connection, link))) {
        if (uv_now(timer->loop) - c->since_ms < deadline_ms)
            return; /* the others are younger */
        if (is_waiting_for_us(c))
            move_to_tail(connections, c);
        else
            cut(connections, c);
    }
    uv_timer_stop(timer);
}

void connections_init(struct connections *connections, uv_loop_t *loop)
{
    hf_list_init(&connections->list);
    connections->count = 0;
    uv_timer_init(loop, &connections->sweep);
    connections->sweep.data = connections;
}

static void opened(struct connections *connections, struct MHD_Connection *connection, void **out)
{
    struct connection *oldest = hf_list_first(&connections->list, struct connection, link);
    struct connection *c = hf_calloc(&hf_alloc_heap, 1, sizeof(*c));

    *out = c;
    if (!c)
        return; /* not watched; libmicrohttpd's own limits still hold */
    c->connection = connection;
    c->since_ms = uv_now(connections->sweep.loop);
    if (oldest && connections->count >= CONNECTIONS_MAX)
        cut(connections, oldest);
    if (connections->count++ == 0)
        uv_timer_start(&connections->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    hf_list_add_tail(&connections->list, &c->link);
}

static void closed(struct connections *connections, struct connection *c)
{
    if (!c)
        return;
    if (hf_list_linked(&c->link)) {
        hf_list_remove(&c->link);
        connections->count--;
    }
    hf_free(&hf_alloc_heap, c);
    if (connections->count == 0)
        uv_timer_stop(&connections->sweep);
}

void connections_notify(void *ctx, struct MHD_Connection *connection, void **socket_context,
                        enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        opened(ctx, connection, socket_context);
    else
        closed(ctx, *socket_context);
}

void connections_completed(struct connections *connections, struct MHD_Connection *connection)
{
    struct connection *c =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;

    if (c && hf_list_linked(&c->link))
        move_to_tail(connections, c);
}
