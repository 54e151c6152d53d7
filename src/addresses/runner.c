/*
 * The runner is one loop over four sources: the daemon's requests, the end of the hook, the clock,
 * and what the kernel tells of the host's addresses. Each turn compares the state that is wanted
 * with the state there is, and takes the next step.
 */
#include <cap-ng.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "addresses/private.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

enum {
    /* How often a runner whose daemon is gone tries to drop the addresses before it gives up. */
    LAST_ATTEMPTS = 25,
    /*
     * How often addresses that are up may be lost, each time within LOSSES_MS of the loss before.
     */
    LOSSES_MAX = 3,
    LOSSES_MS = 60000,
    /* How many of the daemon's requests are read before the runner looks at what else is due. */
    TURN_REQUESTS = 64,
};

/* UNKNOWN is the state of the addresses at the start, and after a hook that did not end well. */
enum state { UNKNOWN, UP, DOWN };

struct runner {
    const struct hf_addresses_config *config;
    int socket; /* the socket to the daemon; -1: the daemon is gone */
    int daemon; /* the daemon's pidfd; -1: there is none */
    int timer;
    int news; /* the socket on which the kernel tells that an address came or went */
    struct hf_hook hook;
    enum state state;

    bool wanted_up;
    uint32_t take;           /* the number of the last request to take or drop the addresses */
    bool take_open;          /* the last request to take the addresses is not answered yet */
    uint64_t valid_until_ms; /* when the lease runs out */
    const char *why_down;    /* the reason to drop the addresses, for the log */
    /* The daemon asked for the drop; a drop for another reason is logged as a warning. */
    bool asked_down;
    int drop_error;    /* the error of the hook in the last attempt to drop */
    uint64_t retry_ms; /* when the next attempt to drop is made */
    unsigned attempts; /* how many attempts to drop were made in a row */

    int known; /* the addresses that the host has had since the take, as bits */
    int added; /* the addresses that the running hook has added, as bits */
    /* When to look whether the host still has the addresses; 0: the kernel told of no change. */
    uint64_t look_ms;
    unsigned losses;  /* how many times in a row addresses were lost */
    uint64_t lost_ms; /* when an address was lost last */
};

/* ---- to the daemon ---- */

/* Answers the daemon. The answer is lost if the socket is full: then the daemon is stopped, and has
 * enough to read when it goes on. */
