/* The configuration (SPEC section 6): the parser guesses nothing, and every error says where it is.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "daemon/config.h"

static struct hf_config config;
static char error[HF_CONFIG_ERROR_MAX];
static char path[64];

static int begin(void **state)
{
    int fd;

    (void)state;
    strcpy(path, "/tmp/holdfast-test-XXXXXX");
    fd = mkstemp(path);
    if (fd >= 0)
        close(fd);
    hf_config_init(&config);
    error[0] = '\0';
    return fd >= 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return unlink(path);
}

static int read_text(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return hf_config_read(&config, path, error);
}

/* Expects that the file is refused with "PATH:LINE: rest", where the text after the line begins
 * with `rest`. */
static void expect_error(const char *text, int line, const char *rest)
{
    char start[256];

    hf_config_init(&config);
    snprintf(start, sizeof(start), "%s:%d: %s", path, line, rest);
    assert_true(read_text(text) < 0);
    if (strncmp(error, start, strlen(start)) != 0)
        fail_msg("got \"%s\", not \"%s\"", error, start);
}

static void expect_set_error(const char *assignment, const char *start)
{
    assert_true(hf_config_set(&config, assignment, error) < 0);
    if (strncmp(error, start, strlen(start)) != 0)
        fail_msg("got \"%s\", not \"%s\"", error, start);
}

static void the_defaults_are_those_of_the_specification(void **state)
{
    char text[HF_ADDR_TEXT_MAX];

    (void)state;
    assert_true(config.name[0] != '\0');
    assert_int_equal(config.listen.n, 2);
    assert_string_equal(hf_addr_format(&config.listen.list[0], text), "0.0.0.0");
    assert_string_equal(hf_addr_format(&config.listen.list[1], text), "::");
    assert_int_equal(config.port, 4045);
    assert_int_equal(config.programs, HF_PROGRAMS_ALL);
    assert_int_equal(config.rpcbind_mode, HF_RPCBIND_AUTO);
    assert_int_equal(config.backend, HF_BACKEND_LMDB);
    assert_string_equal(config.path, "/var/lib/holdfast");
    assert_int_equal(config.durable, 1);
    assert_int_equal(config.grace_seconds, 90);
    assert_true(config.notify_timeout == 5 && config.notify_attempts == 3);
    assert_true(config.notify_in_flight == 10240 && config.notify_retry_for == 900);
    assert_true(config.max_clients == 10000 && config.max_locks_per_client == 100000);
    assert_true(config.max_locks_per_owner == 10000);
    assert_true(config.max_locks_per_file == 100000 && config.max_locks == 1000000);
    assert_int_equal(config.max_waiters_per_file, 1000);
    assert_int_equal(config.max_waiters_per_owner, 256);
    assert_int_equal(config.max_waiters_per_client, 4096);
    assert_int_equal(config.max_clients_per_host, 1000);
    assert_int_equal(config.max_locks_per_host, 250000);
    assert_int_equal(config.max_registrations_per_host, 1000);
    assert_int_equal(config.max_connections_per_host, 256);
    assert_int_equal(config.max_calls_per_host, 4096);
    assert_int_equal(config.allow.n, 0);
    assert_int_equal(config.access_udp, 1);
    assert_int_equal(config.access_reserved_ports, 0);
    assert_string_equal(config.admin_listen, "127.0.0.1:8049");
    assert_true(config.log_level == HF_LOG_INFO && config.log_format == HF_LOG_TEXT);
    assert_int_equal(hf_config_set(&config, "server.name=server.example", error), 0);
    assert_int_equal(hf_config_check(&config, error), 0);
}

static void a_file_sets_what_it_names(void **state)
{
    (void)state;
    assert_int_equal(read_text("# a comment\n"
                               "[server]\n"
                               "name = nfs.example ; and another\n"
                               "listen = 192.0.2.1, 2001:db8::1\n"
                               "port=5045\n"
                               "\n"
                               "[log]\n"
                               "level=DEBUG\n"),
                     0);
    assert_string_equal(config.name, "nfs.example");
    assert_int_equal(config.listen.n, 2);
    assert_int_equal(config.listen.list[1].family, HF_ADDR_IPV6);
    assert_int_equal(config.port, 5045);
    assert_int_equal(config.log_level, HF_LOG_DEBUG);
    assert_int_equal(config.grace_seconds, 90);
}

