/*
 * Calls out: to the status monitor of a client, to its lock manager, to whoever asked to be told.
 * All on the loop, thousands at a time, none waiting for another (NOT-02).
 *
 * One call is one attempt with one total time (NOT-01): ask the peer's rpcbind for the port,
 * connect, send, and get the answer, all within timeout_ms. Over TCP each call has a connection of
 * its own; over UDP it is repeated with growing pauses. rpcbind is asked over UDP, and over TCP
 * when that stays silent. An answer counts only if transaction id, address and port are those of
 * the call.
 *
 * The arguments are encoded before hf_rpc_client_call() returns. done is called exactly once for
 * each call that was accepted, never from within hf_rpc_client_call() itself.
 */
#ifndef HF_RPC_CLIENT_H
#define HF_RPC_CLIENT_H

#include <rpc/rpc.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/addr.h"
#include "base/alloc.h"
#include "base/hash.h"

struct hf_rpc_client;
struct hf_rpc_outcall;
struct hf_rpc_server;

/* How to reach the peer. The last: TCP, or UDP where the peer offers no TCP. */
enum hf_rpc_path { HF_RPC_BY_UDP, HF_RPC_BY_TCP, HF_RPC_BY_TCP_OR_UDP };

struct hf_rpc_request {
    struct hf_addr
        peer; /* port 0: ask its rpcbind. A port that turns out wrong is looked up anew */
    struct hf_addr local; /* our address to call from; family NONE: any */
    enum hf_rpc_path path;
    bool reserved_port;  /* from a port below 1024, as a kernel expects of its status monitor */
    bool listening_port; /* UDP: from the port we serve on, as macOS expects of a lock manager */
    bool remember_port;  /* use what was looked up before, and keep what is looked up now */
    bool wait_out; /* done is called only when the time is over: the answer is only a receipt */
    uint32_t prog;
    uint32_t vers;
    uint32_t proc;
    uint32_t timeout_ms;
    xdrproc_t encode; /* NULL: no arguments */
    const void *args;
    /* Arguments of a second call of the same kind, made when the first is answered, over the same
     * connection and in the same time; what becomes of it does not matter. NULL: there is none. */
    const void *also;
};

struct hf_rpc_response {
    int error;           /* 0: answered; else a code of base/error.h */
    XDR *results;        /* where error is 0: to be decoded before done returns */
    struct hf_addr peer; /* with the port that was used in the end, worth keeping */
    uint32_t elapsed_ms;
    bool sent;     /* the call, not only a question to rpcbind, has left: it may have arrived */
    bool repeated; /* it was sent more than once: the answer may be to a repeat */
};

typedef void (*hf_rpc_done)(void *ctx, const struct hf_rpc_response *response);

int hf_rpc_client_new(uv_loop_t *loop, const struct hf_alloc *alloc,
                      const struct hf_hash_key *hash_key, struct hf_rpc_client **out);

/* Calls with listening_port go out through this server's sockets; it must outlive the client. */
void hf_rpc_client_attach(struct hf_rpc_client *client, struct hf_rpc_server *server);

/* HF_ENOMEM, HF_EFORMAT if the arguments do not encode. *out may be used to cancel; or NULL. */
int hf_rpc_client_call(struct hf_rpc_client *client, const struct hf_rpc_request *request,
                       hf_rpc_done done, void *ctx, struct hf_rpc_outcall **out);

/* Ends a call that is not done; done is not called any more. */
void hf_rpc_client_cancel(struct hf_rpc_outcall *call);

/* Calls under way now. */
unsigned hf_rpc_client_active(const struct hf_rpc_client *client);

/* Cancels all; closed is called when the client is gone. */
void hf_rpc_client_close(struct hf_rpc_client *client, void (*closed)(void *ctx), void *ctx);

#endif
