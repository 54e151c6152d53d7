/* Requests to the server: written, repeated, answered; see player.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "player.h"
#include "put.h"

enum {
    /* Seconds without an answer, after which the request is repeated on a new connection. */
    ANSWER_S = 3,
    AGAIN_MS = 20,
    BUSY_MS = 50, /* the pause after an answer that says "later" */
    MESSAGE_MAX = 512,
    MARK = 4,
    REPLY_HEAD = 24, /* bytes of a reply's header: xid, REPLY, accepted, verifier, status */
};

static void pause_ms(unsigned ms)
{
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
}

/* Makes an xid that no earlier process of this host used: the server would answer it from memory.
 */
static uint32_t new_xid(void)
{
    static atomic_uint next;
    unsigned none = 0;

    if (atomic_load(&next) == 0)
        atomic_compare_exchange_strong(&next, &none, (unsigned)(now_ns() >> 10) | 1);
    return atomic_fetch_add(&next, 1);
}

/* ---- arguments ---- */

static uint8_t *put_lock(uint8_t *p, const struct process *process, const struct range *range)
{
    const struct handle *file = &host.handles[range->file];
    char owner[48];
    uint32_t owner_len =
        (uint32_t)snprintf(owner, sizeof(owner), "%u@%s", process->number, host.name);

    p = put_opaque(p, host.name, (uint32_t)strlen(host.name));
    p = put_opaque(p, file->bytes, file->len);
    p = put_opaque(p, owner, owner_len);
    p = put32(p, process->number);
    p = put64(p, range->first);
    return put64(p, range->last == CELLS - 1 ? 0 : range->last - range->first + 1);
}

static size_t build(uint8_t out[MESSAGE_MAX], uint32_t xid, const struct process *process,
                    uint32_t procedure, const struct range *range, int flags)
{
    uint8_t *p = put_head(out + MARK, xid, NLM, 4, procedure);

    p = put_opaque(p, "c", 1); /* the cookie */
    if (procedure == NLM_LOCK)
        p = put32(p, flags & LOCK_BLOCK ? 1 : 0);
    if (procedure == NLM_CANCEL)
        p = put32(p, 1);
    if (procedure != NLM_UNLOCK)
        p = put32(p, range->mode == MODE_EXCLUSIVE);
    p = put_lock(p, process, range);
    if (procedure == NLM_LOCK) {
        p = put32(p, flags & LOCK_RECLAIM ? 1 : 0);
        p = put32(p, flags & LOCK_RECLAIM ? 0 : (uint32_t)host.state);
    }
    put32(out, 0x80000000U | (uint32_t)(p - out - MARK));
    return (size_t)(p - out);
}

/* ---- answers ---- */

/* Decodes the holder that TEST named: exclusive, svid, owner handle, offset, length. */
static bool decode_holder(const uint8_t *p, size_t len, struct answer *out)
{
    char owner[64] = "";
    uint32_t owner_len;
    uint64_t length;
    const uint8_t *at;

    if (len < 12 || (owner_len = get32(p + 8)) >= sizeof(owner) ||
        len < 12 + (owner_len + 3) / 4 * 4 + 16)
        return false;
    memcpy(owner, p + 12, owner_len);
    at = p + 12 + (owner_len + 3) / 4 * 4;
    out->by_process = get32(p + 4);
    out->by_host = 0; /* a program outside: no owner handle, and the svid is the process id */
    if (owner_len > 0 && sscanf(owner, "%*u@host%u.example", &out->by_host) != 1)
        return false;
    length = (uint64_t)get32(at + 8) << 32 | get32(at + 12);
    out->held =
        (struct range){.first = get32(at + 4), .mode = get32(p) ? MODE_EXCLUSIVE : MODE_SHARED};
    out->held.last = length ? out->held.first + (unsigned)length - 1 : CELLS - 1;
    return true;
}

/* Decodes a reply: a cookie of one byte and a status. */
static bool decode(const uint8_t *reply, size_t len, uint32_t procedure, struct answer *out)
{
    if (len < REPLY_HEAD + 12 || get32(reply + 4) != 1 || get32(reply + 8) != 0 ||
        get32(reply + 20) != 0 || get32(reply + REPLY_HEAD) != 1)
        return false;
    out->stat = get32(reply + REPLY_HEAD + 8);
    if (procedure == NLM_TEST && out->stat == STAT_DENIED)
        return decode_holder(reply + REPLY_HEAD + 12, len - REPLY_HEAD - 12, out);
    return true;
}

