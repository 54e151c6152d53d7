/*
 * Declarations that the files of the RPC client share. client.c decides what to ask next (rpcbind,
 * then the program itself; TCP, then UDP); exchange.c sends one question to one port and receives
 * the answer.
 */
#ifndef HF_RPC_CLIENT_PRIVATE_H
#define HF_RPC_CLIENT_PRIVATE_H

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "rpc/client.h"
#include "rpc/lanes.h"
#include "rpc/marking.h"
#include "rpc/portcache.h"
#include "rpc/program.h"
#include "rpc/udp.h"

enum {
    RPCBIND_PORT = 111,
    MESSAGE_MAX = HF_UDP_DATAGRAM_MAX,
    /* The pause before the first repeat of a UDP call; it doubles with each further repeat. */
    RESEND_FIRST_MS = 500,
    /* the kinds of UDP sockets: IPv4 and IPv6, with any port and with a reserved port */
    UDP_SOCKETS = 4,
    UDP_PORTS = 8,           /* how many ports of each kind the client uses at a time */
    UDP_PORT_MS = 20 * 1000, /* for how long the client uses a UDP port */
    /* How many datagrams one exchange on trial may send, if the peer has credit for them. */
    TRIAL_SENDS = 3,
    TRIAL_MS = 2000, /* how long an exchange on trial waits for its answer */
};

enum phase {
    PHASE_LOOKUP, /* the call asks the peer's rpcbind for the port */
    PHASE_CALL,   /* the call asks the program itself */
    PHASE_SECOND, /* the first call is answered, and the second call is in progress */
};

struct tcp_exchange;
struct hf_rpc_udp_port;

struct hf_rpc_outcall {
    struct hf_rpc_client *client;
    /* The arguments of the call. Their members args and also are no longer valid: they are encoded
     * in message and second. */
    struct hf_rpc_outcall_args call_args;
    hf_rpc_done done;
    void *ctx;
    struct hf_list link;      /* links the call into client->active or client->spare */
    struct hf_rpc_lane *lane; /* the lane of the peer's address; NULL: the conversation is over */
    struct hf_list queued;    /* links the call into its lane while it waits */
    bool begun;               /* the call's turn in its lane has come, and it has begun */
    /* A datagram caused the call, so each of its own datagrams needs credit (credit.h). */
    bool on_trial;

    enum phase phase;
    enum hf_transport wanted; /* the transport for the call itself */
    bool hinted; /* The port came from the caller or the port cache, and may be out of date. */
    uint64_t started_ms;
    uint64_t deadline_ms;
    struct hf_buf message; /* the encoded call: header and arguments */
    struct hf_buf second;  /* the second call */

    /* The current exchange: one question to one port. The next fields describe it. */
    enum hf_transport via;   /* the transport of the exchange; 0: there is no exchange */
    struct hf_map_node node; /* UDP: links the call into client->waiting, by transaction id */
    uint32_t xid;
    struct hf_addr to;
    struct hf_buf question;   /* the message that the exchange sends, kept for repeats */
    struct tcp_exchange *tcp; /* the TCP connection of the exchange, if it goes by TCP */
    /* The random source port of the exchange, if it goes by UDP. */
    struct hf_rpc_udp_port *udp;
    unsigned datagrams; /* how many datagrams the exchange has queued */
    /* how many packets of the exchange the kernel has sent: datagrams, or a SYN */
    unsigned left;
    uv_timer_t timer; /* expires at the next repeat, or at the end of the exchange */
    uint64_t resend_pause_ms;
    /* how often the call itself, not a question to rpcbind, was sent and may have arrived */
    unsigned sends;
    bool tried; /* the exchange that ended last has sent a packet */
    /*
     * Nothing may be sent, because the peer's address may be forged (SEC-03). A call whose silence
     * takes no lock away then counts as unanswered, so that a waiter that we may not call does not
     * keep its turn.
     */
    bool withheld;
    uint64_t give_up_ms; /* when this exchange times out, though not the whole call */
    /* the exchange failed before it began; the loop reports this error later */
    int pending_error;
};

