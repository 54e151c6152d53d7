/*
 * The RPC client: outgoing calls to the status monitor or the lock manager of a client, or to a
 * program that asked for a status callback. All calls run on the loop, thousands at a time, and
 * none waits for another (NOT-02), except that calls to the same address are made one after the
 * other (lanes.h).
 *
 * One call is one attempt with one total time (NOT-01): ask the peer's rpcbind for the port,
 * connect, send and receive the answer, all within timeout_ms. Over TCP each call has its own
 * connection; over UDP the client repeats the call with growing pauses. It asks rpcbind over UDP,
 * and over TCP if UDP gets no answer. An answer is accepted only if transaction id, address and
 * port match the call. Transaction ids and the ports that UDP calls leave from are random, so that
 * a host that does not see the call cannot forge an answer (SEC-07).
 *
 * The arguments are encoded before hf_rpc_client_call() returns. done is called exactly once for
 * each accepted call, and never from within hf_rpc_client_call() itself.
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
#include "base/transport.h"
#include "rpc/codec.h"
#include "rpc/gate.h"

struct hf_rpc_client;
struct hf_rpc_outcall;
struct hf_rpc_server;

/* Outgoing conversations may use at most half of the files that the process may open. */
enum { HF_RPC_CLIENT_FILES_SHARE = 2 };

struct hf_rpc_outcall_args {
    /* the peer; its rpcbind is asked if the port is 0, or turns out to be wrong */
    struct hf_addr peer;
    struct hf_addr local; /* the local address to call from; family NONE: any */
    enum hf_transport transport;
    bool udp_fallback;  /* TCP: use UDP instead where the peer does not serve TCP */
    bool reserved_port; /* call from a port below 1024, as a kernel expects of its status monitor */
    bool listening_port; /* UDP: call from the port we serve on, as macOS expects */
    bool remember_port;  /* use a port looked up earlier, and remember the one looked up now */
    bool wait_out;       /* call done only when timeout_ms is over, because the answer is merely an
                            acknowledgement */
    bool expendable; /* the receiver asks again if this call is lost: it gives way to other calls */
    bool *repeated;  /* becomes true when a second copy of the call is sent; NULL: not wanted. Valid
                        until done is called */
    /* if the peer does not answer this call, its locks may be released: so the call waits only for
     * calls to the same address that have this flag, and timeout_ms counts from when it is sent */
    bool apart;
    /* if the call cannot begin in time, its error is HF_ELIMIT, even if the peer left the calls
     * before it unanswered */
    bool by_itself;
    /* a datagram that may be forged caused the call, which is sent all the same: what it costs is
     * charged to the account of the peer (credit.h) */
    bool charged;
    /* a datagram from the peer, whose source address may be forged, caused the call: it is sent by
     * UDP only, and only as far as there is credit for it (credit.h) */
    bool provoked;
    /* fail with HF_EDENIED if rpcbind names this port, which is our own; 0: none */
    uint16_t not_port;
    uint32_t prog;
    uint32_t vers;
    uint32_t proc;
    uint32_t timeout_ms;
    hf_codec encode; /* NULL: the call has no arguments */
    const void *args;
    /*
     * Arguments of a second call to the same procedure, made when the first is answered, over the
     * same connection and within the same time. Its outcome is not reported. NULL: no second call.
     */
    const void *also;
};

struct hf_rpc_response {
    int error;    /* 0: answered; otherwise a code of base/error.h */
    XDR *results; /* the results, if error is 0; decode them before done returns */
    /* the peer, with the port that was used in the end, for the caller to remember */
    struct hf_addr peer;
    uint32_t elapsed_ms;
    bool sent;     /* the call itself, not only a question to rpcbind, was sent */
    bool repeated; /* the call was sent more than once, so this may answer a repeat */
    /*
     * True if an error says something about the peer: the last question, even if only that to
     * rpcbind, left this host; or the call waited in vain behind another call to the same address,
     * of which this is true. Otherwise the fault is our own (no local address, route, file, port or
     * memory).
     */
    bool tried;
};

typedef void (*hf_rpc_done)(void *ctx, const struct hf_rpc_response *response);

int hf_rpc_client_new(uv_loop_t *loop, const struct hf_alloc *alloc,
                      const struct hf_hash_key *hash_key, struct hf_rpc_client **out);

/* Calls with listening_port go out through this server's sockets; it must outlive the client. */
void hf_rpc_client_attach(struct hf_rpc_client *client, struct hf_rpc_server *server);

/* Sets the gate, before the first call. While it is shut, no call begins and nothing is sent. */
void hf_rpc_client_set_gate(struct hf_rpc_client *client, const struct hf_rpc_gate *gate);

/* Calls to other hosts that name no local address of their family leave from this one, so one
 * address of each family can be set. It is for a service that has addresses of its own. */
void hf_rpc_client_set_source(struct hf_rpc_client *client, const struct hf_addr *addr);

/* Returns HF_ENOMEM; HF_EFORMAT if the arguments do not encode; HF_ELIMIT if too many calls wait,
 * for this address or in all. out may be NULL; *out serves to cancel the call. */
int hf_rpc_client_call(struct hf_rpc_client *client, const struct hf_rpc_outcall_args *call_args,
                       hf_rpc_done done, void *ctx, struct hf_rpc_outcall **out);

/* Tells that the peer has answered a call as only the host that provoked it does
 * (hf_rpc_server_took_lock()). */
void hf_rpc_client_took_lock(struct hf_rpc_client *client, const struct hf_addr *peer);

/* Ends a call that is not done; done will not be called. */
void hf_rpc_client_cancel(struct hf_rpc_outcall *call);

/* Returns the number of calls in progress, those that wait for their address included. */
unsigned hf_rpc_client_active(const struct hf_rpc_client *client);

struct hf_rpc_client_counters {
    uint64_t started;  /* calls that were accepted */
    uint64_t refused;  /* calls not accepted because too many wait or are in flight */
    uint64_t gave_way; /* expendable calls that ended, sent but unanswered, to let another begin */
    uint64_t running;  /* conversations in flight now */
    uint64_t waiting;  /* calls that wait for their address now */
};

struct hf_rpc_client_counters hf_rpc_client_counters(const struct hf_rpc_client *client);

/* Cancels all calls; closed is called when the client has been freed. */
void hf_rpc_client_close(struct hf_rpc_client *client, void (*closed)(void *ctx), void *ctx);

#endif