/* nfs.conf is often written with its keys indented: each line is a key, none continues another. */
static void indented_keys_are_keys(void **state)
{
    (void)state;
    assert_int_equal(read_text("[store]\n"
                               "  path=/srv/locks\n"
                               "  dsn=host=db\n"
                               "\tbackend=postgres\n"),
                     0);
    assert_string_equal(config.path, "/srv/locks");
    assert_string_equal(config.dsn, "host=db");
    assert_int_equal(config.backend, HF_BACKEND_POSTGRES);
}

static void errors_name_file_line_and_key(void **state)
{
    (void)state;
    expect_error("[server]\n\nprot=1\n", 3, "server.prot: unknown key");
    expect_error("[sever]\nport=1\n", 2, "sever.port: unknown section");
    expect_error("port=1\n", 1, "port: unknown section");
    expect_error("[server]\nport=0\n", 2, "server.port: \"0\" is not a number from 1 to 65535");
    expect_error("[server]\nport=65536\n", 2, "server.port: \"65536\" is not a number");
    expect_error("[server]\nport=-1\n", 2, "server.port: \"-1\" is not a number");
    expect_error("[server]\nport=80x\n", 2, "server.port: \"80x\" is not a number");
    expect_error("[server]\nport=\n", 2, "server.port: \"\" is not a number");
    expect_error("[server]\nport=99999999999999999999999\n", 2, "server.port: \"9999");
    expect_error("[rpcbind]\nmode=on\n", 2,
                 "rpcbind.mode: \"on\" is none of system|embedded|none|auto");
    expect_error("[locks]\ndurable=\n", 2, "locks.durable: \"\" is none of no|yes");
    expect_error("[server]\nlisten=localhost\n", 2,
                 "server.listen: \"localhost\" is not an IPv4 or IPv6 address");
    expect_error("[server]\nlisten=\n", 2, "server.listen: \"\" is not an IPv4");
    expect_error("[server]\nlisten=::1,\n", 2, "server.listen: \"\" is not an IPv4");
    expect_error("[server]\nlisten=::,::,::,::,::,::,::,::,::\n", 2,
                 "server.listen: more than 8 addresses");
    expect_error("[server]\nport=1\nname=\n", 3, "server.name: empty: clients need a name");
    expect_error("[admin]\nlisten=8049\n", 2, "admin.listen: \"8049\" is not ADDRESS:PORT");
    expect_error("[admin]\nlisten=::1:8049\n", 2, "admin.listen: \"::1:8049\" is not");
    expect_error("[admin]\nlisten=127.0.0.1:0\n", 2, "admin.listen: \"127.0.0.1:0\" is not");
    expect_error("[share s]\nfh=64:00\n", 2, "share s.fh: \"64:00\" is not OFFSET:HEXBYTES");
    expect_error("[share s]\npath=/x\n", 2, "share s.path: unknown key");
}

/* The first error of a file is reported, whatever comes after it. */
static void the_first_error_is_the_one_reported(void **state)
{
    (void)state;
    expect_error("[server]\nnonsense\n", 2, "not understood");
    expect_error("[server\nport=1\n", 1, "not understood");
    expect_error("[server]\nnonsense\nport=abc\n", 2, "not understood");
    expect_error("[server]\nport=abc\nnonsense\n", 2, "server.port: \"abc\"");
    expect_error("[server]\nport=abc\nport=def\n", 2, "server.port: \"abc\"");
}

