#include "addresses/addresses.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "addresses/private.h"
#include "base/assert.h"
#include "base/error.h"

struct hf_addresses {
    int socket;
    /* the loop's watch on the socket, freed when the loop has closed it; NULL: not attached */
    uv_poll_t *poll;
    hf_addresses_cb *report;
    void *ctx;
    /* The number of the last take or drop; answers to earlier ones are out of date. */
    uint32_t take;
};

/* ---- start and end ---- */

/* Turns this process into the runner. It keeps the standard files, for the log and the hook's own
 * messages, and the runner's files. */
static void run(struct hf_addresses_config config, struct hf_runner_files *files)
{
    enum { FIRST = 3 };
    int *kept[2 + HF_ADDRESSES_MAX] = {&files->socket, &files->daemon};
    unsigned n = 2;

    for (unsigned i = 0; i < files->lock.n; i++)
        kept[n++] = &files->lock.fds[i];
    /* The files first move above all numbers that they get below, so that no file is overwritten
     * before it has moved. */
    for (unsigned i = 0; i < n; i++) {
        *kept[i] = fcntl(*kept[i], F_DUPFD_CLOEXEC, FIRST + (int)n);
        if (*kept[i] < 0)
            _exit(EXIT_FAILURE);
    }
    for (unsigned i = 0; i < n; i++)
        *kept[i] = dup3(*kept[i], FIRST + (int)i, O_CLOEXEC);
    closefrom(FIRST + (int)n); /* unlike close_range(), it has another way on old kernels */
    config.take_ms = config.take_ms ? config.take_ms : HF_ADDRESSES_TAKE_MS;
    config.drop_ms = config.drop_ms ? config.drop_ms : HF_ADDRESSES_DROP_MS;
    hf_runner_run(&config, files);
}

/* Forks the runner. Returns its process id, or an error; *socket is the daemon's end of the socket
 * pair. */
static int fork_runner(const struct hf_addresses_config *config, int *socket)
{
    struct hf_runner_files files = {.socket = -1, .daemon = pidfd_open(getpid(), 0)};
    int pair[2] = {-1, -1};
    int rv = files.daemon < 0 ? HF_EUNAVAIL : hf_addresses_lock(config, &files.lock);

    if (rv == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        rv = HF_EUNAVAIL;
    files.socket = pair[1];
    if (rv == 0) {
        rv = fork();
        if (rv == 0)
            run(*config, &files);
        rv = rv < 0 ? HF_EUNAVAIL : rv;
    }
    if (rv < 0 && pair[0] >= 0)
        close(pair[0]);
    if (pair[1] >= 0)
        close(pair[1]);
    if (files.daemon >= 0)
        close(files.daemon);
    /* The runner has copies of these descriptors, which keep the lock. */
    hf_addresses_unlock(&files.lock);
    *socket = pair[0];
    return rv;
}

int hf_addresses_start(const struct hf_addresses_config *config, struct hf_addresses **out)
{
    struct hf_addresses *a = calloc(1, sizeof(*a));
    int rv;

    HF_ASSERT(config->n_addresses <= HF_ADDRESSES_MAX);
    if (!a)
        return HF_ENOMEM;
    rv = fork_runner(config, &a->socket);
    if (rv < 0) {
        free(a);
        return rv;
    }
    *out = a;
    return 0;
}

/* Starts a runner without a daemon, which drops the addresses and ends. */
int hf_addresses_clear(const struct hf_addresses_config *config)
{
    int status = 0;
    int socket;
    int pid = fork_runner(config, &socket);

    if (pid < 0)
        return pid;
    close(socket);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS ? 0 : HF_EUNAVAIL;
}

static void free_poll(uv_handle_t *handle)
{
    free(handle);
}

void hf_addresses_detach(struct hf_addresses *a)
{
    if (!a->poll)
        return;
    uv_poll_stop(a->poll);
    uv_close((uv_handle_t *)a->poll, free_poll);
    a->poll = NULL;
}

void hf_addresses_stop(struct hf_addresses *a)
{
    hf_addresses_detach(a);
    if (a->socket >= 0)
        close(a->socket);
    free(a);
}

/* ---- answers ---- */

static void gone(struct hf_addresses *a)
{
    hf_addresses_detach(a);
    a->report(a->ctx, HF_ADDRESSES_GONE, HF_EUNAVAIL);
}

/* The callback may take, drop or detach, so after each callback this function goes on only while
 * the addresses are still attached. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct hf_addresses *a = poll->data;
    struct hf_addresses_answer answer;
    ssize_t n;

    (void)status;
    (void)events;
    n = recv(a->socket, &answer, sizeof(answer), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != (ssize_t)sizeof(answer) || answer.event > HF_ADDRESSES_DOWN) { /* not ours */
        gone(a);
        return;
    }
    /* An answer to an older request is ignored: the newer request gets one as well. */
    if (answer.take == a->take)
        a->report(a->ctx, (enum hf_addresses_event)answer.event, answer.error);
}

int hf_addresses_attach(struct hf_addresses *a, uv_loop_t *loop, hf_addresses_cb *report, void *ctx)
{
    HF_ASSERT(!a->poll);
    a->poll = calloc(1, sizeof(*a->poll));
    if (!a->poll)
        return HF_ENOMEM;
    if (uv_poll_init(loop, a->poll, a->socket) < 0) {
        free(a->poll);
        a->poll = NULL;
        return HF_EUNAVAIL;
    }
    a->poll->data = a;
    a->report = report;
    a->ctx = ctx;
    uv_poll_start(a->poll, UV_READABLE | UV_DISCONNECT, on_readable);
    return 0;
}

/* ---- requests ---- */

/*
 * A runner that was stopped does not read, and the socket fills. If a renewal is lost, the runner
 * drops the addresses when it goes on, which is safe. If a drop is lost, no DOWN arrives, the
 * daemon ends, and the runner drops the addresses for that reason.
 */
static void request(struct hf_addresses *a, enum hf_addresses_order order, uint64_t until_ms)
{
    struct hf_addresses_request message = {
        .order = (uint32_t)order, .take = a->take, .valid_until_ms = until_ms};

    (void)send(a->socket, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void hf_addresses_take(struct hf_addresses *a, uint64_t valid_until_ms)
{
    a->take++;
    request(a, HF_ORDER_TAKE, valid_until_ms);
}

void hf_addresses_renew(struct hf_addresses *a, uint64_t valid_until_ms)
{
    request(a, HF_ORDER_RENEW, valid_until_ms);
}

void hf_addresses_drop(struct hf_addresses *a)
{
    a->take++; /* an answer to an earlier take is out of date from now on */
    request(a, HF_ORDER_DROP, 0);
}
