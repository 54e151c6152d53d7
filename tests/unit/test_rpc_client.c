/*
 * The asynchronous client on a real loop, against peers played by plain sockets, one of them the
 * peer's rpcbind on port 111 (so this runs in a network of its own: netns.py). NOT-01, NOT-02.
 */
#include "fake_peer.h"

#include <stdio.h>
#include <sys/resource.h>

#include "base/error.h"
#include "rpc/client.h"
#include "rpc/credit.h"
#include "rpc/server.h"

enum { PROG = 400000, VERS = 3, PROC = 7, RESULT = 4242, RPCBIND = 100000 };
enum { LONG_MS = 15000, SHORT_MS = 150 };

static const char PEER[] = "192.0.2.1";
static const char PEER6[] = "2001:db8::1";

/* ---- the peers ---- */

static struct fake rpcbind, service, impostor;
static uint16_t tcp_port, udp_port; /* the ports that are registered with rpcbind; 0: none */
static bool deaf_udp, deaf_tcp;     /* rpcbind ignores this transport */

/* Answers GETPORT of version 2 over IPv4, and GETADDR of version 4 over IPv6 (RFC 1833). */
static void behave_rpcbind(struct fake *fake, struct hf_bytes call, int type, struct words *reply)
{
    uint32_t vers = word_at(call, 4);
    bool wants_tcp = vers == 2 ? word_at(call, 12) == IPPROTO_TCP : type == SOCK_STREAM;
    uint16_t port = wants_tcp ? tcp_port : udp_port;
    char text[64] = "";

    assert_int_equal(word_at(call, 3), RPCBIND);
    assert_int_equal(word_at(call, 5), 3);
    assert_int_equal(word_at(call, 10), PROG);
    assert_int_equal(word_at(call, 11), VERS);
    if (type == SOCK_DGRAM ? deaf_udp : deaf_tcp)
        return;
    assert_int_equal(vers, fake->at.family == HF_ADDR_IPV6 ? 4 : 2);
    put_success(reply, word_at(call, 0), port);
    if (vers == 4) {
        reply->len -= 4;
        if (port)
            snprintf(text, sizeof(text), "%s.%d.%d", PEER6, port >> 8, port & 255);
        opaque(reply, text, strlen(text));
    }
}

static void behave_well(struct fake *fake, struct hf_bytes call, int type, struct words *reply)
{
    (void)fake;
    (void)type;
    assert_int_equal(word_at(call, 3), PROG);
    assert_int_equal(word_at(call, 4), VERS);
    assert_int_equal(word_at(call, 5), PROC);
    put_success(reply, word_at(call, 0), RESULT);
}

static void behave_silent(struct fake *fake, struct hf_bytes call, int type, struct words *reply)
{
    (void)fake;
    (void)call;
    (void)type;
    (void)reply;
}

static void behave_unavailable(struct fake *fake, struct hf_bytes call, int type,
                               struct words *reply)
{
    const uint32_t words[] = {word_at(call, 0), 1, 0, 0, 0, 1};

    (void)fake;
    (void)type;
    for (size_t i = 0; i < HF_COUNT_OF(words); i++)
        word(reply, words[i]);
}

static void behave_nonsense(struct fake *fake, struct hf_bytes call, int type, struct words *reply)
{
    (void)fake;
    (void)type;
    word(reply, word_at(call, 0));
    word(reply, 1);
    word(reply, 77);
}

/* Ignores the first call, and answers the repeat. */
static void behave_forgetful(struct fake *fake, struct hf_bytes call, int type, struct words *reply)
{
    if (fake->n_udp > 1)
        behave_well(fake, call, type, reply);
}

/* ---- the client ---- */

static struct faulty_heap heap;
static struct hf_alloc alloc;
static struct hf_rpc_client *client;
static bool gone;

struct outcome {
    unsigned times;
    int error;
    uint32_t value;
    struct hf_addr peer;
    uint32_t elapsed_ms;
    bool sent;
    bool tried;
};

static struct outcome got;
static unsigned n_done;

static void on_gone(void *ctx)
{
    (void)ctx;
    gone = true;
}

static void on_done(void *ctx, const struct hf_rpc_response *response)
{
    struct outcome *outcome = ctx;
    u_int value = 0;

    n_done++;
    outcome->times++;
    outcome->error = response->error;
    outcome->peer = response->peer;
    outcome->elapsed_ms = response->elapsed_ms;
    outcome->sent = response->sent;
    outcome->tried = response->tried;
    if (response->error == 0 && response->results)
        assert_true(xdr_u_int(response->results, &value));
    outcome->value = value;
}

static int begin(void **state)
{
    (void)state;
    heap = (struct faulty_heap){.after = 1000000};
    alloc = faulty_alloc(&heap);
    got = (struct outcome){0};
    n_done = 0;
    gone = deaf_udp = deaf_tcp = false;
    loop_begin();
    fake_open(&rpcbind, PEER, 111);
    fake_open(&service, PEER, 0);
    rpcbind.behave = behave_rpcbind;
    service.behave = behave_well;
    tcp_port = udp_port = service.at.port;
    return hf_rpc_client_new(&loop, &alloc, &(struct hf_hash_key){1, 2}, &client);
}

static int end(void **state)
{
    (void)state;
    if (client) {
        hf_rpc_client_close(client, on_gone, NULL);
        TURN_UNTIL(gone);
    }
    fake_close(&rpcbind);
    fake_close(&service);
    fake_close(&impostor);
    loop_end();
    return heap.live == 0 ? 0 : -1;
}

static void serve_all(void)
{
    fake_serve(&rpcbind);
    fake_serve(&service);
    fake_serve(&impostor);
}

enum path { BY_UDP, BY_TCP, BY_TCP_OR_UDP };

static void set_path(struct hf_rpc_outcall_args *args, enum path path)
{
    args->transport = path == BY_UDP ? HF_TRANSPORT_UDP : HF_TRANSPORT_TCP;
    args->udp_fallback = path == BY_TCP_OR_UDP;
}

