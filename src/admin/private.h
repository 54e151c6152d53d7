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
    BODY_MAX = 4096, /* the longest body of a request; the API needs no longer one */
    /* The memory of a connection, for request headers and pieces of the answer. */
    CONNECTION_MEMORY = 65536,
    /* How many connections a listener may have before idle and stalled ones give way. */
    CONNECTIONS_CALM = 64,
    /* How many connections there may be before answers that are being taken give way. */
    CONNECTIONS_MAX = 96,
    /* How many more connections may have been cut and wait to be closed. */
    CONNECTIONS_CLOSING = 64,
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
    bool local;  /* the listener is that of the unix socket */
    bool kicked; /* a handler wants libmicrohttpd to do another round at once */
    uv_poll_t poll;
    uv_timer_t timer;
    struct connections connections;
};

struct hf_admin {
    struct hf_admin_config config;
    uint64_t opened_ms;        /* boot time (base/clock.h) at which this process was started */
    int64_t started_wall_ms;   /* the start of this process as Unix time */
    int64_t backup_wall_ms;    /* when the last backup was made; 0: none by this process */
    int statm;                 /* the descriptor of /proc/self/statm; -1: the file cannot be read */
    char token[TOKEN_MAX + 1]; /* the token; "": there is none */
    char read_token[TOKEN_MAX + 1]; /* the reading token; "": there is none */
    bool no_token;                  /* the token in admin.token_file cannot be used */
    struct sessions sessions;
    /* The key of the hash by which numbers stand for files that a caller may not see. */
    struct hf_hash_key file_key;
    struct turns turns;
    struct hf_names *names;
    struct listener listeners[2]; /* the TCP listener and the listener of the unix socket */
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
    char allow[32]; /* the methods that the path allows, for an answer with status 405 */
    struct hf_buf body;

    /* The next fields keep an answer that waits for a commit or a check. */
    /* Links the request into admin->waiting while libmicrohttpd leaves the connection alone. */
    struct hf_list link;
    struct hf_commit_waiter waiter;
    struct hf_admin_check check;
    struct hf_admin_backup backup;
    struct hf_admin_exports exports;
    const char *change; /* what the operator does, in words for the log */
    /* The path of the file that the operator's change is about, for the log; cut if it is long. */
    char of_path[1024];
    int64_t released;
    uint64_t grant_mark; /* grants after this mark are due to this request's release */
    struct hf_names_wait names_wait;
    struct by_path *by_path; /* a release by path that is in progress */
    struct asked *asked;     /* a search in the history that is in progress */
    json_t *pending;
    unsigned pending_status;
    bool ready; /* the answer to this request is ready to be sent */
};

/* access.c: returns the level that the request has; request->level keeps it. */
enum access hf_admin_access_level(const struct request *request);
/* True if request->level is enough for what is needed. If not, this function answers the request
 * and returns false. */
bool hf_admin_access_may(struct request *request, enum access needed, enum MHD_Result *answered);
/* Tells how a request that needs that level would end: "allowed", "with_token", "refused". */
const char *hf_admin_access_word(const struct request *request, enum access needed);
/* Names the operator for the log: "uid 0 pid 7" or "127.0.0.1:4711". */
enum { WHO_MAX = 96 };
const char *hf_admin_access_who(const struct request *request, char text[WHO_MAX]);

/* reply.c: each of these functions queues the answer, and consumes json. */
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

/* wait.c: lets the answer leave, and logs the change, when what `wait` names is durable. */
enum MHD_Result hf_admin_reply_when_durable(struct request *request, struct hf_ticket wait,
                                            json_t *json);
json_t *hf_admin_released_json(const struct request *request);
/* Asks the keeper, and lets the answer leave when the keeper has answered. If this returns an
 * error, nothing was asked, and the request is not answered. */
int hf_admin_reply_when_exported(struct request *request, enum hf_admin_exports_act act,
                                 const char *path, enum MHD_Result *result);
/* Lets the answer leave when a check has ended. */
enum MHD_Result hf_admin_reply_when_checked(struct request *request,
                                            const struct hf_view_client *client);
/* Lets the answer, which is the backup's bytes, leave when a backup has been made. */
enum MHD_Result hf_admin_reply_when_backed_up(struct request *request);
/* Routes the request again when the names that were asked for have come, or cannot come; false if
 * there is nothing to wait for. */
bool hf_admin_wait_for_names(struct request *request);
/* Routes the request again in a later turn of the loop. */
void hf_admin_wait_for_turn(struct request *request);
/* True if names of files can be asked for. Otherwise the request was answered, or waits for the
 * connection to the namer. */
bool hf_admin_names_are_there(struct request *request, enum MHD_Result *answered);
/* hf_admin_wait_suspend() puts the request off until hf_admin_wait_resume() routes it again. */
enum MHD_Result hf_admin_wait_suspend(struct request *request);
void hf_admin_wait_resume(struct request *request);
/* Queues the answer of a request that waited. */
enum MHD_Result hf_admin_reply_pending(struct request *request);
void hf_admin_wait_abandon_all(struct hf_admin *admin);

#define HF_ADMIN_NO_CLIENT     "There is no such client."
#define HF_ADMIN_NOTHING_THERE "Nothing is locked or waited for there."

/* Answers a release made in the core: released is its count or an error, wait names the batch to
 * wait for, and mark was taken before the release. missing: what to say if there is nothing to
 * release. */
enum MHD_Result hf_admin_reply_release(struct request *request, const char *change,
                                       const char *missing, uint64_t mark, int64_t released,
                                       struct hf_ticket wait);

/*
 * changes.c: shows the waiters granted since the mark, counting `before` that were shown earlier.
 */
json_t *hf_admin_granted_since(const struct request *request, uint64_t mark, size_t before);

/* history.c */
void hf_admin_history_free(struct asked *asked);
/* Reads a UTC time such as 2026-11-18T03:12:00Z as milliseconds. */
bool hf_admin_parse_time(const char *text, int64_t *out);

/* by_path.c */
void hf_admin_by_path_free(struct by_path *by_path);

/* troubles.c: makes the parts of the status that tell of losses and limits. */
json_t *hf_admin_troubles_losses(const struct hf_admin_config *config);
json_t *hf_admin_troubles_limits(const struct hf_admin_config *config);

/* server.c: kick gives libmicrohttpd a turn as soon as possible, because it has work; run gives it
 * one at once. */
void hf_admin_listener_kick(struct listener *listener);
void hf_admin_listener_run(struct listener *listener);
/* Returns the context in which the rows of this request are shown. */
struct row_context;
struct row_context hf_admin_row_context_of(const struct request *request);

/* routes.c: finds the handler of the request and calls it. */
enum MHD_Result hf_admin_route(struct request *request);

/* The handlers of the table of routes, in lists.c, status.c, changes.c and page.c. */
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
