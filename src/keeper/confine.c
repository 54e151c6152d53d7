#include "keeper/confine.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"

#define CALL(name) SCMP_SYS(name)

/* ---- privileges ---- */

int hf_keeper_give_up_privileges(void)
{
    static const unsigned KEPT[] = {CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE};
    capng_select_t sets = CAPNG_SELECT_CAPS;
    bool have[HF_COUNT_OF(KEPT)];

    if (capng_get_caps_process() != 0)
        return HF_EDENIED;
    for (size_t i = 0; i < HF_COUNT_OF(KEPT); i++)
        have[i] = capng_have_capability(CAPNG_PERMITTED, KEPT[i]);
    if (!have[0])
        return HF_EUNAVAIL;
    /* Only CAP_SETPCAP permits emptying the bounding set. Root has it; the user of the systemd unit
     * has not, but its bounding set is as small already. */
    if (capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP))
        sets |= CAPNG_SELECT_BOUNDS;
    capng_clear(CAPNG_SELECT_ALL);
    for (size_t i = 0; i < HF_COUNT_OF(KEPT); i++) {
        if (have[i])
            (void)capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, KEPT[i]);
    }
    if (capng_apply(sets) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return HF_EDENIED;
    return 0;
}

/* ---- files ---- */

#define ACCESS_TRUNCATE (1ULL << 14) /* LANDLOCK_ACCESS_FS_TRUNCATE, Linux 6.2 */

/* Forbids changes to the file system by Landlock. Reading and writing files are not forbidden here,
 * because Landlock cannot tell where a file is whose directory the kernel has not seen. */
int hf_keeper_confine_files(void)
{
    struct landlock_ruleset_attr attr = {
        .handled_access_fs =
            ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1) &
            ~(uint64_t)(LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_READ_FILE |
                        LANDLOCK_ACCESS_FS_WRITE_FILE),
    };
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    long ruleset;
    int rv = 0;

    if (version >= 3)
        attr.handled_access_fs |= ACCESS_TRUNCATE;
    ruleset = version < 1 ? -1 : syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (ruleset < 0)
        return HF_EUNAVAIL;
    if (syscall(SYS_landlock_restrict_self, (int)ruleset, 0) < 0)
        rv = HF_EUNAVAIL;
    close((int)ruleset);
    return rv;
}

/* ---- system calls ---- */

static const int ALLOWED[] = {
    /* calls that find, open (openat below) and look at files; none reads or writes one */
    CALL(openat2), CALL(name_to_handle_at), CALL(fstat), CALL(stat), CALL(lstat), CALL(newfstatat),
    CALL(statx), CALL(fstatfs), CALL(readlink), CALL(readlinkat), CALL(getdents64), CALL(lseek),
    CALL(getcwd),
    /* calls for sockets and waiting; none of them works on a file */
    CALL(accept4), CALL(sendto), CALL(sendmsg), CALL(recvfrom), CALL(getsockopt), CALL(setsockopt),
    CALL(poll), CALL(ppoll), CALL(timerfd_settime), CALL(pipe2),
    /* calls that a new thread makes at its beginning */
    CALL(set_robust_list), CALL(rseq),
    /* calls for memory, time, signals, and the end of the process */
    CALL(munmap), CALL(mremap), CALL(madvise), CALL(brk), CALL(futex), CALL(clock_gettime),
    CALL(gettimeofday), CALL(getrandom), CALL(rt_sigaction), CALL(rt_sigprocmask),
    CALL(rt_sigreturn), CALL(restart_syscall), CALL(sched_yield), CALL(getpid), CALL(gettid),
    CALL(getuid), CALL(geteuid), CALL(getgid), CALL(getegid), CALL(exit), CALL(exit_group)};

