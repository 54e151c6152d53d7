/*
 * Declarations that the files of the RPC server share: server.c (listening, timeouts, closing),
 * accept.c (new connections), conn.c (TCP connections), turns.c (how long one connection or host is
 * served before the others), dispatch.c (from the bytes of a message to its handler, and back).
 */
#ifndef HF_RPC_SERVER_PRIVATE_H
#define HF_RPC_SERVER_PRIVATE_H

#include "base/buf.h"
#include "base/busy_poll.h"
#include "base/trust.h"
#include "rpc/credit.h"
#include "rpc/dupcache.h"
#include "rpc/host.h"
#include "rpc/marking.h"
#include "rpc/server.h"
#include "rpc/udp.h"

enum {
    READ_CHUNK = 64 * 1024, /* how many bytes are read from a connection at once */
    /* With this many bytes of unread answers, the server stops reading from a connection. */
    OUT_MAX = 64 * 1024,
    /* With this many bytes of unread answers, to requests that it had read before, the server
     * closes a connection. */
    OUT_LIMIT = 4 * OUT_MAX,
    /* with this many requests in progress, the server stops reading from a connection */
    CALLS_MAX = 1024,
    /* How many requests of all accounts may be in progress; a part is reserved for accounts
     * that have few (SEC-02). */
    CALLS_TOTAL_MAX = 65536,
    /* How many requests of one connection, or of one UDP socket, are served in one turn of the
     * loop. */
    SLICE_REQUESTS = 128,
    SLICE_ACCEPTS = 2, /* how many connections one listener accepts in one turn of the loop */
    /* How many requests one turn of the loop serves for all accounts together. Each account has an
     * equal share of them, over all its connections; exempt accounts have no limit. */
    TURN_REQUESTS = 128,
    /* how many requests each account may have in a turn of the loop, at least */
    HOST_SLICE_LEAST = 8,
    /* How many requests a host may have in a turn of the loop if it has been the only one for
     * ALONE_MS. */
    HOST_SLICE_ALONE = 512,
    /* after this time without requests of other hosts, a host counts as the only one */
    ALONE_MS = 1000,
    /* how many nodes of the core's tables a simple request visits, at most */
    SIMPLE_NODES = 16,
    NODES_PER_REQUEST = 6, /* visiting this many further nodes takes as long as a simple request */
    /* Opening or closing a connection takes as long as this many simple requests. */
    CONNECTION_COST = 24,
    /* how many nodes may be visited for one host's datagrams in one turn of the loop */
    UDP_SLICE_NODES = 2048,
    /*
     * How long one connection or UDP socket is served in a turn, if visited nodes are not counted.
     */
    SLICE_NS = 500 * 1000,
    /* How many requests are served between two readings of the clock; a power of two. */
    SLICE_CHECK = 4,
    SPARE_BUFFERS = 64,         /* how many output buffers the server keeps for reuse */
    REPLY_ROOM = 4 * 1024,      /* room that is enough for any answer of NLM and NSM */
    REPLY_ROOM_MAX = 60 * 1024, /* room that is enough for a long list of rpcbind over TCP */
};

/* How much one connection or UDP socket has used of its slice of the turn. */
struct hf_rpc_slice {
    unsigned requests;
    unsigned spent;    /* the requests and their work, in units of a simple request */
    unsigned limit;    /* the slice ends when this many units are spent */
    uint64_t began_ns; /* when the slice began; 0: the clock was not read yet */
    uint64_t work;     /* how much work the programs had done when the slice began */
    bool counts_work;
};