static struct hf_rpc_outcall_args call_args(enum path path)
{
    struct hf_rpc_outcall_args args = {
        .peer = address(PEER, 0),
        .prog = PROG,
        .vers = VERS,
        .proc = PROC,
        .timeout_ms = LONG_MS,
    };

    set_path(&args, path);
    return args;
}

/* Makes one call, and waits for its end. */
static void call(const struct hf_rpc_outcall_args *r)
{
    unsigned before = n_done;

    assert_int_equal(hf_rpc_client_call(client, r, on_done, &got, NULL), 0);
    assert_int_equal(n_done, before); /* never from within */
    TURN_UNTIL((serve_all(), n_done > before));
}

static void expect_success(const struct hf_rpc_outcall_args *r)
{
    call(r);
    assert_int_equal(got.error, 0);
    assert_int_equal(got.value, RESULT);
    assert_int_equal(got.peer.port, service.at.port);
}

static void expect_error(const struct hf_rpc_outcall_args *r, int error)
{
    call(r);
    assert_string_equal(hf_strerror(got.error), hf_strerror(error));
}

/* ---- calls that succeed ---- */

/* The client asks the peer's rpcbind for the port once, and then calls the program once. */
static void a_call_is_looked_up_and_answered(void **state)
{
    struct hf_rpc_outcall_args tcp = call_args(BY_TCP);
    struct hf_rpc_outcall_args udp = call_args(BY_UDP);

    (void)state;
    expect_success(&tcp);
    assert_true(rpcbind.n_udp == 1 && service.n_tcp == 1 && service.n_udp == 0);
    expect_success(&udp);
    assert_true(rpcbind.n_udp == 2 && service.n_tcp == 1 && service.n_udp == 1);
    assert_int_equal(hf_rpc_client_active(client), 0);
}

static void a_known_port_is_not_looked_up(void **state)
{
    struct hf_rpc_outcall_args tcp = call_args(BY_TCP);
    struct hf_rpc_outcall_args udp = call_args(BY_UDP);

    (void)state;
    tcp.peer.port = udp.peer.port = service.at.port;
    expect_success(&tcp);
    expect_success(&udp);
    assert_true(rpcbind.n_udp == 0 && rpcbind.n_tcp == 0);
}

static bool_t a_number(XDR *xdr, void *number)
{
    return xdr_u_int(xdr, number);
}

/* The arguments arrive as they were encoded, although the caller's are gone when the call returns.
 */
static void arguments_are_encoded_at_once(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    u_int argument = 99;

    (void)state;
    r.encode = a_number;
    r.args = &argument;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &got, NULL), 0);
    argument = 0;
    TURN_UNTIL((serve_all(), n_done == 1));
    assert_int_equal(got.value, RESULT);
}

/* NOT-01b: a second call is made after the answer to the first, over TCP on the same connection. */
static void a_second_call_goes_the_same_way(void **state)
{
    static const enum path paths[] = {BY_TCP_OR_UDP, BY_UDP};
    u_int arguments[] = {1, 2};

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(paths); i++) {
        struct hf_rpc_outcall_args r = call_args(paths[i]);

        r.encode = a_number;
        r.args = &arguments[0];
        r.also = &arguments[1];
        call(&r);
        assert_int_equal(got.error, 0);
    }
    assert_true(service.n_tcp == 2 && service.n_udp == 2 && service.n_conns == 1);
    assert_int_equal(rpcbind.n_udp, 2);
    assert_int_equal(n_done, 2);
}

/* Answers the first call over a transport, and no other. */
static void behave_once(struct fake *fake, struct hf_bytes call, int type, struct words *reply)
{
    if ((type == SOCK_DGRAM ? fake->n_udp : fake->n_tcp) == 1)
        behave_well(fake, call, type, reply);
}

/* The end of the second call does not matter, but it must not take more time than it was given. */
static void a_second_call_need_not_be_answered(void **state)
{
    static const enum path paths[] = {BY_TCP, BY_UDP};
    u_int argument = 1;

    (void)state;
    service.behave = behave_once;
    for (size_t i = 0; i < HF_COUNT_OF(paths); i++) {
        struct hf_rpc_outcall_args r = call_args(paths[i]);

        r.timeout_ms = SHORT_MS;
        r.encode = a_number;
        r.args = r.also = &argument;
        call(&r);
        assert_int_equal(got.error, 0);
        assert_true(got.elapsed_ms + 1 >= SHORT_MS);
    }
    assert_int_equal(service.n_tcp, 2);
    assert_int_equal(hf_rpc_client_active(client), 0);
}

/* Over IPv6 the client asks rpcbind by version 4, over the transport that it wants. */
static void ipv6_is_looked_up_over_its_own_transport(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_TCP);

    (void)state;
    fake_close(&rpcbind);
    fake_close(&service);
    fake_open(&rpcbind, PEER6, 111);
    fake_open(&service, PEER6, 0);
    rpcbind.behave = behave_rpcbind;
    service.behave = behave_well;
    tcp_port = udp_port = service.at.port;
    r.peer = address(PEER6, 0);
    expect_success(&r);
    assert_true(rpcbind.n_tcp == 1 && rpcbind.n_udp == 0 && service.n_tcp == 1);
    set_path(&r, BY_UDP);
    expect_success(&r);
    assert_true(rpcbind.n_tcp == 1 && rpcbind.n_udp == 1 && service.n_udp == 1);
    tcp_port = 0;
    set_path(&r, BY_TCP_OR_UDP);
    expect_success(&r);
    assert_int_equal(service.n_udp, 2);
}

/* NOT-04a: calls leave from an address and a reserved port of our choice, by which a kernel
 * recognises its monitor. */
