/*
 * seccomp: the system calls that the daemon and its libraries use, in two filters.
 *
 * A call that the daemon may not make looks, to a library, like one that this kernel does not have
 * (ENOSYS), so that the C library or libuv of a later Debian uses the older call that it replaces.
 * A library asks only once, and keeps what it found or opened: libuv 1.50 makes an io_uring with
 * the loop, and aborts when it cannot be entered later. So what the second filter refuses must be
 * refused before any library has started:
 *
 *   1. at the start, every call that is not in the lists below fails with ENOSYS;
 *   2. when everything is open, calls that only our own start makes are taken away as well.
 *
 * The second filter is never loaded without the first. What an exploit needs and the daemon never
 * does (to run a program, to become another user, to look into another process, to load code into
 * the kernel) ends the process from then on. A call that no list names is told in the log by its
 * name (call_watch.c), once, and fails with ENOSYS. In a build with sanitizers, which is what the
 * tests use, it ends the process as well, so that a call that is missing here is found by the
 * tests.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "confine/call_watch.h"
#include "confine/confine.h"

#define CALL(name) SCMP_SYS(name)

static const int ALLOWED[] = {
    /* calls that work on files that are open */
    CALL(read), CALL(readv), CALL(pread64), CALL(preadv), CALL(preadv2), CALL(write), CALL(writev),
    CALL(pwrite64), CALL(pwritev), CALL(pwritev2), CALL(close), CALL(close_range), CALL(lseek),
    CALL(fsync), CALL(fdatasync), CALL(sync_file_range), CALL(ftruncate), CALL(fallocate),
    CALL(fcntl), CALL(fcntl64), CALL(flock), CALL(dup), CALL(dup2), CALL(dup3), CALL(pipe),
    CALL(pipe2), CALL(fadvise64), CALL(sendfile),
    /* calls that work on paths of the file system */
    CALL(open), CALL(openat), CALL(openat2), CALL(stat), CALL(fstat), CALL(lstat), CALL(newfstatat),
    CALL(fstatat64), CALL(statx), CALL(statfs), CALL(fstatfs), CALL(access), CALL(faccessat),
    CALL(faccessat2), CALL(readlink), CALL(readlinkat), CALL(getdents64), CALL(getcwd), CALL(mkdir),
    CALL(mkdirat), CALL(unlink), CALL(unlinkat), CALL(rename), CALL(renameat), CALL(renameat2),
    CALL(umask),
    /* calls for memory; mmap and mprotect have a rule of their own */
    CALL(munmap), CALL(mremap), CALL(madvise), CALL(brk), CALL(msync), CALL(mincore),
    CALL(membarrier),
    /* calls for threads and time; clone has a rule of its own */
    CALL(set_robust_list), CALL(rseq), CALL(set_tid_address), CALL(gettid), CALL(futex),
    CALL(futex_time64), CALL(sched_yield), CALL(sched_getaffinity), CALL(getcpu), CALL(nanosleep),
    CALL(clock_nanosleep), CALL(clock_gettime), CALL(clock_getres), CALL(gettimeofday), CALL(time),
    CALL(times), CALL(exit), CALL(exit_group), CALL(restart_syscall),
    /* signals to ourselves */
    CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(rt_sigpending),
    CALL(rt_sigsuspend), CALL(rt_sigtimedwait), CALL(sigaltstack), CALL(pause),
    /* events */
    CALL(epoll_create), CALL(epoll_create1), CALL(epoll_ctl), CALL(epoll_wait), CALL(epoll_pwait),
    CALL(epoll_pwait2), CALL(poll), CALL(ppoll), CALL(select), CALL(pselect6), CALL(eventfd),
    CALL(eventfd2), CALL(timerfd_create), CALL(timerfd_settime),
    /* calls for sockets; socket itself has a rule of its own */
    CALL(socketpair), CALL(bind), CALL(listen), CALL(accept), CALL(accept4), CALL(connect),
    CALL(getsockname), CALL(getpeername), CALL(getsockopt), CALL(setsockopt), CALL(sendto),
    CALL(sendmsg), CALL(sendmmsg), CALL(recvfrom), CALL(recvmsg), CALL(recvmmsg), CALL(shutdown),
    /* questions */
    CALL(getrandom), CALL(uname), CALL(sysinfo), CALL(getpid), CALL(getppid), CALL(getpgrp),
    CALL(getuid), CALL(geteuid), CALL(getgid), CALL(getegid), CALL(getgroups), CALL(getresuid),
    CALL(getresgid), CALL(getrlimit), CALL(getrusage), CALL(capget)};

