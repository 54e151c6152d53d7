/*
 * Administration over HTTP (ADM-01, ADM-02; SPEC section 7): REST under /api/v1, Prometheus
 * metrics, health, and one live page. libmicrohttpd runs on the daemon's own loop, without a
 * thread: a turn of the loop makes one request or one piece of a list (turns.h), and a piece has at
 * most 96 rows, so that lists do not delay lock requests.
 *
 * Lists are read from the core's view. A change is made in the core, as NLM and NSM do it, and
 * answered when it is durable. What only the daemon knows comes through struct hf_admin_ops.
 *
 * access.h has the levels of access, and access.c decides which one a request has.
 *
 * Everything a peer can send or hold is bounded: connections, headers, body, time (server.c,
 * connections.c).
 */
#ifndef HF_ADMIN_ADMIN_H
#define HF_ADMIN_ADMIN_H

#include <uv.h>

#include "admin/exposition.h"
#include "admin/names.h"
#include "base/buf.h"
#include "core/view.h"
#include "service/service.h"
#include "service/troubles.h"

enum { HF_ADMIN_STEPS_MAX = 4, HF_ADMIN_TEXT_MAX = 320 };

/* One step of the path to a client, and its outcome. */
struct hf_admin_step {
    const char *name;
    bool ok;
    /* This step checks the way from the client to us, not the way from us to the client. */
    bool back;
    uint32_t elapsed_ms;
    char finding[HF_ADMIN_TEXT_MAX]; /* the outcome of the step, in words for the operator */
    /* What to do about the outcome of the step; "" if all is well. */
    char advice[HF_ADMIN_TEXT_MAX];
};

/* A check of the way to a client, filled in step by step; done is called once, when all steps have
 * ended or with HF_ECANCELED. */
struct hf_admin_check {
    struct hf_admin_step steps[HF_ADMIN_STEPS_MAX];
    unsigned n_steps;
    void (*done)(struct hf_admin_check *check, int error);
};

/* A backup of all that is durable at one moment; done is called once, with 0 and the file's bytes
 * or an error. */
struct hf_admin_backup {
    struct hf_buf out;
    void (*done)(struct hf_admin_backup *backup, int error);
};

/*
 * A question to the keeper about the directories whose files it may open (COH-07): list them, let
 * one go, or take one back. done is called once, with 0 or with an error and, where the keeper gave
 * one, its reason.
 */
enum hf_admin_exports_act {
    HF_ADMIN_EXPORTS_LIST,
    HF_ADMIN_EXPORTS_RELEASE,
    HF_ADMIN_EXPORTS_TAKE_BACK,
};
struct hf_admin_export {
    const char *path;
    /* How many files below the directory are open, and how many ranges in them are locked. */
    uint64_t files, ranges;
    bool released;
};
struct hf_admin_exports {
    enum hf_admin_exports_act act;
    uint64_t closed; /* RELEASE: how many files were closed */
    void (*one)(struct hf_admin_exports *exports, const struct hf_admin_export *export);
    void (*done)(struct hf_admin_exports *exports, int error, const char *reason);
};

/* Sums since the start, from which the page computes rates and mean latencies. */
struct hf_admin_totals {
    uint64_t requests;    /* how many requests of NLM and NSM were answered */
    uint64_t requests_ns; /* how much time the timed requests of NLM and NSM took in all */
    uint64_t commits;
    uint64_t commits_ns;
    uint64_t callbacks;
};

struct hf_admin_health {
    bool store_up;
    char reason[640]; /* why the store is down, and what to do: its full error message */
    bool rpcbind_up;  /* rpcbind sends clients to this daemon, as far as is known */
    /* The state of our registration with rpcbind: "registered", "embedded", "none", "taken", ... */
    const char *rpcbind;
    char rpcbind_reason[640]; /* why rpcbind does not send clients to this daemon, and what to do */
};

enum { HF_ADMIN_NODES_MAX = 16, HF_ADMIN_NODE_MAX = 64 };