static void it_calls_from_where_it_is_told(void **state)
{
    static const enum path paths[] = {BY_TCP, BY_UDP};

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(paths); i++) {
        struct hf_rpc_outcall_args r = call_args(paths[i]);

        r.local = address("192.0.2.2", 0);
        expect_success(&r);
        assert_true(hf_addr_same_host(&service.asker, &r.local));
        assert_true(hf_addr_same_host(&rpcbind.asker, &r.local));
        assert_false(hf_addr_is_reserved_port(&service.asker));
        r.reserved_port = true;
        expect_success(&r);
        assert_true(hf_addr_same_host(&service.asker, &r.local));
        assert_true(hf_addr_is_reserved_port(&service.asker));
    }
}

/* A service that has addresses of its own calls peers from them, but not this host's rpcbind. */
static void a_service_calls_from_its_own_address(void **state)
{
    static const enum path paths[] = {BY_TCP, BY_UDP};
    struct hf_addr own = address("192.0.2.3", 0);
    struct hf_addr own6 = address("2001:db8::2", 0);

    (void)state;
    hf_rpc_client_set_source(client, &own);
    hf_rpc_client_set_source(client, &own6);
    for (size_t i = 0; i < HF_COUNT_OF(paths); i++) {
        struct hf_rpc_outcall_args r = call_args(paths[i]);

        expect_success(&r);
        assert_true(hf_addr_same_host(&service.asker, &own));
        r.local = address("::", 0); /* a local address of another family, or the unspecified one */
        expect_success(&r);
        assert_true(hf_addr_same_host(&service.asker, &own));
        r.local = address("192.0.2.2", 0);
        expect_success(&r);
        assert_true(hf_addr_same_host(&service.asker, &r.local));
    }
}

/* ---- other transports and ports ---- */

static void without_tcp_there_is_udp(void **state)
{
    struct hf_rpc_outcall_args either = call_args(BY_TCP_OR_UDP);
    struct hf_rpc_outcall_args tcp = call_args(BY_TCP);

    (void)state;
    tcp_port = 0;
    expect_success(&either);
    assert_true(service.n_udp == 1 && service.n_tcp == 0);
    expect_error(&tcp, HF_EUNREGISTERED);
    udp_port = 0;
    expect_error(&either, HF_EUNREGISTERED);
}

/* A TCP registration behind which no server listens: the client uses UDP, within the same time. */
static void a_dead_tcp_port_leads_to_udp(void **state)
{
    struct hf_rpc_outcall_args either = call_args(BY_TCP_OR_UDP);
    struct hf_rpc_outcall_args tcp = call_args(BY_TCP);

    (void)state;
    close(service.tcp);
    service.tcp = 0;
    expect_success(&either);
    assert_int_equal(service.n_udp, 1);
    expect_error(&tcp, HF_EREFUSED);
}

static void an_rpcbind_deaf_on_udp_is_asked_over_tcp(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);

    (void)state;
    deaf_udp = true;
    r.timeout_ms = 2000;
    expect_success(&r);
    assert_int_equal(rpcbind.n_tcp, 1);
}

/* A remembered port that leads nowhere, or to another program, is looked up again. */
static void a_wrong_hint_is_looked_up_anew(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_TCP);

    (void)state;
    fake_open(&impostor, PEER, 0);
    r.peer.port = impostor.at.port;
    impostor.behave = behave_unavailable;
    expect_success(&r);
    assert_int_equal(rpcbind.n_udp, 1);
    set_path(&r, BY_UDP);
    expect_success(&r);
    assert_int_equal(rpcbind.n_udp, 2);
    fake_close(&impostor); /* now the port refuses connections */
    set_path(&r, BY_TCP);
    expect_success(&r);
    assert_int_equal(rpcbind.n_udp, 3);
}

static void an_unanswered_datagram_is_sent_again(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);

    (void)state;
    service.behave = behave_forgetful;
    expect_success(&r);
    assert_true(service.n_udp >= 2);
}

/* A port that was looked up is used again; when it leads nowhere, it is looked up once more. */
static void a_port_can_be_remembered(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_TCP);

    (void)state;
    r.remember_port = true;
    expect_success(&r);
    expect_success(&r);
    assert_int_equal(rpcbind.n_udp, 1);
    fake_close(&service);
    fake_open(&service, PEER, 0); /* the client's host has rebooted, and its port has changed */
    service.behave = behave_well;
    tcp_port = service.at.port;
    expect_success(&r);
    expect_success(&r);
    assert_int_equal(rpcbind.n_udp, 2);
    r.remember_port = false;
    expect_success(&r);
    assert_int_equal(rpcbind.n_udp, 3);
}

/* Where the answer is only a receipt, the callback waits for the end of the time; a cancelled call
 * has no callback. */
static void a_call_can_wait_out_its_time(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    struct hf_rpc_outcall *outcall;

    (void)state;
    r.wait_out = true;
    r.timeout_ms = SHORT_MS;
    call(&r);
    assert_int_equal(got.error, 0);
    assert_true(got.elapsed_ms + 1 >= SHORT_MS);
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &got, &outcall), 0);
    TURN_UNTIL((serve_all(), service.n_udp == 2));
    turn_a_while();
    hf_rpc_client_cancel(outcall);
    turn_a_while();
    assert_int_equal(n_done, 1);
}

static const struct hf_rpc_program *const NO_PROGRAMS[] = {NULL};

/* A call leaves from the very port on which the server listens, and its answer comes back there. */
static void it_calls_from_the_port_it_serves_on(void **state)
{
    struct hf_rpc_server_config config = {.loop = &loop,
                                          .alloc = &alloc,
                                          .hash_key = {1, 2},
                                          .max_connections = 8,
                                          .idle_ms = LONG_MS,
                                          .stall_ms = LONG_MS};
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    struct hf_addr at = address("192.0.2.2", 0);
    struct hf_rpc_server *server;

    (void)state;
    assert_int_equal(hf_rpc_server_new(&config, &server), 0);
    assert_int_equal(hf_rpc_server_listen(server, &at, NO_PROGRAMS, 0), 0);
    hf_rpc_client_attach(client, server);
    r.local = at;
    r.listening_port = true;
    expect_success(&r);
    assert_true(hf_addr_equal(&service.asker, &at));
    hf_rpc_client_close(client, on_gone, NULL);
    TURN_UNTIL(gone);
    client = NULL;
    gone = false;
    hf_rpc_server_close(server, on_gone, NULL);
    TURN_UNTIL(gone);
}

