/*
 * The daemon's side of the connection to holdfast-keeper (protocol.h), on the daemon's loop. The
 * client never blocks, and allocates nothing after hf_keeper_client_new(): operations of a turn
 * gather in a queue of fixed size and leave in as few messages as they fit into.
 *
 * When the connection is lost, the operations in flight have no result. The keeper may or may not
 * have done them, so the caller asks what is held with hf_keeper_client_list() after the next up().
 */
#ifndef HF_KEEPER_CLIENT_H
#define HF_KEEPER_CLIENT_H

#include <uv.h>

#include "keeper/protocol.h"

enum {
    HF_KEEPER_QUEUE_MAX = 8192, /* how many operations may wait to be sent */
    HF_KEEPER_PAUSE_MIN_MS = 20,
    HF_KEEPER_PAUSE_MAX_MS = 1000,
    HF_KEEPER_REASON_MAX = 160,
};

struct hf_keeper_client;

/* The callbacks of a client. The loop calls them, never from inside a function of this header. */
struct hf_keeper_client_ops {
    void *ctx;
    /* The connection is up. hello->incarnation tells whether the keeper is the one of the
     * connection before. */
    void (*up)(void *ctx, const struct hf_keeper_hello *hello);
    /* The connection is lost, or a first attempt has failed; the client tries again after a pause.
     * Operations in flight and in the queue are forgotten. */
    void (*down)(void *ctx, const char *reason);
    void (*result)(void *ctx, const struct hf_keeper_result *result);
    /*
     * Answers hf_keeper_client_list(), with one call for each range; held is NULL after the last.
     */
    void (*held)(void *ctx, const struct hf_keeper_op *held);
    /* Answers hf_keeper_client_exports(), with one call for each export; export is NULL after the
     * last. May be NULL where exports are never asked for. */
    void (*exported)(void *ctx, const struct hf_keeper_export *export);
};

/* Makes a client, which connects at the next turn of the loop. NULL: there is no memory, or the
 * path is too long. */
struct hf_keeper_client *hf_keeper_client_new(uv_loop_t *loop, const char *socket,
                                              const struct hf_keeper_client_ops *ops);

/* Closes the connection; no callback follows. The memory is freed when libuv has closed the
 * handles. */
void hf_keeper_client_close(struct hf_keeper_client *client);

/* True if the keeper has sent something that was not read yet, or has closed the connection. */
bool hf_keeper_client_has_input(const struct hf_keeper_client *client);

bool hf_keeper_client_is_up(const struct hf_keeper_client *client);

/* Puts an operation behind the others of this turn. Returns HF_EUNAVAIL without a connection;
 * HF_ELIMIT if the queue is full: the caller tries again when results have come. */
int hf_keeper_client_put(struct hf_keeper_client *client, const struct hf_keeper_op *op);

/* Sends the operations that were put in this turn; those that the socket does not take are sent
 * later by the client itself. */
void hf_keeper_client_flush(struct hf_keeper_client *client);

/* Asks for everything that the keeper holds. The queue must be empty or flushed before, because the
 * answer includes the operations that were put earlier. Returns HF_EUNAVAIL, HF_ELIMIT. */
int hf_keeper_client_list(struct hf_keeper_client *client);

/* Asks the keeper to let go of the files below path, or to open such files again from now on. The
 * result carries the id. Returns HF_EUNAVAIL; HF_ELIMIT if a path is waiting to be sent already;
 * HF_EINVAL for a wrong path. */
int hf_keeper_client_path(struct hf_keeper_client *client, uint64_t id,
                          enum hf_keeper_path_kind kind, const char *path);

/* Asks for the exports, and how much is open below them. Returns HF_EUNAVAIL, HF_ELIMIT. */
int hf_keeper_client_exports(struct hf_keeper_client *client);

/* Finds the name of a program by the pid of a lock's holder in /proc; "" if /proc does not show it.
 * The daemon looks, because the keeper cannot read any file. Reading /proc blocks for a moment. */
void hf_keeper_program_of(int32_t pid, char *out, size_t size);

#endif
