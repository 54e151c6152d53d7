/*
 * The runner of the address hook (HA-04, HA-07): real processes, a real hook in sh, in a network of
 * its own. The hook writes each call into a file, which the tests read.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "addresses/addresses.h"
#include "addresses/private.h"
#include "base/clock.h"
#include "base/error.h"
#include "loop.h"

enum { FAR_MS = 3600 * 1000, SOON_MS = 400 };
/* The private network of the tests has this address on lo. */
static const char ADDRESS[] = "192.0.2.3";
static const char ADDRESS6[] = "2001:db8::2"; /* and this */

static char root[] = "/tmp/holdfast-addresses-XXXXXX";
/* Each test has its own folder, because the runner of the previous test may still write into its
 * own. */
static char folder[64];
static char calls[80]; /* the file that the hook writes into */
static struct hf_addresses_config config;
static struct hf_addresses *addresses;
static unsigned tests_run;

static struct {
    unsigned up, failed, down, gone;
    int error;
} seen;

/* What the runner, which is another process, is to meet as well. */
static struct {
    uint64_t later_ms; /* so much later is it than the clock says */
    unsigned crowded;  /* so many times the kernel had more news than a socket could hold */
    unsigned interrupted_lists; /* so many lists of addresses are empty, marked as interrupted */
} * common;

static void on_event(void *ctx, enum hf_addresses_event event, int error)
{
    (void)ctx;
    seen.up += event == HF_ADDRESSES_UP;
    seen.failed += event == HF_ADDRESSES_FAILED;
    seen.down += event == HF_ADDRESSES_DOWN;
    seen.gone += event == HF_ADDRESSES_GONE;
    seen.error = error;
}

/* ---- the hook ---- */

/* $1 is the verb, $2 the service, the rest the addresses. The first line of each call is logged. */
static void write_hook(const char *body)
{
    FILE *file;

    static unsigned n;

    (void)snprintf(config.hook, sizeof(config.hook), "%s/hook%u", folder, ++n);
    file = fopen(config.hook, "w");
    assert_non_null(file);
    (void)fprintf(file, "#!/bin/sh\necho \"$@\" >>%s\n%s\n", calls, body);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(config.hook, 0755), 0);
}

/* Writes a hook that takes ADDRESS, and the first time changes this address as well. */
static void write_hook_whose_first_take_also(const char *change, const char *address,
                                             const char *rest)
{
    char body[512];

    (void)snprintf(body, sizeof(body),
                   "[ $1 = take ] || exit 0\n"
                   "ip address replace %s/32 dev lo\n"
                   "[ $(grep -c take \"$(dirname $0)/calls\") = 1 ] || exit 0\n"
                   "ip address %s %s%s",
                   ADDRESS, change, address, rest);
    write_hook(body);
}

static const char *read_file(const char *path)
{
    static char text[8192];
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

    if (file)
        assert_int_equal(fclose(file), 0);
    text[n] = '\0';
    return text;
}

static unsigned count_calls(const char *verb)
{
    const char *text = read_file(calls);
    unsigned n = 0;

    for (const char *at = text; (at = strstr(at, verb)); at++)
        n += at == text || at[-1] == '\n';
    return n;
}

static long number_in(const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return strtol(read_file(path), NULL, 10);
}

/* ---- a process that can be gone ---- */

/* True if the process has ended; also for a zombie whose parent has not looked yet. */
static bool is_gone(long pid)
{
    char path[96];
    const char *state;

    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    state = strrchr(read_file(path), ')');
    return !state || state[2] == 'Z' || state[2] == 'X';
}

static bool has_address(const char *text)
{
    struct hf_addr addr;
    struct sockaddr_storage sa;
    unsigned len;
    int fd;
    int rv;

    assert_int_equal(hf_addr_parse(text, &addr), 0);
    len = hf_addr_to_sockaddr(&addr, &sa);
    fd = socket(sa.ss_family, SOCK_DGRAM, 0);
    rv = bind(fd, (struct sockaddr *)&sa, len);
    close(fd);
    return rv == 0;
}

static uint64_t in(uint64_t ms)
{
    return hf_clock_boot_ms() + ms;
}

static void start(void)
{
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(hf_addresses_start(&config, &addresses), 0);
    assert_int_equal(hf_addresses_attach(addresses, &loop, on_event, NULL), 0);
    TURN_UNTIL(seen.down == 1);
}

static void take(void)
{
    hf_addresses_take(addresses, in(FAR_MS));
    TURN_UNTIL(seen.up == 1);
}

