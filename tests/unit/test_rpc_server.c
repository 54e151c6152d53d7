/* The RPC server on a real loop, with a small program of its own: time limits, late answers,
 * repeats, and memory that runs out. Tests in tests/interop attack it with real sockets. */
#include "loop.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text.h"
#include "rpc/marking.h"
#include "rpc/server.h"
#include "rpc_words.h"

enum { PROG = 400000, LATER = 1, NEVER = 2, NOW = 3, LONG = 4, AGAIN = 5 };
enum { FOREVER_MS = 3600 * 1000 };

/* ---- the program ---- */

enum { PENDING_MAX = 8192 };

static struct hf_rpc_call *pending[PENDING_MAX];
static unsigned n_pending;
static unsigned n_handled;

static void handle_null(struct hf_rpc_call *call, void *args)
{
    (void)args;
    hf_rpc_reply_void(call);
}

/* Keeps the call until the test answers it, as a handler that waits for the disk would. */
static void handle_later(struct hf_rpc_call *call, void *args)
{
    (void)args;
    n_handled++;
    assert_true(n_pending < PENDING_MAX);
    pending[n_pending++] = call;
}

static void handle_never(struct hf_rpc_call *call, void *args)
{
    (void)args;
    n_handled++;
    hf_rpc_reply_never(call);
}

static bool_t a_number(XDR *xdr, void *number)
{
    return xdr_u_int(xdr, number);
}

static void handle_now(struct hf_rpc_call *call, void *args)
{
    u_int count = ++n_handled;

    (void)args;
    hf_rpc_reply(call, a_number, &count);
}

static bool_t an_object(XDR *xdr, void *object)
{
    return xdr_netobj(xdr, object);
}

/* Answers with 1,000 bytes. */
static void handle_long(struct hf_rpc_call *call, void *args)
{
    static char bytes[1000];
    struct netobj obj = {sizeof(bytes), bytes};

    (void)args;
    hf_rpc_reply(call, an_object, &obj);
}

static const struct hf_rpc_procedure PROCEDURES[] = {
    {"NULL", NULL, NULL, handle_null, false},
    [LATER] = {"LATER", NULL, NULL, handle_later, true},
    [NEVER] = {"NEVER", NULL, NULL, handle_never, true},
    [NOW] = {"NOW", NULL, NULL, handle_now, true},
    [AGAIN] = {"AGAIN", NULL, NULL, handle_now, false},
    [LONG] = {"LONG", NULL, NULL, handle_long, false},
};
static const struct hf_rpc_version VERSIONS[] = {{1, PROCEDURES, HF_COUNT_OF(PROCEDURES)}};
static const struct hf_rpc_program PROGRAM = {
    .number = PROG, .name = "test", .versions = VERSIONS, .n_versions = 1};
static const struct hf_rpc_program *const PROGRAMS[] = {&PROGRAM};

/* ---- the server ---- */

static struct faulty_heap heap;
static struct hf_alloc alloc;
static struct hf_rpc_server *server;
static struct hf_addr at;
static bool gone;

static void on_gone(void *ctx)
{
    (void)ctx;
    gone = true;
}

/* Changes to the configuration for one test, and the address to listen on. */
static struct hf_rpc_server_config special;
static const char *listen_at;
static const char OTHERS[] = "192.0.2.1"; /* an address that is not a loopback address */

static int server_begin(uint64_t idle_ms, uint64_t stall_ms)
{
    struct hf_rpc_server_config config = {
        .loop = &loop,
        .alloc = &alloc,
        .hash_key = {1, 2},
        .max_connections = 64,
        .max_connections_per_host = special.max_connections_per_host,
        .max_calls_per_host = special.max_calls_per_host,
        .access = special.access,
        .max_unread = special.max_unread,
        .work = special.work,
        .gate = special.gate,
        .idle_ms = idle_ms,
        .stall_ms = stall_ms,
    };
    int rv = hf_rpc_server_new(&config, &server);

    at = address(listen_at, 0);
    gone = false;
    return rv < 0 ? rv : hf_rpc_server_listen(server, &at, PROGRAMS, 1);
}

static void server_end(void)
{
    for (unsigned i = 0; i < n_pending; i++) {
        if (pending[i])
            hf_rpc_reply_never(pending[i]);
    }
    n_pending = 0;
    hf_rpc_server_close(server, on_gone, NULL);
    TURN_UNTIL(gone);
    server = NULL;
}

static int begin(void **state)
{
    (void)state;
    heap = (struct faulty_heap){.after = 1000000};
    alloc = faulty_alloc(&heap);
    n_pending = n_handled = 0;
    special = (struct hf_rpc_server_config){0};
    listen_at = "127.0.0.1";
    loop_begin();
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (server)
        server_end();
    loop_end();
    return heap.live == 0 ? 0 : -1;
}

static const struct hf_rpc_counters *counters(void)
{
    return hf_rpc_server_counters(server);
}

static void answer(unsigned i)
{
    u_int value = i;

    hf_rpc_reply(pending[i], a_number, &value);
    pending[i] = NULL;
}

/* ---- its peers ---- */

