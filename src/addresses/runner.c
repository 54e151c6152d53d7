/*
 * The runner: one loop over three sources, the daemon's requests, the end of the hook, and the
 * clock. Each turn compares what is wanted with what is, and does the one next step.
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
#include "base/error.h"
#include "base/log.h"

enum { LAST_ATTEMPTS = 25 }; /* to drop, when the daemon is gone: then the runner gives up */

/* UNKNOWN: at the start, and after a hook that did not end well. */
enum state { UNKNOWN, UP, DOWN };

struct runner {
    const struct hf_addresses_config *config;
    int socket; /* -1: the daemon is gone */
    int timer;
    struct hf_hook hook;
    enum state state;

    bool wanted_up;
    uint32_t take;           /* the number of the last take or drop */
    bool take_open;          /* and is not answered yet */
    uint64_t valid_until_ms; /* of the lease */
    const char *why_down;    /* for the log */
    bool asked_down;         /* by the daemon; anything else is worth a warning */
    int drop_error;          /* of the hook, in the last attempt to drop */
    uint64_t retry_ms;       /* the next attempt */
    unsigned attempts;       /* to drop, in a row */
};

/* ---- to the daemon ---- */

/* If the daemon does not read, it is stopped, and its socket is full: it has enough to read then.
 */
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

static void read_requests(struct runner *r)
{
    struct hf_addresses_request request;
    ssize_t n;

    while ((n = recv(r->socket, &request, sizeof(request), MSG_DONTWAIT)) ==
           (ssize_t)sizeof(request))
        order(r, &request);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    close(r->socket);
    r->socket = -1;
    r->attempts = 0;
    want_down(r, "the daemon has ended", false);
}

/* ---- steps ---- */

static void drop_done(struct runner *r)
{
    int left = hf_addresses_remove(r->config->addresses, r->config->n_addresses);

    if (left != 0) { /* try again, after a pause */
        if (r->attempts++ % LAST_ATTEMPTS == 0)
            hf_log(HF_LOG_ERROR, "cannot drop the addresses",
                   HF_STR("reason", left < 0 ? hf_strerror(left) : "the host still has them"),
                   HF_STR("advice", "the runner needs CAP_NET_ADMIN"));
        r->retry_ms = hf_addresses_now_ms() + HF_ADDRESSES_PAUSE_MS;
        return;
    }
    r->state = DOWN;
    r->attempts = 0;
    if (r->why_down)
        hf_log(r->asked_down ? HF_LOG_INFO : HF_LOG_WARN, "addresses dropped",
               HF_STR("service", r->config->service), HF_STR("reason", r->why_down));
    r->why_down = NULL;
    if (!r->wanted_up) /* else a take has arrived meanwhile, and its result is the answer */
        answer(r, HF_ADDRESSES_DOWN, r->drop_error);
}

/* The addresses go first, then the hook is called: it may hang. */
static void begin_drop(struct runner *r, uint64_t now)
{
    r->state = UNKNOWN;
    (void)hf_addresses_bar(r->config->addresses, r->config->n_addresses, true);
    (void)hf_addresses_remove(r->config->addresses, r->config->n_addresses);
    r->drop_error = hf_hook_start(&r->hook, r->config, false, now);
    if (r->drop_error < 0)
        drop_done(r);
}

static void take_failed(struct runner *r, int error)
{
    answer_take(r, HF_ADDRESSES_FAILED, error);
    want_down(r, "the hook failed", false);
}

static void begin_take(struct runner *r, uint64_t now)
{
    int rv;

    r->state = UNKNOWN;
    (void)hf_addresses_bar(r->config->addresses, r->config->n_addresses, false);
    rv = hf_hook_start(&r->hook, r->config, true, now);
    if (rv < 0)
        take_failed(r, rv);
}

static void hook_ended(struct runner *r)
{
    int error = hf_hook_finish(&r->hook);

    if (!r->hook.taking) {
        r->drop_error = error;
        drop_done(r);
    } else if (error == 0) {
        r->state = UP;
        hf_log(HF_LOG_INFO, "addresses taken", HF_STR("service", r->config->service));
        answer_take(r, HF_ADDRESSES_UP, 0);
    } else if (error != HF_ECANCELED) {
        take_failed(r, error);
    }
}

/* A hook that takes too long, or whose work is no longer wanted. */
static void watch_hook(struct runner *r, uint64_t now)
{
    struct hf_hook *hook = &r->hook;

    if (hook->overdue || hook->stopped)
        return; /* killed already */
    hook->stopped = hook->taking && !r->wanted_up;
    hook->overdue = !hook->stopped && now >= hook->deadline_ms;
    if (hook->overdue || hook->stopped)
        hf_hook_kill(hook);
}

static void step(struct runner *r, uint64_t now)
{
    if (r->wanted_up && now >= r->valid_until_ms) {
        want_down(r, "the lease ran out", false);
        if (r->state == DOWN && !r->hook.pid) { /* it was over before the take arrived */
            r->why_down = NULL;
            answer(r, HF_ADDRESSES_DOWN, 0);
        }
    }
    if (r->hook.pid) {
        watch_hook(r, now);
        return;
    }
    /* What is wanted but unknown is of an earlier life, or half taken. */
    if (r->wanted_up ? r->state == UNKNOWN : r->state != DOWN && now >= r->retry_ms)
        begin_drop(r, now);
    else if (r->wanted_up && (r->state == DOWN || r->take_open))
        begin_take(r, now);
}

/* ---- the loop ---- */

/* When a step is due although nothing arrives; 0: never. */
static uint64_t next_ms(const struct runner *r)
{
    uint64_t next = r->wanted_up ? r->valid_until_ms : 0;

    if (r->hook.pid && (next == 0 || r->hook.deadline_ms < next))
        next = r->hook.deadline_ms;
    if (!r->hook.pid && !r->wanted_up && r->state != DOWN)
        next = r->retry_ms ? r->retry_ms : 1; /* long ago: at once */
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
    };
    uint64_t expirations;

    set_timer(r);
    if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
        return;
    if (fds[0].revents)
        (void)!read(r->timer, &expirations, sizeof(expirations));
    if (fds[1].revents)
        read_requests(r);
    if (fds[2].revents)
        hook_ended(r);
}

static bool is_done(const struct runner *r)
{
    return r->socket < 0 && !r->hook.pid && (r->state == DOWN || r->attempts >= LAST_ATTEMPTS);
}

/* ---- the process ---- */

/* The ambient set hands the two capabilities on to the hook when the runner is not root. */
static void keep_two_capabilities(void)
{
    static const unsigned kept[] = {CAP_NET_ADMIN, CAP_NET_RAW};
    bool root = geteuid() == 0;
    bool have[2];

    capng_get_caps_process();
    for (unsigned i = 0; i < 2; i++)
        have[i] = capng_have_capability(CAPNG_PERMITTED, kept[i]);
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
 * The terminal and the service manager send the signals of a stop to all processes. The runner ends
 * when the daemon has, and the addresses are down. Being killed with the daemon (PR_SET_PDEATHSIG)
 * would leave them up.
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

void hf_runner_run(const struct hf_addresses_config *config, int socket)
{
    struct runner r = {.config = config, .socket = socket, .hook = {.pidfd = -1}};

    become_runner(config);
    r.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (r.timer < 0) /* without a clock it cannot do its work; the daemon sees the end */
        _exit(EXIT_FAILURE);
    while (!is_done(&r)) {
        step(&r, hf_addresses_now_ms());
        if (!is_done(&r))
            wait_for_news(&r);
    }
    _exit(r.state == DOWN ? EXIT_SUCCESS : EXIT_FAILURE);
}