/* A TCP stream or a local stream; libuv handles both as uv_stream_t. */
union hf_rpc_stream {
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

struct hf_rpc_listener {
    struct hf_rpc_server *server;
    const struct hf_rpc_program *const *programs;
    size_t n_programs;
    int fd;         /* the listening TCP socket, or the local socket; -1: none */
    uv_poll_t poll; /* tells of connections that wait at fd */
    struct hf_udp udp;
    struct hf_rpc_slice slice; /* how much the UDP socket has used of its slice */
    uint64_t slice_turn;       /* the turn of the loop to which `slice` belongs */
    bool any_port;             /* this listener also serves callers without a reserved port */
    bool local;                /* this listener has a local socket, and no UDP */
    char path[108];            /* the name of the local socket, which the listener removes */
    bool backed_up; /* connections wait to be accepted until there are memory and files for them */
    /* How many handles of this listener and of its connections are open; the listener is freed when
     * all are closed. */
    unsigned open_handles;
    struct hf_list link;
};

struct hf_rpc_conn {
    union hf_rpc_stream tcp;
    struct hf_rpc_listener *listener;
    struct hf_addr peer;
    struct hf_addr local;
    struct hf_rpc_host *host;
    uint32_t uid; /* the user of a caller on the local socket */
    enum hf_trust trust;
    /* Links the connection into server->conns, which begins with the connection that has been
     * silent longest. */
    struct hf_list link;
    struct hf_list host_link;
    /* Links the connection into server->waiting while its input waits for the next turn of the
     * loop. */
    struct hf_list turn;
    /* Links the connection into server->dirty while it has answers to write. */
    struct hf_list dirty;
    struct hf_list calls; /* the connection's requests in progress */
    unsigned n_calls;
    struct hf_marking marking;
    struct hf_buf input;   /* bytes that were read, but not served in the connection's slice */
    struct hf_buf out;     /* answers to write */
    struct hf_buf writing; /* answers that the kernel has not taken yet */
    uv_write_t write;
    uint64_t active_ms; /* when bytes were last read from the connection */
    /* when the first byte of an incomplete record came; 0: no record is incomplete */
    uint64_t owes_ms;
    uint64_t stuck_ms; /* when the kernel stopped taking answers; 0: it takes them */
    /* While the kernel takes no answers: how many bytes of this connection's answers are counted as
     * unread. */
    size_t unread;
    bool paused;  /* the connection is not served because it exceeds one of the limits */
    bool reading; /* libuv reads from the connection at present */
    bool ended;   /* the peer has closed its side of the connection */
    bool closing;
};

struct hf_rpc_server {
    struct hf_rpc_server_config config;
    struct hf_dupcache dups;
    struct hf_rpc_hosts hosts;
    unsigned n_host_conns; /* how many hosts have connections */
    size_t unread;         /* how many bytes of answers on all connections are unread */
    struct hf_credits credits;
    /* The socket that asks the kernel for the users of loopback connections; negative: there is
     * none. */
    int diag_fd;
    uint64_t turn;         /* the number of the current turn of the loop */
    unsigned n_turn_hosts; /* how many hosts have sent requests in this turn of the loop */
    /* how many hosts sent requests in the previous turn of the loop */
    unsigned n_turn_hosts_before;
    /* how much all accounts that are not exempt have used in this turn */
    unsigned turn_spent;
    const void *last_host; /* the host that was served last; only compared, never followed */
    /* when the server last served another host than the one before; 0: never */
    uint64_t switched_ms;
    struct hf_list waiting; /* connections whose input waits for the next turn of the loop */
    bool udp_waits;         /* some UDP socket has datagrams that wait for the next turn */
    /* Active while input waits or the server polls for input, so that the loop does not sleep. */
    uv_idle_t idle;
    struct hf_busy_poll busy_poll;
    uint64_t polled_calls; /* the value of counters.calls when the server last polled */
    struct hf_list listeners;
    struct hf_list conns;
    struct hf_list dirty;
    struct hf_list spare_calls;
    struct hf_buf spare_buffers[SPARE_BUFFERS];
    unsigned n_spare_buffers;
    uv_prepare_t prepare; /* writes the answers that were completed in this turn of the loop */
    uv_timer_t sweep;     /* closes timed-out connections, once a second */
    struct hf_rpc_counters counters;
    void (*reply)(void *ctx, const struct hf_addr *peer, struct hf_bytes datagram);
    void *reply_ctx;
    uint64_t read_ns; /* when the current input arrived; 0: times are not measured */
    unsigned n_calls; /* how many requests in progress the handlers own */
    uint64_t charged; /* how much work programs have reported by hf_rpc_charge() */
    /* How many handles are open; the server is freed when the last one is closed. */
    unsigned open_handles;
    void (*closed)(void *ctx);
    void *closed_ctx;
    uint8_t read_chunk[READ_CHUNK];
    /* An answer to a closed connection is encoded here, only for the duplicate request cache. */
    uint8_t scratch[REPLY_ROOM_MAX];
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

/* server.c: checks the access rules */
bool hf_rpc_access_allows(const struct hf_rpc_listener *listener, const struct hf_addr *peer,
                          bool udp);

/* Returns how much work the programs have done so far; 0 if work is not counted. */
static inline uint64_t hf_rpc_work(const struct hf_rpc_server *server)
{
    return server->config.work ? server->config.work(server->config.work_ctx) + server->charged : 0;
}

/* server.c */
void hf_rpc_server_handle_closed(struct hf_rpc_server *server);
void hf_rpc_listener_handle_closed(struct hf_rpc_listener *listener);

/* dispatch.c: where a message came from: the connection conn, or for a datagram the socket udp
 * (then conn is NULL). */
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
void hf_rpc_conn_accept_on(struct hf_rpc_listener *listener); /* begins or goes on to accept */
/* Accepts the connections that had to wait. */
void hf_rpc_conn_accept_backlog(struct hf_rpc_server *server);

/* conn.c */
bool hf_rpc_conn_read(struct hf_rpc_conn *conn); /* begins to read */
void hf_rpc_conn_flush(struct hf_rpc_conn *conn);
void hf_rpc_conn_close(struct hf_rpc_conn *conn);
/* Reports that a request of the connection has been answered. */
void hf_rpc_conn_answered(struct hf_rpc_conn *conn);
uint8_t *hf_rpc_conn_room(struct hf_rpc_conn *conn, size_t size);
void hf_rpc_conn_commit(struct hf_rpc_conn *conn, size_t len);
/* Serves the input of a connection that has waited, because its turn has come. */
void hf_rpc_conn_continue(struct hf_rpc_conn *conn);
void hf_rpc_conn_sweep(struct hf_rpc_server *server);

#endif
