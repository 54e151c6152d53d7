/*
 * A PostgreSQL server for one test: in a temporary directory, on a Unix socket there, run by an
 * unprivileged user when the test is root. It dies with the test. On request it also listens on
 * the loopback interface, and a second server can be its streaming standby. HOLDFAST_PG_BINDIR
 * names the programs of another version.
 */
#ifndef HF_TESTS_STORE_PG_SERVER_H
#define HF_TESTS_STORE_PG_SERVER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct pg_server {
    char dir[PATH_MAX];    /* holds the data and the socket */
    char bindir[PATH_MAX]; /* the directory of initdb and postgres */
    pid_t pid;             /* 0 while the server does not run */
    unsigned port;         /* the port on 127.0.0.1, and part of the socket's name */
    bool tcp;              /* the server listens on 127.0.0.1, too */
    char dsn[PATH_MAX + 128];
};

/* Starts the server. False if PostgreSQL is not installed here; if it is installed and does not
 * start, the test ends. */
bool pg_server_start(struct pg_server *server);
bool pg_server_start_tcp(struct pg_server *server);
void pg_server_remove(struct pg_server *server);

/* Runs the stories on a server that was just started, and then removes it; without a server,
 * reports them as skipped. Returns what main() is to return. */
struct CMUnitTest;
int pg_server_run(struct pg_server *server, bool started, const struct CMUnitTest *stories,
                  size_t n);

/*
 * Makes and starts a streaming standby of a running server. Its application_name is "standby": the
 * caller sets synchronous_standby_names to make it a synchronous one.
 */
void pg_server_start_standby(struct pg_server *standby, const struct pg_server *primary);

/*
 * Runs SQL on a connection of its own and returns the first column of the first row, or "". The
 * text is valid until the next call. Fails the test when the SQL fails.
 */
const char *pg_server_sql(const struct pg_server *server, const char *text);

/* Stops the server: SIGINT does it cleanly, SIGQUIT at once, SIGKILL without a word to its
 * children. */
void pg_server_stop(struct pg_server *server, int sig);
void pg_server_again(struct pg_server *server);

/* Starts the server without waiting until it accepts connections. */
void pg_server_launch(struct pg_server *server);

#endif