/* ---- calls that fail ---- */

/* One time limit holds for the whole call, wherever the silence is: lookup or call, over either
 * transport. */
static void silence_ends_with_the_time_given(void **state)
{
    static const enum path paths[] = {BY_TCP, BY_UDP, BY_TCP_OR_UDP};

    (void)state;
    service.behave = behave_silent;
    for (int deaf = 0; deaf < 2; deaf++) {
        deaf_udp = deaf_tcp = deaf;
        for (size_t i = 0; i < HF_COUNT_OF(paths); i++) {
            struct hf_rpc_outcall_args r = call_args(paths[i]);

            r.timeout_ms = SHORT_MS;
            expect_error(&r, HF_ETIMEDOUT);
            assert_true(got.tried);
            assert_true(got.elapsed_ms + 1 >= SHORT_MS);
            assert_true(got.elapsed_ms < PATIENCE_MS);
        }
    }
}

/* The caller must know whether a call that failed may have arrived. */
static void what_cannot_have_arrived_was_not_sent(void **state)
{
    static const enum path paths[] = {BY_TCP, BY_UDP};

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(paths); i++) {
        struct hf_rpc_outcall_args r = call_args(paths[i]);

        r.timeout_ms = SHORT_MS;
        service.behave = behave_silent;
        expect_error(&r, HF_ETIMEDOUT);
        assert_true(got.sent);
        deaf_udp = deaf_tcp = true; /* its rpcbind does not answer, so the call cannot be sent */
        expect_error(&r, HF_ETIMEDOUT);
        assert_false(got.sent);
        deaf_udp = deaf_tcp = false;
        service.behave = behave_unavailable; /* at that port another program listens */
        expect_error(&r, HF_EUNREGISTERED);
        assert_false(got.sent);
        assert_true(got.tried);
    }
    fake_close(&service); /* the port refuses before anything is sent */
    struct hf_rpc_outcall_args r = call_args(BY_TCP);
    expect_error(&r, HF_EREFUSED);
    assert_false(got.sent);
    assert_true(got.tried);
}

static void a_closed_port_is_refused(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_TCP);

    (void)state;
    fake_close(&rpcbind);
    r.timeout_ms = 1000; /* UDP, where silence is no refusal, has the first part of this time */
    expect_error(&r, HF_EREFUSED);
}

static void an_answer_without_sense_is_an_error(void **state)
{
    static const enum path paths[] = {BY_TCP, BY_UDP};

    (void)state;
    service.behave = behave_nonsense;
    for (size_t i = 0; i < HF_COUNT_OF(paths); i++) {
        struct hf_rpc_outcall_args r = call_args(paths[i]);
        expect_error(&r, HF_EFORMAT);
    }
    service.behave = behave_unavailable;
    for (size_t i = 0; i < HF_COUNT_OF(paths); i++) {
        struct hf_rpc_outcall_args r = call_args(paths[i]);
        expect_error(&r, HF_EUNREGISTERED);
    }
}

static struct hf_bytes heard;
static uint8_t heard_bytes[256];

/* Answers nothing, and remembers the call. */
static void behave_listening(struct fake *fake, struct hf_bytes call_bytes, int type,
                             struct words *reply)
{
    (void)fake;
    (void)type;
    (void)reply;
    assert_true(call_bytes.len <= sizeof(heard_bytes));
    memcpy(heard_bytes, call_bytes.data, call_bytes.len);
    heard = hf_bytes(heard_bytes, call_bytes.len);
}

static void send_to_asker(int fd, uint32_t xid, uint32_t value)
{
    struct sockaddr_storage sa;
    unsigned len = hf_addr_to_sockaddr(&service.asker, &sa);
    struct words reply = {.len = 0};

    put_success(&reply, xid, value);
    assert_true(sendto(fd, reply.bytes, reply.len, 0, (struct sockaddr *)&sa, len) > 0);
}

/* Replies with another transaction id, from another port, or from another address are no answer;
 * then the answer comes. */
static void only_the_one_asked_can_answer(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    struct hf_addr other = address("192.0.2.3", service.at.port);
    int elsewhere = plain_socket(SOCK_DGRAM, &other);

    (void)state;
    fake_open(&impostor, PEER, 0);
    impostor.behave = behave_silent;
    service.behave = behave_listening;
    heard.len = 0;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &got, NULL), 0);
    TURN_UNTIL((serve_all(), heard.len > 0));
    send_to_asker(service.udp, word_at(heard, 0) + 1, 666);
    send_to_asker(impostor.udp, word_at(heard, 0), 666);
    send_to_asker(elsewhere, word_at(heard, 0), 666);
    turn_a_while();
    assert_int_equal(n_done, 0);
    send_to_asker(service.udp, word_at(heard, 0), RESULT);
    TURN_UNTIL(n_done == 1);
    assert_int_equal(got.value, RESULT);
    close(elsewhere);
}

/*
 * An answer to a call that has timed out is dropped, and not taken for the answer to the next call.
 */
static void a_late_answer_is_dropped(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);

    (void)state;
    r.timeout_ms = SHORT_MS;
    service.behave = behave_listening;
    heard.len = 0;
    expect_error(&r, HF_ETIMEDOUT);
    assert_true(heard.len > 0);
    send_to_asker(service.udp, word_at(heard, 0), 666);
    turn_a_while();
    assert_int_equal(got.times, 1);
    service.behave = behave_well;
    r.timeout_ms = LONG_MS;
    expect_success(&r);
    send_to_asker(service.udp, word_at(heard, 0), 666); /* and once more */
    turn_a_while();
    assert_int_equal(got.times, 2);
}