static int setup(void **state)
{
    (void)state;
    memset(common, 0, sizeof(*common));
    loop_begin();
    (void)snprintf(folder, sizeof(folder), "%s/%u", root, ++tests_run);
    (void)snprintf(calls, sizeof(calls), "%s/calls", folder);
    assert_int_equal(mkdir(folder, 0755), 0);
    memset(&config, 0, sizeof(config));
    (void)snprintf(config.service, sizeof(config.service), "files");
    (void)hf_addr_parse(ADDRESS, &config.addresses[0]);
    (void)hf_addr_parse(ADDRESS6, &config.addresses[1]);
    config.n_addresses = 2;
    write_hook("exit 0");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (addresses)
        hf_addresses_stop(addresses);
    addresses = NULL;
    loop_end();
    return 0;
}

/* ---- stories ---- */

static void the_hook_is_called_as_documented(void **state)
{
    (void)state;
    start();
    assert_string_equal(read_file(calls), "drop files 192.0.2.3 2001:db8::2\n");
    take();
    assert_int_equal(count_calls("take files 192.0.2.3 2001:db8::2\n"), 1);
    hf_addresses_drop(addresses);
    TURN_UNTIL(seen.down == 2);
    assert_int_equal(seen.error, 0);
    assert_int_equal(count_calls("drop files 192.0.2.3 2001:db8::2\n"), 2);
    /* The addresses are down, which is reported again without calling the hook. */
    hf_addresses_drop(addresses);
    TURN_UNTIL(seen.down == 3);
    assert_int_equal(count_calls("drop"), 2);
}

/* HA-04b */
static void a_lease_that_runs_out_drops_them(void **state)
{
    (void)state;
    start();
    hf_addresses_take(addresses, in(SOON_MS));
    TURN_UNTIL(seen.down == 2);
    assert_int_equal(count_calls("drop"), 2);
    /* The renewal comes too late: a new take is needed. */
    hf_addresses_renew(addresses, in(FAR_MS));
    turn_a_while();
    assert_int_equal(count_calls("take"), seen.up);
    hf_addresses_take(addresses, in(FAR_MS));
    TURN_UNTIL(seen.up == count_calls("take") && seen.up > 0);
}

static void a_lease_that_is_renewed_keeps_them(void **state)
{
    uint64_t first = in(2000);

    (void)state;
    start();
    hf_addresses_take(addresses, first);
    hf_addresses_renew(addresses, in(FAR_MS));
    TURN_UNTIL(seen.up == 1 && hf_clock_boot_ms() > first + 50);
    turn_a_while();
    assert_int_equal(seen.down, 1);
    assert_int_equal(count_calls("drop"), 1);
}

/* A renewal that was overtaken by a longer one changes nothing. */
static void a_renewal_that_was_overtaken_changes_nothing(void **state)
{
    uint64_t before;

    (void)state;
    start();
    take();
    before = in(SOON_MS);
    hf_addresses_renew(addresses, before);
    TURN_UNTIL(hf_clock_boot_ms() > before + 2 * SOON_MS);
    turn_a_while();
    assert_int_equal(seen.down, 1);
    assert_int_equal(count_calls("drop"), 1);
}

static void a_lease_that_is_over_takes_nothing(void **state)
{
    (void)state;
    start();
    hf_addresses_take(addresses, hf_clock_boot_ms());
    TURN_UNTIL(seen.down == 2);
    assert_int_equal(count_calls("take"), 0);
    assert_int_equal(seen.up, 0);
}

/* A report of DOWN answers the newest request, so the last report always tells how things are. */
static void a_take_overrides_a_drop_that_it_crosses(void **state)
{
    (void)state;
    /* The take arrives while the hook of the drop still runs. */
    write_hook("[ $1 = take ] || sleep 0.4");
    start();
    take();
    for (unsigned i = 0; i < 3; i++) {
        unsigned down = seen.down;
        unsigned up = seen.up;
        unsigned drops = count_calls("drop");

        hf_addresses_drop(addresses);
        if (i > 0) /* otherwise the runner may read both requests together, and drops nothing */
            TURN_UNTIL(count_calls("drop") > drops);
        hf_addresses_take(addresses, in(FAR_MS));
        TURN_UNTIL(seen.up == up + 1);
        assert_int_equal(seen.down, down);
    }
}

static void a_hook_that_fails(void **state)
{
    (void)state;
    write_hook("[ $1 = drop ]");
    start();
    hf_addresses_take(addresses, in(FAR_MS));
    TURN_UNTIL(seen.failed == 1);
    assert_int_equal(seen.error, HF_EIO);
    /* The hook may have done something before it failed, and that is undone. */
    TURN_UNTIL(seen.down == 2);
    assert_int_equal(count_calls("drop"), 2);
}

static void a_hook_that_is_missing(void **state)
{
    (void)state;
    (void)snprintf(config.hook, sizeof(config.hook), "%s/no-such-hook", folder);
    start();
    /* The hook failed, and yet the addresses are known to be down. */
    assert_int_equal(seen.error, HF_ENOENT);
    hf_addresses_take(addresses, in(FAR_MS));
    TURN_UNTIL(seen.failed == 1 && seen.down == 2);
}

