/* What the files of this room share: the server, a request under way, and how it is answered. */
#ifndef HF_ADMIN_PRIVATE_H
#define HF_ADMIN_PRIVATE_H

#include <jansson.h>
#include <microhttpd.h>

#include "admin/admin.h"
#include "admin/fh_map.h"
#include "base/buf.h"
#include "base/list.h"

enum {
    BODY_MAX = 4096,           /* no request of ours needs more */
    CONNECTION_MEMORY = 65536, /* headers in, pieces out */
    CONNECTIONS_MAX = 64,
    CONNECTION_IDLE_S = 30,
    TOKEN_MIN = 16,
    TOKEN_MAX = 256,
};

/* One listening socket: a daemon of libmicrohttpd, driven by the loop. */
struct listener {
    struct hf_admin *admin;
    struct MHD_Daemon *daemon;
    bool local; /* the unix socket */
    uv_poll_t poll;
    uv_timer_t timer;
};

struct hf_admin {
    struct hf_admin_config config;
    char token[TOKEN_MAX + 1]; /* "": none */
    struct hf_fh_map map;
    struct listener listeners[2]; /* TCP, unix */
    struct hf_list waiting;       /* requests that wait for a commit or a check */
    unsigned open_handles;
};

struct request {
    struct hf_admin *admin;
    struct listener *listener;
    struct MHD_Connection *connection;
    const char *method;
    const char *path;
    char argument[2 * HF_FH_MAX + 1]; /* what stands for the * of the route */
    char allow[32];                   /* methods this path has: told with a 405 */
    struct hf_buf body;

    /* While it waits: what will be said, and what it waits for. */
    struct hf_list link;
    struct hf_later later;
    struct hf_admin_check check;
    json_t *pending;
    unsigned pending_status;
    bool ready;
};

/* access.c: may this request change something? Answers it and returns false if not. */
bool access_may_change(struct request *request, enum MHD_Result *answered);
/* Who asks, for the log: "uid 0" or "127.0.0.1:4711". */
enum { WHO_MAX = 96 };
const char *access_who(const struct request *request, char text[WHO_MAX]);

/* reply.c: each queues the answer. json is consumed. */
enum MHD_Result reply_json(struct request *request, unsigned status, json_t *json);
enum MHD_Result reply_problem(struct request *request, unsigned status, const char *detail);
enum MHD_Result reply_error(struct request *request, int error, const char *what);
enum MHD_Result reply_text(struct request *request, unsigned status, const char *type,
                           struct hf_bytes text);
enum MHD_Result reply_response(struct request *request, unsigned status, const char *type,
                               struct MHD_Response *response);
json_t *problem_json(unsigned status, const char *detail);

/* wait.c: the answer leaves when seq is durable; or when a check has ended. */
enum MHD_Result reply_when_durable(struct request *request, uint64_t seq, json_t *json);
enum MHD_Result reply_when_checked(struct request *request, uint64_t client_id);
void wait_abandon_all(struct hf_admin *admin);

/* server.c: there may be work for libmicrohttpd: as soon as the loop comes round. */
void listener_kick(struct listener *listener);

/* routes.c */
enum MHD_Result route(struct request *request);

/* The handlers of the table: lists.c, status.c, changes.c, page.c. */
enum MHD_Result on_clients(struct request *request);
enum MHD_Result on_client(struct request *request);
enum MHD_Result on_locks(struct request *request);
enum MHD_Result on_waiters(struct request *request);
enum MHD_Result on_reservations(struct request *request);
enum MHD_Result on_notifications(struct request *request);
enum MHD_Result on_status(struct request *request);
enum MHD_Result on_grace(struct request *request);
enum MHD_Result on_healthz(struct request *request);
enum MHD_Result on_readyz(struct request *request);
enum MHD_Result on_metrics(struct request *request);
enum MHD_Result on_delete_client(struct request *request);
enum MHD_Result on_delete_lock(struct request *request);
enum MHD_Result on_delete_file(struct request *request);
enum MHD_Result on_end_grace(struct request *request);
enum MHD_Result on_notify(struct request *request);
enum MHD_Result on_check(struct request *request);
enum MHD_Result on_file(struct request *request);

/* A decimal number that fits 64 bits and nothing else. */
bool parse_id(const char *text, uint64_t *out);

#endif
