#include "keeper/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"

struct hf_keeper_client {
    struct hf_keeper_client_ops ops;
    struct sockaddr_un address;
    int fd; /* the socket to the keeper; -1: there is none */
    bool is_up;
    bool is_closing;
    bool wants_list; /* a LIST is to be sent behind the operations in the queue */
    bool wants_exports;
    bool has_path; /* `path` is to be sent behind the operations in the queue */
    uint64_t pause_ms;
    uv_timer_t timer; /* the timer fires when the next attempt to connect is due */
    uv_poll_t poll;
    bool has_poll;
    /* The events that the poll handle waits for, kept because setting them costs system calls. */
    int events;
    unsigned n_handles; /* how many handles of the loop are still to be closed */

    /* A ring of operations; `head` is the oldest one that was not sent. */
    struct hf_keeper_op queue[HF_KEEPER_QUEUE_MAX];
    size_t head, count;
    struct hf_keeper_path path;
    union { /* room for one message, which is to be sent or was just received */
        struct hf_keeper_header header;
        uint64_t aligned; /* gives the bytes the alignment that records need */
        uint8_t bytes[HF_KEEPER_MESSAGE_MAX];
    } message;
};

static void on_ready(uv_poll_t *poll, int status, int events);
static void on_timer(uv_timer_t *timer);

/* ---- up and down ---- */

static void on_closed(uv_handle_t *handle)
{
    struct hf_keeper_client *client = handle->data;

    if (handle == (uv_handle_t *)&client->poll)
        client->has_poll = false;
    if (--client->n_handles == 0)
        free(client);
    else if (!client->is_closing)
        (void)uv_timer_start(&client->timer, on_timer, client->pause_ms, 0);
}

/* Ends the connection. Its poll handle must be closed before the next attempt, which needs a handle
 * of its own. */
static void disconnect(struct hf_keeper_client *client)
{
    client->is_up = false;
    client->head = client->count = 0;
    client->wants_list = client->wants_exports = client->has_path = false;
    if (client->has_poll && !uv_is_closing((uv_handle_t *)&client->poll)) {
        (void)uv_poll_stop(&client->poll);
        uv_close((uv_handle_t *)&client->poll, on_closed);
    }
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
}

static void fail(struct hf_keeper_client *client, const char *reason)
{
    disconnect(client);
    if (!client->has_poll)
        (void)uv_timer_start(&client->timer, on_timer, client->pause_ms, 0);
    client->ops.down(client->ops.ctx, reason);
    client->pause_ms = client->pause_ms * 2 < HF_KEEPER_PAUSE_MAX_MS ? client->pause_ms * 2
                                                                     : HF_KEEPER_PAUSE_MAX_MS;
}

static bool send_hello(struct hf_keeper_client *client)
{
    struct {
        struct hf_keeper_header header;
        struct hf_keeper_hello hello;
    } message = {.header = {.message = HF_KEEPER_HELLO, .count = 1},
                 .hello = {.version = HF_KEEPER_VERSION}};

    return send(client->fd, &message, sizeof(message), MSG_NOSIGNAL) == (ssize_t)sizeof(message);
}

/* Chooses the events of the socket that the loop waits for. */
static void wait_for(struct hf_keeper_client *client, int events)
{
    if (client->events != events)
        (void)uv_poll_start(&client->poll, events, on_ready);
    client->events = events;
}

static void on_timer(uv_timer_t *timer)
{
    struct hf_keeper_client *client = timer->data;
    char reason[HF_KEEPER_REASON_MAX];

    client->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (client->fd < 0 ||
        connect(client->fd, (struct sockaddr *)&client->address, sizeof(client->address)) < 0 ||
        !send_hello(client)) {
        hf_format(reason, sizeof(reason), "cannot connect to %s: %s", client->address.sun_path,
                  strerror(errno));
        fail(client, reason);
        return;
    }
    if (uv_poll_init(timer->loop, &client->poll, client->fd) < 0) {
        fail(client, "out of memory or files");
        return;
    }
    client->has_poll = true;
    client->n_handles++;
    client->poll.data = client;
    client->events = 0;
    wait_for(client, UV_READABLE);
}

/* ---- sending ---- */