static void a_hook_that_hangs_is_killed_with_its_children(void **state)
{
    char body[256];

    (void)state;
    config.take_ms = 300;
    (void)snprintf(body, sizeof(body),
                   "[ $1 = drop ] && exit\necho $$ >%s/pid\nsleep 1000 &\necho $! >%s/child\nwait",
                   folder, folder);
    write_hook(body);
    start();
    hf_addresses_take(addresses, in(FAR_MS));
    TURN_UNTIL(seen.failed == 1);
    assert_int_equal(seen.error, HF_ETIMEDOUT);
    TURN_UNTIL(seen.down == 2);
    assert_true(is_gone(number_in("pid")));
    TURN_UNTIL(is_gone(number_in("child")));
}

static void a_drop_interrupts_a_hook_that_hangs(void **state)
{
    (void)state;
    config.take_ms = FAR_MS;
    write_hook("[ $1 = drop ] || exec sleep 1000");
    start();
    hf_addresses_take(addresses, in(FAR_MS));
    TURN_UNTIL(count_calls("take") == 1);
    hf_addresses_drop(addresses);
    TURN_UNTIL(seen.down == 2);
    assert_int_equal(seen.up + seen.failed, 0);
}

static void addresses_go_although_the_hook_hangs(void **state)
{
    char path[96];
    char body[256];

    (void)state;
    config.drop_ms = FAR_MS;
    (void)snprintf(path, sizeof(path), "ip address add %s/32 dev lo", ADDRESS);
    (void)!system(path); /* this fails if the address is there already */
    assert_true(has_address(ADDRESS));
    (void)snprintf(body, sizeof(body), "echo $$ >%s/pid\n[ $1 = take ] || exec sleep 1000", folder);
    write_hook(body);
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(hf_addresses_start(&config, &addresses), 0);
    assert_int_equal(hf_addresses_attach(addresses, &loop, on_event, NULL), 0);
    TURN_UNTIL(!has_address(ADDRESS) && !has_address(ADDRESS6));
    assert_int_equal(seen.down, 0); /* the hook has not ended yet */
    TURN_UNTIL(count_calls("drop") == 1 && number_in("pid") > 0);
    kill((pid_t)number_in("pid"), SIGKILL);
}

/* True if the kernel's policy has rules that bar the IPv6 address, and none of its neighbours. */
static bool is_barred(void)
{
    char line[64] = "";
    FILE *rules = popen("ip -6 rule show from 2001:db8::2/128", "r");

    assert_non_null(rules);
    (void)!fgets(line, sizeof(line), rules);
    (void)pclose(rules);
    return strstr(line, "blackhole");
}

/* The runner bars a dropped IPv6 address whatever the hook does: Linux would go on sending from it.
 */
static void nothing_leaves_from_a_dropped_ipv6_address(void **state)
{
    (void)state;
    start();
    assert_true(is_barred());
    take();
    assert_false(is_barred());
    hf_addresses_drop(addresses);
    TURN_UNTIL(seen.down == 2);
    assert_true(is_barred());
    hf_addresses_take(addresses, in(FAR_MS));
    TURN_UNTIL(seen.up == 2);
    assert_false(is_barred());
}

static void a_hook_that_hangs_in_drop_is_reported(void **state)
{
    (void)state;
    config.drop_ms = 200;
    config.take_ms = FAR_MS; /* each verb has its own time */
    write_hook("[ $1 = take ] || exec sleep 1000");
    start();
    assert_int_equal(seen.error, HF_ETIMEDOUT);
}

/* ---- the daemon, as a process that a test can kill ---- */

/* Takes the addresses, and renews its lease of SOON_MS until it is stopped or killed. */
static pid_t start_daemon(uint64_t lease_ms)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (hf_addresses_start(&config, &addresses) < 0)
        _exit(1);
    hf_addresses_take(addresses, in(lease_ms));
    for (;;) {
        hf_addresses_renew(addresses, in(lease_ms));
        usleep(20 * 1000);
    }
}

static void a_killed_daemon_leaves_no_address(void **state)
{
    char body[256];
    pid_t daemon;
    long runner;

    (void)state;
    /* A rename replaces the file at once, because the test reads it while the next call of the hook
     * writes it. */
    (void)snprintf(body, sizeof(body), "echo $PPID >%s/new && mv %s/new %s/runner", folder, folder,
                   folder);
    write_hook(body);
    daemon = start_daemon(FAR_MS);
    TURN_UNTIL(count_calls("take") == 1);
    assert_int_equal(count_calls("drop"), 1);
    runner = number_in("runner");
    assert_false(is_gone(runner));
    kill(daemon, SIGKILL);
    assert_int_equal(waitpid(daemon, NULL, 0), daemon);
    TURN_UNTIL(count_calls("drop") == 2);
    TURN_UNTIL(is_gone(runner));
}