/* ---- the connection ---- */

static bool connect_to_server(struct connection *connection)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(SERVER_PORT)};
    struct timeval wait = {.tv_sec = ANSWER_S};
    struct linger abort = {.l_onoff = 1}; /* a request that was given up must not arrive later */
    int on = 1;

    inet_pton(AF_INET, host.server, &there.sin_addr);
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0)
        die("socket");
    setsockopt(connection->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    setsockopt(connection->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return connect(connection->fd, (struct sockaddr *)&there, sizeof(there)) == 0;
}

static bool receive_all(int fd, uint8_t *out, size_t len)
{
    for (size_t n = 0; n < len;) {
        ssize_t got = recv(fd, out + n, len - n, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        n += (size_t)got;
    }
    return true;
}

/* Receives the reply with this xid, and drops others, which are late. */
static size_t receive_reply(int fd, uint32_t xid, uint8_t reply[MESSAGE_MAX])
{
    for (;;) {
        uint8_t mark[MARK];
        size_t len;

        if (!receive_all(fd, mark, MARK) || (len = get32(mark) & 0x7fffffff) > MESSAGE_MAX ||
            len < 4 || !receive_all(fd, reply, len))
            return 0;
        if (get32(reply) == xid)
            return len;
    }
}

enum exchanged { UNSENT, UNANSWERED, ANSWERED };

static enum exchanged exchange(struct connection *connection, const uint8_t *request, size_t len,
                               uint32_t xid, uint32_t procedure, struct answer *out)
{
    uint8_t reply[MESSAGE_MAX];
    bool sent = (connection->fd >= 0 || connect_to_server(connection)) &&
                send(connection->fd, request, len, MSG_NOSIGNAL) == (ssize_t)len;
    size_t n = sent ? receive_reply(connection->fd, xid, reply) : 0;

    if (n && decode(reply, n, procedure, out))
        return ANSWERED;
    close(connection->fd);
    connection->fd = -1;
    return sent ? UNANSWERED : UNSENT;
}

struct answer ask(struct process *process, struct connection *connection, uint32_t procedure,
                  const struct range *range, int flags)
{
    uint8_t request[MESSAGE_MAX];
    uint32_t xid = new_xid();
    size_t len = build(request, xid, process, procedure, range, flags);
    struct answer answer;

    for (;;) {
        enum exchanged exchanged = exchange(connection, request, len, xid, procedure, &answer);

        if (exchanged == UNANSWERED && procedure == NLM_UNLOCK)
            log_unanswered(process->asking);
        if (exchanged != ANSWERED) {
            pause_ms(AGAIN_MS);
            continue;
        }
        if (answer.stat != STAT_NOLOCKS && (answer.stat != STAT_GRACE || flags & LOCK_RECLAIM))
            return answer;
        if (answer.stat == STAT_NOLOCKS && procedure == NLM_LOCK && !(flags & LOCK_RECLAIM))
            log_refused(process->asking);
        pause_ms(BUSY_MS);
        xid = new_xid();
        len = build(request, xid, process, procedure, range, flags);
    }
}

/* ---- our own restart ---- */

void tell_of_our_crash(void)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(SERVER_PORT)};
    struct timeval wait = {.tv_usec = 500000};
    unsigned number = log_crash();
    uint32_t xid = new_xid();
    uint8_t message[MESSAGE_MAX];
    uint8_t *p = put_head(message, xid, NSM, 1, NSM_NOTIFY);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    p = put_opaque(p, host.name, (uint32_t)strlen(host.name));
    p = put32(p, (uint32_t)host.state);
    inet_pton(AF_INET, host.server, &there.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    if (fd < 0 || connect(fd, (struct sockaddr *)&there, sizeof(there)) < 0)
        die("socket");
    for (;;) {
        uint8_t reply[MESSAGE_MAX];

        if (send(fd, message, (size_t)(p - message), 0) < 0 ||
            recv(fd, reply, sizeof(reply), 0) < 4) {
            pause_ms(AGAIN_MS);
            continue;
        }
        if (get32(reply) == xid)
            break;
    }
    close(fd);
    log_completed(number, "granted", 0);
}
