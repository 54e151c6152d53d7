/*
 * To see and steer the daemon over HTTP (ADM-01, ADM-02; SPEC section 7): REST under /api/v1,
 * Prometheus metrics, health, and one live page. libmicrohttpd on the daemon's own loop, without a
 * thread: a turn of the loop does one piece of work for each connection, and a long list is made a
 * few hundred rows at a time, so that no lock waits for somebody who looks.
 *
 * This room sees the core's read-only view. What changes something goes through hf_admin_ops, which
 * the daemon implements; such a request is answered when its change is durable.
 *
 * Who may change: on TCP, whoever has the token; where none is set, this host only. On the unix
 * socket, root and the daemon's own user. Everybody who can connect may look.
 *
 * Everything a peer can send or hold is bounded: connections, headers, body, time (server.c).
 */
#ifndef HF_ADMIN_ADMIN_H
#define HF_ADMIN_ADMIN_H

#include <uv.h>

#include "admin/exposition.h"
#include "base/later.h"
#include "core/view.h"

enum { HF_ADMIN_STEPS_MAX = 4, HF_ADMIN_TEXT_MAX = 320 };

/* One step of the way back to a client, and how it fared. */
struct hf_admin_step {
    const char *name;
    bool ok;
    uint32_t elapsed_ms;
    char finding[HF_ADMIN_TEXT_MAX]; /* what was seen, in plain words */
    char advice[HF_ADMIN_TEXT_MAX];  /* what to do about it; "" where all is well */
};

/* Filled step by step; done is called once, when all steps have ended or with HF_ECANCELED. */
struct hf_admin_check {
    struct hf_admin_step steps[HF_ADMIN_STEPS_MAX];
    unsigned n_steps;
    void (*done)(struct hf_admin_check *check, int error);
};

/* Sums since the start, from which a page makes rates and mean latencies. */
struct hf_admin_totals {
    uint64_t requests;    /* answered, NLM and NSM */
    uint64_t requests_ns; /* what they took, where timed */
    uint64_t commits;
    uint64_t commits_ns;
    uint64_t callbacks;
};

struct hf_admin_health {
    bool store_up;
    char reason[640]; /* why not, and what to do: the whole of what the store says */
};

/* The daemon, as this room sees it. Releases return how many went, or an error (core/request.h). */
struct hf_admin_ops {
    void *ctx;
    struct hf_now (*now)(void *ctx);
    void (*health)(void *ctx, struct hf_admin_health *out);
    void (*totals)(void *ctx, struct hf_admin_totals *out);
    void (*metrics)(void *ctx, struct hf_exposition *out);

    int64_t (*release_client)(void *ctx, uint64_t id, uint64_t *seq);
    int64_t (*release_lock)(void *ctx, uint64_t id, uint64_t *seq);
    int64_t (*release_file)(void *ctx, struct hf_bytes fh, uint64_t *seq);
    uint64_t (*end_grace)(void *ctx);
    int (*notify)(void *ctx, uint64_t client_id);

    bool (*is_durable)(void *ctx, uint64_t seq);
    /* As hf_later_add(): finish is called later, once. */
    void (*when_durable)(void *ctx, uint64_t seq, struct hf_later *later,
                         void (*finish)(struct hf_later *later, bool reached));

    /* HF_ENOENT, HF_ELIMIT when too many are under way, HF_ENOMEM; else done will be called. */
    int (*check)(void *ctx, uint64_t client_id, struct hf_admin_check *check);
};

struct hf_admin_config {
    uv_loop_t *loop;
    const struct hf_core *core;
    struct hf_admin_ops ops;
    const char *server_name;
    const char *listen;     /* ADDRESS:PORT; "": none */
    const char *socket;     /* path; "": none */
    const char *token_file; /* "": no token */
    const char *fh_map;     /* "": none */
};

struct hf_admin;

/*
 * HF_EINVAL, with the reason in the log, if the token or the map cannot be read. An address that
 * cannot be listened on is a warning in the log and no more: locks are served without a page.
 */
int hf_admin_new(const struct hf_admin_config *config, struct hf_admin **out);

/* Reads the map of file handles again; what was there stays if it cannot be read. */
void hf_admin_reload(struct hf_admin *admin);

/*
 * Closes all connections. Whatever a request waited for must have been finished before (answers
 * and checks); the handles on the loop are closing then, and admin is freed with the last.
 */
void hf_admin_close(struct hf_admin *admin);

#endif
