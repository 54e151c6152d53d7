/*
 * The socket of the keeper and its loop. One daemon is served at a time; another that connects is
 * told BUSY for as long as the first is connected. Everything happens on one thread, apart from
 * waits in the kernel (waits.h).
 *
 * No descriptor is ever sent over this socket, and none is accepted.
 */
#ifndef HF_KEEPER_SERVER_H
#define HF_KEEPER_SERVER_H

#include <signal.h>

#include "keeper/keeper.h"

enum {
    HF_KEEPER_GUESTS_MAX = 4, /* how many connections may wait for their hello */
};

struct hf_keeper_server {
    struct hf_keeper *keeper;
    const struct hf_keeper_limits *limits;
    uid_t user; /* the user that may connect, beside root */
    int listener;
    int timer;         /* a timer of CLOCK_BOOTTIME that goes off at the end of the lease */
    uint64_t timer_ms; /* the time that the timer is set to; 0: it is not set */
    int daemon;        /* the connection to the daemon; -1: no daemon is connected */
    int guests[HF_KEEPER_GUESTS_MAX];
    size_t n_guests;

    /* While a LIST is in progress, these fields tell which span to send next. */
    bool listing;
    struct hf_keeper_file *list_file;
    uint32_t list_span;

    /* While EXPORTS is in progress, these fields tell which export to send next and, behind the
     * exports, which directory that was let go. */
    bool telling_exports;
    size_t next_export;
    union {
        struct hf_keeper_header header;
        uint64_t aligned; /* gives the bytes the alignment that records need */
        uint8_t bytes[HF_KEEPER_MESSAGE_MAX];
    } in, out;
};

/* Initialises the server. Returns HF_EUNAVAIL if there can be no timer. */
int hf_keeper_server_open(struct hf_keeper_server *server, struct hf_keeper *keeper,
                          const struct hf_keeper_limits *limits, int listener, uid_t user);

/* Serves until a signal handler sets *stop. That signal must be blocked. */
void hf_keeper_server_run(struct hf_keeper_server *server, const volatile sig_atomic_t *stop);
void hf_keeper_server_close(struct hf_keeper_server *server);

#endif
