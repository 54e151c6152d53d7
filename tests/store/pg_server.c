#include "pg_server.h"

#include "../unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "fixture.h"

enum { DEFAULT_PORT = 5432 };

/* Finds the programs: those of HOLDFAST_PG_BINDIR, of the newest of Debian's versions, or those
 * that pg_config names. */
static bool find_programs(char bindir[PATH_MAX])
{
    const char *wanted = getenv("HOLDFAST_PG_BINDIR");
    char path[PATH_MAX + 16];
    glob_t found = {0};
    FILE *pipe;

    snprintf(bindir, PATH_MAX, "%s", wanted ? wanted : "");
    if (!*bindir && glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) == 0)
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

/* Returns the user that runs the server: PostgreSQL refuses to run as root. */
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

/* Runs one of PostgreSQL's programs to its end. It finds its siblings by the path that it is
 * started by, and by PATH if that has no directory. */
static void run_program(const struct pg_server *server, const char *argv[])
{
    char program[PATH_MAX + 32];
    int status;
    pid_t pid = fork();

    MUST(pid >= 0);
    if (pid == 0) {
        become_server(server);
        snprintf(program, sizeof(program), "%s/%s", server->bindir, argv[0]);
        argv[0] = program;
        execv(program, (char *const *)argv);
        _exit(127);
    }
    MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

static void init_database(const struct pg_server *server)
{
    char data[PATH_MAX + 16];
    const char *argv[] = {"initdb", "-D",       data,         "-N", "-A",   "trust",
                          "-U",     "holdfast", "--locale=C", "-E", "UTF8", NULL};

    snprintf(data, sizeof(data), "%s/data", server->dir);
    run_program(server, argv);
}

static void copy_database(const struct pg_server *server, const struct pg_server *primary)
{
    char data[PATH_MAX + 16];
    char conninfo[PATH_MAX + 192];
    const char *argv[] = {"pg_basebackup", "-D", data,     "-R", "-X", "stream", "-N", "-c",
                          "fast",          "-d", conninfo, NULL};

    snprintf(data, sizeof(data), "%s/data", server->dir);
    snprintf(conninfo, sizeof(conninfo), "%s application_name=standby", primary->dsn);
    run_program(server, argv);
}

void pg_server_launch(struct pg_server *server)
{
    char program[PATH_MAX + 16];
    char data[PATH_MAX + 16];
    char sockets[PATH_MAX + 32];
    char port[16];

    server->pid = fork();
    MUST(server->pid >= 0);
    if (server->pid == 0) {
        become_server(server);
        snprintf(program, sizeof(program), "%s/postgres", server->bindir);
        snprintf(data, sizeof(data), "%s/data", server->dir);
        snprintf(sockets, sizeof(sockets), "unix_socket_directories=%s", server->dir);
        snprintf(port, sizeof(port), "port=%u", server->port);
        /* No test here cuts the power, so the server need not sync; it only has to survive crashes
         * of its processes. */
        execl(program, program, "-D", data, "-c", sockets, "-c",
              server->tcp ? "listen_addresses=127.0.0.1" : "listen_addresses=", "-c", port, "-c",
              "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=20", "-c",
              "wal_retrieve_retry_interval=100ms", (char *)NULL);
        _exit(127);
    }
}

static void await_ready(struct pg_server *server)
{
    for (int i = 0; i < 3000; i++) {
        if (PQping(server->dsn) == PQPING_OK)
            return;
        /* After a crash the children of the old server may need a moment to end; until then a new
         * server refuses to start. */
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

/* Returns a port that is free now, and probably still is when the server binds it. */
static unsigned free_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    MUST(fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
    MUST(getsockname(fd, (struct sockaddr *)&addr, &len) == 0);
    close(fd);
    return ntohs(addr.sin_port);
}

/* Makes an empty directory that belongs to the server's user, and the connection string. */
static bool make_place(struct pg_server *server, bool tcp)
{
    const struct passwd *user = server_user();

    *server = (struct pg_server){.port = tcp ? free_port() : DEFAULT_PORT, .tcp = tcp};
    if (!find_programs(server->bindir))
        return false;
    scratch_make(server->dir, NULL);
    MUST(chmod(server->dir, 0755) == 0);
    if (user)
        MUST(chown(server->dir, user->pw_uid, user->pw_gid) == 0);
    snprintf(server->dsn, sizeof(server->dsn), "host=%s port=%u dbname=postgres user=holdfast",
             server->dir, server->port);
    return true;
}

/*
 * docs/internals/STORE.md promises that PostgreSQL 13 is enough. So the server loses the functions
 * that later versions added, and any SQL of ours that uses one fails in every test.
 */
static void forget_newer_functions(const struct pg_server *server)
{
    pg_server_sql(
        server,
        "SET allow_system_table_mods = on;"
        "UPDATE pg_proc SET proname = 'newer_' || proname"
        " WHERE pronamespace = 'pg_catalog'::regnamespace AND (proname = ANY ("
        "'{bit_count,bit_xor,date_bin,has_parameter_privilege,pg_column_compression,"
        "pg_get_backend_memory_contexts,pg_get_wal_replay_pause_state,pg_log_backend_memory_"
        "contexts,"
        "pg_settings_get_flags,pg_stat_force_next_flush,pg_stat_get_wal,pg_stat_have_stats,"
        "regexp_count,regexp_instr,regexp_like,regexp_substr,string_to_table,trim_array,unistr,"
        "any_value,array_sample,array_shuffle,date_add,date_subtract,erf,pg_input_is_valid,"
        "random_normal,system_user,xmltext,json_query,json_value,json_exists,pg_basetype,to_bin,"
        "to_oct,unicode_version,uuid_extract_version,uuidv7,array_sort,array_reverse,casefold,"
        "crc32,"
        "gamma,lgamma}'::name[]) OR (proname = 'pg_terminate_backend' AND pronargs = 2))");
    if (strcmp(pg_server_sql(server, "SELECT count(*) FROM pg_proc WHERE proname = "
                                     "'newer_pg_terminate_backend'"),
               "1") == 0)
        pg_server_sql(server, "SET allow_system_table_mods = on;"
                              "CREATE FUNCTION pg_catalog.pg_terminate_backend(pid integer)"
                              " RETURNS boolean LANGUAGE sql AS"
                              " 'SELECT pg_catalog.newer_pg_terminate_backend($1, 0)'");
}

static bool start(struct pg_server *server, bool tcp)
{
    if (!make_place(server, tcp))
        return false;
    init_database(server);
    pg_server_again(server);
    forget_newer_functions(server);
    return true;
}

bool pg_server_start(struct pg_server *server)
{
    return start(server, false);
}

bool pg_server_start_tcp(struct pg_server *server)
{
    return start(server, true);
}

void pg_server_start_standby(struct pg_server *standby, const struct pg_server *primary)
{
    MUST(make_place(standby, false));
    copy_database(standby, primary);
    pg_server_again(standby);
}

const char *pg_server_sql(const struct pg_server *server, const char *text)
{
    static char answer[256];
    PGconn *conn = PQconnectdb(server->dsn);
    PGresult *result;

    PQclear(PQexec(conn, "SET client_min_messages = warning"));
    result = PQexec(conn, text);
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK) {
        fprintf(stderr, "%s: %s", text, PQerrorMessage(conn));
        give_up("SQL failed");
    }
    snprintf(answer, sizeof(answer), "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(conn);
    return answer;
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

int pg_server_run(struct pg_server *server, bool started, const struct CMUnitTest *stories,
                  size_t n)
{
    int rv;

    if (!started) {
        printf("1..0 # SKIP PostgreSQL is not installed\n");
        return 0;
    }
    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    rv = _cmocka_run_group_tests("stories", stories, n, NULL, NULL);
    pg_server_remove(server);
    return rv;
}