/* NOT-03: a call that did not leave this host tells nothing about the peer, whatever the reason. */
static void an_address_that_is_not_ours_fails(void **state)
{
    static const enum path paths[] = {BY_TCP, BY_UDP, BY_TCP_OR_UDP};
    struct outcome behind = {0};

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(paths); i++) {
        struct hf_rpc_outcall_args r = call_args(paths[i]);

        r.timeout_ms = SHORT_MS;
        r.local = address("198.51.100.1", 0);
        for (int looked_up = 0; looked_up < 2; looked_up++) {
            r.peer.port = looked_up ? 0 : service.at.port;
            call(&r);
            assert_true(got.error < 0 && !got.tried && !got.sent);
        }
    }
    /* A call that waits behind one that cannot leave has learned nothing about the peer, either. */
    struct hf_rpc_outcall_args r = call_args(BY_UDP);

    r.timeout_ms = SHORT_MS;
    r.local = address("198.51.100.1", 0);
    r.peer.port = service.at.port;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &got, NULL), 0);
    r.timeout_ms = SHORT_MS / 2;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &behind, NULL), 0);
    TURN_UNTIL((serve_all(), behind.times == 1));
    assert_true(behind.error < 0 && !behind.tried);
}

/* The kernel has no route, or no free port: connect() fails at once, and no packet leaves. */
static void without_a_route_no_packet_leaves(void **state)
{
    static const enum path paths[] = {BY_TCP, BY_UDP};

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(paths); i++) {
        struct hf_rpc_outcall_args r = call_args(paths[i]);

        r.timeout_ms = SHORT_MS;
        r.peer = address("203.0.113.1", 700);
        call(&r);
        assert_true(got.error < 0 && !got.tried && !got.sent);
    }
}

/* The lookup was answered, but no descriptor is left for the call: this is our own fault. */
static void a_shortage_after_the_lookup_is_our_own(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_TCP);
    struct rlimit before, none;
    unsigned n = 200;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (unsigned i = 0; i < n; i++)
        expect_success(&r); /* from here on all sockets for lookups by UDP are open */
    none = (struct rlimit){3, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    call(&r);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rpcbind.n_udp, n + 1);
    assert_int_equal(got.error, HF_ELIMIT);
    assert_true(!got.tried && !got.sent);
}

/* ---- ends ---- */

/* A call that is cancelled during its lookup, or while it waits for the answer, never calls back.
 */
static void a_cancelled_call_is_over(void **state)
{
    static const enum path paths[] = {BY_TCP, BY_UDP};
    struct hf_rpc_outcall *outcall;

    (void)state;
    service.behave = behave_listening;
    for (size_t i = 0; i < HF_COUNT_OF(paths); i++) {
        struct hf_rpc_outcall_args r = call_args(paths[i]);

        assert_int_equal(hf_rpc_client_call(client, &r, on_done, &got, &outcall), 0);
        hf_rpc_client_cancel(outcall);
        heard.len = 0;
        assert_int_equal(hf_rpc_client_call(client, &r, on_done, &got, &outcall), 0);
        TURN_UNTIL((serve_all(), heard.len > 0));
        hf_rpc_client_cancel(outcall);
        assert_int_equal(hf_rpc_client_active(client), 0);
        if (paths[i] == BY_UDP)
            send_to_asker(service.udp, word_at(heard, 0), 666);
        turn_a_while();
    }
    assert_int_equal(n_done, 0);
}

/* A client that is closed with calls at every stage reports none of them, and leaks nothing. */
static void closing_ends_all_calls(void **state)
{
    struct hf_rpc_outcall_args tcp = call_args(BY_TCP);
    struct hf_rpc_outcall_args udp = call_args(BY_UDP);

    (void)state;
    service.behave = behave_listening;
    heard.len = 0;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(hf_rpc_client_call(client, &tcp, on_done, &got, NULL), 0);
        assert_int_equal(hf_rpc_client_call(client, &udp, on_done, &got, NULL), 0);
    }
    TURN_UNTIL((serve_all(), service.n_tcp >= 1)); /* the other calls wait for this connection */
    assert_int_equal(hf_rpc_client_call(client, &tcp, on_done, &got, NULL), 0);
    assert_int_equal(hf_rpc_client_active(client), 21);
    hf_rpc_client_close(client, on_gone, NULL);
    TURN_UNTIL(gone);
    client = NULL;
    assert_int_equal(n_done, 0);
    assert_int_equal(heap.live, 0);
}

static void send_empty_records(void)
{
    static const uint8_t empty[16] = {[0] = 0x80, [4] = 0x80, [8] = 0x80, [12] = 0x80};

    for (unsigned i = 0; i < service.n_conns; i++)
        (void)send(service.conns[i], empty, sizeof(empty), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* A peer that sends records which answer nothing is soon cut off. */
static void records_that_answer_nothing_end_the_call(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_TCP);
    unsigned before = n_done;

    (void)state;
    service.behave = behave_silent;
    r.peer.port = service.at.port;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &got, NULL), 0);
    TURN_UNTIL((serve_all(), send_empty_records(), n_done > before));
    assert_int_equal(got.error, HF_EFORMAT);
    assert_true(got.elapsed_ms < LONG_MS);
}

/* ---- one address ---- */

/* SEC-03: a second call to an address waits until the first is answered; if it is not, the second
 * fails when its own time is over. */
static void calls_to_one_address_are_made_one_by_one(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    struct outcome first = {0};
    struct outcome second = {0};

    (void)state;
    r.peer.port = service.at.port;
    service.behave = behave_listening;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &first, NULL), 0);
    r.timeout_ms = SHORT_MS;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &second, NULL), 0);
    TURN_UNTIL((serve_all(), second.times == 1));
    assert_int_equal(second.error, HF_ETIMEDOUT);
    assert_false(second.sent);
    r.timeout_ms = LONG_MS;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &second, NULL), 0);
    turn_a_while();
    assert_int_equal(hf_rpc_client_counters(client).running, 1);
    assert_int_equal(hf_rpc_client_counters(client).waiting, 1);
    service.behave = behave_well;
    TURN_UNTIL((serve_all(), first.times == 1 && second.times == 2));
    assert_int_equal(first.error, 0);
    assert_int_equal(second.error, 0);
}