static void send_call(int fd, uint32_t xid, uint32_t proc)
{
    struct words w = plain_call(xid, PROG, 1, proc);
    uint8_t record[HF_RPC_MARK_SIZE + sizeof(w.bytes)];

    hf_marking_put(record, w.len);
    memcpy(record + HF_RPC_MARK_SIZE, w.bytes, w.len);
    plain_send(fd, hf_bytes(record, HF_RPC_MARK_SIZE + w.len));
}

static ssize_t received;
static uint8_t inbox[1024 * 1024];

/* True if one record, or the end of the stream, has arrived; both leave it in received and inbox.
 */
static bool has_heard(int fd)
{
    received = recv(fd, inbox, 4, MSG_PEEK);
    if (received < 0)
        return errno == ECONNRESET;
    if (received == 4) {
        uint32_t len = word_at(hf_bytes(inbox, 4), 0) & ~HF_RPC_MARK_LAST;
        received = recv(fd, inbox, 4 + len, 0);
        assert_int_equal(received, 4 + len);
    }
    return received != 0 || recv(fd, inbox, 1, MSG_PEEK) == 0;
}

static bool is_closed(int fd)
{
    return has_heard(fd) && received <= 0;
}

static bool is_quiet(int fd)
{
    return recv(fd, inbox, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

/* Expects that the next answer on the connection is to xid, and has this value. */
static void expect_answer(int fd, uint32_t xid, uint32_t value)
{
    TURN_UNTIL(has_heard(fd));
    assert_int_equal(received, 4 + 24 + 4);
    assert_int_equal(word_at(hf_bytes(inbox, 32), 1), xid);
    assert_int_equal(word_at(hf_bytes(inbox, 32), 7), value);
}

static void expect_null_answer(int fd, uint32_t xid)
{
    send_call(fd, xid, 0);
    TURN_UNTIL(has_heard(fd));
    assert_int_equal(received, 4 + 24);
    assert_int_equal(word_at(hf_bytes(inbox, 28), 1), xid);
}

/* ---- the gate (HA-04) ---- */

static bool open_gate;

static bool is_gate_open(void *ctx)
{
    (void)ctx;
    return open_gate;
}

static const struct hf_rpc_gate GATE = {is_gate_open, NULL};

/* HA-04a: An answer that is ready when the gate is shut waits on its connection, and leaves when it
 * opens.
 */
static void a_shut_gate_keeps_answers_back(void **state)
{
    int fd;

    (void)state;
    special.gate = &GATE;
    open_gate = true;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    fd = plain_connect(SOCK_STREAM, &at);
    send_call(fd, 1, LATER);
    TURN_UNTIL(n_pending == 1);
    open_gate = false;
    answer(0);
    turn_a_while();
    assert_true(is_quiet(fd));
    open_gate = true;
    hf_rpc_server_gate_opened(server);
    expect_answer(fd, 1, 0);
    close(fd);
}

/* While the gate is shut, the server does not even repeat answers from the duplicate request cache.
 */
static void a_shut_gate_reads_no_connection(void **state)
{
    int fd, late;

    (void)state;
    special.gate = &GATE;
    open_gate = true;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    fd = plain_connect(SOCK_STREAM, &at);
    send_call(fd, 1, NOW);
    expect_answer(fd, 1, 1);
    open_gate = false;
    send_call(fd, 1, NOW);
    send_call(fd, 2, NOW);
    late = plain_connect(SOCK_STREAM, &at);
    send_call(late, 3, 0);
    turn_a_while();
    assert_true(is_quiet(fd) && is_quiet(late));
    assert_int_equal(n_handled, 1);
    assert_int_equal(counters()->calls, 1);
    open_gate = true;
    hf_rpc_server_gate_opened(server);
    expect_answer(fd, 1, 1);
    expect_answer(fd, 2, 2);
    TURN_UNTIL(has_heard(late));
    close(fd);
    close(late);
}

/* HA-04a: while the gate is shut, datagrams are dropped unread: their senders repeat them, to the
 * node that owns the service then. */
static void a_shut_gate_drops_datagrams(void **state)
{
    struct words w = plain_call(1, PROG, 1, NOW);
    int fd;

    (void)state;
    special.gate = &GATE;
    open_gate = false;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    fd = plain_connect(SOCK_DGRAM, &at);
    plain_send(fd, hf_bytes(w.bytes, w.len));
    turn_a_while();
    assert_int_equal(counters()->calls, 0);
    open_gate = true;
    turn_a_while();
    assert_true(is_quiet(fd));
    plain_send(fd, hf_bytes(w.bytes, w.len));
    TURN_UNTIL(!is_quiet(fd));
    assert_int_equal(n_handled, 1);
    close(fd);
}

/* ---- time ---- */

/* The server does not wait for a peer that owes the rest of a record; a connection that owes
 * nothing stays. */
static void an_incomplete_record_is_not_waited_for(void **state)
{
    int idle, stalled;

    (void)state;
    assert_int_equal(server_begin(FOREVER_MS, 1), 0);
    idle = plain_connect(SOCK_STREAM, &at);
    stalled = plain_connect(SOCK_STREAM, &at);
    expect_null_answer(idle, 1);
    plain_send(stalled, hf_bytes("\x80\0", 2));
    TURN_UNTIL(is_closed(stalled));
    assert_int_equal(counters()->timed_out, 1);
    expect_null_answer(idle, 2);
    close(idle);
    close(stalled);
}

/* Sends a byte at each heartbeat; true if the server has closed the connection. */
static bool trickled(int fd)
{
    static unsigned last;

    if (heartbeats != last)
        send(fd, "x", 1, MSG_NOSIGNAL);
    last = heartbeats;
    return counters()->timed_out > 0;
}

/* Sending a record byte by byte does not help: its time counts from its beginning. */
static void trickling_bytes_does_not_help(void **state)
{
    uint8_t mark[HF_RPC_MARK_SIZE];
    int fd;

    (void)state;
    assert_int_equal(server_begin(FOREVER_MS, 50), 0);
    fd = plain_connect(SOCK_STREAM, &at);
    hf_marking_put(mark, HF_RPC_RECORD_MAX);
    plain_send(fd, hf_bytes(mark, sizeof(mark)));
    TURN_UNTIL(trickled(fd));
    TURN_UNTIL(is_closed(fd));
    assert_int_equal(counters()->timed_out, 1);
    assert_int_equal(counters()->broken_records, 0);
    close(fd);
}

/* A quiet connection is closed after its time, but not while it waits for an answer. */
static void an_idle_connection_is_closed(void **state)
{
    int idle, waiting;

    (void)state;
    assert_int_equal(server_begin(1, FOREVER_MS), 0);
    idle = plain_connect(SOCK_STREAM, &at);
    waiting = plain_connect(SOCK_STREAM, &at);
    send_call(waiting, 1, LATER);
    TURN_UNTIL(n_pending == 1);
    TURN_UNTIL(is_closed(idle));
    assert_true(is_quiet(waiting));
    assert_int_equal(counters()->connections, 1);
    answer(0);
    expect_answer(waiting, 1, 0);
    TURN_UNTIL(is_closed(waiting));
    close(idle);
    close(waiting);
}

/* A peer that reads none of its answers is closed in the end, and its requests are no longer read.
 */
static void a_peer_that_reads_nothing_is_closed(void **state)
{
    static uint8_t calls[1000 * (HF_RPC_MARK_SIZE + HF_RPC_CALL_HEADER_SIZE)];
    struct words w = plain_call(1, PROG, 1, 0);
    int fd;

    (void)state;
    for (uint8_t *p = calls; p < calls + sizeof(calls); p += HF_RPC_MARK_SIZE + w.len) {
        hf_marking_put(p, w.len);
        memcpy(p + HF_RPC_MARK_SIZE, w.bytes, w.len);
    }
    assert_int_equal(server_begin(FOREVER_MS, 1), 0);
    fd = plain_connect(SOCK_STREAM, &at);
    while (send(fd, calls, sizeof(calls), MSG_NOSIGNAL) == (ssize_t)sizeof(calls))
        uv_run(&loop, UV_RUN_NOWAIT); /* writes until nothing more fits between the two */
    TURN_UNTIL(counters()->timed_out == 1);
    assert_int_equal(counters()->connections, 0);
    close(fd);
}

/* ---- answers that come later than their call ---- */

static void answers_may_come_in_another_order(void **state)
{
    int fd;

    (void)state;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    fd = plain_connect(SOCK_STREAM, &at);
    for (uint32_t xid = 10; xid < 13; xid++)
        send_call(fd, xid, LATER);
    TURN_UNTIL(n_pending == 3);
    assert_true(is_quiet(fd));
    answer(2);
    answer(0);
    expect_answer(fd, 12, 2);
    expect_answer(fd, 10, 0);
    answer(1);
    expect_answer(fd, 11, 1);
    close(fd);
}

/* Makes a connection or socket from this address. */
static int connect_from(int type, const char *from)
{
    struct hf_addr source = address(from, 0);
    struct sockaddr_storage sa;
    unsigned len = hf_addr_to_sockaddr(&at, &sa);
    int fd = plain_socket(type, &source);

    assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, len), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* A request is repeated while the first copy is being worked on: it is executed once, and answered
 * to the copy that came last. */
static void a_repeat_of_a_request_in_flight_is_not_done_twice(void **state)
{
    struct words w = plain_call(7, PROG, 1, LATER);
    int first, second, udp;

    (void)state;
    /* A datagram known to be from this host does not count as root's, although connections do. */
    listen_at = OTHERS;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    first = connect_from(SOCK_STREAM, "192.0.2.2");
    second = connect_from(SOCK_STREAM, "192.0.2.2");
    udp = connect_from(SOCK_DGRAM, "192.0.2.2");
    send_call(first, 7, LATER);
    TURN_UNTIL(n_pending == 1);
    send_call(second, 7, LATER);
    TURN_UNTIL(counters()->duplicates == 1);
    close(first);
    plain_send(udp, view(&w)); /* by the other transport it comes from another client (NLM-07) */
    TURN_UNTIL(n_pending == 2);
    answer(0);
    expect_answer(second, 7, 0);
    assert_int_equal(n_handled, 2);
    assert_true(is_quiet(udp));
    answer(1);
    TURN_UNTIL((received = recv(udp, inbox, sizeof(inbox), 0)) > 0);
    assert_int_equal(received, 28);
    plain_send(udp, view(&w)); /* now the answer is in the cache */
    TURN_UNTIL((received = recv(udp, inbox, sizeof(inbox), 0)) > 0);
    assert_int_equal(received, 28);
    assert_int_equal(n_handled, 2);
    close(second);
    close(udp);
}

/* Given a connection that breaks before the answer, the next connection gets that answer. */
static void an_answer_outlives_its_connection(void **state)
{
    int fd;

    (void)state;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    fd = plain_connect(SOCK_STREAM, &at);
    send_call(fd, 7, LATER);
    TURN_UNTIL(n_pending == 1);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    close(fd); /* a reset */
    TURN_UNTIL(counters()->connections == 0);
    answer(0);
    fd = plain_connect(SOCK_STREAM, &at);
    send_call(fd, 7, LATER);
    expect_answer(fd, 7, 0);
    assert_int_equal(n_handled, 1);
    close(fd);
}

/* A withheld answer is not remembered: the repeat is executed anew. */
static void a_withheld_answer_is_not_remembered(void **state)
{
    int fd;

    (void)state;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    fd = plain_connect(SOCK_STREAM, &at);
    send_call(fd, 7, NEVER);
    TURN_UNTIL(n_handled == 1);
    send_call(fd, 7, NEVER);
    TURN_UNTIL(n_handled == 2);
    assert_true(is_quiet(fd));
    close(fd);
}

/* A peer that closes its side before its answer still gets it; a peer that waits for none is
 * closed. */
static void the_end_waits_for_what_is_owed(void **state)
{
    int owed, done;

    (void)state;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    owed = plain_connect(SOCK_STREAM, &at);
    done = plain_connect(SOCK_STREAM, &at);
    send_call(owed, 1, LATER);
    send_call(done, 2, NEVER);
    TURN_UNTIL(n_handled == 2);
    shutdown(owed, SHUT_WR);
    shutdown(done, SHUT_WR);
    TURN_UNTIL(is_closed(done));
    turn_a_while();
    assert_true(is_quiet(owed));
    answer(0);
    expect_answer(owed, 1, 0);
    TURN_UNTIL(is_closed(owed));
    close(owed);
    close(done);
}

/* Requests in flight are limited for each connection: the rest is read when some are answered. */
static void requests_in_flight_are_bounded(void **state)
{
    enum { SENT = 6000 };
    unsigned answered = 0;
    unsigned heard = 0;
    int fd;

    (void)state;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    fd = plain_connect(SOCK_STREAM, &at);
    for (uint32_t xid = 0; xid < SENT; xid++)
        send_call(fd, xid, LATER);
    TURN_UNTIL(n_pending >= 1024);
    turn_a_while();
    assert_true(n_pending < SENT); /* the limit, plus what came in the same read */
    while (heard < SENT) {
        TURN_UNTIL(answered < n_pending);
        for (; answered < n_pending; answered++)
            answer(answered);
        for (; heard < answered; heard++)
            expect_answer(fd, heard, heard);
    }
    assert_int_equal(n_handled, SENT);
    close(fd);
}

/* ---- one host and the others ---- */

/* Makes so many connections from this address, and waits until the server has accepted them. */
static void connect_many(int *fds, unsigned n, const char *from)
{
    for (unsigned i = 0; i < n; i++) {
        fds[i] = connect_from(SOCK_STREAM, from);
        expect_null_answer(fds[i], 1);
    }
}

static void close_many(const int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
}

/* Sends so many calls in one write. */
static void send_calls(int fd, uint32_t first, unsigned n, uint32_t proc)
{
    static uint8_t bytes[64 * 1024];
    size_t len = 0;

    for (unsigned i = 0; i < n; i++) {
        struct words w = plain_call(first + i, PROG, 1, proc);

        assert_true(len + HF_RPC_MARK_SIZE + w.len <= sizeof(bytes));
        hf_marking_put(bytes + len, w.len);
        memcpy(bytes + len + HF_RPC_MARK_SIZE, w.bytes, w.len);
        len += HF_RPC_MARK_SIZE + w.len;
    }
    plain_send(fd, hf_bytes(bytes, len));
}

/* Returns the number of requests that were handled before this one. */
static uint32_t handled_before(int fd, bool udp)
{
    uint32_t at_word = udp ? 6 : 7;

    if (udp)
        TURN_UNTIL((received = recv(fd, inbox, sizeof(inbox), 0)) > 0);
    else
        TURN_UNTIL(has_heard(fd));
    assert_int_equal(received, 4 * (at_word + 1));
    return word_at(hf_bytes(inbox, 32), at_word) - 1;
}

/* SEC-05c: a thousand requests in one write do not all come before those of another connection. */
static void connections_take_turns(void **state)
{
    enum { MANY = 1400 };
    static const bool transports[] = {false, true};

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(transports); i++) {
        struct words w = plain_call(1, PROG, 1, NOW);
        bool udp = transports[i];
        int greedy, victim;

        assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
        greedy = plain_connect(SOCK_STREAM, &at);
        victim = plain_connect(udp ? SOCK_DGRAM : SOCK_STREAM, &at);
        expect_null_answer(greedy, 1);
        n_handled = 0;
        send_calls(greedy, 2, MANY, NOW);
        if (udp)
            plain_send(victim, view(&w));
        else
            send_call(victim, 1, NOW);
        assert_true(handled_before(victim, udp) <= 300);
        /* All requests are answered, in order, once. */
        for (uint32_t xid = 2; xid < 2 + MANY; xid++) {
            TURN_UNTIL(has_heard(greedy));
            assert_int_equal(word_at(hf_bytes(inbox, 32), 1), xid);
        }
        assert_int_equal(n_handled, MANY + 1);
        assert_true(counters()->gave_way >= 10);
        close(greedy);
        close(victim);
        server_end();
    }
}

static uint64_t work_of_each = 1000000;

static uint64_t work_of_handled(void *ctx)
{
    (void)ctx;
    return (uint64_t)n_handled * work_of_each;
}

/* Expensive requests end a slice of the turn sooner. */
static void expensive_requests_take_shorter_turns(void **state)
{
    int greedy, victim;

    (void)state;
    special.work = work_of_handled;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    greedy = plain_connect(SOCK_STREAM, &at);
    victim = plain_connect(SOCK_STREAM, &at);
    expect_null_answer(greedy, 1);
    send_calls(greedy, 2, 1000, NOW);
    send_call(victim, 1, NOW);
    assert_true(handled_before(victim, false) <= 10);
    close(greedy);
    close(victim);
}

/* SEC-05: the work for all connections of a host is added up, even if that for each is little. */
static void expensive_requests_of_a_host_add_up(void **state)
{
    enum { GREEDY = 20, EACH = 3 };
    int greedy[GREEDY];
    int victim;

    (void)state;
    listen_at = OTHERS;
    special.work = work_of_handled;
    work_of_each = 500;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    connect_many(greedy, GREEDY, "192.0.2.2");
    victim = connect_from(SOCK_STREAM, "192.0.2.3");
    expect_null_answer(victim, 1);
    n_handled = 0;
    for (unsigned i = 0; i < GREEDY; i++)
        send_calls(greedy[i], 2 + i * EACH, EACH, NOW);
    send_call(victim, 2, NOW);
    assert_true(handled_before(victim, false) <= 10);
    TURN_UNTIL(n_handled == GREEDY * EACH + 1); /* no request is forgotten */
    close_many(greedy, GREEDY);
    close(victim);
    work_of_each = 1000000;
}

static void expect_datagrams_add_up(uint32_t proc)
{
    enum { MANY = 100 };
    int greedy, victim;

    listen_at = OTHERS;
    special.work = work_of_handled;
    work_of_each = 500;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    greedy = connect_from(SOCK_DGRAM, "192.0.2.2");
    victim = connect_from(SOCK_DGRAM, "192.0.2.3");
    for (uint32_t xid = 0; xid < MANY; xid++) {
        struct words w = plain_call(xid, PROG, 1, proc);
        plain_send(xid < MANY - 1 ? greedy : victim, view(&w));
    }
    assert_true(handled_before(victim, true) < MANY / 2);
    assert_true(counters()->too_costly > 0);
    close(greedy);
    close(victim);
    work_of_each = 1000000;
}

/* Expensive requests of a host also add up over UDP, where the excess is dropped. */
static void expensive_datagrams_of_a_host_add_up(void **state)
{
    (void)state;
    expect_datagrams_add_up(NOW);
}

/* SEC-05e: expensive requests add up also if they are of a kind whose answers are not kept, as TEST
 * and DUMP are: the server has no other state for such a host, and once forgot the cost of each
 * request. */
static void expensive_datagrams_that_leave_no_trace_add_up(void **state)
{
    (void)state;
    expect_datagrams_add_up(AGAIN);
}

/* A host sends expensive requests by UDP: one of them is served in a turn, and other hosts are
 * served meanwhile. */
static void expensive_datagrams_are_dropped(void **state)
{
    int greedy, victim;

    (void)state;
    listen_at = OTHERS;
    special.work = work_of_handled;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    greedy = connect_from(SOCK_DGRAM, "192.0.2.2");
    victim = connect_from(SOCK_DGRAM, "192.0.2.3");
    for (uint32_t xid = 0; xid < 100; xid++) {
        struct words w = plain_call(xid, PROG, 1, NOW);
        plain_send(xid < 99 ? greedy : victim, view(&w));
    }
    assert_true(handled_before(victim, true) < 50);
    assert_true(counters()->too_costly > 0);
    close(greedy);
    close(victim);
}

/* SEC-05d: All connections of a host together get one slice of a turn. */
static void hosts_take_turns(void **state)
{
    enum { GREEDY = 20, EACH = 1000 };
    int greedy[GREEDY];
    int victim;

    (void)state;
    listen_at = OTHERS;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    connect_many(greedy, GREEDY, "192.0.2.2");
    victim = connect_from(SOCK_STREAM, "192.0.2.3");
    expect_null_answer(victim, 1);
    n_handled = 0;
    for (unsigned i = 0; i < GREEDY; i++)
        send_calls(greedy[i], 2 + i * EACH, EACH, NOW);
    send_call(victim, 2, NOW);
    assert_true(handled_before(victim, false) <= 300);
    TURN_UNTIL(n_handled == GREEDY * EACH + 1);
    close_many(greedy, GREEDY);
    close(victim);
}

static void connect_crowd(int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        char from[32];

        hf_format(from, sizeof(from), "198.18.0.%u", 1 + i);
        connect_many(&fds[i], 1, from);
    }
}

