/* What the files of src/admin share: the server, a request, and how it is answered. */
#ifndef HF_ADMIN_PRIVATE_H
#define HF_ADMIN_PRIVATE_H

#include <jansson.h>
#include <microhttpd.h>

#include "admin/access.h"
#include "admin/admin.h"
#include "admin/connections.h"
#include "admin/names.h"
#include "admin/sessions.h"
#include "admin/turns.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/list.h"

enum {
    BODY_MAX = 4096,           /* more than any request of the API needs */
    CONNECTION_MEMORY = 65536, /* room for request headers and pieces of the answer */
    /* How many connections a listener may have before idle and stalled ones give way. */
    CONNECTIONS_CALM = 64,
    /* How many connections there may be before answers that are being taken give way. */
    CONNECTIONS_MAX = 96,
    CONNECTIONS_CLOSING = 64, /* how many more may have been cut and are about to be closed */
    CONNECTION_IDLE_S = 30,
    /* How long a peer may take to send a request, or to take a piece of its answer. */
    CONNECTION_DEADLINE_S = 30,
    TOKEN_MIN = 16,
    TOKEN_MAX = 256,
};

/* One listening socket: a daemon of libmicrohttpd, driven by the loop. */
struct listener {
    struct hf_admin *admin;
    struct MHD_Daemon *daemon;
    bool local;  /* this is the unix socket */
    bool kicked; /* a handler wants another round at once */
    uv_poll_t poll;
    uv_timer_t timer;
    struct connections connections;
};

struct hf_admin {
    struct hf_admin_config config;
    uint64_t opened_ms;             /* boot time (base/clock.h) at which this process was started */
    int64_t started_wall_ms;        /* the start of this process as Unix time */
    int64_t backup_wall_ms;         /* when the last backup was made; 0: none by this process */
    int statm;                      /* /proc/self/statm; -1: it cannot be read */
    char token[TOKEN_MAX + 1];      /* the token; "": there is none */
    char read_token[TOKEN_MAX + 1]; /* the reading token; "": there is none */
    bool no_token;                  /* admin.token_file cannot be used */
    struct sessions sessions;
    /* The key of the numbers that stand for files where they are not shown. */
    struct hf_hash_key file_key;
    struct turns turns;
    struct hf_names *names;
    struct listener listeners[2]; /* the TCP listener and that of the unix socket */
    struct hf_list waiting;       /* requests that wait for a commit or a check */
    unsigned open_handles;
};

struct request {
    struct hf_admin *admin;
    struct listener *listener;
    struct MHD_Connection *connection;
    const char *method;
    const char *path;
    enum access level;
    struct turn turn;
    char argument[2 * HF_FH_MAX + 1]; /* the part of the path that matches the * of the route */
    char allow[32];                   /* the methods of this path, for a 405 */
    struct hf_buf body;

    /* These keep an answer that waits for a commit or a check. */
    /* Links the request into admin->waiting while libmicrohttpd leaves the connection alone. */
    struct hf_list link;
    struct hf_commit_waiter waiter;
    struct hf_admin_check check;
    struct hf_admin_backup backup;
    struct hf_admin_exports exports;
    const char *change; /* what the operator does, in words for the log */
    /* The file that the operator does it to, for the log, where its path is known; cut. */
    char of_path[1024];
    int64_t released;
    uint64_t grant_mark; /* grants after this mark are due to the release */
    struct hf_names_wait names_wait;
    struct by_path *by_path; /* a release by path that is in progress */
    struct asked *asked;     /* a search in the history that is in progress */
    json_t *pending;
    unsigned pending_status;
    bool ready; /* the answer is ready to be sent */
};

/* access.c: returns the level that the request has; request->level keeps it. */
enum access hf_admin_access_level(const struct request *request);
/* True if request->level is enough. If not, it answers the request and returns false. */
bool hf_admin_access_may(struct request *request, enum access needed, enum MHD_Result *answered);
/* Tells how a request for something of that level would end: "allowed", "with_token", "refused". */
const char *hf_admin_access_word(const struct request *request, enum access needed);
/* Names the operator for the log: "uid 0 pid 7" or "127.0.0.1:4711". */
enum { WHO_MAX = 96 };
const char *hf_admin_access_who(const struct request *request, char text[WHO_MAX]);

/* reply.c: each queues the answer. json is consumed. */
enum MHD_Result hf_admin_reply_json(struct request *request, unsigned status, json_t *json);
enum MHD_Result hf_admin_reply_problem(struct request *request, unsigned status,
                                       const char *detail);
enum MHD_Result hf_admin_reply_error(struct request *request, int error, const char *what);
enum MHD_Result hf_admin_reply_text(struct request *request, unsigned status, const char *type,
                                    struct hf_bytes text);
enum MHD_Result hf_admin_reply_response(struct request *request, unsigned status, const char *type,
                                        struct MHD_Response *response);
json_t *hf_admin_problem_json(unsigned status, const char *detail);

/* changes.c: logs request->change, which took effect or could not be made durable. */
void hf_admin_log_change(const struct request *request, bool durable);

/* wait.c: lets the answer leave, and logs the change, when seq is durable. */
enum MHD_Result hf_admin_reply_when_durable(struct request *request, struct hf_ticket wait,
                                            json_t *json);
json_t *hf_admin_released_json(const struct request *request);
/*
 * Lets the answer leave when the keeper has answered. After an error nothing is asked or answered.
 */
int hf_admin_reply_when_exported(struct request *request, enum hf_admin_exports_act act,
                                 const char *path, enum MHD_Result *result);
/* Lets the answer leave when a check has ended. */
enum MHD_Result hf_admin_reply_when_checked(struct request *request,
                                            const struct hf_view_client *client);
