/* The daemon's side of the connection to the keeper (COH-01); the test plays the keeper. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "keeper/client.h"

struct world {
    uv_loop_t loop;
    char path[108];
    int listener, keeper; /* keeper: the end of the connection that the test plays */
    struct hf_keeper_client *client;
    unsigned ups, downs, results, held, held_ends;
    uint64_t last_id;
    char reason[HF_KEEPER_REASON_MAX];
    bool close_at_result;
    union {
        struct hf_keeper_header header;
        uint64_t aligned;
        uint8_t bytes[HF_KEEPER_MESSAGE_MAX];
    } in;
};

static void on_up(void *ctx, const struct hf_keeper_hello *hello)
{
    struct world *w = ctx;

    assert_int_equal(hello->incarnation, 77);
    w->ups++;
}

static void on_down(void *ctx, const char *reason)
{
    struct world *w = ctx;

    (void)snprintf(w->reason, sizeof(w->reason), "%s", reason);
    w->downs++;
}

static void on_result(void *ctx, const struct hf_keeper_result *result)
{
    struct world *w = ctx;

    assert_true(result->id > w->last_id);
    w->last_id = result->id;
    w->results++;
    if (w->close_at_result) {
        hf_keeper_client_close(w->client);
        w->client = NULL;
    }
}

static void on_held(void *ctx, const struct hf_keeper_op *held)
{
    struct world *w = ctx;

    if (held)
        w->held++;
    else
        w->held_ends++;
}

static void listen_again(struct world *w)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};

    (void)unlink(w->path);
    (void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", w->path);
    w->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(w->listener, (struct sockaddr *)&sun, sizeof(sun)), 0);
    assert_int_equal(listen(w->listener, 5), 0);
}

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    struct hf_keeper_client_ops ops = {w, on_up, on_down, on_result, on_held};

    (void)snprintf(w->path, sizeof(w->path), "/tmp/holdfast-keeper-client-%d", (int)getpid());
    listen_again(w);
    w->keeper = -1;
    assert_int_equal(uv_loop_init(&w->loop), 0);
    w->client = hf_keeper_client_new(&w->loop, w->path, &ops);
    assert_non_null(w->client);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    if (w->client)
        hf_keeper_client_close(w->client);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    if (w->keeper >= 0)
        close(w->keeper);
    close(w->listener);
    (void)unlink(w->path);
    free(w);
    return 0;
}

/* ---- the keeper, played by the test ---- */

static void say(struct world *w, uint32_t message, uint32_t count, const void *records)
{
    uint8_t bytes[HF_KEEPER_MESSAGE_MAX];
    struct hf_keeper_header header = {message, count};
    size_t len = count * hf_keeper_record_size(message);

    memcpy(bytes, &header, sizeof(header));
    if (len > 0)
        memcpy(bytes + sizeof(header), records, len);
    assert_int_equal(send(w->keeper, bytes, sizeof(header) + len, 0), sizeof(header) + len);
}

static void hear(struct world *w, uint32_t message, uint32_t count)
{
    ssize_t n = recv(w->keeper, w->in.bytes, sizeof(w->in.bytes), 0);
    struct hf_keeper_header header;

    assert_true(n > 0);
    assert_non_null(hf_keeper_check(w->in.bytes, (size_t)n, false, &header));
    assert_int_equal(header.message, message);
    assert_int_equal(header.count, count);
}

static void run_until(struct world *w, const unsigned *counter, unsigned value)
{
    while (*counter < value)
        (void)uv_run(&w->loop, UV_RUN_ONCE);
}

