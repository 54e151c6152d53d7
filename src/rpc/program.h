/*
 * What is served, as tables: a program has versions, a version has procedures, a procedure has a
 * name, the codec of its arguments, and a handler. The server looks up, checks, decodes and calls;
 * whoever writes a protocol writes a table.
 *
 * Arguments are decoded into storage that the table names (`args`), with every string and opaque in
 * it already pointing at a buffer as large as its bound: libtirpc's codecs fill preset buffers and
 * then allocate nothing. One loop thread decodes one call at a time, so one such storage per
 * procedure is enough, and its contents last only as long as the handler runs.
 *
 * A handler answers with one of the hf_rpc_reply functions, at once or later; until then it owns
 * the call. Each call is answered exactly once.
 */
#ifndef HF_RPC_PROGRAM_H
#define HF_RPC_PROGRAM_H

#include <rpc/rpc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/bytes.h"
#include "base/list.h"
#include "rpc/message.h"

enum hf_rpc_transport { HF_RPC_UDP = 1, HF_RPC_TCP = 2 };

struct hf_rpc_call;

struct hf_rpc_procedure {
    const char *name; /* NULL: this number is not served */
    xdrproc_t decode; /* NULL: no arguments */
    void *args;       /* preset storage for them */
    void (*handle)(struct hf_rpc_call *call, void *args);
    bool once; /* not to be done twice: goes through the duplicate request cache */
};

/* Bytes behind the last argument are as wrong as missing ones. */
static inline bool hf_rpc_decode(const struct hf_rpc_procedure *procedure, struct hf_bytes bytes)
{
    XDR xdr;

    if (!procedure->decode)
        return bytes.len == 0;
    xdrmem_create(&xdr, (char *)(uintptr_t)bytes.data, (u_int)bytes.len, XDR_DECODE);
    return procedure->decode(&xdr, procedure->args) && xdr_getpos(&xdr) == bytes.len;
}

struct hf_rpc_version {
    uint32_t number;
    const struct hf_rpc_procedure *procedures; /* indexed by procedure number */
    size_t n_procedures;
};

struct hf_rpc_program {
    uint32_t number;
    const char *name;
    const struct hf_rpc_version *versions; /* in ascending order */
    size_t n_versions;
    void *ctx; /* for the handlers: call->program->ctx */
};

/* A request under way. The first part is for handlers to read, the second is the server's. */
struct hf_rpc_call {
    struct hf_rpc_header header;
    enum hf_rpc_transport transport;
    struct hf_addr peer;
    struct hf_addr local; /* the address the peer sent this to, and expects the answer from */
    const struct hf_rpc_program *program;
    const struct hf_rpc_procedure *procedure;
    uint64_t
        received_ns; /* uv_hrtime() at its arrival, where the server is asked to time; else 0 */

    struct hf_rpc_server *server;
    struct hf_rpc_conn *conn; /* TCP: where the answer goes; NULL once the connection is gone */
    struct hf_udp *udp;       /* UDP: the socket it came in on */
    struct hf_dup *dup;       /* its entry in the duplicate request cache, if it has one */
    struct hf_list link;      /* among its connection's calls, or the server's spare ones */
};

/* Each of these ends the call: it must not be touched afterwards. */
void hf_rpc_reply(struct hf_rpc_call *call, xdrproc_t encode, const void *results);
void hf_rpc_reply_void(struct hf_rpc_call *call);
void hf_rpc_reply_error(struct hf_rpc_call *call, enum hf_rpc_accept stat);

/*
 * Forgets all answers kept for repeated requests, as a restart would: what they promised may hold
 * no more. The call itself goes on.
 */
void hf_rpc_forget_answers(struct hf_rpc_call *call);

/* No answer at all: what RPC asks of a server that cannot tell what an answer would promise. */
void hf_rpc_reply_never(struct hf_rpc_call *call);

#endif