/* inih would read an overlong line as two; it is refused instead. */
static void an_overlong_line_is_refused(void **state)
{
    char text[1024] = "[server]\nport=4045\nname=";

    (void)state;
    memset(text + strlen(text), 'n', 300);
    strcat(text, "\nport=5045\n");
    expect_error(text, 3, "line longer than");
    /* The error before the overlong line is reported first. */
    memcpy(strstr(text, "port=4045"), "nonsense!", 9);
    expect_error(text, 2, "not understood");
}

/* A key is an error when it comes twice, in one section or in two of the same name, and so is a
 * name that no host can have. */
static void a_second_value_and_a_name_with_spaces_are_errors(void **state)
{
    (void)state;
    expect_error("[server]\nport=4045\nport=4046\n", 3, "server.port: set already at line 2");
    expect_error("[log]\nlevel=info\n[server]\nport=1\n[log]\nlevel=warn\n", 6,
                 "log.level: set already at line 2");
    expect_error("[server]\nname=file server\n", 2, "server.name: \"file server\" has a space");
    expect_error("[cluster]\nnode=left\tnode\n", 2, "cluster.node: \"left\tnode\" has a space");
    hf_config_init(&config);
    assert_int_equal(read_text("[server]\nport=4046\n"), 0);
    assert_int_equal(hf_config_set(&config, "server.port=4047", error), 0);
    assert_int_equal(config.port, 4047);
}

static void a_file_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(hf_config_read(&config, "/nonexistent/holdfast.conf", error), HF_EIO);
    assert_non_null(strstr(error, "/nonexistent/holdfast.conf"));
}

/* A directory can be opened; read as an empty file it would leave the defaults in force. */
static void a_file_that_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    assert_true(hf_config_read(&config, "/tmp", error) < 0);
    assert_string_equal(error, "/tmp: cannot be read: Is a directory");
}

static void set_does_the_same_for_one_key(void **state)
{
    char text[HF_CONFIG_TEXT_MAX + 32] = "server.name=";

    (void)state;
    assert_int_equal(hf_config_set(&config, "server.port=5045", error), 0);
    assert_int_equal(config.port, 5045);
    assert_int_equal(hf_config_set(&config, "store.dsn=host=db user=x", error), 0);
    assert_string_equal(config.dsn, "host=db user=x");
    expect_set_error("server.port", "--set server.port: expected section.key=value");
    expect_set_error("port=1", "--set port=1: expected section.key=value");
    expect_set_error("server.prot=1", "--set server.prot: unknown key");
    expect_set_error("a.b=1", "--set a.b: unknown section");
    expect_set_error("cluster.hook=hook", "--set cluster.hook: \"hook\" is not an absolute path");
    expect_set_error("store.path=auto", "--set store.path: \"auto\" is not an absolute path");
    expect_set_error("history.path=h",
                     "--set history.path: \"h\" is not an absolute path, nor auto");
    assert_int_equal(hf_config_set(&config, "history.path=auto", error), 0);
    assert_int_equal(hf_config_set(&config, "history.path=", error), 0);
    expect_set_error("grace.seconds=1 hour", "--set grace.seconds: \"1 hour\" is not a number");
    memset(text + strlen(text), 'n', HF_CONFIG_TEXT_MAX);
    expect_set_error(text, "--set server.name: longer than 511 bytes");
}

/* A text may be exactly as long as its field, and not one byte longer; nor may an assignment be
 * longer than any valid one. */
static void texts_are_bounded(void **state)
{
    static char text[4 * HF_CONFIG_TEXT_MAX] = "server.name=";

    (void)state;
    memset(text + strlen(text), 'n', HF_CONFIG_TEXT_MAX - 1);
    assert_int_equal(hf_config_set(&config, text, error), 0);
    assert_int_equal(strlen(config.name), HF_CONFIG_TEXT_MAX - 1);
    memset(text + strlen(text), 'n', 2 * HF_CONFIG_TEXT_MAX);
    expect_set_error(text, "--set: longer than");
}

