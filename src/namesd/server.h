/*
 * The socket at which names are asked for (docs/operating/NAMES.md). One thread answers requests in
 * the order in which they come, and does the slices of the walk between them. A question can take
 * as long as a disk does; the daemon that asks waits for none of them.
 */
#ifndef HF_NAMESD_SERVER_H
#define HF_NAMESD_SERVER_H

#include <signal.h>

#include "base/buf.h"
#include "handles/resolve.h"
#include "namesd/request.h"

enum {
    HF_NAMESD_SERVER_CLIENTS_MAX = 16,
    /* How many lines of one client are answered before the next client has its turn. */
    HF_NAMESD_SERVER_BATCH = 64,
    HF_NAMESD_SERVER_TURN_MS =
        20, /* how long these lines may take: some questions search large directories */
    HF_NAMESD_SERVER_UNREAD_MAX =
        65536 /* when a client has not taken this many bytes, none of its lines is read */
};

struct hf_namesd_client {
    int fd;
    struct hf_buf in, out;
    bool greeted;
};

struct hf_namesd_server {
    struct hf_resolver *resolver;
    int listener;
    struct hf_namesd_client clients[HF_NAMESD_SERVER_CLIENTS_MAX];
    size_t n_clients;
};

/* Listens at path, which it takes over if no process serves there. Returns HF_EBUSY, HF_EDENIED or
 * another error. */
int hf_namesd_server_open(struct hf_namesd_server *server, struct hf_resolver *resolver,
                          const char *path);

/* Serves until *stop is set. */
void hf_namesd_server_run(struct hf_namesd_server *server, const volatile sig_atomic_t *stop);
void hf_namesd_server_close(struct hf_namesd_server *server);

#endif
