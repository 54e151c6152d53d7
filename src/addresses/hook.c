#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "addresses/private.h"
#include "base/error.h"
#include "base/log.h"

enum { ENVIRONMENT_MAX = 32 };

/* Chooses the hook's environment: a PATH that every Debian has, and the variables that the operator
 * meant for the hook. */
static void choose_environment(char *out[ENVIRONMENT_MAX])
{
    static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    static char language[] = "LC_ALL=C";
    unsigned n = 0;

    out[n++] = path;
    out[n++] = language;
    for (char **e = environ; *e && n < ENVIRONMENT_MAX - 1; e++) {
        if (strncmp(*e, "HOLDFAST_", strlen("HOLDFAST_")) == 0)
            out[n++] = *e;
    }
    out[n] = NULL;
}

/* Starts the hook with default signals: the runner ignores the signals of a stop, and a hook must
 * not inherit that. */
static int spawn(pid_t *pid, const char *path, char *const argv[], char *const env[])
{
    posix_spawnattr_t attr;
    sigset_t none;
    sigset_t all;
    int rv;

    sigemptyset(&none);
    sigfillset(&all);
    if (posix_spawnattr_init(&attr) != 0)
        return ENOMEM;
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawnattr_setpgroup(&attr, 0);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setsigdefault(&attr, &all);
    rv = posix_spawn(pid, path, NULL, &attr, argv, env);
    (void)posix_spawnattr_destroy(&attr);
    return rv;
}

static void end_former(struct hf_hook *hook)
{
    if (!hook->former)
        return;
    (void)kill(-hook->former, SIGKILL);
    while (waitpid(hook->former, NULL, 0) < 0 && errno == EINTR)
        ;
    hook->former = 0;
}

int hf_hook_start(struct hf_hook *hook, const struct hf_addresses_config *config, bool taking,
                  uint64_t now_ms)
{
    static char take[] = "take";
    static char drop[] = "drop";
    char path[HF_ADDRESSES_TEXT_MAX];
    char service[HF_ADDRESSES_TEXT_MAX];
    char texts[HF_ADDRESSES_MAX][HF_ADDR_TEXT_MAX];
    char *argv[HF_ADDRESSES_MAX + 4] = {path, taking ? take : drop, service};
    char *env[ENVIRONMENT_MAX];
    int rv;

    memcpy(path, config->hook, sizeof(path));
    memcpy(service, config->service, sizeof(service));
    for (unsigned i = 0; i < config->n_addresses && i < HF_ADDRESSES_MAX; i++)
        argv[3 + i] = hf_addr_format(&config->addresses[i], texts[i]);
    choose_environment(env);
    end_former(hook);
    *hook = (struct hf_hook){.taking = taking, .pidfd = -1};
    rv = spawn(&hook->pid, path, argv, env);
    if (rv != 0) {
        hook->pid = 0;
        hf_log(HF_LOG_ERROR, "cannot run the address hook", HF_STR("hook", path),
               HF_STR("reason", strerror(rv)), HF_STR("advice", "set cluster.hook"));
        return rv == ENOENT ? HF_ENOENT : rv == EACCES ? HF_EDENIED : HF_EUNAVAIL;
    }
    hook->pidfd = pidfd_open(hook->pid, 0);
    if (hook->pidfd < 0) { /* without a pidfd the runner would not see the end of the hook */
        hf_hook_kill(hook);
        (void)hf_hook_finish(hook);
        return HF_EUNAVAIL;
    }
    hook->deadline_ms = now_ms + (taking ? config->take_ms : config->drop_ms);
    return 0;
}

void hf_hook_kill(struct hf_hook *hook)
{
    (void)kill(-hook->pid, SIGKILL);
}

int hf_hook_finish(struct hf_hook *hook)
{
    const char *verb = hook->taking ? "take" : "drop";
    siginfo_t end = {0};
    int rv = 0;

    while (waitid(P_PID, (id_t)hook->pid, &end, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    hook->former = hook->pid;
    if (hook->pidfd >= 0)
        close(hook->pidfd);
    hook->pidfd = -1;
    hook->pid = 0;
    if (hook->stopped)
        return HF_ECANCELED;
    if (hook->overdue) {
        rv = HF_ETIMEDOUT;
        hf_log(HF_LOG_ERROR, "the address hook hangs and was killed", HF_STR("call", verb));
    } else if (end.si_code != CLD_EXITED || end.si_status != 0) {
        rv = HF_EIO;
        hf_log(HF_LOG_ERROR, "the address hook failed", HF_STR("call", verb),
               HF_INT("status", end.si_code == CLD_EXITED ? end.si_status : -end.si_status));
    }
    return rv;
}