static void shares_are_patterns_in_a_file_handle(void **state)
{
    const uint8_t pattern[] = {0xDE, 0xAD, 0x01};

    (void)state;
    assert_int_equal(read_text("[share home dirs]\nfh=4:DEad01\n"), 0);
    assert_int_equal(hf_config_set(&config, "share a.b.fh=63:ff", error), 0);
    assert_int_equal(config.n_export_rules, 2);
    assert_string_equal(config.export_rules[0].name, "home dirs");
    assert_int_equal(config.export_rules[0].offset, 4);
    assert_int_equal(config.export_rules[0].len, 3);
    assert_memory_equal(config.export_rules[0].bytes, pattern, 3);
    assert_string_equal(config.export_rules[1].name, "a.b");
    /* The same name once more replaces the first. */
    assert_int_equal(hf_config_set(&config, "share a.b.fh=0:00", error), 0);
    assert_int_equal(config.n_export_rules, 2);
    assert_int_equal(config.export_rules[1].offset, 0);
}

static void a_bad_share_is_refused(void **state)
{
    static const char *const bad[] = {"4:",   "4:a",  "4:0g",    ":00",     "x:00", "4",
                                      "4 00", "-1:0", "63:0000", "4:00 01", ""};
    char text[128];

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(bad); i++) {
        snprintf(text, sizeof(text), "share s.fh=%s", bad[i]);
        expect_set_error(text, "--set share s.fh: \"");
    }
    expect_set_error("share .fh=0:00", "--set share .fh: a share needs a name");
    expect_set_error("share 1234567890123456789012345678901234567890.fh=0:00",
                     "--set share 1234567890123456789012345678901234567890.fh: a share needs");
    assert_int_equal(config.n_export_rules, 0);
}

static void shares_are_bounded(void **state)
{
    char text[64];

    (void)state;
    for (int i = 0; i < HF_CONFIG_EXPORT_RULES_MAX; i++) {
        snprintf(text, sizeof(text), "share s%d.fh=0:00", i);
        assert_int_equal(hf_config_set(&config, text, error), 0);
    }
    expect_set_error("share more.fh=0:00", "--set share more.fh: more than 32 shares");
    assert_int_equal(hf_config_set(&config, "share s7.fh=1:00", error), 0);
}

static void values_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    assert_int_equal(hf_config_set(&config, "grace.mode=conflict", error), 0);
    assert_int_equal(hf_config_check(&config, error), 0);
    assert_int_equal(hf_config_set(&config, "locks.durable=no", error), 0);
    assert_true(hf_config_check(&config, error) < 0);
    assert_non_null(strstr(error, "grace.mode=conflict needs locks.durable=yes"));

    hf_config_init(&config);
    assert_int_equal(hf_config_set(&config, "store.path=", error), 0);
    assert_true(hf_config_check(&config, error) < 0);
    assert_int_equal(hf_config_set(&config, "store.backend=memory", error), 0);
    assert_int_equal(hf_config_check(&config, error), 0);
}

/* HA-01, HA-02: a standby needs a database, and must wait longer than an owner answers. */
static void a_standby_needs_a_lease_that_is_safe(void **state)
{
    (void)state;
    assert_int_equal(hf_config_set(&config, "cluster.mode=standby", error), 0);
    assert_true(hf_config_check(&config, error) < 0);
    assert_non_null(strstr(error, "store.backend=postgres"));
    assert_int_equal(hf_config_set(&config, "store.backend=postgres", error), 0);
    assert_int_equal(hf_config_check(&config, error), 0);
    assert_true(hf_config_has_conflict_grace(&config)); /* HA-06 */
    assert_int_equal(hf_config_set(&config, "cluster.take_ms=880", error), 0);
    assert_true(hf_config_check(&config, error) < 0);
    assert_non_null(strstr(error, "cluster.take_ms"));
    assert_int_equal(hf_config_set(&config, "cluster.take_ms=881", error), 0);
    assert_int_equal(hf_config_check(&config, error), 0);
    assert_int_equal(hf_config_set(&config, "cluster.renew_ms=400", error), 0);
    assert_true(hf_config_check(&config, error) < 0);
    assert_non_null(strstr(error, "cluster.renew_ms"));

    hf_config_init(&config);
    assert_false(hf_config_has_conflict_grace(&config));
}