static const int FOR_INSTRUMENTS[] = {CALL(ptrace),
                                      CALL(wait4),
                                      CALL(clone),
                                      CALL(kill),
                                      CALL(prctl),
                                      CALL(prlimit64),
                                      CALL(read),
                                      CALL(write),
                                      CALL(mmap),
                                      CALL(tgkill),
                                      CALL(mprotect),
                                      CALL(openat),
                                      CALL(open),
                                      CALL(ioctl),
                                      CALL(close),
                                      CALL(unlink),
                                      CALL(sigaltstack),
                                      CALL(process_vm_readv),
                                      CALL(getppid),
                                      CALL(dup),
                                      CALL(sched_getaffinity),
                                      CALL(ftruncate),
                                      CALL(fchmod),
                                      CALL(fcntl),
                                      CALL(access),
                                      CALL(set_robust_list),
                                      CALL(rseq),
                                      CALL(getrlimit),
                                      CALL(uname),
                                      CALL(mkdir),
                                      CALL(getdents),
                                      CALL(execve),
                                      CALL(fork),
                                      CALL(vfork),
                                      CALL(personality),
                                      CALL(sysinfo),
                                      CALL(rename),
                                      CALL(pipe2),
                                      CALL(getrusage)};

#define NOT(argument, bits) SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, (scmp_datum_t)(bits), 0)
#define HAS(argument, bits) \
    SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, (scmp_datum_t)(bits), (scmp_datum_t)(bits))
#define IS(argument, value) SCMP_CMP(argument, SCMP_CMP_EQ, (scmp_datum_t)(value))

/* Flags that no open may have. The bit of O_DIRECTORY, which O_TMPFILE includes, is allowed. */
enum { OPEN_NEVER = O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY) };

static int add_each(scmp_filter_ctx filter, const int calls[], size_t n)
{
    int rv = 0;

    for (size_t i = 0; rv == 0 && i < n; i++)
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
    return rv;
}

static int add_fcntl(scmp_filter_ctx filter)
{
    static const int COMMANDS[] = {F_OFD_SETLK, F_OFD_SETLKW, F_OFD_GETLK, F_GETLK,
                                   F_GETFL,     F_SETFL,      F_GETFD,     F_SETFD};
    int rv = 0;

    for (size_t i = 0; rv == 0 && i < HF_COUNT_OF(COMMANDS); i++)
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(fcntl), 1, IS(1, COMMANDS[i]));
    return rv;
}

/* Allows closing only descriptors above that of the mounts, so that no other file gets a lower
 * number. */
static int add_descriptors(scmp_filter_ctx filter, int mounts)
{
    int rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(read), 1, IS(0, mounts));

    if (rv == 0)
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(write), 1, IS(0, STDERR_FILENO));
    if (rv == 0)
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(writev), 1, IS(0, STDERR_FILENO));
    if (rv == 0)
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(close), 1,
                              SCMP_CMP(0, SCMP_CMP_GT, (scmp_datum_t)mounts));
    return rv;
}

static int add_with_conditions(scmp_filter_ctx filter, int mounts)
{
    int rv = add_descriptors(filter, mounts);

    if (rv == 0)
        rv = add_fcntl(filter);
    if (rv == 0)
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(openat), 1, NOT(2, OPEN_NEVER));
    if (rv == 0)
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(open_by_handle_at), 1,
                              NOT(2, OPEN_NEVER));
    if (rv == 0)
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(mmap), 2, HAS(3, MAP_ANONYMOUS),
                              NOT(2, PROT_EXEC));
    if (rv == 0)
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(mprotect), 1, NOT(2, PROT_EXEC));
    if (rv == 0) /* for messages to the socket of systemd */
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(socket), 1, IS(0, AF_UNIX));
    if (rv == 0) /* for interrupting threads that wait */
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(tgkill), 1, IS(0, getpid()));
    if (rv == 0) /* FS_IOC_GETFSUUID */
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(ioctl), 1,
                              IS(1, _IOR(0x15, 0, uint8_t[17])));
    return rv;
}

int hf_keeper_confine_calls(int mounts, bool instrumented)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int rv;

    if (!filter)
        return HF_ENOMEM;
    rv = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (rv == 0)
        rv = add_each(filter, ALLOWED, HF_COUNT_OF(ALLOWED));
    if (rv == 0 && instrumented)
        rv = add_each(filter, FOR_INSTRUMENTS, HF_COUNT_OF(FOR_INSTRUMENTS));
    if (rv == 0)
        rv = add_with_conditions(filter, mounts);
    if (rv == 0)
        rv = seccomp_load(filter);
    seccomp_release(filter);
    return rv < 0 ? HF_EUNAVAIL : 0;
}
