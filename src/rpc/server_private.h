/*
 * What the files of the server share: server.c (listening, timeouts, closing), accept.c (new
 * connections), conn.c (TCP connections), turns.c (how long one connection or host is served before
 * the others), dispatch.c (from the bytes of a message to its handler, and back).
 */
#ifndef HF_RPC_SERVER_PRIVATE_H
#define HF_RPC_SERVER_PRIVATE_H

#include "base/buf.h"
#include "base/trust.h"
#include "rpc/busy_poll.h"
#include "rpc/credit.h"
#include "rpc/dupcache.h"
#include "rpc/host.h"
#include "rpc/marking.h"
#include "rpc/server.h"
#include "rpc/udp.h"

enum {
    READ_CHUNK = 64 * 1024, /* bytes read from a connection at once */
    OUT_MAX =
        64 * 1024, /* bytes of unread answers at which the server stops reading from a connection */
    OUT_LIMIT = 4 * OUT_MAX, /* bytes of unread answers, to requests read before that, at which it
                                closes the connection */
    CALLS_MAX = 1024, /* requests in progress at which the server stops reading from a connection */
    CALLS_TOTAL_MAX =
        65536, /* requests in progress; a part is kept for accounts that have few (SEC-02) */
    SLICE_REQUESTS = 128,   /* of one connection, or of one UDP socket, in one turn of the loop */
    SLICE_ACCEPTS = 2,      /* connections of one listener in one turn */
    TURN_REQUESTS = 128,    /* of all accounts in one turn: each has an equal share of them, over
                               all its connections; if exempt: no limit */
    HOST_SLICE_LEAST = 8,   /* but at least so many */
    HOST_SLICE_ALONE = 512, /* for a host that has been alone ... */
    ALONE_MS = 1000,        /* ... for so long */
    SIMPLE_NODES = 16,      /* nodes that a simple request visits at most; beyond them, */
    NODES_PER_REQUEST = 6,  /* so many take as long as a simple request */
    CONNECTION_COST = 24,   /* simple requests that take as long as to open or close a connection */
    UDP_SLICE_NODES = 2048, /* nodes visited for one host over UDP in one turn */
    SLICE_NS = 500 * 1000,  /* time of one connection or UDP socket, if nodes are not counted */
    SLICE_CHECK = 4,        /* requests between two looks at the clock; a power of two */
    SPARE_BUFFERS = 64,     /* output buffers kept for reuse */
    REPLY_ROOM = 4 * 1024,  /* enough for any answer of NLM and NSM */
    REPLY_ROOM_MAX = 60 * 1024, /* enough for a long list over TCP */
};

/* What one connection or UDP socket has used of its slice of the turn. */
struct hf_rpc_slice {
    unsigned requests;
    unsigned spent;    /* the requests and their work, in simple requests */
    unsigned limit;    /* it ends when so much is spent */
    uint64_t began_ns; /* 0: not read yet */
    uint64_t work;     /* the programs' work at its begin */
    bool counts_work;
};

