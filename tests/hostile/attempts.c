#include "attempts.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/if_packet.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"

static int run_program(const char *path)
{
    return execl(path, path, NULL);
}

static int become_root(const char *unused)
{
    (void)unused;
    return setuid(0);
}

/* The process with this number, or the parent. */
static pid_t other_process(const char *number)
{
    return number ? (pid_t)strtol(number, NULL, 10) : getppid();
}

static int trace(const char *pid)
{
    return (int)ptrace(PTRACE_ATTACH, other_process(pid), NULL, NULL);
}

static int mount_something(const char *path)
{
    return mount("none", path, "tmpfs", 0, NULL);
}

/* Newer architectures (arm64) have only clone. */
static int fork_process(const char *unused)
{
    (void)unused;
#ifdef SYS_fork
    return (int)syscall(SYS_fork);
#else
    errno = ENOTSUP;
    return -1;
#endif
}

static int clone_process(const char *unused)
{
    (void)unused;
    return (int)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
}

/* Clones as vfork() does: the new process shares the memory of the old one. */
static int clone_with_memory(const char *unused)
{
    (void)unused;
    return (int)syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, 0);
}

static int end_process(const char *pid)
{
    return kill(other_process(pid), SIGTERM);
}

/* Twice, as a library might in each turn of the loop. */
static int make_packet_socket(const char *unused)
{
    (void)unused;
    (void)!socket(AF_PACKET, SOCK_RAW, 0);
    return socket(AF_PACKET, SOCK_RAW, 0);
}

static int make_netlink_socket(const char *protocol)
{
    return socket(AF_NETLINK, SOCK_RAW, (int)strtol(protocol, NULL, 10));
}

static int write_code(const char *unused)
{
    (void)unused;
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0) == MAP_FAILED
               ? -1
               : 0;
}

static int make_executable(const char *unused)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)unused;
    return mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

static int change_mode(const char *path)
{
    return chmod(path, 04755);
}

static int read_file(const char *path)
{
    return open(path, O_RDONLY);
}

static int write_file(const char *path)
{
    return open(path, O_WRONLY | O_CREAT, 0600);
}

static int remove_file(const char *path)
{
    return unlink(path);
}

/* Empties a file without opening it for writing. */
static int empty_file(const char *path)
{
    return open(path, O_RDONLY | O_TRUNC);
}

/* Reads a file by its handle: no directory on the way is asked for permission. */
static int read_by_handle(const char *path)
{
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } h = {.handle = {.handle_bytes = MAX_HANDLE_SZ}};
    char *directory = strdup(path);
    int mount_id;
    int fd;
    char byte;

    if (!directory || name_to_handle_at(AT_FDCWD, path, &h.handle, &mount_id, 0) < 0)
        return -1;
    fd = open(dirname(directory), O_RDONLY | O_DIRECTORY);
    fd = fd < 0 ? -1 : open_by_handle_at(fd, &h.handle, O_RDONLY);
    return fd < 0 || read(fd, &byte, 1) < 0 ? -1 : 0;
}

static int list_directory(const char *path)
{
    char room[4096];
    int fd = open(path, O_RDONLY | O_DIRECTORY);

    return fd < 0 || syscall(SYS_getdents64, fd, room, sizeof(room)) < 0 ? -1 : 0;
}

static int connect_to(const char *path)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    if (fd < 0 || strlen(path) >= sizeof(sun.sun_path))
        return -1;
    memcpy(sun.sun_path, path, strlen(path) + 1);
    return connect(fd, (struct sockaddr *)&sun, sizeof(sun));
}

/* Hands an open file to the process at the other end of standard output. */
static int pass_file(const char *unused)
{
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec byte = {.iov_base = room, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &byte, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int fd = 0;

    (void)unused;
    *header = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    return (int)sendmsg(STDOUT_FILENO, &message, 0);
}

/* Does what the daemon does all day, which must still be possible. */

static void *noop(void *unused)
{
    return unused;
}

static int start_thread(const char *unused)
{
    pthread_t thread;

    (void)unused;
    errno = pthread_create(&thread, NULL, noop, NULL);
    return errno == 0 && pthread_join(thread, NULL) == 0 ? 0 : -1;
}

static int bind_reserved_port(const char *unused)
{
    struct sockaddr_storage sa = {.ss_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)unused;
    ((unsigned char *)&sa)[2] = 3; /* the port is 3 * 256 + 17 */
    ((unsigned char *)&sa)[3] = 17;
    return fd < 0 ? -1 : bind(fd, (struct sockaddr *)&sa, 16);
}

static int panic(const char *unused)
{
    (void)unused;
    HF_ASSERT(!"a panic is told and aborts");
    return 0;
}

static const struct {
    const char *name;
    int (*attempt)(const char *argument);
} ATTEMPTS[] = {
    {"execve", run_program},
    {"setuid", become_root},
    {"ptrace", trace},
    {"mount", mount_something},
    {"fork", fork_process},
    {"clone", clone_process},
    {"clone-with-memory", clone_with_memory},
    {"kill", end_process},
    {"packet-socket", make_packet_socket},
    {"netlink-socket", make_netlink_socket},
    {"writable-code", write_code},
    {"make-executable", make_executable},
    {"chmod", change_mode},
    {"read", read_file},
    {"write", write_file},
    {"remove", remove_file},
    {"empty", empty_file},
    {"read-by-handle", read_by_handle},
    {"list", list_directory},
    {"connect", connect_to},
    {"pass-file", pass_file},
    {"thread", start_thread},
    {"reserved-port", bind_reserved_port},
    {"panic", panic},
};

int attempt(const char *name, const char *argument)
{
    for (size_t i = 0; i < HF_COUNT_OF(ATTEMPTS); i++) {
        if (strcmp(ATTEMPTS[i].name, name) != 0)
            continue;
        puts(ATTEMPTS[i].attempt(argument) < 0 ? strerror(errno) : "done");
        return 0;
    }
    return 2;
}