static size_t fill_ops(struct hf_keeper_client *client)
{
    struct hf_keeper_op *ops = (struct hf_keeper_op *)(void *)(&client->message.header + 1);
    size_t n = client->count < HF_KEEPER_OPS_MAX ? client->count : HF_KEEPER_OPS_MAX;

    for (size_t i = 0; i < n; i++)
        ops[i] = client->queue[(client->head + i) % HF_KEEPER_QUEUE_MAX];
    client->message.header =
        (struct hf_keeper_header){.message = HF_KEEPER_OPS, .count = (uint32_t)n};
    return n;
}

/* Sends the message; false if the socket is full or broken. The next event tells which. */
static bool send_message(struct hf_keeper_client *client)
{
    const struct hf_keeper_header *header = &client->message.header;
    size_t len = sizeof(*header) + header->count * hf_keeper_record_size(header->message);

    return send(client->fd, client->message.bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)len;
}

/* Sends the operations in the queue; false if some are left. */
static bool send_queue(struct hf_keeper_client *client)
{
    while (client->count > 0) {
        size_t n = fill_ops(client);

        if (!send_message(client))
            return false;
        client->head = (client->head + n) % HF_KEEPER_QUEUE_MAX;
        client->count -= n;
    }
    if (client->has_path) {
        client->message.header = (struct hf_keeper_header){.message = HF_KEEPER_PATH, .count = 1};
        memcpy(&client->message.header + 1, &client->path, sizeof(client->path));
        if (!send_message(client))
            return false;
        client->has_path = false;
    }
    if (client->wants_list) {
        client->message.header = (struct hf_keeper_header){.message = HF_KEEPER_LIST};
        if (!send_message(client))
            return false;
        client->wants_list = false;
    }
    if (client->wants_exports) {
        client->message.header = (struct hf_keeper_header){.message = HF_KEEPER_EXPORTS};
        if (!send_message(client))
            return false;
        client->wants_exports = false;
    }
    return true;
}

void hf_keeper_client_flush(struct hf_keeper_client *client)
{
    if (client->is_up)
        wait_for(client, UV_READABLE | (send_queue(client) ? 0 : UV_WRITABLE));
}

int hf_keeper_client_put(struct hf_keeper_client *client, const struct hf_keeper_op *op)
{
    if (!client->is_up)
        return HF_EUNAVAIL;
    if (client->count == HF_KEEPER_QUEUE_MAX)
        return HF_ELIMIT;
    client->queue[(client->head + client->count++) % HF_KEEPER_QUEUE_MAX] = *op;
    return 0;
}

int hf_keeper_client_list(struct hf_keeper_client *client)
{
    if (!client->is_up)
        return HF_EUNAVAIL;
    if (client->wants_list)
        return HF_ELIMIT;
    client->wants_list = true;
    hf_keeper_client_flush(client);
    return 0;
}

int hf_keeper_client_exports(struct hf_keeper_client *client)
{
    if (!client->is_up)
        return HF_EUNAVAIL;
    if (client->wants_exports)
        return HF_ELIMIT;
    client->wants_exports = true;
    hf_keeper_client_flush(client);
    return 0;
}

int hf_keeper_client_path(struct hf_keeper_client *client, uint64_t id,
                          enum hf_keeper_path_kind kind, const char *path)
{
    if (!client->is_up)
        return HF_EUNAVAIL;
    if (client->has_path)
        return HF_ELIMIT;
    client->path = (struct hf_keeper_path){.id = id, .kind = (uint32_t)kind};
    if (path[0] != '/' || !hf_text_copy(client->path.path, sizeof(client->path.path), path))
        return HF_EINVAL;
    client->has_path = true;
    hf_keeper_client_flush(client);
    return 0;
}

/* ---- receiving ---- */

static void welcome(struct hf_keeper_client *client, const struct hf_keeper_hello *hello)
{
    char reason[HF_KEEPER_REASON_MAX];

    if (hello->welcome == HF_KEEPER_WELCOME && hello->version == HF_KEEPER_VERSION) {
        client->is_up = true;
        client->pause_ms = HF_KEEPER_PAUSE_MIN_MS;
        client->ops.up(client->ops.ctx, hello);
        return;
    }
    hf_format(reason, sizeof(reason),
              hello->welcome == HF_KEEPER_BUSY ? "another daemon is connected to the keeper"
                                               : "the keeper speaks version %u, not %u",
              hello->version, HF_KEEPER_VERSION);
    fail(client, reason);
}