/* SEC-04: the silence of another program, or over another transport, does not count for this
 * program. */
static void another_programs_silence_is_not_its_own(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    struct outcome first = {0};
    struct outcome other = {0};
    struct outcome tcp = {0};
    struct outcome same = {0};

    (void)state;
    r.peer.port = service.at.port;
    service.behave = behave_silent;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &first, NULL), 0);
    r.timeout_ms = SHORT_MS;
    r.prog = PROG + 1;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &other, NULL), 0);
    r.prog = PROG;
    r.transport = HF_TRANSPORT_TCP;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &tcp, NULL), 0);
    r.transport = HF_TRANSPORT_UDP;
    r.by_itself = true;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &same, NULL), 0);
    TURN_UNTIL((serve_all(), other.times == 1 && tcp.times == 1 && same.times == 1));
    assert_int_equal(other.error, HF_ELIMIT);
    assert_int_equal(tcp.error, HF_ELIMIT);
    assert_int_equal(same.error, HF_ELIMIT);
}

/* SEC-04: a question whose silence decides does not wait behind other calls to the address, and has
 * its whole time when its turn comes. */
static void a_call_apart_has_a_lane_of_its_own(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    struct outcome hangs = {0};
    struct outcome first = {0};
    struct outcome second = {0};

    (void)state;
    r.peer.port = service.at.port;
    service.behave = behave_silent;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &hangs, NULL), 0);
    r.apart = r.by_itself = true;
    r.timeout_ms = 2 * SHORT_MS;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &first, NULL), 0);
    r.timeout_ms = 3 * SHORT_MS;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &second, NULL), 0);
    assert_int_equal(hf_rpc_client_counters(client).running, 2);
    assert_int_equal(hf_rpc_client_counters(client).waiting, 1);
    TURN_UNTIL((serve_all(), first.times == 1 && second.times == 1));
    assert_int_equal(first.error, HF_ETIMEDOUT);
    assert_true(first.sent);
    assert_int_equal(second.error, HF_ETIMEDOUT);
    assert_true(second.sent);
    assert_true(second.elapsed_ms >= 5 * SHORT_MS - 5);
    assert_int_equal(hangs.times, 0);
}

/* From this heartbeat on, the peer answers the first call that it hears, and no other. */
static unsigned answer_from;

static void behave_once_later(struct fake *fake, struct hf_bytes call_bytes, int type,
                              struct words *reply)
{
    if (fake->n_udp == 1 && heartbeats >= answer_from)
        behave_well(fake, call_bytes, type, reply);
    else if (fake->n_udp == 1)
        fake->n_udp = 0; /* the call is treated as lost */
}

/* A call that waited in vain behind others, at an address that answers, has not failed because of
 * the peer. */
static void waiting_too_long_for_a_busy_address_is_our_own_limit(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    struct outcome first = {0};
    struct outcome second = {0};
    struct outcome third = {0};

    (void)state;
    r.peer.port = service.at.port;
    service.behave = behave_once_later;
    answer_from = heartbeats + 20; /* the repeat after 500 ms is answered, even on a busy machine */
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &first, NULL), 0);
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &second, NULL), 0);
    r.timeout_ms = 1500;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &third, NULL), 0);
    TURN_UNTIL((serve_all(), third.times == 1));
    assert_int_equal(first.error, 0);
    assert_int_equal(third.error, HF_ELIMIT);
}

/* A _RES that is never acknowledged holds up neither a GRANTED nor the next _RES. */
static void an_expendable_call_gives_way(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    struct outcome firm = {0};
    struct outcome res = {0};

    (void)state;
    r.peer.port = service.at.port;
    r.expendable = true;
    service.behave = behave_silent;
    for (int i = 0; i < 5; i++)
        assert_int_equal(hf_rpc_client_call(client, &r, on_done, &res, NULL), 0);
    TURN_UNTIL((serve_all(), service.n_udp == 5));
    assert_int_equal(res.times, 4);
    r.expendable = false;
    service.behave = behave_well;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &firm, NULL), 0);
    TURN_UNTIL((serve_all(), firm.times == 1));
    assert_int_equal(firm.error, 0);
    assert_true(firm.elapsed_ms < 500); /* before the _RES is repeated for the first time */
    assert_int_equal(res.times, 5);
    assert_int_equal(hf_rpc_client_counters(client).gave_way, 5);
}

/* An expendable call that looks for the port of a silent host soon gives way, too, and goes last.
 */
static void an_expendable_call_that_looks_up_gives_way_soon(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    struct outcome firm = {0};
    struct outcome res = {0};

    (void)state;
    deaf_udp = deaf_tcp = true;
    r.expendable = true;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &res, NULL), 0);
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &res, NULL), 0);
    r.expendable = false;
    r.peer.port = service.at.port;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &firm, NULL), 0);
    TURN_UNTIL((serve_all(), firm.times == 1));
    assert_int_equal(firm.error, 0);
    assert_true(firm.elapsed_ms < 2000);
    assert_int_equal(res.times, 1);
}

/* A conversation ends and makes room for a call that is cancelled at the same moment: the room goes
 * to the next address that waits for it. */
static void room_that_one_address_does_not_take_goes_to_the_next(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    struct rlimit files;
    struct rlimit few;
    struct hf_rpc_outcall *running;
    struct hf_rpc_outcall *waiting;
    struct outcome last = {0};

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = (struct rlimit){HF_RPC_CLIENT_FILES_SHARE, files.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    hf_rpc_client_close(client, on_gone, NULL);
    TURN_UNTIL(gone);
    gone = false;
    assert_int_equal(hf_rpc_client_new(&loop, &alloc, &(struct hf_hash_key){1, 2}, &client), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    r.peer = address("127.0.0.2", 9);
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &got, &running), 0);
    r.peer = address("127.0.0.3", 9);
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &got, &waiting), 0);
    r.peer = service.at;
    assert_int_equal(hf_rpc_client_call(client, &r, on_done, &last, NULL), 0);
    assert_int_equal(hf_rpc_client_counters(client).waiting, 2);
    hf_rpc_client_cancel(running);
    hf_rpc_client_cancel(waiting);
    TURN_UNTIL((serve_all(), last.times == 1));
    assert_int_equal(last.error, 0);
}

