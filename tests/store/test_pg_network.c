/*
 * PostgreSQL over TCP, with a network that fails without a word: a connection string with several
 * hosts of which some are silent (SPEC HA-08), and a daemon whose host vanishes while it has the
 * store.
 */
#include "../unit/unit.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "fixture.h"
#include "pg_server.h"
#include "single.h"
#include "store/pg_session.h"

enum { PATIENCE_MS = 2000, BACKLOG_FILLERS = 4 };

static struct pg_server server;
static struct hf_store store;

static const char *sql(const char *text)
{
    return pg_server_sql(&server, text);
}

static uint64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int set_up(void **state)
{
    (void)state;
    sql("DROP SCHEMA public CASCADE");
    sql("CREATE SCHEMA public");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hf_store_close(&store);
    return 0;
}

/* Makes a TCP socket on the loopback interface that accepts connections and never sends anything.
 */
static int listen_silently(int backlog, unsigned *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    MUST(fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
    MUST(listen(fd, backlog) == 0);
    MUST(getsockname(fd, (struct sockaddr *)&addr, &len) == 0);
    *port = ntohs(addr.sin_port);
    return fd;
}

/* A host that drops every packet: the queue of a listening socket is full, so SYNs get no answer.
 */
struct black_hole {
    int listener;
    int fillers[BACKLOG_FILLERS];
    unsigned port;
};

static void black_hole_open(struct black_hole *hole)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    hole->listener = listen_silently(0, &hole->port);
    addr.sin_port = htons((uint16_t)hole->port);
    for (int i = 0; i < BACKLOG_FILLERS; i++) {
        hole->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        MUST(hole->fillers[i] >= 0);
        (void)connect(hole->fillers[i], (struct sockaddr *)&addr, sizeof(addr));
    }
}

static void black_hole_close(struct black_hole *hole)
{
    for (int i = 0; i < BACKLOG_FILLERS; i++)
        close(hole->fillers[i]);
    close(hole->listener);
}

static int open_by(const char *dsn, uint32_t timeout_ms)
{
    struct hf_store_config config = {.backend = "postgres", .dsn = dsn, .timeout_ms = timeout_ms};

    return hf_store_open(&store, &config);
}

/* Expects that the store opens by this connection string within the time, and works. */
static void expect_opens(const char *dsn, uint32_t timeout_ms, uint64_t within_ms)
{
    struct hf_record_server record = {.epoch = 3};
    uint64_t start = now_ms();

    if (open_by(dsn, timeout_ms) < 0)
        fail_msg("%s: %s", dsn, hf_store_error(&store));
    assert_true(now_ms() - start < within_ms);
    assert_int_equal(store_put_server(&store, &record), 0);
    hf_store_close(&store);
}

static void a_silent_first_host_leaves_time_for_the_second(void **state)
{
    char dsn[256];
    unsigned port;
    int silent = listen_silently(8, &port);

    (void)state;
    snprintf(dsn, sizeof(dsn), "host=127.0.0.1,127.0.0.1 port=%u,%u dbname=postgres user=holdfast",
             port, server.port);
    expect_opens(dsn, PATIENCE_MS, PATIENCE_MS);
    close(silent);
}

static void a_first_host_that_drops_packets_leaves_time_for_the_second(void **state)
{
    struct black_hole hole;
    char dsn[256];

    (void)state;
    black_hole_open(&hole);
    snprintf(dsn, sizeof(dsn), "postgresql://holdfast@127.0.0.1:%u,127.0.0.1:%u/postgres",
             hole.port, server.port);
    expect_opens(dsn, PATIENCE_MS, PATIENCE_MS);
    black_hole_close(&hole);
}

/* connect_timeout is in seconds and counts for one host, as in libpq. */
static void connect_timeout_bounds_one_host(void **state)
{
    char dsn[256];
    unsigned port;
    int silent = listen_silently(8, &port);

    (void)state;
    snprintf(dsn, sizeof(dsn),
             "host=127.0.0.1,127.0.0.1 port=%u,%u dbname=postgres user=holdfast connect_timeout=1",
             port, server.port);
    expect_opens(dsn, 10000, 3000);
    close(silent);
}