/* SEC-05: many hosts that all send more than they get share the turn, so that it takes no more time
 * than with a few; also in the first turn, when the server does not know yet how many they are. */
static void a_crowd_of_hosts_shares_a_turn(void **state)
{
    enum { HOSTS = 40, EACH = 300, MOST = 128 + 128 + HOSTS * 8 };
    int crowd[HOSTS];
    int victim;

    (void)state;
    listen_at = OTHERS;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    connect_crowd(crowd, HOSTS);
    victim = connect_from(SOCK_STREAM, "192.0.2.3");
    expect_null_answer(victim, 1);
    n_handled = 0;
    for (unsigned i = 0; i < HOSTS; i++)
        send_calls(crowd[i], 2 + i * EACH, EACH, NOW);
    for (uint32_t xid = 2; xid < 8; xid++) { /* the first turn, and those that follow */
        uint32_t before = (uint32_t)n_handled;

        send_call(victim, xid, NOW);
        assert_true(handled_before(victim, false) - before <= MOST);
    }
    assert_true(n_handled < HOSTS * EACH); /* the hosts' requests were not finished before */
    TURN_UNTIL(n_handled == HOSTS * EACH + 6);
    close_many(crowd, HOSTS);
    close(victim);
}

static uint64_t no_work(void *ctx)
{
    (void)ctx;
    return 0;
}