/* For one address, 4,096 calls may wait, and 64 expendable ones; further ones are refused. */
static void too_many_calls_are_refused(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    unsigned accepted = 0;

    (void)state;
    service.behave = behave_silent;
    r.peer.port = service.at.port;
    while (accepted < 5000 && hf_rpc_client_call(client, &r, on_done, &got, NULL) == 0)
        accepted++;
    assert_int_equal(accepted, 1 + 4096);
    r.expendable = true;
    accepted = 0;
    while (accepted < 5000 && hf_rpc_client_call(client, &r, on_done, &got, NULL) == 0)
        accepted++;
    assert_int_equal(accepted, 64);
    assert_true(hf_rpc_client_counters(client).refused >= 2);
    turn_a_while();
    assert_int_equal(hf_rpc_client_counters(client).running, 1);
    assert_true(service.n_udp <= 1);
}

/* ---- addresses that have not proved themselves ---- */

static struct hf_rpc_server *attach_server(void)
{
    struct hf_rpc_server_config config = {.loop = &loop,
                                          .alloc = &alloc,
                                          .hash_key = {1, 2},
                                          .max_connections = 8,
                                          .idle_ms = LONG_MS,
                                          .stall_ms = LONG_MS};
    struct hf_rpc_server *server;

    assert_int_equal(hf_rpc_server_new(&config, &server), 0);
    hf_rpc_client_attach(client, server);
    return server;
}

static void detach_server(struct hf_rpc_server *server)
{
    hf_rpc_client_close(client, on_gone, NULL);
    TURN_UNTIL(gone);
    client = NULL;
    gone = false;
    hf_rpc_server_close(server, on_gone, NULL);
    TURN_UNTIL(gone);
}

/* SEC-03: an address that sent a datagram, which may be forged, is sent only what its credit pays
 * for, in three datagrams at most; without credit it is sent nothing. */
static void an_address_without_credit_is_sent_little(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    struct hf_rpc_server *server = attach_server();

    (void)state;
    deaf_udp = deaf_tcp = true;
    r.provoked = true;
    /* Credit for four datagrams: 3 * 128 / 84. */
    hf_credit_came(hf_rpc_server_credits(server), &r.peer, 100);
    expect_error(&r, HF_ETIMEDOUT);
    assert_int_equal(rpcbind.n_udp, 3);
    assert_int_equal(rpcbind.n_tcp, 0);
    assert_true(got.elapsed_ms < 3000);
    assert_false(got.sent);
    expect_error(&r, HF_ETIMEDOUT);
    expect_error(&r, HF_ETIMEDOUT);
    assert_int_equal(rpcbind.n_udp, 4);
    /* Nothing was sent, but not for a shortage of our own: the attempt counts. */
    assert_true(got.tried);
    r.provoked = false;
    r.timeout_ms = 2000;
    expect_error(&r, HF_ETIMEDOUT);
    assert_true(rpcbind.n_udp > 5 && rpcbind.n_tcp == 1);
    assert_int_equal(service.n_udp, 0);
    detach_server(server);
}

/* An answer of an address's rpcbind lifts no limit; a lock that the address was told of does. */
static void an_address_that_took_a_lock_is_sent_all(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    struct hf_rpc_server *server = attach_server();

    (void)state;
    r.provoked = true;
    r.timeout_ms = 4000;
    service.behave = behave_silent;
    hf_credit_came(hf_rpc_server_credits(server), &r.peer, 1000);
    expect_error(&r, HF_ETIMEDOUT);
    assert_int_equal(rpcbind.n_udp, 1);
    assert_int_equal(service.n_udp, 3);
    assert_int_equal(service.n_tcp, 0);
    hf_rpc_client_took_lock(client, &r.peer);
    expect_error(&r, HF_ETIMEDOUT);
    assert_true(service.n_udp > 6);
    detach_server(server);
}

/* SEC-03: a port that was looked up on credit serves the next attempt, too; if that meets silence
 * as well, the program may have moved. */
static void a_port_that_was_paid_for_is_kept(void **state)
{
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    struct hf_rpc_server *server = attach_server();

    (void)state;
    r.provoked = r.remember_port = true;
    r.timeout_ms = 300;
    service.behave = behave_silent;
    hf_credit_came(hf_rpc_server_credits(server), &r.peer, 1000);
    for (unsigned attempt = 1; attempt <= 3; attempt++) {
        expect_error(&r, HF_ETIMEDOUT);
        assert_int_equal(service.n_udp, attempt);
        assert_int_equal(rpcbind.n_udp, attempt < 3 ? 1 : 2);
    }
    detach_server(server);
}

/* SEC-03: calls that answer forged requests take places from each other, but none from a call that
 * the peer cannot ask for again. */
static void trials_do_not_keep_a_grant_from_being_told(void **state)
{
    struct hf_rpc_server *server = attach_server();
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    unsigned accepted = 0;

    (void)state;
    r.provoked = r.expendable = true;
    for (unsigned i = 0; i < 1000; i++) {
        r.peer = address("203.0.113.1", 9);
        memcpy(r.peer.bytes + 2, &(uint16_t){(uint16_t)i}, 2);
        accepted += hf_rpc_client_call(client, &r, on_done, &got, NULL) == 0;
    }
    assert_int_equal(accepted, 512);
    r.expendable = false;
    r.peer = address(PEER, 0);
    hf_credit_came(hf_rpc_server_credits(server), &r.peer, 1000);
    n_done = 0;
    {
        struct outcome told = {0};

        assert_int_equal(hf_rpc_client_call(client, &r, on_done, &told, NULL), 0);
        TURN_UNTIL((serve_all(), told.times == 1));
        assert_int_equal(told.error, 0);
    }
    detach_server(server);
}

