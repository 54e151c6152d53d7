#include "keeper/server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "keeper/guard.h"
#include "keeper/store.h"

/* Takes over the timer of the keeper before this one. It tells until when the locks of that keeper
 * may be held; a timer that is not set, or has gone off, means that the lease is over. */
static int take_timer(struct hf_keeper_server *server)
{
    struct itimerspec left;
    bool stored;
    int fd = hf_guard_lease(&stored);

    if (fd < 0)
        return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timerfd_gettime(fd, &left) < 0)
        memset(&left, 0, sizeof(left));
    server->keeper->has_lease = true;
    server->keeper->valid_until_ms = hf_clock_boot_ms() + (uint64_t)left.it_value.tv_sec * 1000 +
                                     (uint64_t)left.it_value.tv_nsec / 1000000;
    server->timer_ms = UINT64_MAX; /* set_timer() will set the timer */
    return fd;
}

int hf_keeper_server_open(struct hf_keeper_server *server, struct hf_keeper *keeper,
                          const struct hf_keeper_limits *limits, int listener, uid_t user)
{
    memset(server, 0, sizeof(*server));
    server->keeper = keeper;
    server->limits = limits;
    server->user = user;
    server->daemon = -1;
    server->listener = listener;
    server->timer = take_timer(server);
    return server->timer < 0 ? HF_EUNAVAIL : 0;
}

/* ---- the daemon comes and goes ---- */

static void drop_daemon(struct hf_keeper_server *server, const char *reason)
{
    const struct hf_keeper_files *files = &server->keeper->files;

    close(server->daemon);
    server->daemon = -1;
    server->listing = server->telling_exports = false;
    hf_keeper_disconnected(server->keeper);
    hf_log(HF_LOG_INFO, "the daemon is gone", HF_STR("reason", reason),
           HF_UINT("files", files->count), HF_UINT("ranges", files->n_spans));
}