/* The filter decides about these calls by their arguments (add_conditions()). */
static const int CONDITIONAL[] = {CALL(socket), CALL(ioctl), CALL(prctl),    CALL(tgkill),
                                  CALL(clone),  CALL(mmap),  CALL(mprotect), CALL(prlimit64)};

/* Only our own start makes these calls, to confine the process, so no library can come to depend on
 * them. */
static const int CONFINING[] = {CALL(seccomp), CALL(landlock_create_ruleset),
                                CALL(landlock_add_rule), CALL(landlock_restrict_self)};

/* Only an exploit would make these calls, except that the daemon's own start makes those that
 * change its user and give files to that user. */
static const int FATAL[] = {CALL(execve),
                            CALL(execveat),
                            CALL(fork),
                            CALL(vfork),
                            CALL(ptrace),
                            CALL(process_vm_readv),
                            CALL(process_vm_writev),
                            CALL(kcmp),
                            CALL(pidfd_getfd),
                            CALL(setuid),
                            CALL(setgid),
                            CALL(setreuid),
                            CALL(setregid),
                            CALL(setresuid),
                            CALL(setresgid),
                            CALL(setfsuid),
                            CALL(setfsgid),
                            CALL(setgroups),
                            CALL(capset),
                            CALL(mount),
                            CALL(umount2),
                            CALL(pivot_root),
                            CALL(chroot),
                            CALL(unshare),
                            CALL(setns),
                            CALL(open_by_handle_at),
                            CALL(name_to_handle_at),
                            CALL(init_module),
                            CALL(finit_module),
                            CALL(delete_module),
                            CALL(kexec_load),
                            CALL(kexec_file_load),
                            CALL(bpf),
                            CALL(perf_event_open),
                            CALL(userfaultfd),
                            CALL(reboot),
                            CALL(swapon),
                            CALL(swapoff),
                            CALL(settimeofday),
                            CALL(clock_settime),
                            CALL(adjtimex),
                            CALL(clock_adjtime),
                            CALL(sethostname),
                            CALL(setdomainname),
                            CALL(iopl),
                            CALL(ioperm),
                            CALL(chown),
                            CALL(fchown),
                            CALL(lchown),
                            CALL(fchownat),
                            CALL(chmod),
                            CALL(fchmod),
                            CALL(fchmodat),
                            CALL(mknod),
                            CALL(mknodat),
                            CALL(symlink),
                            CALL(symlinkat),
                            CALL(link),
                            CALL(linkat),
                            CALL(personality),
                            CALL(kill),
                            CALL(tkill)};

/*
 * Libraries try these calls and go on without them, so the calls are neither allowed nor a reason
 * to end the process. clone3 takes its flags from memory, where a filter cannot look; the C library
 * goes on with clone.
 */
static const int ABSENT[] = {CALL(clone3),      CALL(io_uring_setup), CALL(add_key),
                             CALL(request_key), CALL(keyctl),         CALL(memfd_create)};

#ifdef HF_INSTRUMENTED
/*
 * Instrumented builds need these calls: the leak check clones a process that stops all threads and
 * reads their memory; reports are made readable by a program of their own; coverage locks and
 * renames its files.
 */
static const int FOR_INSTRUMENTS[] = {CALL(ptrace),
                                      CALL(process_vm_readv),
                                      CALL(wait4),
                                      CALL(execve),
                                      CALL(fork),
                                      CALL(vfork),
                                      CALL(clone),
                                      CALL(kill),
                                      CALL(personality),
                                      CALL(prctl),
                                      CALL(prlimit64),
                                      CALL(mprotect),
                                      CALL(mmap),
                                      CALL(tgkill),
                                      CALL(rt_tgsigqueueinfo),
                                      CALL(waitid),
                                      CALL(ioctl),
                                      CALL(setitimer),
                                      CALL(getdents),
                                      CALL(fchmod),
                                      CALL(link)};