/* Lets the answer, which is the backup's bytes, leave when a backup has been made. */
enum MHD_Result hf_admin_reply_when_backed_up(struct request *request);
/* Routes the request again when the names that were asked for are there, or cannot be; false if
 * there is nothing to wait for. */
bool hf_admin_wait_for_names(struct request *request);
/* Routes the request again in a later turn of the loop. */
void hf_admin_wait_for_turn(struct request *request);
/* Returns false, with the request answered or waiting, if it needs names and there are none. */
bool hf_admin_names_are_there(struct request *request, enum MHD_Result *answered);
/* hf_admin_wait_suspend() puts the request off until hf_admin_wait_resume() routes it again. */
enum MHD_Result hf_admin_wait_suspend(struct request *request);
void hf_admin_wait_resume(struct request *request);
/* Queues the answer of a request that waited. */
enum MHD_Result hf_admin_reply_pending(struct request *request);
void hf_admin_wait_abandon_all(struct hf_admin *admin);

/* Answers a release in the core: its count or an error, and the batch to wait for; mark is from
 * before it. */
enum MHD_Result hf_admin_reply_release(struct request *request, const char *change, uint64_t mark,
                                       int64_t released, struct hf_ticket wait);

/* changes.c: returns the waiters granted since the mark, less as many as were shown before. */
json_t *hf_admin_granted_since(const struct request *request, uint64_t mark, size_t before);

/* history.c */
void hf_admin_history_free(struct asked *asked);
/* A time in UTC, as 2026-11-18T03:12:00Z, into milliseconds. */
bool hf_admin_parse_time(const char *text, int64_t *out);

/* by_path.c */
void hf_admin_by_path_free(struct by_path *by_path);

/* troubles.c: makes the parts of the status that tell of losses and limits. */
json_t *hf_admin_troubles_losses(const struct hf_admin_config *config);
json_t *hf_admin_troubles_limits(const struct hf_admin_config *config);

/* server.c: gives libmicrohttpd a turn as soon as possible, because it has work; or at once. */
void hf_admin_listener_kick(struct listener *listener);
void hf_admin_listener_run(struct listener *listener);
/* Returns what rows of this request show. */
struct row_context;
struct row_context hf_admin_row_context_of(const struct request *request);

/* routes.c: finds the handler of the request. */
enum MHD_Result hf_admin_route(struct request *request);

/* These are the handlers of the table, in lists.c, status.c, changes.c and page.c. */
enum MHD_Result hf_admin_on_clients(struct request *request);
enum MHD_Result hf_admin_on_client(struct request *request);
enum MHD_Result hf_admin_on_locks(struct request *request);
enum MHD_Result hf_admin_on_waiters(struct request *request);
enum MHD_Result hf_admin_on_reservations(struct request *request);
enum MHD_Result hf_admin_on_notifications(struct request *request);
enum MHD_Result hf_admin_on_status(struct request *request);
enum MHD_Result hf_admin_on_losses(struct request *request);
enum MHD_Result hf_admin_on_history(struct request *request);
enum MHD_Result hf_admin_on_acknowledge(struct request *request);
enum MHD_Result hf_admin_on_grace(struct request *request);
enum MHD_Result hf_admin_on_healthz(struct request *request);
enum MHD_Result hf_admin_on_readyz(struct request *request);
enum MHD_Result hf_admin_on_metrics(struct request *request);
enum MHD_Result hf_admin_on_delete_client(struct request *request);
enum MHD_Result hf_admin_on_client_dead(struct request *request);
enum MHD_Result hf_admin_on_delete_lock(struct request *request);
enum MHD_Result hf_admin_on_delete_file(struct request *request);
enum MHD_Result hf_admin_on_delete_path(struct request *request);
enum MHD_Result hf_admin_on_end_grace(struct request *request);
enum MHD_Result hf_admin_on_hold_grace(struct request *request);
enum MHD_Result hf_admin_on_exports(struct request *request);
enum MHD_Result hf_admin_on_release_export(struct request *request);
enum MHD_Result hf_admin_on_take_back_export(struct request *request);
enum MHD_Result hf_admin_on_notify(struct request *request);
enum MHD_Result hf_admin_on_check(struct request *request);
enum MHD_Result hf_admin_on_check_address(struct request *request);
enum MHD_Result hf_admin_on_backup(struct request *request);

/* ---- process.c ---- */

void hf_admin_process_open(struct hf_admin *admin);
void hf_admin_process_close(struct hf_admin *admin);
double hf_admin_process_up_seconds(const struct hf_admin *admin);
void hf_admin_process_expose(const struct hf_admin *admin, struct hf_exposition *out);
void hf_admin_process_expose_backup(const struct hf_admin *admin, struct hf_exposition *out);
enum MHD_Result hf_admin_on_file(struct request *request);
enum MHD_Result hf_admin_on_session_begin(struct request *request);
enum MHD_Result hf_admin_on_session_end(struct request *request);
enum MHD_Result hf_admin_on_cluster(struct request *request);
enum MHD_Result hf_admin_on_cluster_take(struct request *request);
enum MHD_Result hf_admin_on_cluster_release(struct request *request);
enum MHD_Result hf_admin_on_cluster_move(struct request *request);

/* cluster.c: true if this process does not serve now: it is a standby, or loads its store. */
bool hf_admin_cluster_waits(const struct request *request, struct hf_admin_cluster *out);
enum MHD_Result hf_admin_reply_waiting(struct request *request,
                                       const struct hf_admin_cluster *cluster);

/* True if text is a decimal number that fits 64 bits. */
bool hf_admin_parse_id(const char *text, uint64_t *out);

#endif