/* A daemon that was taken over may have passed its socket on, by SCM_RIGHTS: the addresses go all
 * the same. */
static void a_copy_of_the_socket_keeps_no_address(void **state)
{
    pid_t daemon = fork();

    (void)state;
    if (daemon == 0) {
        if (hf_addresses_start(&config, &addresses) < 0)
            _exit(1);
        hf_addresses_take(addresses, in(FAR_MS));
        if (fork() != 0)
            pause();
        prctl(PR_SET_PDEATHSIG, 0);
        for (;;) {
            hf_addresses_take(addresses, in(FAR_MS));
            usleep(20 * 1000);
            if (count_calls("drop") == 2)
                _exit(0);
        }
    }
    TURN_UNTIL(count_calls("take") >= 2);
    kill(daemon, SIGKILL);
    assert_int_equal(waitpid(daemon, NULL, 0), daemon);
    TURN_UNTIL(count_calls("drop") == 2);
}

/* Processes that a call of the hook leaves in the background end with the next call. */
static void calls_of_the_hook_leave_no_crowd(void **state)
{
    char body[256];
    long children[3];

    (void)state;
    (void)snprintf(body, sizeof(body), "sleep 1000 >/dev/null 2>&1 &\necho $! >%s/child", folder);
    write_hook(body);
    start();
    for (unsigned i = 0; i < 3; i++) {
        hf_addresses_take(addresses, in(FAR_MS));
        TURN_UNTIL(seen.up == 1 + i);
        children[i] = number_in("child");
        assert_false(is_gone(children[i]));
    }
    TURN_UNTIL(is_gone(children[0]) && is_gone(children[1]));
    hf_addresses_drop(addresses);
    TURN_UNTIL(seen.down == 2 && is_gone(children[2]));
    kill((pid_t)number_in("child"), SIGKILL);
}

static int socket_of(const struct hf_addresses *a)
{
    int fd;

    memcpy(&fd, a, sizeof(fd)); /* its first member */
    return fd;
}

/* A runner that was taken over can say that addresses are up, down or refused, and nothing else. */
static void nonsense_of_a_runner_is_its_end(void **state)
{
    static const struct hf_addresses_answer strange[] = {
        {.event = HF_ADDRESSES_GONE}, {.event = 77}, {.event = UINT32_MAX, .error = INT32_MIN}};
    char large[64] = "";
    int pair[2];

    (void)state;
    for (unsigned i = 0; i < 3 + 4; i++) {
        start();
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        hf_addresses_detach(addresses);
        /* The runner's true end of the connection sees the close. */
        assert_true(dup2(pair[0], socket_of(addresses)) >= 0);
        close(pair[0]);
        assert_int_equal(hf_addresses_attach(addresses, &loop, on_event, NULL), 0);
        hf_addresses_take(addresses, in(FAR_MS));
        if (i < 3)
            (void)send(pair[1], &strange[i], sizeof(strange[i]), 0);
        else
            (void)send(pair[1], large, i == 3 ? 0 : i == 4 ? 1 : i == 5 ? 13 : sizeof(large), 0);
        TURN_UNTIL(seen.gone == 1);
        assert_int_equal(seen.up + seen.failed, 0);
        hf_addresses_stop(addresses);
        addresses = NULL;
        close(pair[1]);
    }
}

/* A message that no daemon sends ends the runner, as the daemon's end does, and drops the
 * addresses. */
static void nonsense_drops_the_addresses(void **state)
{
    struct hf_addresses_request request = {.order = 77, .take = 1, .valid_until_ms = UINT64_MAX};
    char large[4096] = "";
    int socket;

    (void)state;
    for (size_t size = 0; size <= sizeof(large); size = size ? size * 4 : 1) {
        start();
        socket = socket_of(addresses);
        assert_int_equal(send(socket, &request, sizeof(request), 0), sizeof(request));
        take(); /* an unknown order does nothing */
        if (size == sizeof(request))
            size++;
        assert_int_equal(send(socket, large, size, 0), size);
        TURN_UNTIL(seen.gone == 1 && count_calls("drop") == 2);
        hf_addresses_stop(addresses);
        addresses = NULL;
        assert_int_equal(unlink(calls), 0);
    }
}

