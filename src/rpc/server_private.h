/*
 * What the parts of the server share: server.c (listening, time, closing), conn.c (TCP
 * connections), dispatch.c (from the bytes of a message to a handler, and back).
 */
#ifndef HF_RPC_SERVER_PRIVATE_H
#define HF_RPC_SERVER_PRIVATE_H

#include "base/buf.h"
#include "rpc/dupcache.h"
#include "rpc/marking.h"
#include "rpc/server.h"
#include "rpc/udp.h"

enum {
    READ_CHUNK = 64 * 1024,     /* bytes taken from a connection in one read */
    OUT_MAX = 64 * 1024,        /* unread answers at which a connection is no longer read from */
    OUT_LIMIT = 4 * OUT_MAX,    /* unread answers, to what it had asked before, that end it */
    CALLS_MAX = 1024,           /* requests under way at which it is no longer read from */
    CALLS_TOTAL_MAX = 65536,    /* requests under way in all: what comes on top is dropped */
    SPARE_BUFFERS = 64,         /* output buffers kept for reuse */
    REPLY_ROOM = 4 * 1024,      /* enough for any answer of NLM and NSM */
    REPLY_ROOM_MAX = 60 * 1024, /* and for a long list over TCP */
};

/* A stream of either kind; libuv lets all of them be handled as uv_stream_t. */
union hf_rpc_stream {
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

struct hf_rpc_listener {
    struct hf_rpc_server *server;
    const struct hf_rpc_program *const *programs;
    size_t n_programs;
    union hf_rpc_stream tcp; /* or, where local, the socket in the file system */
    struct hf_udp udp;
    bool local;            /* has no UDP side */
    bool backed_up;        /* a connection waits that there was no memory for */
    unsigned open_handles; /* these two and the connections; freed when all are closed */
    struct hf_list link;
};

struct hf_rpc_conn {
    union hf_rpc_stream tcp;
    struct hf_rpc_listener *listener;
    struct hf_addr peer;
    struct hf_addr local;
    struct hf_list link;  /* in server->conns, the longest silent first */
    struct hf_list dirty; /* in server->dirty while there are answers to write */
    struct hf_list calls; /* requests under way */
    unsigned n_calls;
    struct hf_marking marking;
    struct hf_buf out;     /* answers to write */
    struct hf_buf writing; /* answers the kernel has not taken yet */
    uv_write_t write;
    uint64_t active_ms; /* last time anything came in */
    uint64_t owes_ms;   /* since when a record is incomplete; 0: it is not */
    uint64_t stuck_ms;  /* since when the kernel takes no answer; 0: it does */
    bool paused;        /* not read from, for one of the limits above */
    bool ended;         /* the peer sends no more */
    bool closing;
};

struct hf_rpc_server {
    struct hf_rpc_server_config config;
    struct hf_dupcache dups;
    struct hf_list listeners;
    struct hf_list conns;
    struct hf_list dirty;
    struct hf_list spare_calls;
    struct hf_buf spare_buffers[SPARE_BUFFERS];
    unsigned n_spare_buffers;
    uv_prepare_t prepare; /* writes the answers that came up since the last turn */
    uv_timer_t sweep;     /* looks for silence, once a second */
    struct hf_rpc_counters counters;
    void (*reply)(void *ctx, const struct hf_addr *peer, struct hf_bytes datagram);
    void *reply_ctx;
    uint64_t read_ns;      /* when what is being dispatched arrived; 0: not timed */
    unsigned n_calls;      /* with handlers now */
    unsigned open_handles; /* the server is freed when the last one is closed */
    void (*closed)(void *ctx);
    void *closed_ctx;
    uint8_t read_chunk[READ_CHUNK];
    uint8_t
        scratch[REPLY_ROOM_MAX]; /* an answer to a connection that is gone: for the cache only */
};

/* The clock is read once for all requests that came in one read. */
static inline void hf_rpc_server_read(struct hf_rpc_server *server)
{
    if (server->config.timed)
        server->read_ns = uv_hrtime();
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
};
void hf_rpc_dispatch(struct hf_rpc_server *server, const struct hf_rpc_origin *origin,
                     struct hf_bytes message);

/* conn.c */
void hf_rpc_conn_accept(struct hf_rpc_listener *listener);
void hf_rpc_conn_flush(struct hf_rpc_conn *conn);
void hf_rpc_conn_close(struct hf_rpc_conn *conn);
void hf_rpc_conn_answered(struct hf_rpc_conn *conn); /* a request of it is no longer under way */
uint8_t *hf_rpc_conn_room(struct hf_rpc_conn *conn, size_t size);
void hf_rpc_conn_commit(struct hf_rpc_conn *conn, size_t len);
void hf_rpc_conn_sweep(struct hf_rpc_server *server);

#endif