static const bool UNEXPECTED_IS_FATAL = true;
#else
static const int FOR_INSTRUMENTS[] = {CALL(read)};
static const bool UNEXPECTED_IS_FATAL = false;
#endif

/* The watching thread makes this call to end the process; the call has no other effect. */
static const int ENDING = CALL(setns);

static int add_each(scmp_filter_ctx filter, uint32_t action, const int calls[], size_t n)
{
    int rv = 0;

    for (size_t i = 0; rv == 0 && i < n; i++) {
        rv = seccomp_rule_add(filter, action, calls[i], 0);
        if (rv == -EACCES) /* a rule with the default action is refused, and not needed */
            rv = 0;
    }
    return rv;
}

/* Allows the call if this argument, one of its first three, has one of these values. */
static int allow_values(scmp_filter_ctx filter, int call, unsigned argument,
                        const scmp_datum_t values[], size_t n)
{
    int rv = 0;

    for (size_t i = 0; rv == 0 && i < n; i++)
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1,
                              SCMP_CMP(argument, SCMP_CMP_EQ, values[i]));
    return rv;
}

/* Allows the call if the bits of this argument that mask selects equal `bits`. */
static int allow_bits(scmp_filter_ctx filter, int call, unsigned argument, scmp_datum_t mask,
                      scmp_datum_t bits)
{
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1,
                            SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, mask, bits));
}

/* Adds the rules for calls that are allowed or not depending on their arguments. */
static int add_conditions(scmp_filter_ctx filter)
{
    static const scmp_datum_t families[] = {AF_UNIX, AF_INET, AF_INET6};
    static const scmp_datum_t ioctls[] = {FIONBIO,
                                          FIONREAD,
                                          FIOCLEX,
                                          FIONCLEX,
                                          TCGETS,
                                          SECCOMP_IOCTL_NOTIF_RECV,
                                          SECCOMP_IOCTL_NOTIF_SEND};
    static const scmp_datum_t prctls[] = {PR_SET_NAME, PR_GET_NAME, 0x53564d41 /* PR_SET_VMA */};
    const scmp_datum_t pid = (scmp_datum_t)getpid();
    int rv = allow_values(filter, CALL(socket), 0, families, HF_COUNT_OF(families));

    if (rv == 0) /* for the resolver, which asks which addresses this host has */
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(socket), 2,
                              SCMP_CMP(0, SCMP_CMP_EQ, AF_NETLINK), SCMP_CMP(2, SCMP_CMP_EQ, 0));
    if (rv == 0) /* for the question which user is at the other end of a loopback connection */
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(socket), 2,
                              SCMP_CMP(0, SCMP_CMP_EQ, AF_NETLINK),
                              SCMP_CMP(2, SCMP_CMP_EQ, NETLINK_SOCK_DIAG));
    if (rv == 0)
        rv = allow_values(filter, CALL(ioctl), 1, ioctls, HF_COUNT_OF(ioctls));
    if (rv == 0)
        rv = allow_values(filter, CALL(prctl), 0, prctls, HF_COUNT_OF(prctls));
    if (rv == 0)
        rv = allow_values(filter, CALL(tgkill), 0, &pid, 1);
    if (rv == 0) /* allows threads, but no processes */
        rv = allow_bits(filter, CALL(clone), 0, CLONE_THREAD, CLONE_THREAD);
    /* Memory may be writable or executable, never both; shared libraries may be loaded late. */
    if (rv == 0)
        rv = allow_bits(filter, CALL(mmap), 2, PROT_EXEC, 0);
    if (rv == 0)
        rv = allow_bits(filter, CALL(mmap), 2, PROT_EXEC | PROT_WRITE, PROT_EXEC);
    if (rv == 0)
        rv = allow_bits(filter, CALL(mprotect), 2, PROT_EXEC, 0);
    if (rv == 0) /* allows reading a limit, but not setting one */
        rv = seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(prlimit64), 1,
                              SCMP_CMP(2, SCMP_CMP_EQ, 0));
    return rv;
}

/* Adds the rules that the second filter has for all threads. For the calls in fatal the kernel
 * itself ends the process. */
