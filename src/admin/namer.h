/*
 * The connection to a namer (docs/operating/NAMES.md): made when the first question comes, kept,
 * and made again after a pause that grows when it fails. A namer that leaves its oldest question
 * unanswered for NAMER_SILENT_MS, or gives an answer that makes no sense, is cut off. Everything is
 * bounded: questions in flight, bytes not sent yet, the length of a line.
 *
 * It runs on the loop of the daemon and never blocks it.
 */
#ifndef HF_ADMIN_NAMER_H
#define HF_ADMIN_NAMER_H

#include <uv.h>

#include "admin/answer.h"
#include "base/buf.h"

enum {
    NAMER_ASKED_MAX = 1024,
    NAMER_SILENT_MS = 2000,
    NAMER_PAUSE_MIN_MS = 1000,
    NAMER_PAUSE_MAX_MS = 30000,
    NAMER_LINE_MAX = HF_PATH_QUOTED_MAX + 128,
    NAMER_REASON_MAX = 160,
};

#define NAMER_SOCKET "/run/holdfast-names/socket" /* of "auto" */

enum hf_namer_state {
    NAMER_ABSENT, /* none is configured, or there is no socket where one would be */
    NAMER_DOWN,
    NAMER_CONNECTING,
    NAMER_UP,
};

struct namer_ops {
    void *ctx;
    /* False: no question with this id is in flight. */
    bool (*answered)(void *ctx, const struct hf_name_answer *answer);
    void (*up)(void *ctx);   /* questions can be asked */
    void (*down)(void *ctx); /* those in flight will not be answered */
};

struct namer;

/* socket: "" none, "auto", or a path. Takes no connection yet. */
struct namer *hf_namer_new(uv_loop_t *loop, const char *socket, const struct namer_ops *ops);

/* No callback follows. Freed when its handles are closed. */
void hf_namer_close(struct namer *namer);

/* Connects, if there is no connection and the pause after the last failure is over. */
void hf_namer_connect(struct namer *namer);
enum hf_namer_state hf_namer_state(const struct namer *namer);
const char *hf_namer_reason(const struct namer *namer); /* why it is down */

/* Only while it is up: puts a question behind those not sent yet. HF_ENOMEM. */
int hf_namer_ask(struct namer *namer, uint64_t id, struct hf_bytes fh);
/* Sends what was asked in this turn. oldest: the id of the question that has gone unanswered for
 * longest, 0 if there is none; how long it goes on like that is limited. */
void hf_namer_flush(struct namer *namer, uint64_t oldest);

#endif
