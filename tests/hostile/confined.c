/*
 * What an attacker would do who has taken over the daemon: confines itself as the daemon does, then
 * tries one thing.
 *
 *     confined STORE USER ATTEMPT [ARGUMENT]
 *
 * Prints "done", or why not. A forbidden system call ends it by SIGSYS.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <pthread.h>
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
#include <unistd.h>

#include "base/assert.h"
#include "confine/confine.h"

static int run_program(const char *path)
{
    return execl(path, path, NULL);
}

static int become_root(const char *unused)
{
    (void)unused;
    return setuid(0);
}

static int trace(const char *unused)
{
    (void)unused;
    return (int)ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
}

static int mount_something(const char *path)
{
    return mount("none", path, "tmpfs", 0, NULL);
}

/* Architectures that came late (arm64) have only clone. */
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

static int end_parent(const char *unused)
{
    (void)unused;
    return kill(getppid(), SIGTERM);
}

static int make_packet_socket(const char *unused)
{
    (void)unused;
    return socket(AF_PACKET, SOCK_RAW, 0);
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

/* What the daemon does all day must still be possible. */

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
    ((unsigned char *)&sa)[2] = 3; /* port 3 * 256 + 17 */
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
    {"kill", end_parent},
    {"packet-socket", make_packet_socket},
    {"writable-code", write_code},
    {"make-executable", make_executable},
    {"chmod", change_mode},
    {"read", read_file},
    {"write", write_file},
    {"remove", remove_file},
    {"thread", start_thread},
    {"reserved-port", bind_reserved_port},
    {"panic", panic},
};

int main(int argc, char **argv)
{
    static const char *const files[] = {"data.mdb", NULL};
    struct hf_confine confine = {0};
    char error[HF_CONFINE_ERROR_MAX];

    if (argc < 4)
        return 2;
    (void)hf_confine_begin();
    confine.write[0] = argv[1];
    if (hf_confine_find_user(argv[2], &confine.user, error) < 0 ||
        hf_confine_give_directory(&confine.user, argv[1], files, error) < 0) {
        (void)fprintf(stderr, "%s\n", error);
        return 2;
    }
    if (hf_confine(&confine) < 0)
        return 2;
    for (size_t i = 0; i < HF_COUNT_OF(ATTEMPTS); i++) {
        if (strcmp(ATTEMPTS[i].name, argv[3]) != 0)
            continue;
        puts(ATTEMPTS[i].attempt(argc > 4 ? argv[4] : NULL) < 0 ? strerror(errno) : "done");
        return 0;
    }
    return 2;
}