static void a_stopped_daemon_leaves_no_address(void **state)
{
    pid_t daemon;

    (void)state;
    daemon = start_daemon(SOON_MS);
    TURN_UNTIL(count_calls("take") >= 1);
    kill(daemon, SIGSTOP);
    TURN_UNTIL(count_calls("drop") >= 2);
    kill(daemon, SIGCONT); /* renewals of a daemon that was stopped too long bring nothing back */
    turn_a_while();
    assert_int_equal(count_calls("take"), 1);
    kill(daemon, SIGKILL);
    assert_int_equal(waitpid(daemon, NULL, 0), daemon);
}

static void signals_of_a_stop_do_not_end_the_runner(void **state)
{
    char body[128];

    (void)state;
    (void)snprintf(body, sizeof(body), "echo $PPID >%s/runner", folder);
    write_hook(body);
    start();
    take();
    kill((pid_t)number_in("runner"), SIGTERM);
    kill((pid_t)number_in("runner"), SIGINT);
    hf_addresses_drop(addresses);
    TURN_UNTIL(seen.down == 2);
    assert_int_equal(seen.gone, 0);
    kill((pid_t)number_in("runner"), SIGKILL);
    TURN_UNTIL(seen.gone == 1);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void the_hook_has_what_it_needs_and_no_more(void **state)
{
    enum { MANY = 40 }; /* more variables than a hook gets */
    char path[96];
    char body[512];
    char name[32];
    unsigned n = 0;
    int leak = open("/dev/null", O_RDONLY); /* a file of the daemon that lacks O_CLOEXEC */

    (void)state;
    (void)snprintf(
        body, sizeof(body),
        "grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status >%s/status\n"
        "ls /proc/$$/fd >%s/files; env >%s/env", /* the hook must not use a pipe here: it would be
                                                    one more open file of the shell */
        folder, folder, folder);
    write_hook(body);
    assert_int_equal(setenv("HOLDFAST_INTERFACE", "eth7", 1), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", "/run/none", 1), 0);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "HOLDFAST_%u", i);
        assert_int_equal(setenv(name, "many", 1), 0);
    }
    start();
    close(leak);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "HOLDFAST_%u", i);
        (void)unsetenv(name);
    }
    (void)snprintf(path, sizeof(path), "%s/status", folder);
    assert_non_null(strstr(read_file(path), "CapEff:\t0000000000003000")); /* NET_ADMIN, NET_RAW */
    assert_non_null(strstr(read_file(path), "CapBnd:\t0000000000003000"));
    assert_non_null(strstr(read_file(path), "NoNewPrivs:\t1"));
    (void)snprintf(path, sizeof(path), "%s/files", folder);
    assert_null(strchr(read_file(path), '3')); /* the shell has the script itself as file 10 */
    (void)snprintf(path, sizeof(path), "%s/env", folder);
    assert_non_null(strstr(read_file(path), "HOLDFAST_INTERFACE=eth7"));
    assert_null(strstr(read_file(path), "NOTIFY_SOCKET"));
    for (const char *at = read_file(path); (at = strstr(at, "=many")); at++)
        n++;
    assert_true(n >= 20 && n < MANY);
}

/* ---- an address that is lost while it should be up ---- */

static void change(const char *verb, const char *address)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "ip address %s %s dev lo %s", verb, address,
                   strchr(address, ':') ? "nodad" : "");
    assert_int_equal(system(command), 0);
}

/* Writes a hook that adds and removes addresses as the shipped one does. */
static void write_real_hook(const char *more)
{
    char body[512];

    (void)snprintf(body, sizeof(body),
                   "[ $1 = take ] || exit 0\n%s\n"
                   "ip address replace %s/32 dev lo && ip address replace %s/128 dev lo nodad",
                   more, ADDRESS, ADDRESS6);
    write_hook(body);
}

static void a_lost_address_is_taken_again(void **state)
{
    static const char *const both[] = {ADDRESS, ADDRESS6};

    (void)state;
    write_real_hook("");
    start();
    take();
    for (unsigned i = 0; i < 2; i++) {
        change("del", both[i]);
        assert_false(has_address(both[i]));
        /* The daemon is told each time, because it then repeats calls that got no answer. */
        TURN_UNTIL(seen.up == 2 + i);
        assert_true(has_address(both[i]));
    }
    assert_int_equal(count_calls("take"), 3);
    change("add", "192.0.2.200/32"); /* this address is none of the service's */
    change("del", "192.0.2.200/32");
    hf_addresses_drop(addresses);
    TURN_UNTIL(seen.down == 2);
    assert_int_equal(count_calls("take"), 3);
    assert_int_equal(seen.failed, 0);
}

/* The hook adds an address and goes on to announce it; meanwhile the address is lost. */
static void an_address_that_is_lost_while_the_hook_runs(void **state)
{
    (void)state;
    write_hook_whose_first_take_also("del", ADDRESS, "/32 dev lo");
    start();
    take();
    TURN_UNTIL(seen.up == 2);
    assert_true(has_address(ADDRESS));
    assert_int_equal(seen.failed, 0);
}