static void expect_refusal(const char *first, const char *second, const char *said)
{
    hf_config_init(&config);
    assert_int_equal(hf_config_set(&config, first, error), 0);
    assert_int_equal(hf_config_set(&config, second, error), 0);
    assert_true(hf_config_check(&config, error) < 0);
    assert_non_null(strstr(error, said));
}

/* Given addresses of a service, they are listened on; what contradicts them is refused. */
static void a_service_has_addresses_of_its_own(void **state)
{
    (void)state;
    assert_ptr_equal(hf_config_served(&config), &config.listen);
    assert_int_equal(hf_config_set(&config, "cluster.addresses=192.0.2.7, 2001:db8::7", error), 0);
    assert_int_equal(hf_config_set(&config, "cluster.hook=/bin/true", error), 0);
    assert_int_equal(hf_config_check(&config, error), 0);
    assert_int_equal(hf_config_served(&config)->n, 2);
    assert_int_equal(hf_config_set(&config, "cluster.addresses=", error), 0);
    assert_ptr_equal(hf_config_served(&config), &config.listen);

    expect_refusal("cluster.addresses=192.0.2.7", "server.listen=192.0.2.1", "are both set");
    expect_refusal("cluster.addresses=", "cluster.hook=/bin/true", "no cluster.addresses");
    expect_refusal("cluster.addresses=", "cluster.service=a/b", "cluster.service must be of");
    expect_refusal("cluster.addresses=", "cluster.service=Files", "cluster.service must be of");
}

static void print_to_file(const struct hf_config *from)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    hf_config_print(from, file);
    fclose(file);
}

/* Given a configuration with every kind of value changed, printed and read it is the same. */
static void what_is_printed_can_be_read(void **state)
{
    static const char *const sets[] = {
        "server.name=nfs.example", "server.listen=192.0.2.1,2001:db8::1",
        "server.port=5045",        "rpcbind.mode=none",
        "grace.mode=conflict",     "notify.on_failure=keep",
        "limits.locks=77",         "log.format=json",
        "share a b.fh=3:00ff",     "access.allow=192.0.2.0/24,2001:db8::/32,10.1.2.3",
        "access.udp=no",           "limits.connections_per_host=7",
    };
    struct hf_config fresh;

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(sets); i++)
        assert_int_equal(hf_config_set(&config, sets[i], error), 0);
    print_to_file(&config);
    hf_config_init(&fresh);
    if (hf_config_read(&fresh, path, error) < 0)
        fail_msg("%s", error);
    assert_memory_equal(&fresh, &config, sizeof(config));
}

static void a_password_is_not_printed(void **state)
{
    char text[8192];
    FILE *file;

    (void)state;
    assert_int_equal(hf_config_set(&config, "store.dsn=password=secret", error), 0);
    print_to_file(&config);
    file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_null(strstr(text, "secret"));
    hf_config_init(&config);
    assert_int_equal(hf_config_read(&config, path, error), 0);
    assert_string_equal(config.dsn, "");
}

static char reported[512];

static void report(const char *key)
{
    strcat(strcat(reported, key), " ");
}

