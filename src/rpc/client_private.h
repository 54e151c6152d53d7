/*
 * What the files of the client share. client.c decides what to ask next (rpcbind, then the program
 * itself; TCP, then UDP); exchange.c sends one question to one port and receives the answer.
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
    /* the pause before the first repeat; it doubles with each further one */
    RESEND_FIRST_MS = 500,
    UDP_SOCKETS = 4,         /* kinds of sockets: IPv4 and IPv6, any port and reserved port */
    UDP_PORTS = 8,           /* how many ports of each kind there are */
    UDP_PORT_MS = 20 * 1000, /* how long each port is used */
    /* how many datagrams one exchange on trial may send, if there is credit for them */
    TRIAL_SENDS = 3,
    TRIAL_MS = 2000, /* how long an exchange on trial waits for its answer */
};

enum phase {
    PHASE_LOOKUP, /* asking the peer's rpcbind for the port */
    PHASE_CALL,   /* asking the program itself */
    PHASE_SECOND, /* the second call; the first is answered already */
};

struct tcp_exchange;
struct hf_rpc_udp_port;

struct hf_rpc_outcall {
    struct hf_rpc_client *client;
    /* the arguments; args and also in it are no longer valid, because they are encoded in message
     * and second */
    struct hf_rpc_outcall_args call_args;
    hf_rpc_done done;
    void *ctx;
    struct hf_list link;      /* links the call into client->active or client->spare */
    struct hf_rpc_lane *lane; /* NULL: the conversation is over */
    struct hf_list queued;    /* links the call into its lane while it waits */
    bool begun;               /* the call's turn has come */
    bool on_trial; /* a peer provoked the call, so each datagram needs credit (credit.h) */

    enum phase phase;
    enum hf_transport wanted; /* the transport the call itself is to use */
    bool hinted; /* the port came from the caller or the cache and may be out of date */
    uint64_t started_ms;
    uint64_t deadline_ms;
    struct hf_buf message; /* the call: header and arguments */
    struct hf_buf second;  /* the second call */

    /* The current exchange is one question to one port. */
    enum hf_transport via;   /* the transport of the exchange; 0: there is none */
    struct hf_map_node node; /* UDP: the call's place in client->waiting, by xid */
    uint32_t xid;
    struct hf_addr to;
    struct hf_buf question;   /* the message being sent, kept for repeats */
    struct tcp_exchange *tcp; /* the connection, if the exchange goes by TCP */
    /* the random port that the exchange leaves from, if it goes by UDP */
    struct hf_rpc_udp_port *udp;
    unsigned datagrams; /* how many datagrams were queued in this exchange */
    unsigned left;      /* packets of this exchange that the kernel sent: datagrams, or a SYN */
    uv_timer_t timer;   /* fires at the next repeat, or at the end */
    uint64_t resend_pause_ms;
    unsigned sends; /* how often the call itself was sent and may have arrived */
    bool tried;     /* the exchange that ended last put a packet on the wire */
    /*
     * nothing may be sent, because the address has not proved itself (SEC-03). A call whose silence
     * takes no lock away then counts as unanswered: a waiter that we may not call must not keep its
     * turn
     */
    bool withheld;
    uint64_t give_up_ms; /* when this exchange, though not yet the call, times out */
    int pending_error;   /* the exchange failed before it began; reported from the loop */
};

struct hf_rpc_client {
    uv_loop_t *loop;
    const struct hf_alloc *alloc;
    struct hf_hash_key hash_key;
    struct hf_map waiting;
    struct hf_portcache ports;
    const struct hf_rpc_gate *gate; /* NULL: the gate is always open */
    struct hf_rpc_server *server;   /* the server whose sockets listening_port uses; NULL: none */
    /* where calls without a local address leave from: IPv4, IPv6; NONE: any address */
    struct hf_addr sources[2];
    struct hf_list active;
    struct hf_list spare;
    unsigned n_active;
    struct hf_rpc_lanes lanes;
    struct hf_rpc_client_counters counters;
    struct hf_rpc_udp_port *pool[UDP_SOCKETS][UDP_PORTS];
    struct hf_list udp_ports; /* the ports of the pool, and those that some exchange still uses */
    uv_prepare_t prepare;     /* sends the datagrams queued in this turn of the loop */
    struct hf_hash_key xid_key;
    uint64_t n_xids; /* how many transaction ids were used; an id is a hash of its number */
    unsigned open_handles;
    void (*closed)(void *ctx);
    void *closed_ctx;
    uint8_t scratch[MESSAGE_MAX];
    uint8_t read_chunk[HF_RPC_RECORD_MAX];
};

/* client.c: takes the answer of an exchange (a whole RPC message), or learns that it has failed. */
void hf_rpc_outcall_answered(struct hf_rpc_outcall *call, struct hf_bytes message);
void hf_rpc_outcall_failed(struct hf_rpc_outcall *call, int error);
void hf_rpc_client_handle_closed(struct hf_rpc_client *client);

/* client.c: the call's turn has come; it asks its first question. */
int hf_rpc_outcall_begin(struct hf_rpc_outcall *call);

/* client.c: ends an expendable call that has been sent, without waiting for its answer. */
void hf_rpc_outcall_give_up(struct hf_rpc_outcall *call);

/* exchange.c: takes a reply datagram, received on any of the sockets. */
void hf_rpc_exchange_reply(struct hf_rpc_client *client, const struct hf_addr *peer,
                           struct hf_bytes datagram);

/* exchange.c: sends the queued datagrams; and closes all sockets, when no exchange uses them any
 * more. */
void hf_rpc_exchange_flush(struct hf_rpc_client *client);
void hf_rpc_exchange_close_ports(struct hf_rpc_client *client);

/* exchange.c: true if a call waits for an answer with this transaction id. */
bool hf_rpc_exchange_is_awaited(const struct hf_rpc_client *client, uint32_t xid);

/*
 * exchange.c: sends call->question to call->to over via and waits until give_up_ms. It reports
 * failures only through hf_rpc_outcall_failed(), and only after it has returned.
 */
void hf_rpc_exchange_begin(struct hf_rpc_outcall *call, enum hf_transport via, uint64_t give_up_ms);

/*
 * exchange.c: sends call->question over the TCP connection of an exchange that has been answered.
 * HF_ELIMIT if it is longer than the message sent before.
 */
int hf_rpc_exchange_continue(struct hf_rpc_outcall *call);
void hf_rpc_exchange_end(struct hf_rpc_outcall *call);

/* exchange.c: reports a failure from the loop, because the caller is still running. */
void hf_rpc_exchange_fail_soon(struct hf_rpc_outcall *call, int error);

/* exchange.c: lets the call end at until_ms, if it would not end earlier. */
void hf_rpc_exchange_hurry(struct hf_rpc_outcall *call, uint64_t until_ms);

#endif