/* Accepts connections and closes them at once, as a proxy does whose server is gone. */
static void *hang_up(void *arg)
{
    int fd;

    while ((fd = accept(*(int *)arg, NULL, NULL)) >= 0)
        close(fd);
    return NULL;
}

static void a_first_host_that_hangs_up_is_passed_over(void **state)
{
    char dsn[256];
    pthread_t thread;
    unsigned port;
    int listener = listen_silently(8, &port);

    (void)state;
    MUST(pthread_create(&thread, NULL, hang_up, &listener) == 0);
    snprintf(dsn, sizeof(dsn), "host=127.0.0.1,127.0.0.1 port=%u,%u dbname=postgres user=holdfast",
             port, server.port);
    expect_opens(dsn, PATIENCE_MS, PATIENCE_MS);
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
}

/* Tries each form in which libpq takes a list of hosts, with a silent host in front. */
static void hosts_are_found_however_they_are_written(void **state)
{
    char dsn[PATH_MAX + 256];
    char path[PATH_MAX + 16];
    unsigned port;
    int silent = listen_silently(8, &port);
    FILE *file;

    (void)state;
    snprintf(dsn, sizeof(dsn),
             "hostaddr=127.0.0.1,127.0.0.1 port=%u,%u dbname=postgres user=holdfast", port,
             server.port);
    expect_opens(dsn, PATIENCE_MS, PATIENCE_MS);
    snprintf(dsn, sizeof(dsn),
             "host=one.invalid,two.invalid hostaddr=127.0.0.1,127.0.0.1 port=%u,%u "
             "dbname=postgres user=holdfast",
             port, server.port);
    expect_opens(dsn, PATIENCE_MS, PATIENCE_MS);
    snprintf(dsn, sizeof(dsn), "host=127.0.0.1,%s port=%u,%u dbname=postgres user=holdfast",
             server.dir, port, server.port);
    expect_opens(dsn, PATIENCE_MS, PATIENCE_MS);
    snprintf(dsn, sizeof(dsn), "host=localhost port=%u dbname=postgres user=holdfast", server.port);
    expect_opens(dsn, PATIENCE_MS, PATIENCE_MS); /* ::1 may come first, and is refused */

    snprintf(path, sizeof(path), "%s/services", server.dir);
    file = fopen(path, "w");
    MUST(file);
    fprintf(file, "[locks]\nhost=127.0.0.1,127.0.0.1\nport=%u,%u\ndbname=postgres\nuser=holdfast\n",
            port, server.port);
    MUST(fclose(file) == 0 && setenv("PGSERVICEFILE", path, 1) == 0);
    expect_opens("service=locks", PATIENCE_MS, PATIENCE_MS);
    MUST(unsetenv("PGSERVICEFILE") == 0);

    snprintf(path, sizeof(path), "%u,%u", port, server.port);
    MUST(setenv("PGHOST", "127.0.0.1,127.0.0.1", 1) == 0 && setenv("PGPORT", path, 1) == 0);
    expect_opens("dbname=postgres user=holdfast", PATIENCE_MS, PATIENCE_MS);
    MUST(unsetenv("PGHOST") == 0 && unsetenv("PGPORT") == 0);
    close(silent);
}

/* Once a host was found, it is the first to be asked again, so a silent one costs time only once.
 */
static void a_reconnect_begins_with_the_host_that_worked(void **state)
{
    struct hf_record_server record = {.epoch = 3};
    char dsn[256];
    unsigned port;
    int silent = listen_silently(8, &port);
    uint64_t start;
    int rv;

    (void)state;
    snprintf(dsn, sizeof(dsn), "host=127.0.0.1,127.0.0.1 port=%u,%u dbname=postgres user=holdfast",
             port, server.port);
    assert_int_equal(open_by(dsn, PATIENCE_MS), 0);
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name LIKE 'holdfastd-%'");
    start = now_ms();
    while ((rv = store_put_server(&store, &record)) == HF_EUNREACH)
        continue;
    assert_int_equal(rv, 0);
    assert_true(now_ms() - start < PATIENCE_MS / 2);
    close(silent);
}

