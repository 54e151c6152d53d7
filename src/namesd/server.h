/*
 * The socket at which names are asked for (docs/operating/NAMES.md). One thread answers requests in
 * the order in which they come, and does the slices of the walk between them. A request can take as
 * long as a disk does; holdfastd asks without waiting.
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
    /* How long a client's lines of one turn may take: some questions search large directories. */
    HF_NAMESD_SERVER_TURN_MS = 20,
    /* No further line of a client is read while this many bytes of answers wait for it. */
    HF_NAMESD_SERVER_UNREAD_MAX = 65536
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

/* Listens at path, which this server takes over if no process serves there. Returns HF_EBUSY,
 * HF_EDENIED or another error. */
int hf_namesd_server_open(struct hf_namesd_server *server, struct hf_resolver *resolver,
                          const char *path);

/* Serves until a signal handler sets *stop. */
void hf_namesd_server_run(struct hf_namesd_server *server, const volatile sig_atomic_t *stop);
void hf_namesd_server_close(struct hf_namesd_server *server);

#endif