static void say_hello(const struct hf_keeper_server *server, int fd, enum hf_keeper_welcome welcome)
{
    const struct hf_keeper *keeper = server->keeper;
    struct {
        struct hf_keeper_header header;
        struct hf_keeper_hello hello;
    } message = {
        .header = {.message = HF_KEEPER_HELLO, .count = 1},
        .hello = {.version = HF_KEEPER_VERSION,
                  .welcome = (uint32_t)welcome,
                  .incarnation = keeper->incarnation,
                  .files = keeper->files.count,
                  .ranges = keeper->files.n_spans,
                  .files_max = keeper->files.max,
                  .ranges_max = keeper->files.ranges_max,
                  .waits_max = keeper->waits.max,
                  .threads = (uint32_t)keeper->waits.n_threads},
    };

    (void)send(fd, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool is_permitted(const struct hf_keeper_server *server, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return false;
    if (peer.uid == 0 || peer.uid == server->user)
        return true;
    hf_log_limited(HF_LOG_WARN, "a connection was refused", HF_UINT("uid", peer.uid),
                   HF_INT("pid", peer.pid), HF_STR("advice", "set user= to the daemon's"));
    return false;
}

static void drop_guest(struct hf_keeper_server *server, size_t i, bool keep_open)
{
    if (!keep_open)
        close(server->guests[i]);
    server->guests[i] = server->guests[--server->n_guests];
}

static void accept_one(struct hf_keeper_server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    if (!is_permitted(server, fd)) {
        close(fd);
        return;
    }
    if (server->n_guests == HF_KEEPER_GUESTS_MAX)
        drop_guest(server, 0, false);
    server->guests[server->n_guests++] = fd;
}

/* True if the daemon is still connected. A process that was killed has closed its end, so its place
 * is free at once. */
static bool is_daemon_alive(const struct hf_keeper_server *server)
{
    struct pollfd polled = {.fd = server->daemon, .events = POLLRDHUP};

    return server->daemon >= 0 && (poll(&polled, 1, 0) == 0 || polled.revents == 0);
}

static void greet(struct hf_keeper_server *server, size_t i)
{
    int fd = server->guests[i];
    ssize_t n = recv(fd, server->in.bytes, sizeof(server->in.bytes), MSG_DONTWAIT | MSG_TRUNC);
    struct hf_keeper_header header;
    const struct hf_keeper_hello *hello =
        n > 0 && (size_t)n <= sizeof(server->in.bytes)
            ? hf_keeper_check(server->in.bytes, (size_t)n, false, &header)
            : NULL;
    enum hf_keeper_welcome welcome = HF_KEEPER_WELCOME;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (!hello || header.message != HF_KEEPER_HELLO) {
        drop_guest(server, i, false);
        return;
    }
    if (hello->version != HF_KEEPER_VERSION)
        welcome = HF_KEEPER_OTHER_VERSION;
    else if (is_daemon_alive(server))
        welcome = HF_KEEPER_BUSY;
    else if (server->daemon >= 0)
        drop_daemon(server, "another has taken its place");
    say_hello(server, fd, welcome);
    drop_guest(server, i, welcome == HF_KEEPER_WELCOME);
    if (welcome != HF_KEEPER_WELCOME)
        return;
    server->daemon = fd;
    server->keeper->silent = false;
    hf_log(HF_LOG_INFO, "a daemon is connected", HF_UINT("files", server->keeper->files.count),
           HF_UINT("ranges", server->keeper->files.n_spans));
}

/* ---- what is sent ---- */

/* Sends the message that was made; false if the socket is full. */
static bool send_out(struct hf_keeper_server *server)
{
    const struct hf_keeper_header *header = &server->out.header;
    size_t len = sizeof(*header) + header->count * hf_keeper_record_size(header->message);

    if (send(server->daemon, server->out.bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
        return true;
    if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
        drop_daemon(server, strerror(errno));
    return false;
}

static void send_results(struct hf_keeper_server *server)
{
    struct hf_keeper *keeper = server->keeper;
    size_t sent = 0;

    while (server->daemon >= 0 && sent < keeper->n_results) {
        size_t n = keeper->n_results - sent;

        n = n < HF_KEEPER_OPS_MAX ? n : HF_KEEPER_OPS_MAX;
        server->out.header =
            (struct hf_keeper_header){.message = HF_KEEPER_RESULTS, .count = (uint32_t)n};
        memcpy(&server->out.header + 1, keeper->results + sent, n * sizeof(*keeper->results));
        if (!send_out(server))
            break;
        sent += n;
    }
    if (server->daemon < 0 || sent == 0)
        return;
    keeper->n_results -= sent;
    memmove(keeper->results, keeper->results + sent, keeper->n_results * sizeof(*keeper->results));
}

/* Sends the next message of a list; the cursor moves on only when the message is sent. */
static bool send_held(struct hf_keeper_server *server)
{
    struct hf_keeper_op *held = (struct hf_keeper_op *)(void *)(&server->out.header + 1);
    const struct hf_list *end = &server->keeper->files.all;
    struct hf_keeper_file *file = server->list_file;
    uint32_t span = server->list_span, n = 0;

    while (file && n < HF_KEEPER_OPS_MAX) {
        if (span == file->ranges.count) {
            file = file->link.next == end
                       ? NULL
                       : hf_list_entry(file->link.next, struct hf_keeper_file, link);
            span = 0;
            continue;
        }
        const struct hf_span *s = &file->ranges.spans[span++];
        held[n] = (struct hf_keeper_op){
            .offset = s->first,
            .length = s->last == HF_RANGE_LAST ? 0 : s->last - s->first + 1,
            .kind = HF_KEEPER_SET,
            .mode = (uint8_t)s->mode,
            .handle_len = file->handle_len,
        };
        memcpy(held[n++].handle, file->handle, file->handle_len);
    }
    server->out.header = (struct hf_keeper_header){.message = HF_KEEPER_HELD, .count = n};
    if (!send_out(server))
        return false;
    server->list_file = file;
    server->list_span = span;
    server->listing = n == HF_KEEPER_OPS_MAX;
    return true;
}

/* Sends the next export; directories that were let go and are no exports themselves follow the
 * exports. */
static bool send_export(struct hf_keeper_server *server)
{
    struct hf_keeper_export *record = (struct hf_keeper_export *)(void *)(&server->out.header + 1);
    const struct hf_keeper_files *files = &server->keeper->files;
    const struct hf_exports *exports = &files->resolver.exports;
    size_t i = server->next_export;
    const char *path = NULL;

    if (i < exports->n_configured)
        path = exports->configured[i];
    else if (i - exports->n_configured < files->n_let_go)
        path = files->let_go[i - exports->n_configured].path;
    server->out.header =
        (struct hf_keeper_header){.message = HF_KEEPER_EXPORTS, .count = path != NULL};
    if (path) {
        memset(record, 0, sizeof(*record));
        (void)hf_text_copy(record->path, sizeof(record->path), path);
        record->let_go = hf_keeper_files_has_let_go(files, path);
        hf_keeper_files_count_below(files, path, &record->files, &record->ranges);
    }
    if (!send_out(server))
        return false;
    server->next_export++;
    server->telling_exports = path != NULL;
    return true;
}

/* Sends results, and then what is left of a list. No operation is carried out until the list is
 * sent, so that it shows one moment. */
static void send_some(struct hf_keeper_server *server)
{
    send_results(server);
    while (server->daemon >= 0 && server->listing && server->keeper->n_results == 0 &&
           send_held(server))
        ;
    while (server->daemon >= 0 && server->telling_exports && server->keeper->n_results == 0 &&
           !server->listing && send_export(server))
        ;
}

/* ---- what is received ---- */

/* Handles a message of the daemon. False: the daemon must be dropped. */
static bool take_message(struct hf_keeper_server *server, const struct hf_keeper_header *header,
                         const void *records)
{
    struct hf_keeper *keeper = server->keeper;
    uint64_t boot_ms = hf_clock_boot_ms();

    (void)hf_keeper_check_lease(keeper, boot_ms);
    switch (header->message) {
    case HF_KEEPER_OPS:
        hf_keeper_execute(keeper, (int64_t)hf_clock_mono_ms(), boot_ms, records, header->count);
        return true;
    case HF_KEEPER_PATH:
        hf_keeper_execute_path(keeper, records);
        return true;
    case HF_KEEPER_LIST:
        server->listing = true;
        server->list_file = hf_list_first(&keeper->files.all, struct hf_keeper_file, link);
        server->list_span = 0;
        return true;
    case HF_KEEPER_EXPORTS:
        server->telling_exports = true;
        server->next_export = 0;
        return true;
    default:
        return false; /* a daemon may not send a second HELLO */
    }
}

static bool is_ready_for_more(const struct hf_keeper_server *server)
{
    return server->daemon >= 0 && server->keeper->n_results == 0 && !server->listing &&
           !server->telling_exports;
}

static void receive(struct hf_keeper_server *server)
{
    struct hf_keeper_header header;
    const void *records;
    ssize_t n =
        recv(server->daemon, server->in.bytes, sizeof(server->in.bytes), MSG_DONTWAIT | MSG_TRUNC);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop_daemon(server, "it has closed the connection");
        return;
    }
    records = (size_t)n <= sizeof(server->in.bytes)
                  ? hf_keeper_check(server->in.bytes, (size_t)n, false, &header)
                  : NULL;
    if (!records || !take_message(server, &header, records))
        drop_daemon(server, "it sent a malformed message");
}

/* ---- the loop ---- */

static void set_timer(struct hf_keeper_server *server)
{
    const struct hf_keeper *keeper = server->keeper;
    uint64_t ms = keeper->has_lease && keeper->files.count + keeper->waits.count > 0
                      ? keeper->valid_until_ms
                      : 0;
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}};

    if (keeper->has_lease)
        hf_store_give_lease(server->timer);
    if (ms != server->timer_ms)
        (void)timerfd_settime(server->timer, TFD_TIMER_ABSTIME, &at, NULL);
    server->timer_ms = ms;
}

static int sooner(int a, int b)
{
    if (a < 0)
        return b;
    return b < 0 || a < b ? a : b;
}

/* Does the work that is due by now; returns how long the loop may sleep. */
static int step(struct hf_keeper_server *server)
{
    struct hf_keeper *keeper = server->keeper;
    int64_t now_ms = (int64_t)hf_clock_mono_ms();
    bool was_listing = server->listing;
    int sleep_ms;

    /*
     * Locks that the list has already shown are no longer held, so the daemon must not believe it.
     */
    if (hf_keeper_check_lease(keeper, hf_clock_boot_ms()) && server->listing)
        drop_daemon(server, "the lease ran out in the middle of a list");
    sleep_ms = hf_walk_step(&keeper->files.resolver.walk, now_ms);
    if (!server->listing)
        sleep_ms = sooner(sleep_ms, hf_waits_step(&keeper->waits, now_ms));
    if (!server->listing) {
        keeper->files.now_ms = now_ms;
        sleep_ms = sooner(sleep_ms, hf_keeper_files_step(&keeper->files));
    }
    sleep_ms = sooner(sleep_ms, hf_store_step(&keeper->files, now_ms));
    hf_exports_close(&keeper->files.resolver.exports);
    /* The timer is set before the daemon hears of a renewal, so that the next worker knows the end
     * of the lease. */
    set_timer(server);
    if (server->daemon >= 0)
        send_some(server);
    if (is_ready_for_more(server) && (keeper->waits.changed || was_listing))
        sleep_ms = 0; /* what had to wait for the end of the list is done without a pause */
    return sleep_ms;
}

/* Waits for events. Signals are let in only during the wait: a signal between the look at *stop and
 * the wait would be missed. */
static int wait_for_events(struct pollfd *polled, size_t n, int sleep_ms)
{
    struct timespec limit = {.tv_sec = sleep_ms / 1000, .tv_nsec = sleep_ms % 1000 * 1000000L};
    sigset_t none;

    (void)sigemptyset(&none);
    return ppoll(polled, n, sleep_ms < 0 ? NULL : &limit, &none);
}

void hf_keeper_server_run(struct hf_keeper_server *server, const volatile sig_atomic_t *stop)
{
    enum { LISTENER, TIMER, WAKE, DAEMON, GUESTS };

    while (!*stop) {
        struct pollfd polled[GUESTS + HF_KEEPER_GUESTS_MAX];
        int sleep_ms = step(server);
        size_t n = server->n_guests;
        bool more = is_ready_for_more(server);

        polled[LISTENER] = (struct pollfd){.fd = server->listener, .events = POLLIN};
        polled[TIMER] = (struct pollfd){.fd = server->timer, .events = POLLIN};
        polled[WAKE] = (struct pollfd){.fd = server->listing ? -1 : server->keeper->waits.wake[0],
                                       .events = POLLIN};
        polled[DAEMON] = (struct pollfd){.fd = server->daemon, .events = more ? POLLIN : POLLOUT};
        for (size_t i = 0; i < n; i++)
            polled[GUESTS + i] = (struct pollfd){.fd = server->guests[i], .events = POLLIN};
        if (wait_for_events(polled, GUESTS + n, sleep_ms) < 0)
            continue; /* a signal */
        if (polled[WAKE].revents)
            hf_waits_drain(&server->keeper->waits);
        if (server->daemon >= 0 && polled[DAEMON].revents) {
            if (more)
                receive(server);
            else if (polled[DAEMON].revents & (POLLHUP | POLLERR))
                drop_daemon(server, "it has closed the connection");
        }
        /*
         * The loop goes from the end, because dropping a guest moves the last one into its place.
         */
        for (size_t i = n; i-- > 0;) {
            if (polled[GUESTS + i].revents)
                greet(server, i);
        }
        if (polled[LISTENER].revents)
            accept_one(server);
    }
}

void hf_keeper_server_close(struct hf_keeper_server *server)
{
    if (server->daemon >= 0)
        drop_daemon(server, "the keeper ends");
    while (server->n_guests > 0)
        drop_guest(server, 0, false);
    if (server->listener >= 0)
        close(server->listener);
    if (server->timer >= 0)
        close(server->timer);
}