struct hf_rpc_client {
    uv_loop_t *loop;
    const struct hf_alloc *alloc;
    struct hf_hash_key hash_key;
    struct hf_map waiting;
    struct hf_portcache ports;
    /* the gate, without which no call leaves; NULL: the gate is always open */
    const struct hf_rpc_gate *gate;
    /* the server whose sockets serve calls with listening_port; NULL: none */
    struct hf_rpc_server *server;
    /* The source addresses of calls that name no local address, for IPv4 and IPv6; NONE: any
     * address. */
    struct hf_addr sources[2];
    struct hf_list active;
    struct hf_list spare;
    unsigned n_active;
    struct hf_rpc_lanes lanes;
    struct hf_rpc_client_counters counters;
    struct hf_rpc_udp_port *pool[UDP_SOCKETS][UDP_PORTS];
    /* the UDP ports in use, and older ones that some exchange still uses */
    struct hf_list udp_ports;
    uv_prepare_t prepare; /* sends the datagrams that were queued in this turn of the loop */
    struct hf_hash_key xid_key;
    uint64_t n_xids; /* how many transaction ids were used; an id is a hash of its number */
    unsigned open_handles;
    void (*closed)(void *ctx);
    void *closed_ctx;
    uint8_t scratch[MESSAGE_MAX];
    uint8_t read_chunk[HF_RPC_RECORD_MAX];
};

/* client.c: an exchange reports its answer (a whole RPC message), or its failure. */
void hf_rpc_outcall_answered(struct hf_rpc_outcall *call, struct hf_bytes message);
void hf_rpc_outcall_failed(struct hf_rpc_outcall *call, int error);
void hf_rpc_client_handle_closed(struct hf_rpc_client *client);

/* client.c: begins a call whose turn has come, by asking its first question. */
int hf_rpc_outcall_begin(struct hf_rpc_outcall *call);

/* client.c: ends an expendable call that has been sent, without waiting for its answer. */
void hf_rpc_outcall_give_up(struct hf_rpc_outcall *call);

/* exchange.c: takes a reply datagram, received on any of the UDP sockets. */
void hf_rpc_exchange_reply(struct hf_rpc_client *client, const struct hf_addr *peer,
                           struct hf_bytes datagram);

/* exchange.c: flush sends the queued datagrams; close_ports closes all UDP sockets, when no
 * exchange uses them any more. */
void hf_rpc_exchange_flush(struct hf_rpc_client *client);
void hf_rpc_exchange_close_ports(struct hf_rpc_client *client);

/* exchange.c: true if a call waits for an answer with this transaction id. */
bool hf_rpc_exchange_is_awaited(const struct hf_rpc_client *client, uint32_t xid);

/*
 * exchange.c: sends call->question to call->to by this transport and waits until give_up_ms.
 * Failures are reported only through hf_rpc_outcall_failed(), and only after this function has
 * returned.
 */
void hf_rpc_exchange_begin(struct hf_rpc_outcall *call, enum hf_transport via, uint64_t give_up_ms);

/* exchange.c: sends call->question over the TCP connection of an exchange that has been answered.
 * Returns HF_ELIMIT if the question is longer than the message sent before. */
int hf_rpc_exchange_continue(struct hf_rpc_outcall *call);
void hf_rpc_exchange_end(struct hf_rpc_outcall *call);

/* exchange.c: makes the loop report a failure later, because the caller of the failed function is
 * still running. */
void hf_rpc_exchange_fail_soon(struct hf_rpc_outcall *call, int error);

/* exchange.c: ends the call at until_ms, unless it ends earlier. */
void hf_rpc_exchange_hurry(struct hf_rpc_outcall *call, uint64_t until_ms);

#endif
