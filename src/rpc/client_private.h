/*
 * What the parts of the client share. client.c decides what to ask next (rpcbind, then the program
 * itself; TCP, then UDP); exchange.c carries one question to one port and brings the answer.
 */
#ifndef HF_RPC_CLIENT_PRIVATE_H
#define HF_RPC_CLIENT_PRIVATE_H

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "rpc/client.h"
#include "rpc/marking.h"
#include "rpc/portcache.h"
#include "rpc/program.h"
#include "rpc/udp.h"

enum {
    RPCBIND_PORT = 111,
    RPCBIND_PROG = 100000,
    MESSAGE_MAX = HF_UDP_DATAGRAM_MAX,
    RESEND_FIRST_MS = 500, /* then doubling */
};

enum phase {
    PHASE_LOOKUP, /* asking the peer's rpcbind for the port */
    PHASE_CALL,   /* asking the program itself */
    PHASE_SECOND, /* and once more: it is answered already */
};

struct tcp_exchange;

struct hf_rpc_outcall {
    struct hf_rpc_client *client;
    struct hf_rpc_request request; /* args and also are in message and second; not valid any more */
    hf_rpc_done done;
    void *ctx;
    struct hf_list link; /* in client->active or client->spare */

    enum phase phase;
    enum hf_rpc_transport wanted; /* the transport the call itself is to use */
    bool hinted;                  /* the port came from the caller, and may be out of date */
    uint64_t started_ms;
    uint64_t deadline_ms;
    struct hf_buf message; /* the call: header and arguments */
    struct hf_buf second;  /* the second call */

    /* The exchange under way. */
    enum hf_rpc_transport via; /* 0: none */
    struct hf_map_node node;   /* UDP: in client->waiting, by xid */
    uint32_t xid;
    struct hf_addr to;
    struct hf_buf question;   /* what is being sent, for a repeat */
    struct tcp_exchange *tcp; /* TCP */
    uv_timer_t timer;         /* the next repeat, or the end */
    uint64_t resend_pause_ms;
    unsigned sends;      /* of the call itself, as far as it may have arrived */
    uint64_t give_up_ms; /* when this exchange, not the call, has had its time */
    int pending_error;   /* failed before it began: reported from the loop */
};

enum { SOCKETS = 4 }; /* IPv4 and IPv6, any port and reserved port */

struct hf_rpc_client {
    uv_loop_t *loop;
    const struct hf_alloc *alloc;
    struct hf_hash_key hash_key;
    struct hf_map waiting;
    struct hf_portcache ports;
    struct hf_rpc_server *server; /* whose sockets listening_port means; NULL: none */
    struct hf_list active;
    struct hf_list spare;
    unsigned n_active;
    uint32_t next_xid;
    struct hf_udp sockets[SOCKETS];
    bool socket_open[SOCKETS];
    uv_prepare_t prepare; /* sends the datagrams queued since the last turn */
    unsigned open_handles;
    void (*closed)(void *ctx);
    void *closed_ctx;
    uint8_t scratch[MESSAGE_MAX];
    uint8_t read_chunk[HF_RPC_RECORD_MAX];
};

/* client.c: the exchange has its answer (a whole RPC message), or has failed. */
void hf_rpc_outcall_answered(struct hf_rpc_outcall *call, struct hf_bytes message);
void hf_rpc_outcall_failed(struct hf_rpc_outcall *call, int error);
void hf_rpc_client_handle_closed(struct hf_rpc_client *client);

/* exchange.c: a datagram that is a reply, from whichever socket it came. */
void hf_rpc_exchange_reply(struct hf_rpc_client *client, const struct hf_addr *peer,
                           struct hf_bytes datagram);

/*
 * exchange.c: sends call->question to call->to over via and waits until give_up_ms. Fails only
 * through hf_rpc_outcall_failed(), and never before returning.
 */
void hf_rpc_exchange_begin(struct hf_rpc_outcall *call, enum hf_rpc_transport via,
                           uint64_t give_up_ms);

/* exchange.c: sends call->question over the TCP connection of an exchange that was answered.
 * HF_ELIMIT: longer than what was sent before. */
int hf_rpc_exchange_continue(struct hf_rpc_outcall *call);
void hf_rpc_exchange_end(struct hf_rpc_outcall *call);
void hf_rpc_exchange_close_sockets(struct hf_rpc_client *client);

#endif