/* A host that has the server for itself gets longer turns. Work is counted, so that a slow machine
 * does not end a slice. */
static void a_host_alone_has_longer_turns(void **state)
{
    enum { CONNECTIONS = 4, EACH = 100 };
    int fds[CONNECTIONS];

    (void)state;
    listen_at = OTHERS;
    special.work = no_work;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    connect_many(fds, CONNECTIONS, "192.0.2.2");
    n_handled = 0;
    for (unsigned i = 0; i < CONNECTIONS; i++)
        send_calls(fds[i], 2 + i * EACH, EACH, NOW);
    TURN_UNTIL(n_handled == CONNECTIONS * EACH);
    assert_int_equal(counters()->gave_way, 0);
    close_many(fds, CONNECTIONS);
}

/* SEC-02: a host that opens too many connections loses connections of its own, not those of others.
 */
static void a_host_replaces_its_own_connections(void **state)
{
    enum { LIMIT = 8 };
    int others[LIMIT + 2];
    int victim;

    (void)state;
    listen_at = OTHERS;
    special.max_connections_per_host = LIMIT;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    victim = connect_from(SOCK_STREAM, "192.0.2.3");
    expect_null_answer(victim, 1);
    connect_many(others, HF_COUNT_OF(others), "192.0.2.2");
    TURN_UNTIL(is_closed(others[0]) && is_closed(others[1]));
    assert_int_equal(counters()->over_quota, 2);
    expect_null_answer(victim, 2);
    for (unsigned i = 2; i < HF_COUNT_OF(others); i++)
        expect_null_answer(others[i], 2);
    close_many(others, HF_COUNT_OF(others));
    close(victim);
}

