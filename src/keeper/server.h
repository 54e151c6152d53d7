/*
 * The socket of the keeper and its loop. One daemon is served at a time; another that connects is
 * told BUSY for as long as the first is connected. Everything happens on one thread, apart from the
 * waiting (waits.h).
 *
 * No descriptor is ever sent over this socket, and none is accepted.
 */
#ifndef HF_KEEPER_SERVER_H
#define HF_KEEPER_SERVER_H

#include <signal.h>

#include "keeper/keeper.h"

enum {
    HF_KEEPER_GUESTS_MAX = 4, /* connections that have not said hello yet */
};

struct hf_keeper_server {
    struct hf_keeper *keeper;
    const struct hf_keeper_limits *limits;
    uid_t user; /* the user that may connect, beside root */
    int listener;
    int timer;         /* a timer of CLOCK_BOOTTIME that goes off at the end of the lease */
    uint64_t timer_ms; /* the time that the timer is set to; 0: it is not set */
    int daemon;        /* the connection; -1: no daemon is connected */
    int guests[HF_KEEPER_GUESTS_MAX];
    size_t n_guests;

    /* While a LIST is in progress, these tell the next span to send. */
    bool listing;
    struct hf_keeper_file *list_file;
    uint32_t list_span;

    /* While EXPORTS is in progress, these tell the next export and, behind the exports, the next
     * directory that was let go. */
    bool telling_exports;
    size_t next_export;
    union {
        struct hf_keeper_header header;
        uint64_t aligned; /* aligns the bytes as records must be */
        uint8_t bytes[HF_KEEPER_MESSAGE_MAX];
    } in, out;
};

/* HF_EUNAVAIL. */
int hf_keeper_server_open(struct hf_keeper_server *server, struct hf_keeper *keeper,
                          const struct hf_keeper_limits *limits, int listener, uid_t user);

/* Serves until *stop, which a signal handler sets. That signal must be blocked. */
void hf_keeper_server_run(struct hf_keeper_server *server, const volatile sig_atomic_t *stop);
void hf_keeper_server_close(struct hf_keeper_server *server);

#endif
