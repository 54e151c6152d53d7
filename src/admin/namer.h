/*
 * The connection to a namer (docs/operating/NAMES.md). It is made when the first question comes,
 * kept, and after a failure made again, with pauses that grow. A namer that leaves its oldest
 * question unanswered for NAMER_SILENT_MS, or gives an answer that makes no sense, is cut off.
 * Everything is bounded: questions in flight, bytes not sent yet, the length of a line.
 *
 * All this runs on the loop of the daemon and never blocks it.
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

/* The socket of the namer if the configuration says "auto". */
#define NAMER_SOCKET "/run/holdfast-names/socket"

enum hf_namer_state {
    NAMER_ABSENT, /* no namer is configured, or its socket does not exist */
    NAMER_DOWN,
    NAMER_CONNECTING,
    NAMER_UP,
};

struct namer_ops {
    void *ctx;
    /* Takes an answer. Returns false if no question with this id is in flight. */
    bool (*answered)(void *ctx, const struct hf_name_answer *answer);
    void (*up)(void *ctx); /* the function that is called when questions can be asked */
    /* The function that is called when questions in flight will not be answered. */
    void (*down)(void *ctx);
};

struct namer;

/*
 * Makes the object for a namer, without a connection yet. socket is "" for none, "auto", or a path.
 */
struct namer *hf_namer_new(uv_loop_t *loop, const char *socket, const struct namer_ops *ops);

/* Closes the connection; no callback follows. The memory is freed when libuv has closed the
 * handles. */
void hf_namer_close(struct namer *namer);

/* Connects to the namer, unless there is a connection or the pause after the last failure is not
 * over. */
void hf_namer_connect(struct namer *namer);
enum hf_namer_state hf_namer_state(const struct namer *namer);
const char *hf_namer_reason(const struct namer *namer); /* returns why the namer is down */

/* Puts a question behind those that are not sent yet; the namer must be up. Returns HF_ENOMEM
 * without memory. */
int hf_namer_ask(struct namer *namer, uint64_t id, struct hf_bytes fh);
/* Sends the questions that were asked in this turn. oldest is the id of the question that has gone
 * unanswered for longest, 0 if there is none; how long it may stay unanswered is limited. */
void hf_namer_flush(struct namer *namer, uint64_t oldest);

#endif