static void hosts_that_all_fail_are_all_named(void **state)
{
    struct black_hole hole;
    char dsn[256];
    char name[16];
    unsigned port;
    int silent = listen_silently(8, &port);
    uint64_t start;

    (void)state;
    black_hole_open(&hole);
    snprintf(dsn, sizeof(dsn), "host=127.0.0.1,127.0.0.1,/nonexistent port=%u,%u,1 user=holdfast",
             port, hole.port);
    start = now_ms();
    assert_int_equal(open_by(dsn, 600), HF_EUNREACH);
    assert_true(now_ms() - start < 1500);
    snprintf(name, sizeof(name), "%u", port);
    assert_non_null(strstr(hf_store_error(&store), name));
    snprintf(name, sizeof(name), "%u", hole.port);
    assert_non_null(strstr(hf_store_error(&store), name));
    assert_non_null(strstr(hf_store_error(&store), "/nonexistent"));

    snprintf(dsn, sizeof(dsn), "host=127.0.0.1 port=%u user=holdfast", port);
    assert_int_equal(open_by(dsn, 300), HF_ETIMEDOUT);
    black_hole_close(&hole);
    close(silent);
}

/* Makes the kernel drop every further packet for this socket: no answer, no reset. */
static void vanish(struct hf_pg *pg)
{
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {.len = 1, .filter = &drop};

    MUST(setsockopt(PQsocket(pg->conn), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ==
         0);
}

/* Opens a daemon's session on another host, whose kernel sends nothing of its own accord. */
static void session_open(struct hf_pg_session *session, struct hf_store *owner)
{
    struct hf_store_config config = {.backend = "postgres", .timeout_ms = PATIENCE_MS};
    char dsn[256];

    *owner = (struct hf_store){.alloc = &hf_alloc_heap};
    *session = (struct hf_pg_session){0};
    snprintf(dsn, sizeof(dsn),
             "hostaddr=127.0.0.1 port=%u dbname=postgres user=holdfast keepalives=0", server.port);
    config.dsn = dsn;
    assert_int_equal(hf_pg_init(&session->pg, owner, &config), 0);
    assert_int_equal(hf_pg_session_ready(session), 0);
}

/* Expects that another daemon gets the store soon after, without any message to the server. */
static void expect_taken_over(struct hf_pg_session *session)
{
    uint64_t start = now_ms();

    vanish(&session->pg);
    assert_int_equal(open_by(server.dsn, PATIENCE_MS), HF_EBUSY);
    while (open_by(server.dsn, PATIENCE_MS) == HF_EBUSY && now_ms() - start < 15000)
        continue;
    assert_non_null(store.backend);
    print_message("# note: a vanished host's store was free after %u ms\n",
                  (unsigned)(now_ms() - start));
    assert_true(now_ms() - start < 10000);
}

static void a_vanished_host_gives_its_idle_store_back(void **state)
{
    struct hf_pg_session session;
    struct hf_store owner;

    (void)state;
    session_open(&session, &owner);
    expect_taken_over(&session);
    hf_pg_free(&session.pg);
}

static void a_vanished_host_gives_the_fence_back_that_it_has_locked(void **state)
{
    struct hf_pg_session session;
    struct hf_store owner;

    (void)state;
    session_open(&session, &owner);
    assert_int_equal(hf_pg_exec(&session.pg, "BEGIN", "cannot begin", NULL), 0);
    assert_int_equal(hf_pg_session_check(&session), 0);
    expect_taken_over(&session);
    hf_pg_free(&session.pg);
}

/* An answer that never arrives: keepalive probes are not sent then, so the user timeout counts. */
static void a_vanished_host_that_was_sent_an_answer_gives_its_store_back(void **state)
{
    struct hf_pg_session session;
    struct hf_store owner;

    (void)state;
    session_open(&session, &owner);
    assert_int_equal(PQsendQuery(session.pg.conn, "SELECT pg_sleep(0.5), repeat('x', 100000)"), 1);
    assert_int_equal(hf_pg_flush(&session.pg), 0);
    expect_taken_over(&session);
    hf_pg_free(&session.pg);
}

/* A daemon that does nothing for longer than the server's patience, while its host still answers.
 */
static void a_quiet_daemon_keeps_its_store(void **state)
{
    struct hf_pg_session session;
    struct hf_store owner;

    (void)state;
    session_open(&session, &owner);
    sleep(7);
    assert_int_equal(open_by(server.dsn, 400), HF_EBUSY);
    assert_int_equal(hf_pg_session_check(&session), 0);
    hf_pg_free(&session.pg);
}

/* The network path fails with a transaction half sent, and comes back: the daemon ends its own old
 * session. */
static void a_daemon_that_lost_its_path_comes_back_at_once(void **state)
{
    struct hf_pg_session session;
    struct hf_store owner;
    PGconn *lost;
    uint64_t start;

    (void)state;
    session_open(&session, &owner);
    assert_int_equal(hf_pg_exec(&session.pg, "BEGIN", "cannot begin", NULL), 0);
    assert_int_equal(hf_pg_session_check(&session), 0);
    vanish(&session.pg);
    lost = session.pg.conn; /* closing the connection would tell the server */
    session.pg.conn = NULL;
    start = now_ms();
    assert_int_equal(hf_pg_session_ready(&session), 0);
    assert_true(now_ms() - start < 1000);
    PQfinish(lost);
    hf_pg_free(&session.pg);
}

static const char *server_setting(struct hf_pg *pg, const char *name)
{
    static char value[32];
    char text[64];
    PGresult *result;

    snprintf(text, sizeof(text), "SHOW %s", name);
    assert_int_equal(hf_pg_exec(pg, text, "cannot ask", &result), 0);
    snprintf(value, sizeof(value), "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return value;
}

static void the_operators_own_keepalives_stay(void **state)
{
    struct hf_store owner = {.alloc = &hf_alloc_heap};
    struct hf_store_config config = {.backend = "postgres", .timeout_ms = PATIENCE_MS};
    struct hf_pg pg;
    char dsn[256];

    (void)state;
    snprintf(dsn, sizeof(dsn),
             "hostaddr=127.0.0.1 port=%u dbname=postgres user=holdfast "
             "options='-c tcp_keepalives_idle=77 -c lock_timeout=99s'",
             server.port);
    config.dsn = dsn;
    assert_int_equal(hf_pg_init(&pg, &owner, &config), 0);
    assert_int_equal(hf_pg_session_connect(&pg, false), 0);
    assert_string_equal(server_setting(&pg, "tcp_keepalives_idle"), "77");
    assert_string_equal(server_setting(&pg, "tcp_user_timeout"), "5000");
    assert_string_equal(server_setting(&pg, "lock_timeout"), "1500ms");
    hf_pg_free(&pg);
}

int main(void)
{
#define STORY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORY(a_silent_first_host_leaves_time_for_the_second),
        STORY(a_first_host_that_drops_packets_leaves_time_for_the_second),
        STORY(connect_timeout_bounds_one_host),
        STORY(a_first_host_that_hangs_up_is_passed_over),
        STORY(hosts_are_found_however_they_are_written),
        STORY(a_reconnect_begins_with_the_host_that_worked),
        STORY(hosts_that_all_fail_are_all_named),
        STORY(a_vanished_host_gives_its_idle_store_back),
        STORY(a_vanished_host_gives_the_fence_back_that_it_has_locked),
        STORY(a_vanished_host_that_was_sent_an_answer_gives_its_store_back),
        STORY(a_quiet_daemon_keeps_its_store),
        STORY(a_daemon_that_lost_its_path_comes_back_at_once),
        STORY(the_operators_own_keepalives_stay),
    };

    return pg_server_run(&server, pg_server_start_tcp(&server), tests, HF_COUNT_OF(tests));
}
