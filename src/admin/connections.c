#include "admin/connections.h"

#include <sys/socket.h>

#include "admin/private.h"
#include "base/alloc.h"

enum { SWEEP_MS = 1000, STALLED_MS = 1000 };

struct connection {
    struct hf_list link; /* a connection that is not linked was cut, and is about to be closed */
    struct MHD_Connection *connection;
    /* When the connection last made progress: it was opened, its request had arrived, the peer took
     * a piece of the answer, or the answer was complete. */
    uint64_t since_ms;
    bool privileged;
};

static struct connection *of(struct MHD_Connection *connection)
{
    struct connection *c =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;

    return c && hf_list_linked(&c->link) ? c : NULL;
}

static void move(struct connections *connections, struct connection *c, struct hf_list *to)
{
    c->since_ms = uv_now(connections->sweep.loop);
    hf_list_remove(&c->link);
    hf_list_add_tail(to, &c->link);
}

/* Cuts a connection: libmicrohttpd sees its end in the next round, and closes it. */
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

static uint64_t age_ms(const struct connections *connections, const struct connection *c)
{
    return uv_now(connections->sweep.loop) - c->since_ms;
}

static void sweep(struct connections *connections, struct hf_list *list)
{
    const uint64_t deadline_ms = (uint64_t)CONNECTION_DEADLINE_S * 1000;
    struct connection *c;

    while ((c = hf_list_first(list, struct connection, link))) {
        if (age_ms(connections, c) < deadline_ms)
            /*
             * The connections behind this one in the list are younger, so none of them is overdue.
             */
            return;
        if (is_waiting_for_us(c))
            move(connections, c, list);
        else
            cut(connections, c);
    }
}

static void on_sweep(uv_timer_t *timer)
{
    struct connections *connections = timer->data;

    sweep(connections, &connections->idle);
    sweep(connections, &connections->answered);
    if (connections->count == 0)
        uv_timer_stop(timer);
}

void hf_connections_init(struct connections *connections, uv_loop_t *loop)
{
    hf_list_init(&connections->idle);
    hf_list_init(&connections->answered);
    connections->count = 0;
    uv_timer_init(loop, &connections->sweep);
    connections->sweep.data = connections;
}

/* Returns the connection whose answer gives way to a newcomer; NULL: none does. */
static struct connection *victim(const struct connections *connections)
{
    bool full = connections->count >= CONNECTIONS_MAX;

    hf_list_foreach (node, &connections->answered) {
        struct connection *c = hf_list_entry(node, struct connection, link);

        if (c->privileged)
            continue;
        if (full || (age_ms(connections, c) >= STALLED_MS && !is_waiting_for_us(c)))
            return c;
        if (age_ms(connections, c) < STALLED_MS)
            /* The connections behind this one moved later, so none of them gives way. */
            return NULL;
    }
    return NULL;
}

/* Makes room for a new connection; false: no open connection may give way. */
static bool make_room(struct connections *connections)
{
    struct connection *c = hf_list_first(&connections->idle, struct connection, link);

    if (connections->count < CONNECTIONS_CALM)
        return true;
    if (!c)
        c = victim(connections);
    if (c)
        cut(connections, c);
    return connections->count < CONNECTIONS_MAX;
}

static void opened(struct connections *connections, struct MHD_Connection *connection, void **out)
{
    struct connection *c = hf_calloc(&hf_alloc_heap, 1, sizeof(*c));
    bool room;

    *out = c;
    if (!c)
        /* Without memory the connection is not watched; libmicrohttpd's own limits still hold. */
        return;
    hf_list_init(&c->link);
    c->connection = connection;
    if (connections->count == 0)
        uv_timer_start(&connections->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    room = make_room(connections);
    connections->count++;
    move(connections, c, &connections->idle);
    if (!room)
        cut(connections, c);
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

void hf_connections_notify(void *ctx, struct MHD_Connection *connection, void **socket_context,
                           enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        opened(ctx, connection, socket_context);
    else
        closed(ctx, *socket_context);
}

void hf_connections_begin(struct connections *connections, struct MHD_Connection *connection,
                          bool privileged)
{
    struct connection *c = of(connection);

    if (!c)
        return;
    c->privileged = privileged;
    move(connections, c, &connections->answered);
}

void hf_connections_moved(struct connections *connections, struct MHD_Connection *connection)
{
    struct connection *c = of(connection);

    if (c)
        move(connections, c, &connections->answered);
}

void hf_connections_completed(struct connections *connections, struct MHD_Connection *connection)
{
    struct connection *c = of(connection);

    if (c)
        move(connections, c, &connections->idle);
}
