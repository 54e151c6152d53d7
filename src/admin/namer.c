#include "admin/namer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"

#define GREETING "holdfast-names 1\n"

struct namer {
    uv_loop_t *loop;
    struct namer_ops ops;
    char socket[108];
    bool automatic;
    bool closing;
    enum hf_namer_state state;
    char reason[NAMER_REASON_MAX];

    struct link *link; /* the connection to the namer; NULL: there is none */
    uv_timer_t silence;
    uint64_t oldest;             /* the id of the question that the timer watches */
    uint64_t retry_ms, pause_ms; /* when to connect again, by uv_now(), and the pause before that */
    bool ever_up, complained;
    struct hf_buf out;
};

/* One connection to the namer; its memory stays until libuv has closed the pipe. */
struct link {
    struct namer *namer; /* NULL: the namer has given up the connection */
    uv_pipe_t pipe;
    uv_connect_t connect;
    struct hf_buf in;
    bool greeted;
    char piece[16384];
};

struct sending {
    uv_write_t write;
    uv_buf_t buf;
};

/* ---- the end of a connection ---- */

static void on_link_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;

    hf_buf_free(&link->in);
    hf_free(&hf_alloc_heap, link);
}

static void drop_link(struct namer *namer)
{
    if (!namer->link)
        return;
    namer->link->namer = NULL;
    uv_close((uv_handle_t *)&namer->link->pipe, on_link_closed);
    namer->link = NULL;
}

static void on_silence(uv_timer_t *timer);

static void fail(struct namer *namer, bool absent, const char *reason)
{
    enum hf_namer_state before = namer->state;

    drop_link(namer);
    uv_timer_stop(&namer->silence);
    hf_buf_clear(&namer->out);
    namer->oldest = 0;
    namer->state = absent ? NAMER_ABSENT : NAMER_DOWN;
    hf_format(namer->reason, sizeof(namer->reason), "%s", reason);
    namer->pause_ms = namer->pause_ms ? 2 * namer->pause_ms : NAMER_PAUSE_MIN_MS;
    if (namer->pause_ms > NAMER_PAUSE_MAX_MS)
        namer->pause_ms = NAMER_PAUSE_MAX_MS;
    /* An attempt is cheap, and an operator who starts a namer wants to see names soon. */
    if (absent)
        namer->pause_ms = NAMER_PAUSE_MIN_MS;
    namer->retry_ms = uv_now(namer->loop) + namer->pause_ms;
    /* One line is logged each time the namer is lost, not for each attempt. */
    if (!absent && (before == NAMER_UP || !namer->complained)) {
        hf_log(HF_LOG_WARN, "no names of files", HF_STR("namer", namer->socket),
               HF_STR("reason", reason),
               HF_STR("advice", "locks are served all the same; see names.socket"));
        namer->complained = true;
    }
    namer->ops.down(namer->ops.ctx);
}

/* ---- lines ---- */

static void become_up(struct namer *namer)
{
    namer->link->greeted = true;
    namer->state = NAMER_UP;
    namer->pause_ms = 0;
    namer->complained = false;
    namer->reason[0] = '\0';
    uv_timer_stop(&namer->silence);
    hf_log(HF_LOG_INFO, "names of files", HF_STR("namer", namer->socket));
    namer->ops.up(namer->ops.ctx);
}

/* Takes a line from the namer; false: the line makes no sense. */
static bool take_line(struct namer *namer, struct hf_bytes line)
{
    /* Static, because it is too large for the stack; no call nests here. */
    static struct hf_name_answer answer;

    if (!namer->link->greeted) {
        if (!hf_bytes_equal(line, hf_bytes(GREETING, sizeof(GREETING) - 2)))
            return false;
        become_up(namer);
        return true;
    }
    if (!hf_name_answer_read(line, &answer))
        return false;
    return namer->ops.answered(namer->ops.ctx, &answer);
}

static void take_lines(struct namer *namer)
{
    struct link *link = namer->link;
    bool sense = true;

    while (sense && namer->link == link) {
        struct hf_bytes in = hf_buf_view(&link->in);
        const uint8_t *end = in.len ? memchr(in.data, '\n', in.len) : NULL;

        if (!end) {
            sense = in.len < NAMER_LINE_MAX;
            break;
        }
        sense = take_line(namer, hf_bytes(in.data, (size_t)(end - in.data)));
        if (namer->link == link)
            hf_buf_consume(&link->in, (size_t)(end - in.data) + 1);
    }
    if (!sense && namer->link == link)
        fail(namer, false, "it said what makes no sense; see docs/operating/NAMES.md");
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *out)
{
    struct link *link = handle->data;

    (void)size;
    *out = uv_buf_init(link->piece, sizeof(link->piece));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct link *link = stream->data;
    struct namer *namer = link->namer;

    if (!namer || n == 0)
        return;
    if (n < 0) {
        fail(namer, false, n == UV_EOF ? "it closed the connection" : uv_strerror((int)n));
        return;
    }
    if (hf_buf_append(&link->in, buf->base, (size_t)n) < 0)
        fail(namer, false, hf_strerror(HF_ENOMEM));
    else
        take_lines(namer);
}

/* ---- sending ---- */

static void on_sent(uv_write_t *write, int status)
{
    struct sending *sending = hf_container_of(write, struct sending, write);
    struct link *link = write->handle->data;

    if (status < 0 && link->namer)
        fail(link->namer, false, uv_strerror(status));
    hf_free(&hf_alloc_heap, sending->buf.base);
    hf_free(&hf_alloc_heap, sending);
}