/* SEC-07a: neither the ids nor the ports of calls follow from those of earlier calls. */
static void transaction_ids_and_ports_are_not_predictable(void **state)
{
    enum { CALLS = 32 };
    struct hf_rpc_outcall_args r = call_args(BY_UDP);
    uint32_t xids[CALLS];
    uint16_t ports[CALLS];
    unsigned near = 0;
    unsigned same = 0;

    (void)state;
    r.peer.port = service.at.port;
    service.behave = behave_listening;
    for (unsigned i = 0; i < CALLS; i++) {
        unsigned before = n_done;

        heard.len = 0;
        assert_int_equal(hf_rpc_client_call(client, &r, on_done, &got, NULL), 0);
        TURN_UNTIL((serve_all(), heard.len > 0));
        xids[i] = word_at(heard, 0);
        ports[i] = service.asker.port;
        send_to_asker(service.udp, xids[i], RESULT);
        TURN_UNTIL(n_done > before);
        near += i > 0 && xids[i] - xids[i - 1] < 1000000;
        same += i > 0 && ports[i] == ports[i - 1];
    }
    assert_true(near <= 1);         /* the chance for each is 1 in 4,000 */
    assert_true(same <= CALLS / 2); /* 1 in 8 */
}

/* ---- many ---- */

/* 500 calls over TCP and 500 over UDP are all made at once; then all are answered. */
static void a_thousand_calls_can_be_asked_for_at_once(void **state)
{
    enum { EACH = 500 };
    static struct outcome outcomes[2 * EACH];
    struct rlimit files;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_cur < 2000)
        skip();
    memset(outcomes, 0, sizeof(outcomes));
    for (int i = 0; i < 2 * EACH; i++) {
        struct hf_rpc_outcall_args r = call_args(i % 2 ? BY_TCP : BY_UDP);
        assert_int_equal(hf_rpc_client_call(client, &r, on_done, &outcomes[i], NULL), 0);
    }
    assert_int_equal(hf_rpc_client_active(client), 2 * EACH);
    TURN_UNTIL((serve_all(), n_done == 2 * EACH));
    for (int i = 0; i < 2 * EACH; i++) {
        assert_int_equal(outcomes[i].times, 1);
        assert_int_equal(outcomes[i].error, 0);
        assert_int_equal(outcomes[i].value, RESULT);
    }
    assert_true(service.n_tcp == EACH && service.n_udp >= EACH);
}

/* Whichever allocation fails, its call fails once, and nothing leaks. */
static void any_allocation_may_fail(void **state)
{
    bool all_went_well = false;

    (void)state;
    for (long after = 0; after < 100 && !all_went_well; after++) {
        struct hf_rpc_outcall_args r = call_args(BY_TCP);
        unsigned before = n_done;
        u_int argument = 1;

        r.timeout_ms = 1000;
        r.encode = a_number;
        r.args = r.also = &argument;
        heap.after = after;
        if (hf_rpc_client_call(client, &r, on_done, &got, NULL) == 0)
            TURN_UNTIL((serve_all(), n_done > before));
        all_went_well = n_done > before && got.error == 0;
        assert_int_equal(hf_rpc_client_active(client), 0);
        heap.after = 1000000;
        hf_rpc_client_close(client, on_gone, NULL);
        TURN_UNTIL(gone);
        gone = false;
        assert_int_equal(heap.live, 0);
        assert_int_equal(hf_rpc_client_new(&loop, &alloc, &(struct hf_hash_key){1, 2}, &client), 0);
    }
    assert_true(all_went_well);
}

#define STORY(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_call_is_looked_up_and_answered),
        STORY(a_known_port_is_not_looked_up),
        STORY(a_second_call_goes_the_same_way),
        STORY(a_second_call_need_not_be_answered),
        STORY(arguments_are_encoded_at_once),
        STORY(ipv6_is_looked_up_over_its_own_transport),
        STORY(it_calls_from_where_it_is_told),
        STORY(a_service_calls_from_its_own_address),
        STORY(without_tcp_there_is_udp),
        STORY(a_dead_tcp_port_leads_to_udp),
        STORY(an_rpcbind_deaf_on_udp_is_asked_over_tcp),
        STORY(a_wrong_hint_is_looked_up_anew),
        STORY(an_unanswered_datagram_is_sent_again),
        STORY(a_port_can_be_remembered),
        STORY(a_call_can_wait_out_its_time),
        STORY(it_calls_from_the_port_it_serves_on),
        STORY(silence_ends_with_the_time_given),
        STORY(what_cannot_have_arrived_was_not_sent),
        STORY(a_closed_port_is_refused),
        STORY(an_answer_without_sense_is_an_error),
        STORY(only_the_one_asked_can_answer),
        STORY(a_late_answer_is_dropped),
        STORY(an_address_that_is_not_ours_fails),
        STORY(without_a_route_no_packet_leaves),
        STORY(a_shortage_after_the_lookup_is_our_own),
        STORY(a_cancelled_call_is_over),
        STORY(closing_ends_all_calls),
        STORY(records_that_answer_nothing_end_the_call),
        STORY(calls_to_one_address_are_made_one_by_one),
        STORY(another_programs_silence_is_not_its_own),
        STORY(a_call_apart_has_a_lane_of_its_own),
        STORY(waiting_too_long_for_a_busy_address_is_our_own_limit),
        STORY(an_expendable_call_gives_way),
        STORY(an_expendable_call_that_looks_up_gives_way_soon),
        STORY(room_that_one_address_does_not_take_goes_to_the_next),
        STORY(too_many_calls_are_refused),
        STORY(an_address_without_credit_is_sent_little),
        STORY(an_address_that_took_a_lock_is_sent_all),
        STORY(a_port_that_was_paid_for_is_kept),
        STORY(trials_do_not_keep_a_grant_from_being_told),
        STORY(transaction_ids_and_ports_are_not_predictable),
        STORY(a_thousand_calls_can_be_asked_for_at_once),
        STORY(any_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("rpc_client", tests, NULL, NULL);
}
