/*
 * Keeps our services registered with the system's rpcbind. An rpcbind that restarts has forgotten
 * all registrations, and a client that asks it for our programs hangs. The watch therefore fetches
 * rpcbind's whole table every three seconds, in one call on the loop thread. (Where the table
 * cannot be read, it asks for each service.) It registers again what is missing, on a worker thread
 * because libtirpc blocks. A program that another process serves by now is left to that process
 * (RPC-03). Usually that is the kernel's lockd. It replaces our registration of NLM when an NFSv3
 * file system is mounted on this host, serves its own locks to the clients that find it there, and
 * unregisters itself at the unmount; then the watch registers us again.
 */
#ifndef HF_RPCBIND_WATCH_H
#define HF_RPCBIND_WATCH_H

#include <uv.h>

#include "rpc/client.h"
#include "rpcbind/client.h"
#include "rpcbind/share.h"

enum {
    HF_RPCBIND_PROGRAMS_MAX = 2, /* NSM, NLM */
    /* 2 transports times 8 addresses times 4 versions (1 of NSM, 3 of NLM). */
    HF_RPCBIND_SERVICES_MAX = 64,
};

/* Whether rpcbind sends clients that ask for our programs to us. */
enum hf_rpcbind_state {
    HF_RPCBIND_REGISTERED,
    /* rpcbind has forgotten our services; the watch is about to register them again */
    HF_RPCBIND_LOST,
    HF_RPCBIND_REFUSED, /* rpcbind refuses our registration */
    HF_RPCBIND_TAKEN,   /* another process has registered one of our programs, and serves it */
    HF_RPCBIND_AWAY,    /* the system's rpcbind does not answer */
};

struct hf_rpcbind_health {
    enum hf_rpcbind_state state;
    /* The reason of the state for the operator, with advice; "" if all services are registered. */
    char reason[HF_RPCBIND_ERROR_MAX];
};

struct hf_rpcbind_watch {
    uv_loop_t *loop;
    struct hf_rpc_client *client;
    const struct hf_hash_key *key;
    /* our services; the caller of start owns the array */
    const struct hf_rpcbind_service *services;
    size_t n_services;
    /* Knows which other daemons share this registration; owned by the caller of start. */
    struct hf_rpcbind_share *share;

    uv_timer_t timer; /* expires when rpcbind's table must be checked next */
    bool open;
    bool stopping;
    bool again; /* hf_rpcbind_watch_look() was called during a check: check again */
    bool away;  /* rpcbind did not answer the last check, and the log says so */
    struct hf_rpc_outcall *call;
    size_t asked; /* where the table cannot be read: the service for which rpcbind is asked now */
    struct hf_rpcbind_health health;
    bool missing;    /* services of ours were missing in the last check that rpcbind answered */
    uint64_t n_lost; /* how often services of ours were missing in rpcbind's table */
    /* for each service: rpcbind lacks it, or names another port */
    bool lost[HF_RPCBIND_SERVICES_MAX];

    uv_work_t work;
    bool working; /* while true, the worker thread owns work, lost and programs */
    struct hf_rpcbind_watched_program {
        uint32_t number;
        size_t n; /* how many services the worker thread has just registered again */
        int result;
        char error[HF_RPCBIND_ERROR_MAX];
        /* the error that was logged last, or "" if there is none */
        char logged[HF_RPCBIND_ERROR_MAX];
    } programs[HF_RPCBIND_PROGRAMS_MAX];
    size_t n_programs;
};

/*
 * Starts the watch, after all services have been registered. All arguments must outlive the watch.
 */
void hf_rpcbind_watch_start(struct hf_rpcbind_watch *watch, uv_loop_t *loop,
                            struct hf_rpc_client *client, const struct hf_hash_key *key,
                            const struct hf_rpcbind_service *services, size_t n,
                            struct hf_rpcbind_share *share);

/* Checks rpcbind's table now instead of within three seconds. */
void hf_rpcbind_watch_look(struct hf_rpcbind_watch *watch);

/* Stops the watch and unregisters our services, unless another daemon shares the registration: now,
 * or as soon as the worker thread has finished. The RPC client must still be open. */
void hf_rpcbind_watch_stop(struct hf_rpcbind_watch *watch);

#endif