/*
 * SEC-05: connections that wait to be accepted take turns with everything else. Thousands of them
 * once were accepted in one turn, while all other clients waited.
 */
static void connections_are_accepted_a_few_at_a_time(void **state)
{
    enum { MANY = 50, A_FEW = 5 }; /* this server accepts 64 in a turn */
    int greedy[MANY];
    int victim;

    (void)state;
    listen_at = OTHERS;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    victim = connect_from(SOCK_STREAM, "192.0.2.3");
    expect_null_answer(victim, 1);
    for (unsigned i = 0; i < MANY; i++)
        /* The kernel completes these connections before the server accepts them. */
        greedy[i] = connect_from(SOCK_STREAM, "192.0.2.2");
    while (counters()->accepted <= 1)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(counters()->accepted <= 1 + A_FEW);
    TURN_UNTIL(counters()->accepted == 1 + MANY);
    for (unsigned i = 0; i < MANY; i++)
        expect_null_answer(greedy[i], 1);
    expect_null_answer(victim, 2);
    close_many(greedy, MANY);
    close(victim);
}

/* SEC-05: connections that a host closes all at once take turns with everything else, too. */
static void connections_are_closed_a_few_at_a_time(void **state)
{
    enum { MANY = 50, A_FEW = 6 };
    int greedy[MANY];
    int victim;

    (void)state;
    listen_at = OTHERS;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    connect_many(greedy, MANY, "192.0.2.2");
    victim = connect_from(SOCK_STREAM, "192.0.2.3");
    expect_null_answer(victim, 1);
    close_many(greedy, MANY);
    while (counters()->connections == MANY + 1)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(counters()->connections >= MANY + 1 - A_FEW);
    expect_null_answer(victim, 2);
    TURN_UNTIL(counters()->connections == 1);
    close(victim);
}