/* An address is lost and cannot be taken again: the service goes to another node, which can be
 * reached. */
static void a_lost_address_that_cannot_be_taken_again(void **state)
{
    (void)state;
    write_real_hook("[ $(grep -c take \"$(dirname $0)/calls\") = 1 ] || exit 0");
    start();
    take();
    change("del", "192.0.2.3/32");
    TURN_UNTIL(seen.failed == 1 && seen.down == 2);
    assert_false(has_address(ADDRESS6));
}

static void an_address_that_is_lost_again_and_again(void **state)
{
    (void)state;
    write_real_hook("");
    start();
    take();
    for (unsigned i = 1; seen.failed == 0; i++) {
        change("del", "192.0.2.3/32");
        TURN_UNTIL(seen.up == 1 + i || seen.failed == 1);
    }
    assert_int_equal(seen.up, 4);
    TURN_UNTIL(seen.down == 2);
}

/* ---- one runner on a host ---- */

static void a_second_runner_takes_nothing_away(void **state)
{
    struct hf_addresses *second = NULL;
    struct hf_addresses_config again;

    (void)state;
    write_real_hook("");
    start();
    take();
    again = config;
    again.lock_ms = 100;
    assert_int_equal(hf_addresses_start(&again, &second), HF_EBUSY);
    assert_int_equal(hf_addresses_clear(&again), HF_EBUSY);
    (void)hf_addr_parse("192.0.2.201",
                        /* Another service that has one of the addresses, too. */
                        &again.addresses[0]);
    assert_int_equal(hf_addresses_start(&again, &second), HF_EBUSY);
    assert_true(has_address(ADDRESS) && has_address(ADDRESS6));
    assert_int_equal(count_calls("drop"), 1);
}

/* Daemon and runner were killed at once: systemd then calls what clears the addresses
 * (ExecStopPost=). */
static void what_killed_processes_left_is_cleared(void **state)
{
    char more[128];
    pid_t daemon;

    (void)state;
    (void)snprintf(more, sizeof(more), "echo $PPID >%s/runner", folder);
    write_real_hook(more);
    daemon = start_daemon(FAR_MS);
    TURN_UNTIL(count_calls("take") == 1 && number_in("runner") > 0);
    TURN_UNTIL(has_address(ADDRESS) && has_address(ADDRESS6));
    kill(daemon, SIGSTOP);
    kill((pid_t)number_in("runner"), SIGKILL);
    kill(daemon, SIGKILL);
    assert_int_equal(waitpid(daemon, NULL, 0), daemon);
    TURN_UNTIL(is_gone(number_in("runner")));
    assert_true(has_address(ADDRESS) && has_address(ADDRESS6));
    assert_int_equal(hf_addresses_clear(&config), 0);
    assert_false(has_address(ADDRESS) || has_address(ADDRESS6));
}

/* ---- log lines ---- */

/* Makes standard error a file of the test, for the processes that begin from now on. */
static int redirect(int to)
{
    int before = dup(STDERR_FILENO);

    assert_true(before >= 0 && dup2(to, STDERR_FILENO) >= 0);
    close(to);
    return before;
}

static void what_is_removed_is_logged(void **state)
{
    char path[96];
    int before;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/log", folder);
    (void)hf_addresses_clear(&config);
    change("add", "192.0.2.3/25");
    before = redirect(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600));
    assert_int_equal(hf_addresses_clear(&config), 0);
    (void)redirect(before);
    assert_non_null(strstr(read_file(path), "address removed address=192.0.2.3 prefix=25 "
                                            "interface=lo reason=\"left by an earlier process"));
}

/* The reader of the log has stopped, as a journal may: the runner must not wait for it. */
static void a_full_log_keeps_no_address(void **state)
{
    char bytes[4096] = "";
    int ends[2];
    int before;
    pid_t daemon;

    (void)state;
    write_real_hook("");
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    while (write(ends[1], bytes, sizeof(bytes)) > 0)
        ;
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    before = redirect(ends[1]);
    daemon = start_daemon(FAR_MS);
    (void)redirect(before);
    TURN_UNTIL(count_calls("take") == 1);
    TURN_UNTIL(has_address(ADDRESS) && has_address(ADDRESS6));
    kill(daemon, SIGKILL);
    assert_int_equal(waitpid(daemon, NULL, 0), daemon);
    TURN_UNTIL(!has_address(ADDRESS) && !has_address(ADDRESS6));
    close(ends[0]);
}

/* ---- messages of the kernel ---- */

uint64_t __real_hf_clock_boot_ms(void);
uint64_t __wrap_hf_clock_boot_ms(void);

uint64_t __wrap_hf_clock_boot_ms(void)
{
    return __real_hf_clock_boot_ms() + common->later_ms;
}

