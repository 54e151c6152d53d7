/*
 * The programs that a server offers, as tables: a program has versions, a version has procedures,
 * and a procedure has a name, the codec of its arguments and a handler. The server finds the
 * procedure, decodes the arguments and calls the handler; to implement a protocol is to write such
 * a table.
 *
 * Arguments are decoded into storage that the table names (`args`). Every string and opaque in it
 * already points at a buffer as large as its bound, because libtirpc's codecs fill preset buffers
 * and then allocate nothing. The loop thread decodes one call at a time, so one storage per
 * procedure is enough; its contents are valid only while the handler runs.
 *
 * A handler answers with one of the hf_rpc_reply functions, at once or later, and owns the call
 * until then. Each call is answered exactly once.
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
#include "base/transport.h"
#include "base/trust.h"
#include "rpc/codec.h"
#include "rpc/message.h"

struct hf_rpc_call;

#define HF_RPC_UID_UNKNOWN HF_UID_UNKNOWN

struct hf_rpc_procedure {
    const char *name; /* the procedure's name; NULL: this procedure number is not served */
    hf_codec decode;  /* decodes the arguments; NULL: the procedure has none */
    void *args;       /* preset storage for the decoded arguments */
    void (*handle)(struct hf_rpc_call *call, void *args);
    /* The procedure must not be executed twice, so its calls go through the duplicate request
     * cache. */
    bool once;
};

/* Decodes the arguments of a procedure; false if bytes are missing or left over. */
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
    /* the procedures of this version, indexed by procedure number */
    const struct hf_rpc_procedure *procedures;
    size_t n_procedures;
};

struct hf_rpc_program {
    uint32_t number;
    const char *name;
    const struct hf_rpc_version *versions; /* in ascending order */
    size_t n_versions;
    void *ctx; /* a pointer for the program's handlers: call->program->ctx */
    /* The program serves callers without a reserved port even where the server demands a reserved
     * port. */
    bool any_port;
};

/* A request in progress. Handlers read the first part; the second is private to the server. */
struct hf_rpc_call {
    struct hf_rpc_header header;
    enum hf_transport transport;
    struct hf_addr peer;
    /* the local address that the request was sent to, from which the peer expects the answer */
    struct hf_addr local;
    const struct hf_rpc_program *program;
    const struct hf_rpc_procedure *procedure;
    /* the user at the other end of a local socket; HF_RPC_UID_UNKNOWN for other callers */
    uint32_t uid;
    enum hf_trust trust; /* what the caller has proved about itself */
    /* If the server measures times: uv_hrtime() when the call arrived; else 0. */
    uint64_t received_ns;

    struct hf_rpc_server *server;
    struct hf_rpc_host *host;
    /* UDP: the size of the request, which limits the size of the answer */
    uint32_t asked;
    struct hf_rpc_conn *conn; /* TCP: the connection for the answer; NULL: it was closed */
    struct hf_udp *udp;       /* UDP: the socket that received the request */
    struct hf_dup *dup; /* the request's entry in the duplicate request cache; NULL: it has none */
    /* Links the request into the list of its connection, or into the server's list of spare
     * requests. */
    struct hf_list link;
};

/* Returns the rights of the call's peer: what it is allowed to cause. */
static inline const struct hf_trust_rights *hf_rpc_call_may(const struct hf_rpc_call *call)
{
    return &hf_trust_rights[call->trust];
}

/* Returns the account of the call's peer, for other rooms that count what they keep for each
 * account. */
const struct hf_addr *hf_rpc_call_account(const struct hf_rpc_call *call);

/* Returns how many bytes of results an answer to this call may have (SEC-03). */
size_t hf_rpc_reply_room(const struct hf_rpc_call *call);

/* Each of these functions ends the call; the handler must not use it afterwards. */
void hf_rpc_reply(struct hf_rpc_call *call, hf_codec encode, const void *results);
void hf_rpc_reply_void(struct hf_rpc_call *call);

/*
 * Answers a request that made us call its sender. Over UDP, no answer is sent if the account of the
 * sender's address (credit.h) has too little credit for it; a repeat of the request gets an answer.
 */
void hf_rpc_reply_void_if_paid(struct hf_rpc_call *call);
void hf_rpc_reply_error(struct hf_rpc_call *call, enum hf_rpc_accept stat);

/* Charges the peer for work that the program's own counter (hf_rpc_server_config.work) does not
 * include. */
void hf_rpc_charge(struct hf_rpc_call *call, unsigned nodes);

/* Forgets all answers kept for repeated requests, as a restart would, because what they promised
 * may no longer be true. The given call itself goes on. */
void hf_rpc_forget_answers(struct hf_rpc_call *call);

/* Ends the call without an answer, as RPC demands of a server that cannot know whether an answer
 * would be true. */
void hf_rpc_reply_never(struct hf_rpc_call *call);

#endif