/* TRK-02: sections [client NAME]. */
static void clients_whose_address_changes(void **state)
{
    struct hf_config fresh;

    (void)state;
    hf_config_init(&config);
    assert_int_equal(read_text("[client web-1]\naddresses=192.0.2.0/24, 2001:db8::/64\n"
                               "[client web-2]\nat_once=yes\naddresses=192.0.2.0/24\n"),
                     0);
    assert_int_equal(hf_config_check(&config, error), 0);
    assert_int_equal(config.n_clients, 2);
    assert_int_equal(config.clients[0].addresses.n, 2);
    assert_true(!config.clients[0].at_once && config.clients[1].at_once);
    assert_int_equal(hf_config_set(&config, "client web-1.addresses=198.51.100.7", error), 0);
    assert_int_equal(config.clients[0].addresses.n, 1);
    assert_int_equal(config.n_clients, 2);

    expect_error("[client a]\naddress=192.0.2.1\n", 2, "client a.address: unknown key");
    expect_error("[client a]\naddresses=web\n", 2, "client a.addresses: \"web\" is not a network");
    expect_error("[client a]\naddresses=0.0.0.0/0\n", 2, "client a.addresses: a network of all");
    expect_error("[client a]\naddresses=127.0.0.1\n", 2, "client a.addresses: a loopback address");
    expect_error("[client a]\naddresses=\n", 2, "client a.addresses: empty");
    expect_error("[client a]\nat_once=maybe\n", 2, "client a.at_once: \"maybe\" is not no or yes");
    expect_error("[client a b]\naddresses=192.0.2.1\n", 2, "client a b.addresses: a client's name");
    expect_error("[client a]\naddresses=192.0.2.1\naddresses=192.0.2.2\n", 3,
                 "client a.addresses: set already at line 2");
    expect_error("[share a]\nfh=0:00\n[client a]\nat_once=no\n[share a]\nfh=1:00\n", 6,
                 "share a.fh: set already at line 2");
    expect_error("[client a]\naddresses=192.0.2.1\n[client A]\naddresses=192.0.2.2\n", 4,
                 "client A.addresses: [client a] and [client A] are one name");

    hf_config_init(&config);
    assert_int_equal(read_text("[client web-1]\nat_once=yes\n"), 0);
    assert_int_equal(hf_config_check(&config, error), HF_EINVAL);
    assert_non_null(strstr(error, "[client web-1] has no addresses="));
    hf_config_init(&fresh);
    reported[0] = '\0';
    hf_config_reload(&config, &fresh, report);
    assert_string_equal(reported, "client ");
}

/* A reload applies the keys that can change, and reports those that need a restart. */
static void a_reload_takes_what_can_change(void **state)
{
    struct hf_config fresh = config;

    (void)state;
    reported[0] = '\0';
    assert_int_equal(hf_config_set(&fresh, "log.level=debug", error), 0);
    assert_int_equal(hf_config_set(&fresh, "limits.clients=5", error), 0);
    assert_int_equal(hf_config_set(&fresh, "access.allow=192.0.2.0/24", error), 0);
    hf_config_reload(&config, &fresh, report);
    assert_string_equal(reported, "");
    assert_int_equal(config.allow.n, 1);
    assert_int_equal(config.log_level, HF_LOG_DEBUG);
    assert_int_equal(config.max_clients, 5);

    assert_int_equal(hf_config_set(&fresh, "server.port=1", error), 0);
    assert_int_equal(hf_config_set(&fresh, "store.path=/elsewhere", error), 0);
    assert_int_equal(hf_config_set(&fresh, "share s.fh=0:00", error), 0);
    hf_config_reload(&config, &fresh, report);
    assert_string_equal(reported, "server.port store.path share ");
    assert_int_equal(config.port, 4045);
    assert_string_equal(config.path, "/var/lib/holdfast");
    assert_int_equal(config.n_export_rules, 0);
}

/* SEC-06: networks have their usual notation; a network with host bits set is an error. */
static void networks_are_checked(void **state)
{
    static const char *const bad[] = {"192.0.2.0/33",  "192.0.2.1/24",   "192.0.2.0/",
                                      "/24",           "2001:db8::/129", "example.com",
                                      "192.0.2.0/24,", "192.0.2.0/2x",   "2001:db8::1:0/32"};
    struct hf_addr addr;

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(bad); i++) {
        char text[64];

        snprintf(text, sizeof(text), "access.allow=%s", bad[i]);
        assert_int_equal(hf_config_set(&config, text, error), HF_EINVAL);
        assert_non_null(strstr(error, "is not a network"));
    }
    assert_int_equal(hf_config_set(&config, "access.allow=192.0.2.128/25, 2001:db8::/33", error),
                     0);
    assert_int_equal(config.allow.n, 2);
    hf_addr_parse("192.0.2.200", &addr);
    assert_true(hf_network_contains(&config.allow.list[0], &addr));
    assert_false(hf_network_contains(&config.allow.list[1], &addr));
    hf_addr_parse("192.0.2.100", &addr);
    assert_false(hf_network_contains(&config.allow.list[0], &addr));
    hf_addr_parse("2001:db8:7fff::1", &addr);
    assert_true(hf_network_contains(&config.allow.list[1], &addr));
    hf_addr_parse("2001:db8:8000::1", &addr);
    assert_false(hf_network_contains(&config.allow.list[1], &addr));
    assert_int_equal(hf_config_set(&config, "access.allow=0.0.0.0/0", error), 0);
    hf_addr_parse("198.51.100.1", &addr);
    assert_true(hf_network_contains(&config.allow.list[0], &addr));
}

