/*
 * A PostgreSQL server of one's own: in a temporary directory, on a Unix socket there, never on the
 * network, run by an unprivileged user when the test is root. It dies with the test.
 */
#ifndef HF_TESTS_STORE_PG_SERVER_H
#define HF_TESTS_STORE_PG_SERVER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct pg_server {
    char dir[PATH_MAX];    /* holds the data and the socket */
    char bindir[PATH_MAX]; /* where initdb and postgres are */
    pid_t pid;             /* 0 when it does not run */
    char dsn[PATH_MAX + 128];
};

/* False if PostgreSQL is not installed here; stops the test if it is, and does not start. */
bool pg_server_start(struct pg_server *server);
void pg_server_remove(struct pg_server *server);

/* SIGINT stops it in order, SIGQUIT at once, SIGKILL without a word to its children. */
void pg_server_stop(struct pg_server *server, int sig);
void pg_server_again(struct pg_server *server);

/* Starts it without waiting until it takes connections. */
void pg_server_launch(struct pg_server *server);

#endif
