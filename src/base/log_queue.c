#include "base/log_queue.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

enum { QUEUE_BYTES = 1 << 20, REPORT_MS = 1000 };

/* The queue of the log. The bytes from number "written" to number "put", counted over all bytes
 * ever put, wait to be written. Byte n is stored at n modulo QUEUE_BYTES. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t arrived; /* signalled when lines wait, or when the thread must stop */
    pthread_cond_t drained; /* signalled when no line waits, or when the thread has ended */
    pthread_t thread;
    enum { DIRECT, RUNNING, STOPPING, ABANDONED } state;
    uint64_t put;
    uint64_t written;
    uint64_t lost; /* how many lines were lost since the last report */
    bool report_wanted;
    bool (*report)(uint64_t lost);
    char bytes[QUEUE_BYTES];
} queue = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct timespec in_ms(unsigned ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* Writes all bytes to standard error, and blocks as long as standard error does. If standard error
 * refuses them for good, because its reader is gone, they are dropped. */
static void write_all(const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, data, len);

        if (n >= 0) {
            data += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) { /* another process made standard error non-blocking */
            struct pollfd pollfd = {.fd = STDERR_FILENO, .events = POLLOUT};
            (void)poll(&pollfd, 1, -1);
        } else if (errno != EINTR) {
            return;
        }
    }
}

static void enqueue(const char *line, size_t len)
{
    size_t at = queue.put % QUEUE_BYTES;
    size_t first = len < QUEUE_BYTES - at ? len : QUEUE_BYTES - at;

    if (queue.put - queue.written + len > QUEUE_BYTES) {
        queue.lost++;
        queue.report_wanted = true;
        return;
    }
    memcpy(queue.bytes + at, line, first);
    memcpy(queue.bytes, line + first, len - first);
    queue.put += len;
    pthread_cond_signal(&queue.arrived);
}

void hf_log_queue_put(const char *line, size_t len)
{
    pthread_mutex_lock(&queue.mutex);
    if (queue.state == DIRECT)
        write_all(line, len);
    else if (queue.state != ABANDONED)
        enqueue(line, len);
    pthread_mutex_unlock(&queue.mutex);
}

/* Writes the waiting bytes. The caller holds the mutex, which is released during the write. */
static void write_waiting(void)
{
    size_t at = queue.written % QUEUE_BYTES;
    size_t len = (size_t)(queue.put - queue.written);

    if (len > QUEUE_BYTES - at)
        len = QUEUE_BYTES - at;
    pthread_mutex_unlock(&queue.mutex);
    /* other threads do not touch these bytes before `written` moves on */
    write_all(queue.bytes + at, len);
    pthread_mutex_lock(&queue.mutex);
    queue.written += len;
    if (queue.written == queue.put)
        pthread_cond_broadcast(&queue.drained);
}

void hf_log_queue_want_report(void)
{
    pthread_mutex_lock(&queue.mutex);
    queue.report_wanted = true;
    pthread_cond_signal(&queue.arrived);
    pthread_mutex_unlock(&queue.mutex);
}

/* Calls the report function without holding the mutex, because that function puts lines, which
 * takes the mutex. */
static void make_report(void)
{
    uint64_t lost = queue.lost;
    bool again;

    queue.lost = 0;
    queue.report_wanted = false;
    pthread_mutex_unlock(&queue.mutex);
    again = queue.report(lost);
    pthread_mutex_lock(&queue.mutex);
    queue.report_wanted |= again;
}

static void *write_lines(void *unused)
{
    struct timespec report_at = in_ms(REPORT_MS);

    (void)unused;
    pthread_mutex_lock(&queue.mutex);
    while (queue.state == RUNNING || queue.put != queue.written) {
        if (queue.put != queue.written) {
            write_waiting();
        } else if (!queue.report_wanted) {
            pthread_cond_wait(&queue.arrived, &queue.mutex);
        } else if (pthread_cond_clockwait(&queue.arrived, &queue.mutex, CLOCK_MONOTONIC,
                                          &report_at) == ETIMEDOUT) {
            make_report();
            report_at = in_ms(REPORT_MS);
        }
    }
    /* the thread ends: from now on each caller writes its own line */
    if (queue.state == STOPPING) {
        queue.state = DIRECT;
        pthread_cond_broadcast(&queue.drained);
    }
    pthread_mutex_unlock(&queue.mutex);
    return NULL;
}

int hf_log_queue_start(bool (*report)(uint64_t lost))
{
    sigset_t all;
    sigset_t before;
    int error;

    queue.report = report;
    queue.state = RUNNING;
    sigfillset(&all); /* the loop thread handles signals, so this thread blocks them all */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&queue.thread, NULL, write_lines, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        queue.state = DIRECT;
    return error ? HF_EUNAVAIL : 0;
}

/* Waits for the log's thread to end; false if the deadline has passed. The caller holds the mutex,
 * which is released during the wait. */
static bool wait_for_thread(const struct timespec *deadline)
{
    return pthread_cond_clockwait(&queue.drained, &queue.mutex, CLOCK_MONOTONIC, deadline) !=
           ETIMEDOUT;
}

/* Gives up when it cannot get the mutex in time, because a thread that fails an assertion may call
 * this while it holds the mutex. */
void hf_log_queue_flush(unsigned timeout_ms)
{
    struct timespec deadline = in_ms(timeout_ms);

    if (pthread_mutex_clocklock(&queue.mutex, CLOCK_MONOTONIC, &deadline) != 0)
        return;
    while (queue.state == RUNNING && queue.put != queue.written && wait_for_thread(&deadline))
        continue;
    pthread_mutex_unlock(&queue.mutex);
}

void hf_log_queue_stop(unsigned timeout_ms)
{
    struct timespec deadline = in_ms(timeout_ms);
    bool left;

    pthread_mutex_lock(&queue.mutex);
    if (queue.state != RUNNING) {
        pthread_mutex_unlock(&queue.mutex);
        return;
    }
    queue.state = STOPPING;
    pthread_cond_signal(&queue.arrived);
    while (queue.state == STOPPING && wait_for_thread(&deadline))
        continue;
    left = queue.state == DIRECT;
    if (!left)
        queue.state = ABANDONED;
    pthread_mutex_unlock(&queue.mutex);
    if (left)
        pthread_join(queue.thread, NULL);
    else
        pthread_detach(queue.thread);
}