/* The connection that is closed is the one that has been silent longest, not the oldest. */
static void the_most_silent_connection_goes(void **state)
{
    enum { LIMIT = 4 };
    int others[LIMIT + 1];

    (void)state;
    listen_at = OTHERS;
    special.max_connections_per_host = LIMIT;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    connect_many(others, LIMIT, "192.0.2.2");
    expect_null_answer(others[0], 2);
    others[LIMIT] = connect_from(SOCK_STREAM, "192.0.2.2");
    TURN_UNTIL(is_closed(others[1]));
    expect_null_answer(others[0], 3);
    close_many(others, LIMIT + 1);
}

/* When all connections are taken, a host with more than its share makes way. */
static void a_greedy_host_makes_way_when_all_are_taken(void **state)
{
    enum { ALL = 64 };
    int greedy[ALL];
    int victim;

    (void)state;
    listen_at = OTHERS;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    victim = connect_from(SOCK_STREAM, "192.0.2.3");
    expect_null_answer(victim, 1); /* the victim is silent from now on */
    connect_many(greedy, ALL, "192.0.2.2");
    assert_int_equal(counters()->evicted, 1);
    expect_null_answer(victim, 2);
    close_many(greedy, ALL);
    close(victim);
}

/* Requests in progress are limited for each host, over all its connections. */
static void a_host_has_so_many_requests_in_progress(void **state)
{
    int greedy[2];
    int victim;

    (void)state;
    listen_at = OTHERS;
    special.max_calls_per_host = 10;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    victim = connect_from(SOCK_STREAM, "192.0.2.3");
    for (uint32_t i = 0; i < 2; i++) {
        greedy[i] = connect_from(SOCK_STREAM, "192.0.2.2");
        send_calls(greedy[i], 100 * (i + 1), 20, LATER);
    }
    TURN_UNTIL(counters()->over_quota >= 29);
    assert_int_equal(n_pending, 11);
    send_call(victim, 1, LATER);
    TURN_UNTIL(n_pending == 12);
    close(greedy[0]);
    close(greedy[1]);
    close(victim);
}

