/*
 * Keeps our services registered with the rpcbind of the system. An rpcbind that restarts has
 * forgotten all registrations, and a client that asks it for our programs hangs. The watch
 * therefore fetches rpcbind's whole table every three seconds, in one call on the loop (where the
 * table cannot be read, it asks for each service), and registers again what is missing, on a worker
 * thread because libtirpc blocks. A program that another process serves now stays with that
 * process: RPC-03. The usual one is the kernel's lockd, which replaces our registration of NLM when
 * an NFSv3 file system is mounted on this host, serves its own locks to the clients that find it
 * there, and unregisters itself at the unmount. We then register again.
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

/* Says whether clients that ask rpcbind are sent to us. */
enum hf_rpcbind_state {
    HF_RPCBIND_REGISTERED,
    HF_RPCBIND_LOST,    /* rpcbind has forgotten us: we are about to register again */
    HF_RPCBIND_REFUSED, /* rpcbind does not let us register */
    HF_RPCBIND_TAKEN,   /* another process has registered one of our programs, and serves it */
    HF_RPCBIND_AWAY,    /* rpcbind does not answer */
};

struct hf_rpcbind_health {
    enum hf_rpcbind_state state;
    /* The reason for the operator, with what to do; "" if registered. */
    char reason[HF_RPCBIND_ERROR_MAX];
};

struct hf_rpcbind_watch {
    uv_loop_t *loop;
    struct hf_rpc_client *client;
    const struct hf_hash_key *key;
    const struct hf_rpcbind_service *services; /* the services, owned by the caller of start */
    size_t n_services;
    /* Tells who else has this registration; owned by the caller of start. */
    struct hf_rpcbind_share *share;

    uv_timer_t timer; /* fires at the next look at rpcbind's table */
    bool open;
    bool stopping;
    bool again; /* hf_rpcbind_watch_look() was called while a look was in progress */
    bool away;  /* rpcbind did not answer the last look; the log says so */
    struct hf_rpc_outcall *call;
    size_t asked; /* the service that rpcbind is asked for, where its table cannot be read */
    struct hf_rpcbind_health health;
    bool missing;    /* at the last look that rpcbind answered, it lacked services of ours */
    uint64_t n_lost; /* how often services of ours were missing from rpcbind's table */
    bool lost[HF_RPCBIND_SERVICES_MAX]; /* rpcbind lacks the service or names another port */

    uv_work_t work;
    bool working; /* the worker thread owns work, lost and programs */
    struct hf_rpcbind_watched_program {
        uint32_t number;
        size_t n; /* how many services were registered again, this time */
        int result;
        char error[HF_RPCBIND_ERROR_MAX];
        char logged[HF_RPCBIND_ERROR_MAX]; /* the error that the log reports already, or "" */
    } programs[HF_RPCBIND_PROGRAMS_MAX];
    size_t n_programs;
};

/* Starts the watch, after all services have been registered. All its arguments must outlive the
 * watch. */
void hf_rpcbind_watch_start(struct hf_rpcbind_watch *watch, uv_loop_t *loop,
                            struct hf_rpc_client *client, const struct hf_hash_key *key,
                            const struct hf_rpcbind_service *services, size_t n,
                            struct hf_rpcbind_share *share);

/* Looks at rpcbind's table now instead of in three seconds. */
void hf_rpcbind_watch_look(struct hf_rpcbind_watch *watch);

/*
 * Stops the watch and unregisters our services, unless another daemon shares the registration: now,
 * or as soon as the worker thread has finished. Call it before the client is closed.
 */
void hf_rpcbind_watch_stop(struct hf_rpcbind_watch *watch);

#endif