static int add_rules(scmp_filter_ctx filter, const int fatal[], size_t n_fatal)
{
    int rv = add_each(filter, SCMP_ACT_ALLOW, ALLOWED, HF_COUNT_OF(ALLOWED));

    if (rv == 0)
        rv = add_each(filter, SCMP_ACT_ALLOW, FOR_INSTRUMENTS, HF_COUNT_OF(FOR_INSTRUMENTS));
    if (rv == 0)
        rv = add_conditions(filter);
    if (rv == 0)
        rv = add_each(filter, SCMP_ACT_ERRNO(ENOSYS), ABSENT, HF_COUNT_OF(ABSENT));
    for (size_t i = 0; rv == 0 && i < n_fatal; i++) {
        rv = seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, fatal[i], 0);
        if (rv == -EACCES || rv == -EEXIST) /* the call is already allowed, or already fatal */
            rv = 0;
    }
    return rv;
}

static bool is_fatal(int call)
{
    for (size_t i = 0; i < HF_COUNT_OF(FATAL); i++) {
        if (FATAL[i] == call)
            return true;
    }
    return UNEXPECTED_IS_FATAL;
}

static int load(scmp_filter_ctx filter)
{
    int rv = seccomp_attr_set(filter, SCMP_FLTATR_CTL_LOG, 1);

    if (rv == 0) /* a tree instead of a list of rules needs fewer comparisons for each call */
        rv = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (rv == 0)
        rv = seccomp_load(filter);
    return rv;
}

static bool begun;

int hf_confine_begin(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int rv;

    if (!filter)
        return HF_ENOMEM;
    rv = add_each(filter, SCMP_ACT_ALLOW, ALLOWED, HF_COUNT_OF(ALLOWED));
    if (rv == 0)
        rv = add_each(filter, SCMP_ACT_ALLOW, FOR_INSTRUMENTS, HF_COUNT_OF(FOR_INSTRUMENTS));
    if (rv == 0)
        rv = add_each(filter, SCMP_ACT_ALLOW, CONDITIONAL, HF_COUNT_OF(CONDITIONAL));
    if (rv == 0)
        rv = add_each(filter, SCMP_ACT_ALLOW, CONFINING, HF_COUNT_OF(CONFINING));
    if (rv == 0)
        rv = add_each(filter, SCMP_ACT_ALLOW, FATAL, HF_COUNT_OF(FATAL));
    if (rv == 0)
        rv = load(filter);
    seccomp_release(filter);
    begun = rv == 0;
    return rv < 0 ? HF_EUNAVAIL : 0;
}

/* Loads the second filter for the calling thread and for those that it will start; *listener, if
 * not NULL, becomes a descriptor that hears of calls that the filter does not list. */
static int load_second(uint32_t otherwise, const int fatal[], size_t n_fatal, int *listener)
{
    scmp_filter_ctx filter = seccomp_init(otherwise);
    int rv;

    if (!filter)
        return HF_ENOMEM;
    rv = add_rules(filter, fatal, n_fatal);
    if (rv == 0)
        rv = load(filter);
    if (rv == 0 && listener)
        *listener = seccomp_notify_fd(filter);
    seccomp_release(filter);
    return rv < 0 ? HF_EUNAVAIL : 0;
}

/*
 * Loads the filter of the watching thread, whose own calls must not wait for the thread itself. The
 * C library makes every thread change its user when one does; in the watching thread that fails,
 * and so ends the process where the change began.
 */
static int confine_watcher(void)
{
    return load_second(SCMP_ACT_ERRNO(ENOSYS), &ENDING, 1, NULL);
}

/* Starts the watching thread before the filter is loaded, because calls that are made to start the
 * thread cannot wait for it. */
static int load_watched(void)
{
    int listener = -1;
    int rv = hf_call_watch_start(confine_watcher, is_fatal, ENDING);

    if (rv < 0)
        return rv;
    rv = load_second(SCMP_ACT_NOTIFY, &ENDING, 1, &listener);
    hf_call_watch_listen(rv == 0 ? listener : -1);
    return rv;
}

int hf_confine_system_calls(void)
{
    if (!begun)
        return HF_EUNAVAIL;
    if (load_watched() == 0)
        return 0;
    /* A container's engine may watch already, and a process can have only one watcher: the kernel
     * then does what ours would, and only the kernel's audit log has the name of the call. */
    return load_second(UNEXPECTED_IS_FATAL ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(ENOSYS), FATAL,
                       HF_COUNT_OF(FATAL), NULL);
}
