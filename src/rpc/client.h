/* The RPC client: outgoing calls to the status monitor or the lock manager of a client, or to a
 * program that asked for a status callback. All calls run on the loop thread, thousands at a time,
 * and calls to different addresses do not wait for each other (NOT-02); calls to one address are
 * made one after the other (lanes.h).
 *
 * One call is one attempt with one total time (NOT-01): ask the peer's rpcbind for the port,
 * connect, send and receive the answer, all within timeout_ms. Over TCP each call has its own
 * connection; over UDP the client repeats the call with growing pauses. It asks rpcbind over UDP,
 * and over TCP if UDP gets no answer. An answer is accepted only if its transaction id, address and
 * port match the call. Transaction ids and the source ports of UDP calls are random, so that a host
 * that does not see the call cannot forge an answer (SEC-07).
 *
 * The arguments are encoded before hf_rpc_client_call() returns. done is called exactly once for
 * each accepted call, and never from within hf_rpc_client_call() itself. */
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

/* The share of the process's file limit for outgoing conversations: at most half of the files. */
enum { HF_RPC_CLIENT_FILES_SHARE = 2 };

struct hf_rpc_outcall_args {
    /* The peer. Its rpcbind is asked if the port is 0, or turns out to be wrong. */
    struct hf_addr peer;
    struct hf_addr local; /* the local address to call from; family NONE: any address */
    enum hf_transport transport;
    bool udp_fallback;  /* if the peer does not serve TCP, call by UDP instead */
    bool reserved_port; /* call from a port below 1024, as a kernel expects of its status monitor */
    bool listening_port; /* call by UDP from the port that we serve on, as macOS expects */
    /* use a port that an earlier call looked up, and remember the port that this call looks up */
    bool remember_port;
    /* Call done only when timeout_ms is over, because the answer is merely an acknowledgement. */
    bool wait_out;
    /* This call gives way to other calls: if it is lost, the receiver repeats its request. */
    bool expendable;
    /* Becomes true when the call is sent a second time; may be NULL. Must stay valid until done is
     * called. */
    bool *repeated;
    /* If the peer does not answer this call, its locks may be released. So the call waits only for
     * calls to its address that have this flag, and timeout_ms counts from the moment when it is
     * sent. */
    bool apart;
    /* If the call cannot begin in time, its error is HF_ELIMIT, even if the peer left the calls
     * before it unanswered. */
    bool by_itself;
    /* A datagram that may be forged caused the call. It is sent all the same, and its cost is
     * charged to the account of the peer (credit.h). */
    bool charged;
    /* A datagram from the peer, whose source address may be forged, caused the call. It is sent by
     * UDP only, and only as far as the peer has credit for it (credit.h). */
    bool provoked;
    /* If rpcbind names this port, which is our own, the call fails with HF_EDENIED; 0: any port is
     * valid. */
    uint16_t not_port;
    uint32_t prog;
    uint32_t vers;
    uint32_t proc;
    uint32_t timeout_ms;
    hf_codec encode; /* encodes the arguments; NULL: the call has none */
    const void *args;
    /* The arguments of a second call to the same procedure, made when the first is answered, over
     * the first call's connection and within its time. Its outcome is not reported. NULL: there is
     * no second call. */
    const void *also;
};

struct hf_rpc_response {
    int error;    /* 0: the peer answered; otherwise a code of base/error.h */
    XDR *results; /* the results if error is 0; the receiver must decode them before done returns */
    /* The peer with the port that was used in the end, which the caller may remember. */
    struct hf_addr peer;
    uint32_t elapsed_ms;
    bool sent;     /* the call itself was sent, not only a question to rpcbind */
    bool repeated; /* the call was sent more than once, so this may be the answer to a repeat */
    /* True if an error says something about the peer: the last question, even if it went to
     * rpcbind, left this host; or the call waited in vain behind another call to its address of
     * which this is true. Otherwise our own host is at fault (no local address, route, file, port
     * or memory). */
    bool tried;
};

typedef void (*hf_rpc_done)(void *ctx, const struct hf_rpc_response *response);

int hf_rpc_client_new(uv_loop_t *loop, const struct hf_alloc *alloc,
                      const struct hf_hash_key *hash_key, struct hf_rpc_client **out);

/* Sets the server through whose sockets calls with listening_port go out. The server must outlive
 * the client. */
void hf_rpc_client_attach(struct hf_rpc_client *client, struct hf_rpc_server *server);

/*
 * Sets the gate, before the first call. While the gate is shut, no call begins and nothing is sent.
 */
void hf_rpc_client_set_gate(struct hf_rpc_client *client, const struct hf_rpc_gate *gate);

/* Sets the source address of calls to other hosts that name no local address. One address of each
 * family can be set, for a service that has addresses of its own. */
void hf_rpc_client_set_source(struct hf_rpc_client *client, const struct hf_addr *addr);

/* Begins a call. Returns HF_ENOMEM, HF_EFORMAT if the arguments do not encode, or HF_ELIMIT if too
 * many calls wait, for this address or in all. out may be NULL; *out serves to cancel the call. */
int hf_rpc_client_call(struct hf_rpc_client *client, const struct hf_rpc_outcall_args *call_args,
                       hf_rpc_done done, void *ctx, struct hf_rpc_outcall **out);

/* Reports that the peer has taken a lock that we granted it by callback, which only the host that
 * provoked the call does (hf_rpc_server_took_lock()). */
void hf_rpc_client_took_lock(struct hf_rpc_client *client, const struct hf_addr *peer);

/* Ends a call whose done function has not been called yet, and will not be. */
void hf_rpc_client_cancel(struct hf_rpc_outcall *call);

/* Returns the number of calls in progress, including those that wait for their address. */
unsigned hf_rpc_client_active(const struct hf_rpc_client *client);

struct hf_rpc_client_counters {
    uint64_t started; /* how many calls were accepted */
    uint64_t refused; /* how many calls were not accepted because too many wait or are in flight */
    /* expendable calls that were sent and ended without an answer, so that another could begin */
    uint64_t gave_way;
    uint64_t running; /* how many conversations are in flight at present */
    uint64_t waiting; /* how many calls wait for their address at present */
};

struct hf_rpc_client_counters hf_rpc_client_counters(const struct hf_rpc_client *client);

/* Cancels all calls; closed is called when the client has been freed. */
void hf_rpc_client_close(struct hf_rpc_client *client, void (*closed)(void *ctx), void *ctx);

#endif