/* SEC-05: for a host that reads no answers the server keeps a limited amount, over all its
 * connections. */
static void answers_that_are_not_read_are_bounded(void **state)
{
    struct words w = plain_call(1, PROG, 1, LONG);
    uint8_t record[HF_RPC_MARK_SIZE + sizeof(w.bytes)];
    int small = 4096;
    int victim;
    int deaf;

    (void)state;
    listen_at = OTHERS;
    special.max_unread = 16 * 1024;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    victim = connect_from(SOCK_STREAM, "192.0.2.3");
    expect_null_answer(victim, 1);
    deaf = connect_from(SOCK_STREAM, "192.0.2.2");
    setsockopt(deaf, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    hf_marking_put(record, w.len);
    memcpy(record + HF_RPC_MARK_SIZE, w.bytes, w.len);
    TURN_UNTIL((send(deaf, record, HF_RPC_MARK_SIZE + w.len, MSG_NOSIGNAL | MSG_DONTWAIT),
                counters()->accepted == 2 && counters()->connections == 1));
    expect_null_answer(victim, 2);
    close(deaf);
    close(victim);
}

/* SEC-03: over UDP no answer is much longer than its question, whatever the address has proved. */
static void a_datagram_gets_no_long_answer(void **state)
{
    struct words w = plain_call(1, PROG, 1, LONG);
    int udp, tcp;

    (void)state;
    listen_at = OTHERS;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    udp = connect_from(SOCK_DGRAM, "192.0.2.2");
    plain_send(udp, view(&w));
    TURN_UNTIL((received = recv(udp, inbox, sizeof(inbox), 0)) > 0);
    assert_true(received <= 3 * (ssize_t)w.len);
    assert_int_equal(word_at(hf_bytes(inbox, 24), 5), 5); /* SYSTEM_ERR */
    assert_int_equal(counters()->too_long, 1);
    /* The connection proves the address, but not who sends the datagrams. */
    tcp = connect_from(SOCK_STREAM, "192.0.2.2");
    expect_null_answer(tcp, 1);
    plain_send(udp, view(&w));
    TURN_UNTIL((received = recv(udp, inbox, sizeof(inbox), 0)) > 0);
    assert_true(received <= 3 * (ssize_t)w.len);
    assert_int_equal(counters()->too_long, 2);
    close(udp);
    close(tcp);
}

/* SEC-06: the server ignores whatever comes from networks that are not allowed. */
static void only_networks_that_are_allowed_are_served(void **state)
{
    struct words w = plain_call(1, PROG, 1, NOW);
    int denied, denied_udp, allowed;

    (void)state;
    listen_at = OTHERS;
    assert_int_equal(hf_network_parse("192.0.2.2", &special.access.allow[0]), 0);
    special.access.n_allow = 1;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    denied = connect_from(SOCK_STREAM, "192.0.2.3");
    denied_udp = connect_from(SOCK_DGRAM, "192.0.2.3");
    plain_send(denied_udp, view(&w));
    allowed = connect_from(SOCK_STREAM, "192.0.2.2");
    TURN_UNTIL(is_closed(denied));
    expect_null_answer(allowed, 1);
    TURN_UNTIL(counters()->denied == 2);
    assert_int_equal(n_handled, 0);
    close(denied);
    close(denied_udp);
    close(allowed);
}

/* ---- memory and ports ---- */

/* A connection for which there was no memory waits; the server accepts it, and those after it,
 * later. */
static void a_connection_without_memory_is_served_later(void **state)
{
    int first, second;

    (void)state;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    heap.after = 0;
    first = plain_connect(SOCK_STREAM, &at);
    second = plain_connect(SOCK_STREAM, &at);
    turn_a_while();
    assert_int_equal(counters()->connections, 0);
    heap.after = 1000000;
    expect_null_answer(first, 1);
    expect_null_answer(second, 2);
    close(first);
    close(second);
}

/* Makes one call over each transport, answered or not. */
static void try_both_transports(void)
{
    struct words w = plain_call(1, PROG, 1, NOW);
    int tcp = plain_connect(SOCK_STREAM, &at);
    int udp = plain_connect(SOCK_DGRAM, &at);

    send_call(tcp, 2, NOW);
    plain_send(udp, view(&w));
    turn_a_while();
    close(tcp);
    close(udp);
    turn_a_while();
}

/* Whichever allocation fails, nothing crashes and nothing leaks; in the end everything is served.
 */
static void any_allocation_may_fail(void **state)
{
    long after;

    (void)state;
    for (after = 0; after < 100; after++) {
        int rv;

        heap.after = after;
        server = NULL;
        rv = server_begin(FOREVER_MS, FOREVER_MS);
        if (rv == 0)
            try_both_transports();
        else
            assert_int_equal(rv, HF_ENOMEM);
        if (server) {
            server_end();
        }
        assert_int_equal(heap.live, 0);
        if (heap.after > 0)
            break; /* no allocation failed this time */
    }
    assert_true(after > 3 && after < 100);
    assert_true(n_handled >= 2);
}

static void a_taken_port_is_busy(void **state)
{
    struct hf_addr taken;
    struct hf_addr elsewhere = address("198.51.100.1", 0);

    (void)state;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    taken = at;
    assert_int_equal(hf_rpc_server_listen(server, &taken, PROGRAMS, 1), HF_EBUSY);
    assert_int_equal(hf_rpc_server_listen(server, &elsewhere, PROGRAMS, 1), HF_EUNAVAIL);
    try_both_transports();
    assert_int_equal(n_handled, 2);
}

/* Port 0 becomes a port that is free on both transports. */
static void any_port_is_the_same_on_both_transports(void **state)
{
    (void)state;
    assert_int_equal(server_begin(FOREVER_MS, FOREVER_MS), 0);
    assert_true(at.port != 0);
    for (int i = 0; i < 20; i++) {
        struct hf_addr more = address("127.0.0.1", 0);
        assert_int_equal(hf_rpc_server_listen(server, &more, PROGRAMS, 1), 0);
        assert_true(more.port != 0 && more.port != at.port);
    }
}

#define STORY(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(an_incomplete_record_is_not_waited_for),
        STORY(trickling_bytes_does_not_help),
        STORY(an_idle_connection_is_closed),
        STORY(a_peer_that_reads_nothing_is_closed),
        STORY(answers_may_come_in_another_order),
        STORY(a_repeat_of_a_request_in_flight_is_not_done_twice),
        STORY(an_answer_outlives_its_connection),
        STORY(a_withheld_answer_is_not_remembered),
        STORY(the_end_waits_for_what_is_owed),
        STORY(requests_in_flight_are_bounded),
        STORY(connections_take_turns),
        STORY(expensive_requests_take_shorter_turns),
        STORY(expensive_requests_of_a_host_add_up),
        STORY(expensive_datagrams_of_a_host_add_up),
        STORY(expensive_datagrams_that_leave_no_trace_add_up),
        STORY(expensive_datagrams_are_dropped),
        STORY(hosts_take_turns),
        STORY(a_crowd_of_hosts_shares_a_turn),
        STORY(a_host_alone_has_longer_turns),
        STORY(a_host_replaces_its_own_connections),
        STORY(connections_are_accepted_a_few_at_a_time),
        STORY(connections_are_closed_a_few_at_a_time),
        STORY(the_most_silent_connection_goes),
        STORY(a_greedy_host_makes_way_when_all_are_taken),
        STORY(a_host_has_so_many_requests_in_progress),
        STORY(answers_that_are_not_read_are_bounded),
        STORY(a_datagram_gets_no_long_answer),
        STORY(only_networks_that_are_allowed_are_served),
        STORY(a_connection_without_memory_is_served_later),
        STORY(a_shut_gate_keeps_answers_back),
        STORY(a_shut_gate_reads_no_connection),
        STORY(a_shut_gate_drops_datagrams),
        STORY(any_allocation_may_fail),
        STORY(a_taken_port_is_busy),
        STORY(any_port_is_the_same_on_both_transports),
    };
    return cmocka_run_group_tests_name("rpc_server", tests, NULL, NULL);
}