static void meet(struct world *w, enum hf_keeper_welcome welcome)
{
    struct hf_keeper_hello hello = {
        .version = HF_KEEPER_VERSION, .welcome = (uint32_t)welcome, .incarnation = 77};
    unsigned ups = w->ups, downs = w->downs;

    do { /* the client connects from its loop, after a pause */
        struct pollfd polled = {.fd = w->listener, .events = POLLIN};

        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
        (void)poll(&polled, 1, 1);
        w->keeper = accept4(w->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    } while (w->keeper < 0);
    hear(w, HF_KEEPER_HELLO, 1);
    say(w, HF_KEEPER_HELLO, 1, &hello);
    if (welcome == HF_KEEPER_WELCOME)
        run_until(w, &w->ups, ups + 1);
    else
        run_until(w, &w->downs, downs + 1);
}

static struct hf_keeper_op claim(uint64_t id)
{
    return (struct hf_keeper_op){.id = id,
                                 .kind = HF_KEEPER_CLAIM,
                                 .mode = HF_KEEPER_SHARED,
                                 .handle_len = 4,
                                 .handle = "abcd"};
}

/* ---- stories ---- */

/* The operations of a turn leave in one message, and their results come one after the other. */
static void a_turn_is_one_message(void **state)
{
    struct world *w = *state;
    struct hf_keeper_result results[3] = {{.id = 1}, {.id = 2}, {.id = 3}};
    struct hf_keeper_op op = claim(1);

    assert_int_equal(hf_keeper_client_put(w->client, &op), HF_EUNAVAIL);
    meet(w, HF_KEEPER_WELCOME);
    assert_true(hf_keeper_client_is_up(w->client));
    for (uint64_t id = 1; id <= 3; id++) {
        op = claim(id);
        assert_int_equal(hf_keeper_client_put(w->client, &op), 0);
    }
    hf_keeper_client_flush(w->client);
    hear(w, HF_KEEPER_OPS, 3);
    say(w, HF_KEEPER_RESULTS, 3, results);
    run_until(w, &w->results, 3);
}

/* More operations than a message holds make more than one message, in order; the queue is bounded,
 * and empties. */
static void the_queue_is_bounded(void **state)
{
    struct world *w = *state;
    struct hf_keeper_op op;
    uint64_t next = 1;

    meet(w, HF_KEEPER_WELCOME);
    for (uint64_t id = 1; id <= HF_KEEPER_QUEUE_MAX; id++) {
        op = claim(id);
        assert_int_equal(hf_keeper_client_put(w->client, &op), 0);
    }
    assert_int_equal(hf_keeper_client_put(w->client, &op), HF_ELIMIT);
    assert_int_equal(hf_keeper_client_list(w->client), 0); /* flushes */
    assert_int_equal(hf_keeper_client_list(w->client), HF_ELIMIT);
    while (next <= HF_KEEPER_QUEUE_MAX) {
        const struct hf_keeper_op *ops = (const void *)(&w->in.header + 1);

        hear(w, HF_KEEPER_OPS, HF_KEEPER_OPS_MAX);
        for (unsigned i = 0; i < HF_KEEPER_OPS_MAX; i++)
            assert_int_equal(ops[i].id, next++);
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    }
    hear(w, HF_KEEPER_LIST, 0);
    assert_int_equal(hf_keeper_client_put(w->client, &op), 0);
}

/* A list ends with a message that is not full. */
static void a_list_ends(void **state)
{
    static struct hf_keeper_op held[HF_KEEPER_OPS_MAX];
    struct world *w = *state;

    for (unsigned i = 0; i < HF_KEEPER_OPS_MAX; i++) {
        held[i] = claim(i);
        held[i].kind = HF_KEEPER_SET;
    }
    meet(w, HF_KEEPER_WELCOME);
    assert_int_equal(hf_keeper_client_list(w->client), 0);
    hear(w, HF_KEEPER_LIST, 0);
    say(w, HF_KEEPER_HELD, HF_KEEPER_OPS_MAX, held);
    run_until(w, &w->held, HF_KEEPER_OPS_MAX);
    assert_int_equal(w->held_ends, 0);
    say(w, HF_KEEPER_HELD, 0, NULL);
    run_until(w, &w->held_ends, 1);
    assert_int_equal(w->held, HF_KEEPER_OPS_MAX);
    assert_int_equal(hf_keeper_client_list(w->client), 0);
    say(w, HF_KEEPER_HELD, 3, held);
    run_until(w, &w->held_ends, 2);
    assert_int_equal(w->held, HF_KEEPER_OPS_MAX + 3);
}

/* A path is sent after the operations that were put before; it must be absolute, and only one waits
 * at a time. */
static void a_path_is_sent(void **state)
{
    struct world *w = *state;
    struct hf_keeper_op op = claim(1);
    const struct hf_keeper_path *path = (const void *)(&w->in.header + 1);

    assert_int_equal(hf_keeper_client_path(w->client, 5, HF_KEEPER_LET_GO, "/srv"), HF_EUNAVAIL);
    meet(w, HF_KEEPER_WELCOME);
    assert_int_equal(hf_keeper_client_path(w->client, 5, HF_KEEPER_LET_GO, "srv"), HF_EINVAL);
    assert_int_equal(hf_keeper_client_put(w->client, &op), 0);
    assert_int_equal(hf_keeper_client_path(w->client, 5, HF_KEEPER_LET_GO, "/srv"), 0);
    hear(w, HF_KEEPER_OPS, 1);
    hear(w, HF_KEEPER_PATH, 1);
    assert_string_equal(path->path, "/srv");
    assert_int_equal(path->id, 5);
}

/* The client goes down, and tries again, when a keeper ends, is busy, or sends an invalid message.
 */
static void a_lost_keeper_is_sought_again(void **state)
{
    struct world *w = *state;
    struct hf_keeper_op op = claim(1);

    meet(w, HF_KEEPER_WELCOME);
    assert_int_equal(hf_keeper_client_put(w->client, &op), 0);
    close(w->keeper);
    run_until(w, &w->downs, w->downs + 1);
    assert_false(hf_keeper_client_is_up(w->client));
    assert_int_equal(hf_keeper_client_put(w->client, &op), HF_EUNAVAIL);

    meet(w, HF_KEEPER_BUSY);
    assert_non_null(strstr(w->reason, "another daemon"));
    close(w->keeper);

    meet(w, HF_KEEPER_WELCOME);
    assert_int_equal(send(w->keeper, "nonsense and more", 17, 0), 17);
    run_until(w, &w->downs, w->downs + 1);
    assert_non_null(strstr(w->reason, "malformed"));
    close(w->keeper);

    meet(w, HF_KEEPER_WELCOME); /* operations that were put before the end are forgotten */
    hf_keeper_client_flush(w->client);
    assert_true(recv(w->keeper, w->in.bytes, sizeof(w->in.bytes), MSG_DONTWAIT) < 0);
    assert_int_equal(w->ups, 3);
}

/* While there is no keeper the client knows why, and it finds a keeper that comes later. */
static void a_keeper_may_come_later(void **state)
{
    struct world *w = *state;

    close(w->listener);
    (void)unlink(w->path);
    run_until(w, &w->downs, 2);
    assert_non_null(strstr(w->reason, w->path));
    listen_again(w);
    meet(w, HF_KEEPER_WELCOME);
}

/* A callback may close the client; the results behind it are not reported. */
static void a_callback_closes_the_client(void **state)
{
    struct world *w = *state;
    struct hf_keeper_result results[3] = {{.id = 1}, {.id = 2}, {.id = 3}};

    meet(w, HF_KEEPER_WELCOME);
    w->close_at_result = true;
    say(w, HF_KEEPER_RESULTS, 3, results);
    run_until(w, &w->results, 1);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(w->results, 1);
    assert_int_equal(w->downs, 0);
}

/* /proc tells which program a pid runs. */
static void a_pid_has_a_program(void **state)
{
    char name[64], small[4];

    (void)state;
    /* Under an emulator it has the emulator's name. The kernel keeps 15 bytes. */
    assert_int_equal(prctl(PR_SET_NAME, "a-program-with-a-name", 0, 0, 0), 0);
    hf_keeper_program_of((int32_t)getpid(), name, sizeof(name));
    assert_string_equal(name, "a-program-with-");
    hf_keeper_program_of((int32_t)getpid(), small, sizeof(small));
    assert_string_equal(small, "a-p");
    hf_keeper_program_of(-1, name, sizeof(name));
    assert_string_equal(name, "");
    hf_keeper_program_of(INT32_MAX, name, sizeof(name));
    assert_string_equal(name, "");
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORY(a_turn_is_one_message),
        STORY(the_queue_is_bounded),
        STORY(a_list_ends),
        STORY(a_path_is_sent),
        STORY(a_lost_keeper_is_sought_again),
        STORY(a_keeper_may_come_later),
        STORY(a_callback_closes_the_client),
        cmocka_unit_test(a_pid_has_a_program),
    };

    return cmocka_run_group_tests_name("keeper client", tests, NULL, NULL);
}