/* A TCP or local stream; libuv handles both as uv_stream_t. */
union hf_rpc_stream {
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

struct hf_rpc_listener {
    struct hf_rpc_server *server;
    const struct hf_rpc_program *const *programs;
    size_t n_programs;
    union hf_rpc_stream tcp; /* or the local socket */
    struct hf_udp udp;
    struct hf_rpc_slice slice; /* of the UDP socket, */
    uint64_t slice_turn;       /* and the turn that it belongs to */
    bool any_port;             /* serves callers without a reserved port */
    bool local;                /* a local socket; without UDP */
    uint64_t accept_turn;      /* the turn in which it accepted its last connection */
    unsigned accepts;          /* how many connections it accepted in accept_turn */
    bool gave_way;             /* and whether one more waits for the next */
    bool backed_up;            /* a connection waits to be accepted until there is memory for it */
    unsigned open_handles;     /* these two and the connections; freed when all are closed */
    struct hf_list link;
};

struct hf_rpc_conn {
    union hf_rpc_stream tcp;
    struct hf_rpc_listener *listener;
    struct hf_addr peer;
    struct hf_addr local;
    struct hf_rpc_host *host;
    uint32_t uid; /* of a caller on the local socket */
    enum hf_trust trust;
    struct hf_list link; /* in server->conns, longest silent first */
    struct hf_list host_link;
    struct hf_list turn;  /* in server->waiting while it waits for the next turn */
    struct hf_list dirty; /* in server->dirty while there are answers to write */
    struct hf_list calls; /* requests in progress */
    unsigned n_calls;
    struct hf_marking marking;
    struct hf_buf input;   /* what was read but not served in its slice */
    struct hf_buf out;     /* answers to write */
    struct hf_buf writing; /* answers that the kernel has not taken yet */
    uv_write_t write;
    uint64_t active_ms; /* time of the last read */
    uint64_t owes_ms;   /* since when a record is incomplete; 0: none is */
    uint64_t stuck_ms;  /* since when the kernel takes no more answers; 0: it does */
    size_t unread;      /* what is counted of its unread answers, while the kernel takes none */
    bool paused;        /* not served because of one of the limits above */
    bool reading;       /* libuv reads from it */
    bool ended;         /* the peer has closed its side */
    bool closing;
};

struct hf_rpc_server {
    struct hf_rpc_server_config config;
    struct hf_dupcache dups;
    struct hf_rpc_hosts hosts;
    unsigned n_host_conns; /* hosts that have connections */
    size_t unread;         /* bytes of answers that peers do not read, on all connections */
    struct hf_credits credits;
    int diag_fd;   /* asks the kernel for the users of loopback connections; less than 0: none */
    uint64_t turn; /* the number of the current turn of the loop */
    unsigned n_turn_hosts;        /* that have asked for something in this turn, */
    unsigned n_turn_hosts_before; /* and in the turn before */
    unsigned turn_spent;          /* in this turn, by all that are not exempt */
    const void *last_host;        /* the host that was served last, */
    uint64_t switched_ms;         /* and when that was last another one; 0: never */
    struct hf_list waiting;       /* connections with input that has to wait for the next turn */
    bool accept_waits;            /* listeners with connections that wait for the next turn */
    bool udp_waits;               /* and UDP sockets with such datagrams */
    uv_idle_t idle; /* active while input waits or is looked for: the loop does not sleep */
    struct hf_busy_poll busy_poll;
    uint64_t polled_calls; /* counters.calls at the last look */
    struct hf_list listeners;
    struct hf_list conns;
    struct hf_list dirty;
    struct hf_list spare_calls;
    struct hf_buf spare_buffers[SPARE_BUFFERS];
    unsigned n_spare_buffers;
    uv_prepare_t prepare; /* writes the answers completed in this turn of the loop */
    uv_timer_t sweep;     /* looks for timeouts once a second */
    struct hf_rpc_counters counters;
    void (*reply)(void *ctx, const struct hf_addr *peer, struct hf_bytes datagram);
    void *reply_ctx;
    uint64_t read_ns;      /* when the current input arrived; 0: times are not measured */
    unsigned n_calls;      /* calls that handlers own */
    uint64_t charged;      /* work that programs reported by hf_rpc_charge() */
    unsigned open_handles; /* the server is freed when the last one is closed */
    void (*closed)(void *ctx);
    void *closed_ctx;
    uint8_t read_chunk[READ_CHUNK];
    uint8_t scratch[REPLY_ROOM_MAX]; /* an answer for a closed connection, encoded only for the
                                        duplicate request cache */
};

static inline bool hf_rpc_server_may_send(const struct hf_rpc_server *server)
{
    return hf_rpc_gate_is_open(server->config.gate);
}

/* Reads the clock once for all requests of one read. */
static inline void hf_rpc_server_read(struct hf_rpc_server *server)
{
    if (server->config.timed)
        server->read_ns = uv_hrtime();
}

/* turns.c */
void hf_rpc_slice_begin(const struct hf_rpc_server *server, unsigned limit, bool counts_work,
                        struct hf_rpc_slice *slice);
bool hf_rpc_slice_is_over(const struct hf_rpc_server *server, struct hf_rpc_slice *slice);
unsigned hf_rpc_host_left(struct hf_rpc_server *server, struct hf_rpc_host *host);
void hf_rpc_host_charge(struct hf_rpc_server *server, struct hf_rpc_host *host, unsigned requests);
bool hf_rpc_host_may_ask(struct hf_rpc_server *server, struct hf_rpc_host *host);
void hf_rpc_turn_begin(struct hf_rpc_server *server);
void hf_rpc_turn_wait(struct hf_rpc_conn *conn);
void hf_rpc_turn_serve(struct hf_rpc_server *server);

/* access rules: server.c */
bool hf_rpc_access_allows(const struct hf_rpc_listener *listener, const struct hf_addr *peer,
                          bool udp);

/* The work that the programs have done so far; 0 if it is not counted. */
static inline uint64_t hf_rpc_work(const struct hf_rpc_server *server)
{
    return server->config.work ? server->config.work(server->config.work_ctx) + server->charged : 0;
}

/* server.c */
void hf_rpc_server_handle_closed(struct hf_rpc_server *server);
void hf_rpc_listener_handle_closed(struct hf_rpc_listener *listener);

/* dispatch.c: one message, from the peer of conn (TCP) or from udp (conn NULL). */
struct hf_rpc_origin {
    struct hf_rpc_listener *listener;
    struct hf_rpc_conn *conn;
    const struct hf_addr *peer;
    const struct hf_addr *local;
    struct hf_rpc_host *host;
    enum hf_trust trust;
};
void hf_rpc_dispatch(struct hf_rpc_server *server, const struct hf_rpc_origin *origin,
                     struct hf_bytes message);

/* accept.c */
void hf_rpc_conn_accept(struct hf_rpc_listener *listener);
void hf_rpc_conn_accept_backlog(struct hf_rpc_server *server); /* those that had to wait */

/* conn.c */
bool hf_rpc_conn_read(struct hf_rpc_conn *conn); /* begins to read */
void hf_rpc_conn_flush(struct hf_rpc_conn *conn);
void hf_rpc_conn_close(struct hf_rpc_conn *conn);
void hf_rpc_conn_answered(struct hf_rpc_conn *conn); /* one of its requests has been answered */
uint8_t *hf_rpc_conn_room(struct hf_rpc_conn *conn, size_t size);
void hf_rpc_conn_commit(struct hf_rpc_conn *conn, size_t len);
void hf_rpc_conn_continue(struct hf_rpc_conn *conn); /* its turn has come */
void hf_rpc_conn_sweep(struct hf_rpc_server *server);

#endif