ssize_t __real_recv(int fd, void *out, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *out, size_t size, int flags);

/* Reads news as the kernel hands them out if there were too many: all of them are lost. */
static ssize_t lose_news(int fd, void *out, size_t size)
{
    while (__real_recv(fd, out, size, MSG_DONTWAIT) > 0)
        ;
    common->crowded--;
    errno = ENOBUFS;
    return -1;
}

ssize_t __wrap_recv(int fd, void *out, size_t size, int flags)
{
    struct nlmsghdr *message = out;
    ssize_t n;

    if (flags == MSG_DONTWAIT && common->crowded > 0)
        return lose_news(fd, out, size);
    n = __real_recv(fd, out, size, flags);
    if (n < (ssize_t)sizeof(*message) || common->interrupted_lists == 0 ||
        !(message->nlmsg_flags & NLM_F_MULTI))
        return n;
    while (message->nlmsg_type != NLMSG_DONE) /* reads to the end of the kernel's list */
        (void)__real_recv(fd, out, size, flags);
    message->nlmsg_flags |= NLM_F_DUMP_INTR;
    common->interrupted_lists--;
    return (ssize_t)message->nlmsg_len;
}

/* Losses that lie far apart say nothing about this node. */
static void losses_that_lie_far_apart_do_not_add_up(void **state)
{
    (void)state;
    write_real_hook("");
    start();
    take();
    for (unsigned i = 1; i <= 5; i++) {
        change("del", "192.0.2.3/32");
        /* The renewals wake the runner, whose timer waits for a time that only the clock here has.
         */
        TURN_UNTIL((hf_addresses_renew(addresses, in(FAR_MS)), seen.up > i || seen.failed > 0));
        assert_int_equal(seen.failed, 0);
        common->later_ms += 61000;
    }
}

/* ENOBUFS: what was lost may be the news that an address went. */
static void news_that_found_no_room_are_looked_after(void **state)
{
    (void)state;
    write_real_hook("");
    start();
    take();
    turn_a_while(); /* the news of the take are read */
    common->crowded = 1;
    change("del", "192.0.2.3/32");
    TURN_UNTIL(seen.up == 2);
    assert_int_equal(common->crowded, 0);
    assert_true(has_address(ADDRESS));
}

/* A hook may leave an address out that it took before: nothing is missing then. */
static void what_the_host_had_before_a_drop_does_not_count(void **state)
{
    (void)state;
    write_hook_whose_first_take_also("replace", ADDRESS6, "/128 dev lo nodad");
    start();
    take();
    assert_true(has_address(ADDRESS) && has_address(ADDRESS6));
    hf_addresses_drop(addresses);
    TURN_UNTIL(seen.down == 2);
    hf_addresses_take(addresses, in(FAR_MS));
    TURN_UNTIL(seen.up == 2 || seen.failed > 0);
    assert_int_equal(seen.failed, 0);
    assert_true(has_address(ADDRESS) && !has_address(ADDRESS6));
}

/* However often the drop has failed while the daemon lived, a runner that is left alone has all of
 * its attempts. */
static void a_runner_that_is_left_alone_begins_its_attempts_anew(void **state)
{
    unsigned drops;

    (void)state;
    write_real_hook("");
    start();
    take();
    common->interrupted_lists = ~0U;
    hf_addresses_drop(addresses);
    TURN_UNTIL((common->later_ms += 20, hf_addresses_renew(addresses, in(FAR_MS)),
                count_calls("drop") >= 28));
    hf_addresses_stop(addresses);
    addresses = NULL;
    drops = count_calls("drop");
    TURN_UNTIL(count_calls("drop") >= drops + 2);
    assert_true(has_address(ADDRESS));
    common->interrupted_lists = 0;
    TURN_UNTIL(!has_address(ADDRESS) && !has_address(ADDRESS6));
}

static void an_interrupted_list_proves_nothing(void **state)
{
    int both = 3;

    (void)state;
    (void)hf_addresses_clear(&config);
    change("add", ADDRESS);
    change("add", ADDRESS6);
    common->interrupted_lists = 1;
    assert_int_equal(hf_addresses_present(config.addresses, 2), both);
    common->interrupted_lists = 1;
    assert_int_equal(hf_addresses_remove(config.addresses, 2, HF_LOG_DEBUG, "a test"), 0);
    assert_false(has_address(ADDRESS) || has_address(ADDRESS6));
    common->interrupted_lists = ~0U;
    assert_int_equal(hf_addresses_remove(config.addresses, 2, HF_LOG_DEBUG, "a test"), HF_EBUSY);
    common->interrupted_lists = 0;
}