/* Gives the questions to libuv, which sends them as fast as the namer takes them. */
static int send_all(struct namer *namer)
{
    struct hf_bytes bytes = hf_buf_view(&namer->out);
    struct sending *sending = hf_calloc(&hf_alloc_heap, 1, sizeof(*sending));
    char *copy = hf_malloc(&hf_alloc_heap, bytes.len);

    int rv = UV_ENOMEM;

    if (sending && copy) {
        memcpy(copy, bytes.data, bytes.len);
        sending->buf = uv_buf_init(copy, (unsigned)bytes.len);
        rv =
            uv_write(&sending->write, (uv_stream_t *)&namer->link->pipe, &sending->buf, 1, on_sent);
    }
    hf_buf_clear(&namer->out);
    if (rv < 0) {
        hf_free(&hf_alloc_heap, copy);
        hf_free(&hf_alloc_heap, sending);
    }
    return rv < 0 ? HF_ENOMEM : 0;
}

int hf_namer_ask(struct namer *namer, uint64_t id, struct hf_bytes fh)
{
    char line[2 * 64 + 64];
    int len = snprintf(line, sizeof(line), "path %llu ", (unsigned long long)id);

    HF_ASSERT(namer->state == NAMER_UP && fh.len > 0 && fh.len <= 64);
    hf_hex_encode(fh.data, fh.len, line + len);
    len += 2 * (int)fh.len;
    line[len++] = '\n';
    return hf_buf_append(&namer->out, line, (size_t)len);
}

void hf_namer_flush(struct namer *namer, uint64_t oldest)
{
    if (namer->state != NAMER_UP)
        return;
    if (hf_buf_len(&namer->out) > 0 && send_all(namer) < 0) {
        fail(namer, false, hf_strerror(HF_ENOMEM));
        return;
    }
    if (oldest == 0)
        uv_timer_stop(&namer->silence);
    else if (oldest != namer->oldest)
        uv_timer_start(&namer->silence, on_silence, NAMER_SILENT_MS, 0);
    namer->oldest = oldest;
}

static void on_silence(uv_timer_t *timer)
{
    fail(timer->data, false, "it does not answer");
}

/* ---- connecting ---- */

static void on_connected(uv_connect_t *connect, int status)
{
    struct link *link = hf_container_of(connect, struct link, connect);
    struct namer *namer = link->namer;

    if (!namer)
        return;
    if (status < 0) {
        fail(namer, namer->automatic && !namer->ever_up && status == UV_ENOENT,
             status == UV_ENOENT ? "there is no such socket" : uv_strerror(status));
        return;
    }
    namer->ever_up = true;
    if (hf_buf_append(&namer->out, GREETING, sizeof(GREETING) - 1) < 0 || send_all(namer) < 0 ||
        uv_read_start((uv_stream_t *)&link->pipe, on_alloc, on_read) < 0)
        fail(namer, false, hf_strerror(HF_ENOMEM));
}

void hf_namer_connect(struct namer *namer)
{
    struct link *link;

    if (namer->link || !namer->socket[0] || namer->closing || uv_now(namer->loop) < namer->retry_ms)
        return;
    if (namer->automatic && !namer->ever_up && access(namer->socket, F_OK) < 0) {
        /* Most hosts have no namer, so its socket is looked for only now and then. */
        namer->retry_ms = uv_now(namer->loop) + NAMER_PAUSE_MIN_MS;
        return;
    }
    link = hf_calloc(&hf_alloc_heap, 1, sizeof(*link));
    if (!link)
        return;
    link->namer = namer;
    hf_buf_init(&link->in, &hf_alloc_heap);
    uv_pipe_init(namer->loop, &link->pipe, 0);
    link->pipe.data = link;
    namer->link = link;
    namer->state = NAMER_CONNECTING;
    uv_timer_start(&namer->silence, on_silence, NAMER_SILENT_MS, 0);
    uv_pipe_connect(&link->connect, &link->pipe, namer->socket, on_connected);
}

/* ---- the object ---- */

struct namer *hf_namer_new(uv_loop_t *loop, const char *socket, const struct namer_ops *ops)
{
    struct namer *namer = hf_calloc(&hf_alloc_heap, 1, sizeof(*namer));

    if (!namer)
        return NULL;
    namer->loop = loop;
    namer->ops = *ops;
    namer->automatic = strcmp(socket, "auto") == 0;
    namer->state = socket[0] && !namer->automatic ? NAMER_DOWN : NAMER_ABSENT;
    hf_format(namer->socket, sizeof(namer->socket), "%s", namer->automatic ? NAMER_SOCKET : socket);
    hf_format(namer->reason, sizeof(namer->reason), "it has not been asked yet");
    hf_buf_init(&namer->out, &hf_alloc_heap);
    uv_timer_init(loop, &namer->silence);
    namer->silence.data = namer;
    return namer;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct namer *namer = handle->data;

    hf_buf_free(&namer->out);
    hf_free(&hf_alloc_heap, namer);
}

void hf_namer_close(struct namer *namer)
{
    namer->closing = true;
    drop_link(namer);
    uv_close((uv_handle_t *)&namer->silence, on_timer_closed);
}

enum hf_namer_state hf_namer_state(const struct namer *namer)
{
    return namer->state;
}

const char *hf_namer_reason(const struct namer *namer)
{
    return namer->reason;
}