/* A service with standbys (SPEC HA-11). Times are in milliseconds. */
struct hf_admin_cluster {
    const char *role; /* the role of this node in the cluster: active, standby, ... */
    const char *service;
    const char *node;
    char owner[HF_ADMIN_NODE_MAX]; /* the node that took the service last; "": none ever did */
    /* When that node took the service, as Unix time by the database's clock; 0: never. */
    int64_t taken_at_ms;
    uint64_t epoch;        /* the epoch of this node's lease; 0: the node has no lease */
    int64_t lease_left_ms; /* how long the lease is still valid; negative: it ran out */
    uint64_t seen_ms;      /* how long ago the list of nodes was read */
    uint64_t takeovers, losses, expiries, alarms;
    uint64_t last_take_ms; /* the time from taking the lease to the first answer; 0: never */
    /* How long the last owner of the lease had shown no heartbeat before that takeover. */
    uint64_t last_silence_ms;
    struct {
        char name[HF_ADMIN_NODE_MAX];
        char version[HF_ADMIN_NODE_MAX];
        uint64_t seen_ms; /* how long ago the node was seen */
    } nodes[HF_ADMIN_NODES_MAX];
    unsigned n_nodes;
};

enum hf_admin_move { HF_ADMIN_TAKE, HF_ADMIN_RELEASE, HF_ADMIN_MOVE };

/* The daemon's functions for what only the daemon knows or can do. */
struct hf_admin_ops {
    void *ctx;
    void (*health)(void *ctx, struct hf_admin_health *out);
    void (*totals)(void *ctx, struct hf_admin_totals *out);
    void (*metrics)(void *ctx, struct hf_exposition *out);

    /*
     * Checks whether the client can be called back. Returns HF_ENOENT if the client's address is
     * not known, HF_ELIMIT if too many checks are in progress, HF_ENOMEM; otherwise check->done is
     * called in a later turn.
     */
    int (*check)(void *ctx, const struct hf_view_client *client, struct hf_admin_check *check);

    /* Begins a backup into backup->out, which the caller has initialised. Returns HF_ELIMIT if
     * another backup is in progress; otherwise done is called in a later turn. */
    int (*backup)(void *ctx, struct hf_admin_backup *backup);

    /* Tells the history what an operator did, and to what. */
    void (*did)(void *ctx, const char *what, const char *text);

    /*
     * Asks the keeper about its exports. Returns HF_EUNAVAIL without a keeper, HF_ELIMIT if a
     * question is in progress, HF_EINVAL; otherwise done is called in a later turn. The caller may
     * free the path when this function returns.
     */
    int (*exports)(void *ctx, struct hf_admin_exports *exports, const char *path);

    /* Returns false if the service has no standbys. */
    bool (*cluster)(void *ctx, struct hf_admin_cluster *out);
    /* Returns HF_ENOENT if there is no other node to move to, HF_EDENIED if this node does not
     * serve. */
    int (*move)(void *ctx, enum hf_admin_move what);
};

struct hf_history;

struct hf_admin_config {
    uv_loop_t *loop;
    struct hf_service *service;
    struct hf_admin_ops ops;
    const char *server_name;
    const struct hf_addr *server_listen; /* the addresses where NLM and NSM are served */
    unsigned n_server_listen;
    uint16_t server_port;
    const char *listen;          /* ADDRESS:PORT to listen on; "": no TCP socket */
    const char *socket;          /* path; "": none */
    const char *token_file;      /* the file with the token for changes; "": none */
    const char *read_token_file; /* the file with the token for readers of file names */
    const char *hosts;  /* other names that a Host header may have, with spaces or commas between */
    const char *fh_map; /* "": none */
    const char *names;  /* the socket of the namer, or "auto"; "": there is no namer */
    struct hf_history *history; /* the history that requests search; NULL: no history is kept */
};

struct hf_admin;

/* Opens administration. A token or a map that cannot be read, and an address that cannot be
 * listened on, are logged and left out, because locks can be served without administration. */
int hf_admin_new(const struct hf_admin_config *config, struct hf_admin **out);

/* With standbys: all requests use this service from now on. No request may be waiting for a commit
 * or a check of the old service. */
void hf_admin_set_service(struct hf_admin *admin, struct hf_service *service);

/* Returns the object that finds names of files, for its metrics; NULL: there is none. */
struct hf_names *hf_admin_names(struct hf_admin *admin);

/* Reads the token files and the map as hf_admin_new() does, for --check-config. Returns HF_EINVAL,
 * with the reason in the log, if one of them cannot be used; all of them are read. */
int hf_admin_check_files(const struct hf_admin_config *config);

/* Reads the map of file handles again; the old map stays in use if the file cannot be read. */
void hf_admin_reload(struct hf_admin *admin);

/*
 * Closes all connections. No request may be waiting for a commit or a check any more. admin is
 * freed when the last of its handles on the loop is closed.
 */
void hf_admin_close(struct hf_admin *admin);

#endif