/* Hands the records of a message to the callbacks. If a callback closes the client, no other is
 * called. */
static void hand_out(struct hf_keeper_client *client, const struct hf_keeper_header *header,
                     const void *records)
{
    const struct hf_keeper_client_ops *ops = &client->ops;

    for (uint32_t i = 0; i < header->count && !client->is_closing; i++) {
        if (header->message == HF_KEEPER_RESULTS)
            ops->result(ops->ctx, (const struct hf_keeper_result *)records + i);
        else if (header->message == HF_KEEPER_EXPORTS)
            ops->exported(ops->ctx, records);
        else
            ops->held(ops->ctx, (const struct hf_keeper_op *)records + i);
    }
    if (header->message == HF_KEEPER_HELD && header->count < HF_KEEPER_OPS_MAX &&
        !client->is_closing)
        ops->held(ops->ctx, NULL);
    if (header->message == HF_KEEPER_EXPORTS && header->count == 0)
        ops->exported(ops->ctx, NULL);
}

/* Receives a message. True if another may follow at once, because this one was full; false also if
 * the connection is gone. */
static bool receive(struct hf_keeper_client *client)
{
    static const char NONSENSE[] = "the keeper sent a malformed message";
    uint8_t bytes[HF_KEEPER_MESSAGE_MAX] __attribute__((aligned(8)));
    ssize_t n = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_TRUNC);
    struct hf_keeper_header header;
    const void *records;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    records = n > 0 && (size_t)n <= sizeof(bytes) ? hf_keeper_check(bytes, (size_t)n, true, &header)
                                                  : NULL;
    if (n <= 0)
        fail(client, "the keeper has closed the connection");
    else if (!records || (header.message == HF_KEEPER_HELLO) == client->is_up)
        fail(client, NONSENSE);
    else if (header.message == HF_KEEPER_HELLO)
        welcome(client, records);
    else
        hand_out(client, &header, records);
    return !client->is_closing && client->fd >= 0 && records && header.count == HF_KEEPER_OPS_MAX;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    enum { TURN_MESSAGES = 16 };
    struct hf_keeper_client *client = poll->data;

    if (status < 0) {
        fail(client, "it has closed the connection");
        return;
    }
    if (events & UV_WRITABLE)
        hf_keeper_client_flush(client);
    for (unsigned i = 0; i < TURN_MESSAGES && receive(client); i++)
        ;
}

/* ---- start and end ---- */

bool hf_keeper_client_is_up(const struct hf_keeper_client *client)
{
    return client->is_up;
}

bool hf_keeper_client_has_input(const struct hf_keeper_client *client)
{
    struct pollfd polled = {.fd = client->fd, .events = POLLIN};

    return poll(&polled, 1, 0) > 0;
}

struct hf_keeper_client *hf_keeper_client_new(uv_loop_t *loop, const char *socket,
                                              const struct hf_keeper_client_ops *ops)
{
    struct hf_keeper_client *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    client->ops = *ops;
    client->fd = -1;
    client->pause_ms = HF_KEEPER_PAUSE_MIN_MS;
    client->address.sun_family = AF_UNIX;
    if (!hf_text_copy(client->address.sun_path, sizeof(client->address.sun_path), socket) ||
        uv_timer_init(loop, &client->timer) < 0) {
        free(client);
        return NULL;
    }
    client->timer.data = client;
    client->n_handles = 1;
    (void)uv_timer_start(&client->timer, on_timer, 0, 0);
    return client;
}

void hf_keeper_client_close(struct hf_keeper_client *client)
{
    client->is_closing = true;
    disconnect(client);
    uv_close((uv_handle_t *)&client->timer, on_closed);
}

void hf_keeper_program_of(int32_t pid, char *out, size_t size)
{
    char path[64];
    ssize_t n;
    int fd;

    HF_ASSERT(size > 0);
    out[0] = '\0';
    if (pid <= 0)
        return;
    hf_format(path, sizeof(path), "/proc/%d/comm", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    if (n > 0 && out[n - 1] == '\n')
        n--;
    out[n > 0 ? n : 0] = '\0';
}
