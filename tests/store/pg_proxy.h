/*
 * A proxy between the store and PostgreSQL, on a Unix socket of its own, that cuts the connection
 * at the critical moments: before the server has seen COMMIT, after it has seen it but before the
 * outcome is known, and after it has answered but before the store has read the answer. It can also
 * cut after the n-th message of the protocol, in either direction, whatever that message is.
 */
#ifndef HF_TESTS_STORE_PG_PROXY_H
#define HF_TESTS_STORE_PG_PROXY_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "pg_server.h"

enum cut { CUT_NONE, CUT_BEFORE_COMMIT, CUT_IN_COMMIT, CUT_AFTER_COMMIT, CUT_COUNT };

struct pg_proxy {
    const struct pg_server *server;
    pthread_t thread;
    int listener;
    _Atomic int cut;      /* enum cut: what to do at the next COMMIT; CUT_NONE again once done */
    _Atomic bool silent;  /* drop all bytes, as a network path does that dies without a reset */
    _Atomic int sent;     /* cut after this many more messages from the store; 0 or less: never */
    _Atomic int answered; /* cut after this many more messages from the server; 0 or less: never */
    _Atomic unsigned cuts;
    _Atomic unsigned connections;
    _Atomic bool stopping;
    char dsn[PATH_MAX + 256];
};

void pg_proxy_start(struct pg_proxy *proxy, const struct pg_server *server);
void pg_proxy_stop(struct pg_proxy *proxy);

#endif
