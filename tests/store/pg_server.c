#include "pg_server.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

/* The newest of Debian's versions, or whatever pg_config names. */
static bool find_programs(char bindir[PATH_MAX])
{
    char path[PATH_MAX + 16];
    glob_t found;
    FILE *pipe;

    bindir[0] = '\0';
    if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) == 0)
        snprintf(bindir, PATH_MAX, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    if (!*bindir && (pipe = popen("pg_config --bindir 2>/dev/null", "r"))) {
        if (fgets(bindir, PATH_MAX, pipe))
            bindir[strcspn(bindir, "\n")] = '\0';
        pclose(pipe);
    }
    snprintf(path, sizeof(path), "%s/initdb", bindir);
    return access(path, X_OK) == 0;
}

/* PostgreSQL refuses to run as root. */
static const struct passwd *server_user(void)
{
    const struct passwd *user = geteuid() == 0 ? getpwnam("postgres") : NULL;

    if (geteuid() == 0 && !user)
        user = getpwnam("nobody");
    return user;
}

/* Runs in the child: becomes the server's user, and dies when the test does. */
static void become_server(const struct pg_server *server)
{
    const struct passwd *user = server_user();
    char log[PATH_MAX + 16];
    sigset_t none;
    int fd;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (user)
        MUST(setgroups(0, NULL) == 0 && setgid(user->pw_gid) == 0 && setuid(user->pw_uid) == 0);
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    snprintf(log, sizeof(log), "%s/log", server->dir);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    MUST(fd >= 0 && dup2(fd, 1) >= 0 && dup2(fd, 2) >= 0 && chdir(server->dir) == 0);
}

static void init_database(const struct pg_server *server)
{
    char program[PATH_MAX + 16];
    char data[PATH_MAX + 16];
    int status;
    pid_t pid = fork();

    MUST(pid >= 0);
    if (pid == 0) {
        become_server(server);
        snprintf(program, sizeof(program), "%s/initdb", server->bindir);
        snprintf(data, sizeof(data), "%s/data", server->dir);
        execl(program, "initdb", "-D", data, "-N", "-A", "trust", "-U", "holdfast", "--locale=C",
              "-E", "UTF8", (char *)NULL);
        _exit(127);
    }
    MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

void pg_server_launch(struct pg_server *server)
{
    char program[PATH_MAX + 16];
    char data[PATH_MAX + 16];
    char sockets[PATH_MAX + 32];

    server->pid = fork();
    MUST(server->pid >= 0);
    if (server->pid == 0) {
        become_server(server);
        snprintf(program, sizeof(program), "%s/postgres", server->bindir);
        snprintf(data, sizeof(data), "%s/data", server->dir);
        snprintf(sockets, sizeof(sockets), "unix_socket_directories=%s", server->dir);
        /* No test here cuts the power, so the server need not sync; it only has to crash well. */
        execl(program, "postgres", "-D", data, "-c", sockets, "-c", "listen_addresses=", "-c",
              "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=20", (char *)NULL);
        _exit(127);
    }
}

static void await_ready(struct pg_server *server)
{
    for (int i = 0; i < 3000; i++) {
        if (PQping(server->dsn) == PQPING_OK)
            return;
        /* After a crash the old one's children may need a moment to go; until then it refuses. */
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid)
            pg_server_launch(server);
        usleep(10000);
    }
    give_up("PostgreSQL did not start");
}

void pg_server_again(struct pg_server *server)
{
    pg_server_launch(server);
    await_ready(server);
}

bool pg_server_start(struct pg_server *server)
{
    const struct passwd *user = server_user();

    *server = (struct pg_server){0};
    if (!find_programs(server->bindir))
        return false;
    scratch_make(server->dir, NULL);
    MUST(chmod(server->dir, 0755) == 0);
    if (user)
        MUST(chown(server->dir, user->pw_uid, user->pw_gid) == 0);
    snprintf(server->dsn, sizeof(server->dsn), "host=%s dbname=postgres user=holdfast",
             server->dir);
    init_database(server);
    pg_server_again(server);
    return true;
}

void pg_server_stop(struct pg_server *server, int sig)
{
    pid_t pid = server->pid;

    if (pid == 0)
        return;
    server->pid = 0;
    MUST(kill(pid, sig) == 0);
    MUST(waitpid(pid, NULL, 0) == pid);
}

void pg_server_remove(struct pg_server *server)
{
    pg_server_stop(server, SIGQUIT);
    scratch_remove(server->dir);
}