static void answer(struct runner *r, enum hf_addresses_event event, int error)
{
    struct hf_addresses_answer message = {
        .event = (uint32_t)event, .take = r->take, .error = error};

    if (r->socket >= 0)
        (void)send(r->socket, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void answer_take(struct runner *r, enum hf_addresses_event event, int error)
{
    if (r->take_open)
        answer(r, event, error);
    r->take_open = false;
}

/* ---- what is wanted ---- */

static void want_down(struct runner *r, const char *why, bool asked)
{
    if (r->wanted_up) {
        r->why_down = why;
        r->asked_down = asked;
    }
    r->wanted_up = false;
    r->take_open = false;
    r->retry_ms = 0;
}

static void order(struct runner *r, const struct hf_addresses_request *request)
{
    switch (request->order) {
    case HF_ORDER_TAKE:
        r->wanted_up = true;
        r->take = request->take;
        r->take_open = true;
        r->valid_until_ms = request->valid_until_ms;
        break;
    case HF_ORDER_RENEW:
        if (request->valid_until_ms > r->valid_until_ms)
            r->valid_until_ms = request->valid_until_ms;
        break;
    case HF_ORDER_DROP:
        r->take = request->take;
        want_down(r, "the daemon asked for it", true);
        if (r->state == DOWN && !r->hook.pid)
            answer(r, HF_ADDRESSES_DOWN, 0);
        break;
    default:
        break;
    }
}

/* Notes that the daemon's process has ended. Its socket may still be open, because another process
 * may have a copy. */
static void daemon_ended(struct runner *r)
{
    if (r->socket >= 0)
        close(r->socket);
    if (r->daemon >= 0)
        close(r->daemon);
    r->socket = r->daemon = -1;
    r->attempts = 0;
    want_down(r, "the daemon has ended", false);
}

static void read_requests(struct runner *r)
{
    struct hf_addresses_request request;

    for (unsigned i = 0; i < TURN_REQUESTS; i++) {
        ssize_t n = recv(r->socket, &request, sizeof(request), MSG_DONTWAIT | MSG_TRUNC);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n != (ssize_t)sizeof(request)) {
            daemon_ended(r);
            return;
        }
        order(r, &request);
    }
}

/* ---- steps ---- */

static int remove_addresses(const struct runner *r)
{
    enum hf_log_level level = r->why_down && r->asked_down ? HF_LOG_INFO : HF_LOG_WARN;
    const char *reason = r->why_down ? r->why_down : "left by an earlier process, or added by hand";

    return hf_addresses_remove(r->config->addresses, r->config->n_addresses, level, reason);
}

static void drop_done(struct runner *r)
{
    int left = remove_addresses(r);

    if (left != 0) { /* some addresses are left, so the removal is tried again after a pause */
        if (r->attempts++ % LAST_ATTEMPTS == 0)
            hf_log(HF_LOG_ERROR, "cannot drop the addresses",
                   HF_STR("reason", left < 0 ? hf_strerror(left) : "the host still has them"),
                   HF_STR("advice", "the runner needs CAP_NET_ADMIN"));
        r->retry_ms = hf_clock_boot_ms() + HF_ADDRESSES_PAUSE_MS;
        return;
    }
    r->state = DOWN;
    r->attempts = 0;
    if (r->why_down)
        hf_log(r->asked_down ? HF_LOG_INFO : HF_LOG_WARN, "addresses dropped",
               HF_STR("service", r->config->service), HF_STR("reason", r->why_down));
    r->why_down = NULL;
    if (!r->wanted_up) /* a take that has arrived meanwhile gets its own answer */
        answer(r, HF_ADDRESSES_DOWN, r->drop_error);
}

/* Removes the addresses before it calls the hook, because the hook may hang. */
static void begin_drop(struct runner *r, uint64_t now)
{
    r->state = UNKNOWN;
    r->known = 0;
    (void)hf_addresses_bar(r->config->addresses, r->config->n_addresses, true);
    (void)remove_addresses(r);
    r->drop_error = hf_hook_start(&r->hook, r->config, false, now);
    if (r->drop_error < 0)
        drop_done(r);
}

static void take_failed(struct runner *r, int error, const char *why)
{
    answer_take(r, HF_ADDRESSES_FAILED, error);
    want_down(r, why, false);
}

static void begin_take(struct runner *r, uint64_t now)
{
    int rv;

    r->state = UNKNOWN;
    r->added = 0;
    (void)hf_addresses_bar(r->config->addresses, r->config->n_addresses, false);
    rv = hf_hook_start(&r->hook, r->config, true, now);
    if (rv < 0)
        take_failed(r, rv, "the hook failed");
}

/* Judges a take whose hook has ended well. If the host lacks an address that it had since the last
 * drop, the take has failed. An address that the hook added, and that was lost before the hook
 * ended, counts as lost later: the runner checks for it at once. An address that the host never had
 * belongs to no interface, because a hook may do other things with such an address. */
static void taken(struct runner *r)
{
    int present = hf_addresses_present(r->config->addresses, r->config->n_addresses);
    int missing = present < 0 ? 0 : (r->known | r->added) & ~present;

    if (missing & ~r->added) {
        take_failed(r, HF_ENOENT, "an address does not stay");
        return;
    }
    r->known |= r->added;
    if (present >= 0)
        r->known |= present;
    r->look_ms = 0;
    if (present < 0 || missing)
        r->look_ms = hf_clock_boot_ms() + HF_ADDRESSES_PAUSE_MS;
    r->state = UP;
    hf_log(HF_LOG_INFO, "addresses taken", HF_STR("service", r->config->service));
    answer_take(r, HF_ADDRESSES_UP, 0);
}

static void hook_ended(struct runner *r)
{
    int error = hf_hook_finish(&r->hook);

    if (!r->hook.taking) {
        r->drop_error = error;
        drop_done(r);
    } else if (error == 0) {
        taken(r);
    } else if (error != HF_ECANCELED) {
        take_failed(r, error, "the hook failed");
    }
}

/* Checks whether the host still has the addresses that it had after the take; lost addresses are
 * taken again. */
static void look_for_losses(struct runner *r, uint64_t now)
{
    int present = hf_addresses_present(r->config->addresses, r->config->n_addresses);
    int lost = present < 0 ? 0 : r->known & ~present;

    r->look_ms = present < 0 ? now + HF_ADDRESSES_PAUSE_MS : 0;
    if (present > 0)
        r->known |= present;
    if (!lost)
        return;
    r->losses = now - r->lost_ms < LOSSES_MS ? r->losses + 1 : 1;
    r->lost_ms = now;
    r->take_open = true; /* the daemon gets an answer to the repeated take, too */
    hf_log(HF_LOG_WARN, "this host has lost an address of the service",
           HF_STR("service", r->config->service),
           HF_ADDR("address", &r->config->addresses[__builtin_ctz((unsigned)lost)]),
           HF_STR("action", r->losses > LOSSES_MAX ? "left to another node" : "taken again"));
    if (r->losses > LOSSES_MAX)
        take_failed(r, HF_ENOENT, "an address does not stay");
}

/* Kills a hook that takes too long, or whose work is no longer wanted. */
static void watch_hook(struct runner *r, uint64_t now)
{
    struct hf_hook *hook = &r->hook;

    if (hook->overdue || hook->stopped)
        return; /* the hook was killed already */
    hook->stopped = hook->taking && !r->wanted_up;
    hook->overdue = !hook->stopped && now >= hook->deadline_ms;
    if (hook->overdue || hook->stopped)
        hf_hook_kill(hook);
}

static void step(struct runner *r, uint64_t now)
{
    if (r->wanted_up && now >= r->valid_until_ms) {
        want_down(r, "the lease ran out", false);
        if (r->state == DOWN && !r->hook.pid) { /* the addresses were down already */
            r->why_down = NULL;
            answer(r, HF_ADDRESSES_DOWN, 0);
        }
    }
    if (r->hook.pid) {
        watch_hook(r, now);
        return;
    }
    if (r->wanted_up && r->state == UP && r->look_ms && now >= r->look_ms)
        look_for_losses(r, now);
    /* Addresses in an unknown state were left by an earlier process, or by a hook that failed half
     * way: drop them before they are taken. */
    if (r->wanted_up ? r->state == UNKNOWN : r->state != DOWN && now >= r->retry_ms)
        begin_drop(r, now);
    else if (r->wanted_up && (r->state == DOWN || r->take_open))
        begin_take(r, now);
}

/* ---- the loop ---- */

/* Returns when the runner's next step is due although nothing arrives; 0: never. */
static uint64_t next_ms(const struct runner *r)
{
    uint64_t next = r->wanted_up ? r->valid_until_ms : 0;

    if (r->hook.pid && (next == 0 || r->hook.deadline_ms < next))
        next = r->hook.deadline_ms;
    if (!r->hook.pid && r->wanted_up && r->state == UP && r->look_ms && r->look_ms < next)
        next = r->look_ms;
    /*
     * retry_ms may be 0, which would mean never here; 1 is long ago, so the step is taken at once.
     */
    if (!r->hook.pid && !r->wanted_up && r->state != DOWN)
        next = r->retry_ms ? r->retry_ms : 1;
    return next;
}

static void set_timer(const struct runner *r)
{
    uint64_t next = next_ms(r);
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(next / 1000), .tv_nsec = (long)(next % 1000) * 1000000}};

    (void)timerfd_settime(r->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

static void wait_for_news(struct runner *r)
{
    struct pollfd fds[] = {
        {.fd = r->timer, .events = POLLIN},
        {.fd = r->socket, .events = POLLIN},
        {.fd = r->hook.pid ? r->hook.pidfd : -1, .events = POLLIN},
        {.fd = r->news, .events = POLLIN},
        {.fd = r->daemon, .events = POLLIN},
    };
    uint64_t expirations;
    int added = 0;
    bool told;

    set_timer(r);
    if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
        return;
    if (fds[0].revents)
        (void)!read(r->timer, &expirations, sizeof(expirations));
    if (fds[4].revents)
        daemon_ended(r);
    else if (fds[1].revents)
        read_requests(r);
    /*
     * The runner looks at the addresses a moment later, because an interface that goes down and up
     * again loses its addresses one by one. While a hook runs, the runner waits for its end first.
     */
    told = fds[3].revents &&
           hf_host_news(r->news, r->config->addresses, r->config->n_addresses, &added);
    r->added |= added;
    if (told && r->state == UP && !r->look_ms)
        r->look_ms = hf_clock_boot_ms() + HF_ADDRESSES_PAUSE_MS;
    if (fds[2].revents)
        hook_ended(r);
}

static bool is_done(const struct runner *r)
{
    return r->socket < 0 && !r->hook.pid && (r->state == DOWN || r->attempts >= LAST_ATTEMPTS);
}

/* ---- the process of the runner ---- */

/* The ambient set hands the two capabilities on to the hook when the runner is not root. */
static void keep_two_capabilities(void)
{
    static const unsigned kept[] = {CAP_NET_ADMIN, CAP_NET_RAW};
    bool root = geteuid() == 0;
    bool known = capng_get_caps_process() == 0;
    bool have[2];

    for (unsigned i = 0; i < 2; i++)
        have[i] = known && capng_have_capability(CAPNG_PERMITTED, kept[i]);
    capng_clear(CAPNG_SELECT_ALL);
    for (unsigned i = 0; i < 2; i++) {
        capng_type_t sets = CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_INHERITABLE |
                            CAPNG_BOUNDING_SET | CAPNG_AMBIENT;
        if (have[i])
            (void)capng_updatev(CAPNG_ADD, sets, kept[i], -1);
    }
    if (capng_apply(root ? CAPNG_SELECT_ALL : CAPNG_SELECT_CAPS | CAPNG_SELECT_AMBIENT) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        hf_log(HF_LOG_WARN, "not confined", HF_STR("by", "capabilities of the address runner"));
}

/*
 * The terminal and the service manager send the signals of a stop to all processes, so the runner
 * ignores them. It ends when the daemon has ended and the addresses are down. If it were killed
 * with the daemon (PR_SET_PDEATHSIG), the addresses would stay up.
 */
static void become_runner(const struct hf_addresses_config *config)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

    for (unsigned i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        (void)signal(ignored[i], SIG_IGN);
    (void)setsid();
    (void)unsetenv("NOTIFY_SOCKET");
    (void)prctl(PR_SET_NAME, "hf-addresses", 0, 0, 0);
    if (!config->keep_privileges)
        keep_two_capabilities();
}

/* A thread writes the runner's log, so that a stopped reader of the log cannot keep the addresses
 * up. */
void hf_runner_run(const struct hf_addresses_config *config, struct hf_runner_files *files)
{
    struct runner r = {
        .config = config, .socket = files->socket, .daemon = files->daemon, .hook = {.pidfd = -1}};

    become_runner(config);
    r.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    r.news = hf_netlink_open(RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR);
    /* The runner ends, which the daemon sees. */
    if (r.timer < 0 || r.news < 0 || hf_log_start() < 0)
        _exit(EXIT_FAILURE);
    while (!is_done(&r)) {
        step(&r, hf_clock_boot_ms());
        if (!is_done(&r))
            wait_for_news(&r);
    }
    hf_addresses_unlock(&files->lock);
    hf_log_stop();
    _exit(r.state == DOWN ? EXIT_SUCCESS : EXIT_FAILURE);
}
