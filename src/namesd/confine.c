#include "namesd/confine.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"

#define CALL(name) SCMP_SYS(name)

/* ---- privileges ---- */

static int give_up_privileges(void)
{
    capng_select_t sets = CAPNG_SELECT_CAPS;

    if (capng_get_caps_process() != 0)
        return HF_EDENIED;
    if (!capng_have_capability(CAPNG_PERMITTED, CAP_DAC_READ_SEARCH))
        return HF_EUNAVAIL;
    /* Only CAP_SETPCAP permits emptying the bounding set. Root has it; the user of the systemd unit
     * has not, but its bounding set is empty already. */
    if (capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP))
        sets |= CAPNG_SELECT_BOUNDS;
    capng_clear(CAPNG_SELECT_ALL);
    capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_DAC_READ_SEARCH);
    if (capng_apply(sets) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return HF_EDENIED;
    return 0;
}

/* ---- files ---- */

static bool allow_reading(int ruleset, const char *path)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE};
    bool ok;

    rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (rule.parent_fd < 0)
        return true; /* a path that does not exist need not be allowed */
    ok = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    close(rule.parent_fd);
    return ok;
}

/* Forbids every change to a file, and reading any file's content but the list of mounts and udev's
 * database. */
static int confine_files(void)
{
    struct landlock_ruleset_attr attr = {
        .handled_access_fs =
            ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1) & ~(uint64_t)LANDLOCK_ACCESS_FS_READ_DIR,
    };
    long ruleset = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    int rv = 0;

    if (ruleset < 0)
        return HF_EUNAVAIL;
    if (!allow_reading((int)ruleset, "/proc") || !allow_reading((int)ruleset, "/run/udev/data") ||
        syscall(SYS_landlock_restrict_self, (int)ruleset, 0) < 0)
        rv = HF_EUNAVAIL;
    close((int)ruleset);
    return rv;
}

/* ---- system calls ---- */

static const int ALLOWED[] = {
    /* calls on files, which are opened to be looked at, never to be written (Landlock) */
    CALL(openat), CALL(openat2), CALL(open), CALL(open_by_handle_at), CALL(name_to_handle_at),
    CALL(close), CALL(read), CALL(write), CALL(writev), CALL(lseek), CALL(fstat), CALL(stat),
    CALL(lstat), CALL(newfstatat), CALL(statx), CALL(fstatfs), CALL(statfs), CALL(readlink),
    CALL(readlinkat), CALL(getdents64), CALL(getcwd), CALL(fcntl),
    /* calls on sockets, and calls that wait */
    CALL(accept4), CALL(sendto), CALL(recvfrom), CALL(poll), CALL(ppoll), CALL(shutdown),
    /* calls for memory, time, signals, and the end of the process */
    CALL(munmap), CALL(mremap), CALL(madvise), CALL(brk), CALL(futex), CALL(clock_gettime),
    CALL(gettimeofday), CALL(getrandom), CALL(rt_sigaction), CALL(rt_sigprocmask),
    CALL(rt_sigreturn), CALL(restart_syscall), CALL(sched_yield), CALL(getpid), CALL(gettid),
    CALL(exit), CALL(exit_group)};

#ifdef HF_INSTRUMENTED
/* The leak check and coverage make calls that the program itself never makes. */
static const int FOR_INSTRUMENTS[] = {CALL(mmap),        CALL(ptrace),
                                      CALL(wait4),       CALL(clone),
                                      CALL(kill),        CALL(prctl),
                                      CALL(prlimit64),   CALL(mprotect),
                                      CALL(tgkill),      CALL(ioctl),
                                      CALL(getdents),    CALL(sigaltstack),
                                      CALL(unlink),      CALL(execve),
                                      CALL(fork),        CALL(vfork),
                                      CALL(personality), CALL(process_vm_readv),
                                      CALL(getuid),      CALL(geteuid),
                                      CALL(getgid),      CALL(getegid),
                                      CALL(getppid),     CALL(sched_getaffinity),
                                      CALL(dup),         CALL(ftruncate),
                                      CALL(fchmod),      CALL(pipe2),
                                      CALL(access),      CALL(getrusage),
                                      CALL(sysinfo),     CALL(set_robust_list),
                                      CALL(rseq),        CALL(getrlimit),
                                      CALL(uname),       CALL(mkdir),
                                      CALL(rename)};
static const uint32_t OTHERWISE = SCMP_ACT_KILL_PROCESS;
#else
static const int FOR_INSTRUMENTS[] = {CALL(read)};
static const uint32_t OTHERWISE = SCMP_ACT_ERRNO(ENOSYS);
#endif

static int add_each(scmp_filter_ctx filter, const int calls[], size_t n)
{
    int rv = 0;

    for (size_t i = 0; rv == 0 && i < n; i++)
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
    return rv;
}

static int confine_system_calls(void)
{
    scmp_filter_ctx filter = seccomp_init(OTHERWISE);
    int rv;

    if (!filter)
        return HF_ENOMEM;
    rv = add_each(filter, ALLOWED, HF_COUNT_OF(ALLOWED));
    if (rv == 0)
        rv = add_each(filter, FOR_INSTRUMENTS, HF_COUNT_OF(FOR_INSTRUMENTS));
    /* Memory may be mapped, but not as executable, because all code is loaded by now. */
    if (rv == 0)
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(mmap), 1,
                              SCMP_CMP(2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (rv == 0) /* FS_IOC_GETFSUUID */
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(ioctl), 1,
                              SCMP_CMP(1, SCMP_CMP_EQ, _IOR(0x15, 0, uint8_t[17])));
    if (rv == 0)
        rv = seccomp_load(filter);
    seccomp_release(filter);
    return rv < 0 ? HF_EUNAVAIL : 0;
}

int hf_namesd_confine(void)
{
    uid_t uid = geteuid(); /* the user is asked for now, because the filter will forbid that */
    int rv = give_up_privileges();
    int files;
    int calls;

    if (rv == HF_EUNAVAIL)
        hf_log(HF_LOG_ERROR, "cannot open file handles",
               HF_STR("reason", "the capability CAP_DAC_READ_SEARCH is missing"),
               HF_STR("advice", "start the unit holdfast-namesd.service, or start it as root"));
    else if (rv < 0)
        hf_log(HF_LOG_ERROR, "cannot give up privileges", HF_STR("reason", hf_strerror(rv)));
    if (rv < 0)
        return rv;
#ifdef HF_INSTRUMENTED
    /* Instrumented programs write reports to any place, and run programs from any place. */
    files = HF_EUNAVAIL;
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    (void)confine_files;
#else
    files = confine_files();
#endif
    calls = confine_system_calls();
    hf_log(files < 0 || calls < 0 ? HF_LOG_WARN : HF_LOG_INFO, "confined", HF_UINT("uid", uid),
           HF_STR("files", files < 0 ? "all" : "no content"),
           HF_STR("system_calls", calls < 0 ? "all" : "own"));
    return 0;
}
