/*
 * Keeps us registered with the system's rpcbind: one that is restarted has forgotten everybody, and
 * a client that asks it for our programs hangs. So it is asked once a minute, on the loop and in
 * one call, for all it knows; what is missing is registered again, on another thread because
 * libtirpc waits for the answer. A program that somebody else serves now is left to him.
 */
#ifndef HF_DAEMON_RPCBIND_WATCH_H
#define HF_DAEMON_RPCBIND_WATCH_H

#include <uv.h>

#include "daemon/config.h"
#include "rpc/client.h"
#include "rpc/rpcbind.h"

enum {
    HF_PROGRAMS_MAX = 2,                            /* NSM, NLM */
    HF_SERVICES_MAX = 2 * HF_CONFIG_LISTEN_MAX * 4, /* transports × addresses × versions */
};

struct hf_rpcbind_watch {
    uv_loop_t *loop;
    struct hf_rpc_client *client;
    const struct hf_hash_key *key;
    const struct hf_rpcbind_service *services; /* the caller's */
    size_t n_services;

    uv_timer_t timer; /* the next look */
    bool open;
    bool stopping;
    bool again; /* a look was asked for while one was under way */
    bool away;  /* rpcbind did not answer the last look, and the log says so */
    struct hf_rpc_outcall *call;
    bool lost[HF_SERVICES_MAX]; /* services that rpcbind does not know, or knows elsewhere */

    uv_work_t work;
    bool working; /* work, lost and programs are the other thread's */
    struct watched_program {
        uint32_t number;
        size_t n; /* services registered again, this time */
        int result;
        char error[HF_RPCBIND_ERROR_MAX];
        char said[HF_RPCBIND_ERROR_MAX]; /* what the log says already; "": nothing */
    } programs[HF_PROGRAMS_MAX];
    size_t n_programs;
};

/* After all services have been registered. services, client and key outlive the watch. */
void hf_rpcbind_watch_start(struct hf_rpcbind_watch *watch, uv_loop_t *loop,
                            struct hf_rpc_client *client, const struct hf_hash_key *key,
                            const struct hf_rpcbind_service *services, size_t n);

/* Looks now. */
void hf_rpcbind_watch_look(struct hf_rpcbind_watch *watch);

/*
 * Ends it and takes back what we registered: now, or as soon as the other thread is through. Before
 * the client is closed.
 */
void hf_rpcbind_watch_stop(struct hf_rpcbind_watch *watch);

#endif