/* The kernel removes all addresses of a network with the first of them, if it is told to. */
static void the_hosts_own_address_stays(void **state)
{
    struct hf_addr own;

    (void)state;
    (void)hf_addresses_clear(&config);
    assert_int_equal(system("for i in all lo; do "
                            "echo 0 >/proc/sys/net/ipv4/conf/$i/promote_secondaries; done"),
                     0);
    change("add", "192.0.2.3/25");
    change("add", "192.0.2.77/25");
    assert_int_equal(hf_addresses_remove(config.addresses, 2, HF_LOG_DEBUG, "a test"), 0);
    assert_int_equal(hf_addresses_present(config.addresses, 2), 0);
    (void)hf_addr_parse("192.0.2.77", &own);
    assert_int_equal(hf_addresses_present(&own, 1), 1);
    change("del", "192.0.2.77/25");
}

/* On a link with two ends the kernel tells both addresses: the host's own is the one that counts.
 */
static void the_other_end_of_a_link_is_not_the_hosts(void **state)
{
    struct hf_addr other;

    (void)state;
    (void)hf_addresses_clear(&config);
    change("add", "192.0.2.3 peer 192.0.2.66/32");
    assert_int_equal(hf_addresses_present(config.addresses, 2), 1);
    (void)hf_addr_parse("192.0.2.66", &other);
    assert_int_equal(hf_addresses_present(&other, 1), 0);
    assert_int_equal(hf_addresses_remove(config.addresses, 2, HF_LOG_DEBUG, "a test"), 0);
    assert_int_equal(hf_addresses_present(config.addresses, 2), 0);
}

/* The configuration may name an address twice: that does not make it another runner's. */
static void an_address_that_is_named_twice(void **state)
{
    (void)state;
    config.lock_ms = 100;
    config.addresses[2] = config.addresses[0];
    config.n_addresses = 3;
    start();
    assert_string_equal(read_file(calls), "drop files 192.0.2.3 2001:db8::2 192.0.2.3\n");
}

static void a_second_life_hears_what_happened_between(void **state)
{
    (void)state;
    start();
    take();
    hf_addresses_detach(addresses);
    hf_addresses_drop(addresses);
    assert_int_equal(hf_addresses_attach(addresses, &loop, on_event, NULL), 0);
    TURN_UNTIL(seen.down == 2);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_hook_is_called_as_documented),
        TEST(a_lease_that_runs_out_drops_them),
        TEST(a_lease_that_is_renewed_keeps_them),
        TEST(a_renewal_that_was_overtaken_changes_nothing),
        TEST(a_lease_that_is_over_takes_nothing),
        TEST(a_take_overrides_a_drop_that_it_crosses),
        TEST(a_hook_that_fails),
        TEST(a_hook_that_is_missing),
        TEST(a_hook_that_hangs_is_killed_with_its_children),
        TEST(a_drop_interrupts_a_hook_that_hangs),
        TEST(addresses_go_although_the_hook_hangs),
        TEST(nothing_leaves_from_a_dropped_ipv6_address),
        TEST(a_hook_that_hangs_in_drop_is_reported),
        TEST(a_killed_daemon_leaves_no_address),
        TEST(a_copy_of_the_socket_keeps_no_address),
        TEST(calls_of_the_hook_leave_no_crowd),
        TEST(nonsense_drops_the_addresses),
        TEST(nonsense_of_a_runner_is_its_end),
        TEST(a_stopped_daemon_leaves_no_address),
        TEST(signals_of_a_stop_do_not_end_the_runner),
        TEST(the_hook_has_what_it_needs_and_no_more),
        TEST(a_second_life_hears_what_happened_between),
        TEST(a_lost_address_is_taken_again),
        TEST(an_address_that_is_lost_while_the_hook_runs),
        TEST(a_lost_address_that_cannot_be_taken_again),
        TEST(an_address_that_is_lost_again_and_again),
        TEST(a_second_runner_takes_nothing_away),
        TEST(what_killed_processes_left_is_cleared),
        TEST(what_is_removed_is_logged),
        TEST(a_full_log_keeps_no_address),
        TEST(an_interrupted_list_proves_nothing),
        TEST(losses_that_lie_far_apart_do_not_add_up),
        TEST(news_that_found_no_room_are_looked_after),
        TEST(what_the_host_had_before_a_drop_does_not_count),
        TEST(a_runner_that_is_left_alone_begins_its_attempts_anew),
        TEST(the_hosts_own_address_stays),
        TEST(the_other_end_of_a_link_is_not_the_hosts),
        TEST(an_address_that_is_named_twice),
    };
    char command[96];
    int failed;

    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED || !mkdtemp(root))
        return 1;
    failed = cmocka_run_group_tests_name("addresses", tests, NULL, NULL);
    (void)snprintf(command, sizeof(command), "rm -rf %s", root);
    return failed || system(command) != 0;
}
