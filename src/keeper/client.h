/*
 * The daemon's side of the connection to holdfast-keeper (protocol.h), on the daemon's loop. It
 * never blocks, and allocates nothing after hf_keeper_client_new(): operations of a turn gather in
 * a queue of fixed size and leave in as few messages as they fit into.
 *
 * When the connection is lost, the operations in flight have no result. The keeper may or may not
 * have done them: ask with hf_keeper_client_list() after the next up().
 */
#ifndef HF_KEEPER_CLIENT_H
#define HF_KEEPER_CLIENT_H

#include <uv.h>

#include "keeper/protocol.h"

enum {
    HF_KEEPER_QUEUE_MAX = 8192, /* operations that wait to be sent */
    HF_KEEPER_PAUSE_MIN_MS = 20,
    HF_KEEPER_PAUSE_MAX_MS = 1000,
    HF_KEEPER_REASON_MAX = 160,
};

struct hf_keeper_client;

/* All are called from the loop, none from inside a call of this header. */
struct hf_keeper_client_ops {
    void *ctx;
    /* Connected. hello->incarnation tells whether it is still the keeper of before. */
    void (*up)(void *ctx, const struct hf_keeper_hello *hello);
    /* The connection is lost; it is tried again after a pause. Operations in flight and in the
     * queue are forgotten. Also called when a first attempt fails. */
    void (*down)(void *ctx, const char *reason);
    void (*result)(void *ctx, const struct hf_keeper_result *result);
    /* Answers hf_keeper_client_list(): one call for each range; held NULL: that was all. */
    void (*held)(void *ctx, const struct hf_keeper_op *held);
    /* Answers hf_keeper_client_exports(), likewise. NULL where that is never called. */
    void (*exported)(void *ctx, const struct hf_keeper_export *export);
};

/* Connects at the next turn of the loop. NULL: out of memory, or the path is too long. */
struct hf_keeper_client *hf_keeper_client_new(uv_loop_t *loop, const char *socket,
                                              const struct hf_keeper_client_ops *ops);

/* No callback follows. Freed when its handles are closed. */
void hf_keeper_client_close(struct hf_keeper_client *client);

bool hf_keeper_client_is_up(const struct hf_keeper_client *client);

/* Puts an operation behind those of this turn. HF_EUNAVAIL: not connected; HF_ELIMIT: the queue is
 * full, try again when results have come. */
int hf_keeper_client_put(struct hf_keeper_client *client, const struct hf_keeper_op *op);

/* Sends what was put in this turn; what the socket does not take follows by itself. */
void hf_keeper_client_flush(struct hf_keeper_client *client);

/* Asks for everything that is held. The queue must be empty or flushed before: the answer tells of
 * the operations that were put earlier. HF_EUNAVAIL, HF_ELIMIT. */
int hf_keeper_client_list(struct hf_keeper_client *client);

/* Lets go, or takes back, what is below path. Its result comes by id. HF_EUNAVAIL, HF_ELIMIT (one
 * is waiting to be sent already), HF_EINVAL (the path). */
int hf_keeper_client_path(struct hf_keeper_client *client, uint64_t id,
                          enum hf_keeper_path_kind kind, const char *path);

/* Asks for the exports, and what is open below them. HF_EUNAVAIL, HF_ELIMIT. */
int hf_keeper_client_exports(struct hf_keeper_client *client);

/* The name of a program by the pid of a holder, as /proc tells it; "" if it does not. The keeper
 * cannot read any file, so its caller looks. Blocks for as long as reading /proc takes. */
void hf_keeper_program_of(int32_t pid, char *out, size_t size);

#endif
