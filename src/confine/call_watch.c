#include "confine/call_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <seccomp.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

enum { CALLS_MAX = 512, NAME_MAX_BYTES = 32 };

static struct {
    int (*confine)(void);
    bool (*is_fatal)(int call);
    int ending;
    int confined; /* the result of confine() on the watching thread */
    int fd;       /* the descriptor that hears of system calls; -1: there is none */
    int record;   /* the descriptor of the file that calls are written to; -1: there is none */
    sem_t started;
    sem_t loaded;
    bool told[CALLS_MAX];
    char names[CALLS_MAX][NAME_MAX_BYTES];
} watch = {.fd = -1, .record = -1};

/* Finds the names of system calls in advance, because a thread that makes an unexpected call may
 * hold the lock of malloc. */
static void find_names(void)
{
    for (int call = 0; call < CALLS_MAX; call++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);

        hf_format(watch.names[call], NAME_MAX_BYTES, "%.*s", NAME_MAX_BYTES - 1, name ? name : "?");
        free(name);
    }
}

static void open_record(void)
{
#ifdef HF_INSTRUMENTED
    const char *path = getenv("HOLDFAST_RECORD_CALLS");

    if (path)
        watch.record = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
#endif
}

static void record(const char *name, const struct seccomp_data *data)
{
    char line[128];

    hf_format(line, sizeof(line), "%s 0x%x 0x%x\n", name, (unsigned)data->args[0],
              (unsigned)data->args[1]);
    (void)!write(watch.record, line, strlen(line));
}

/*
 * Logs each unexpected call once: a library that makes it in every turn of the loop must not fill a
 * disk. The arguments tell which form of the call was refused; cut to 32 bits they show no address.
 */
static void tell(const char *name, const struct seccomp_data *data, bool fatal)
{
    if (data->nr >= 0 && data->nr < CALLS_MAX) {
        if (watch.told[data->nr])
            return;
        watch.told[data->nr] = true;
    }
    hf_log_past_queue(HF_LOG_ERROR, "system call outside the filter", HF_STR("call", name),
                      HF_INT("number", data->nr), HF_UINT("first", (uint32_t)data->args[0]),
                      HF_UINT("second", (uint32_t)data->args[1]),
                      HF_STR("answer", fatal ? "the end of the process" : "ENOSYS"));
}

static void judge(const struct seccomp_data *data)
{
    bool known = data->nr >= 0 && data->nr < CALLS_MAX;
    const char *name = known ? watch.names[data->nr] : "?";
    bool fatal = watch.is_fatal(data->nr);

    if (watch.record >= 0) {
        record(name, data);
        return;
    }
    tell(name, data, fatal);
    if (fatal)
        (void)syscall(watch.ending, -1, 0);
}

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) < 0) {
    }
}

/* The thread that hears of unexpected calls. It waits for no lock that a thread which made such a
 * call could hold. Once the descriptor is closed, the kernel itself answers ENOSYS. */
static void *hear(void *unused)
{
    (void)unused;
    watch.confined = watch.confine();
    sem_post(&watch.started);
    await(&watch.loaded);
    while (watch.fd >= 0) {
        struct seccomp_notif call = {0};
        struct seccomp_notif_resp answer = {.error = -ENOSYS};

        if (ioctl(watch.fd, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0) {
            if (errno == EINTR ||
                errno == ENOENT) /* the thread that made the call was interrupted, or ended */
                continue;
            break;
        }
        judge(&call.data);
        answer.id = call.id;
        (void)ioctl(watch.fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
    if (watch.fd >= 0)
        close(watch.fd);
    return NULL;
}

int hf_call_watch_start(int (*confine)(void), bool (*is_fatal)(int call), int ending)
{
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    int error;

    watch.confine = confine;
    watch.is_fatal = is_fatal;
    watch.ending = ending;
    find_names();
    open_record();
    if (sem_init(&watch.started, 0, 0) < 0 || sem_init(&watch.loaded, 0, 0) < 0)
        return HF_EUNAVAIL;
    sigfillset(&all); /* the loop's thread takes the signals, so the watching thread blocks them */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, NULL, hear, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return HF_EUNAVAIL;
    pthread_detach(thread);
    await(&watch.started);
    if (watch.confined < 0)
        hf_call_watch_listen(-1);
    return watch.confined;
}

void hf_call_watch_listen(int fd)
{
    watch.fd = fd;
    sem_post(&watch.loaded);
}