/* One address fewer is a change, too. */
static void a_reload_sees_every_change_of_addresses(void **state)
{
    struct hf_config fresh;

    (void)state;
    hf_config_init(&fresh);
    reported[0] = '\0';
    assert_int_equal(hf_config_set(&fresh, "server.listen=0.0.0.0", error), 0);
    hf_config_reload(&config, &fresh, report);
    assert_string_equal(reported, "server.listen ");
}

/* A shell would remove the quotes. But inih, like nfs.conf's reader, keeps them, and the value
 * would not match. */
static void quotes_around_a_value_are_refused(void **state)
{
    (void)state;
    expect_error("[server]\nname=\"server.example\"\n", 2, "server.name: the quotes");
    expect_error("[store]\npath='/var/lib/holdfast'\n", 2, "store.path: the quotes");
    expect_error("[share a]\nfh=\"0:00\"\n", 2, "share a.fh: the quotes");
    expect_set_error("admin.token_file=\"/etc/token\"", "--set admin.token_file: the quotes");
    assert_int_equal(read_text("[store]\ndsn=dbname=x options='-c a=b'\n"), 0);
}

/* Clients that read a restart notice with this name would take it for themselves. */
static void localhost_is_no_name_for_a_server(void **state)
{
    static const char *const names[] = {"localhost",     "LocalHost", "localhost.localdomain",
                                        "ip6-localhost", "127.0.0.1", "::1"};
    char assignment[64];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(assignment, sizeof(assignment), "server.name=%s", names[i]);
        assert_int_equal(hf_config_set(&config, assignment, error), 0);
        assert_int_equal(hf_config_check(&config, error), HF_EINVAL);
        assert_non_null(strstr(error, "mount us by"));
    }
    assert_int_equal(hf_config_set(&config, "server.name=localhost.example", error), 0);
    assert_int_equal(hf_config_check(&config, error), 0);
}

#define STORY(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(the_defaults_are_those_of_the_specification),
        STORY(a_file_sets_what_it_names),
        STORY(indented_keys_are_keys),
        STORY(errors_name_file_line_and_key),
        STORY(a_second_value_and_a_name_with_spaces_are_errors),
        STORY(the_first_error_is_the_one_reported),
        STORY(clients_whose_address_changes),
        STORY(an_overlong_line_is_refused),
        STORY(a_file_that_is_not_there_is_an_error),
        STORY(a_file_that_cannot_be_read_is_an_error),
        STORY(set_does_the_same_for_one_key),
        STORY(texts_are_bounded),
        STORY(shares_are_patterns_in_a_file_handle),
        STORY(a_bad_share_is_refused),
        STORY(shares_are_bounded),
        STORY(values_that_do_not_go_together_are_refused),
        STORY(a_standby_needs_a_lease_that_is_safe),
        STORY(a_service_has_addresses_of_its_own),
        STORY(what_is_printed_can_be_read),
        STORY(networks_are_checked),
        STORY(a_password_is_not_printed),
        STORY(a_reload_takes_what_can_change),
        STORY(quotes_around_a_value_are_refused),
        STORY(localhost_is_no_name_for_a_server),
        STORY(a_reload_sees_every_change_of_addresses),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
