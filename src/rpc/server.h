/*
 * The RPC server, on a libuv loop: UDP and TCP, IPv4 and IPv6, any number of programs on one port
 * (NSM-01, NLM-01). It separates records, checks headers, decodes arguments and calls handlers;
 * programs are tables (program.h).
 *
 * A peer cannot make the server hold more than a bounded amount of memory, or keep a connection
 * longer than a bounded time:
 *  - connections: beyond the limit for its host, a new connection replaces the host's connection
 *    that has been silent longest; beyond the limit for all, it replaces one of a host with more
 *    than its share;
 *  - silence: an idle connection is closed after a while, and much sooner if it is in the middle of
 *    a record or does not read its answers;
 *  - memory: records are bounded (marking.h); a connection with too many unread answers or too many
 *    requests in progress is not read until their number has dropped.
 *
 * Requests that arrive in one read are answered in one write. Answers that had to wait until their
 * records were durable leave in one write per connection and turn of the loop.
 *
 * Hosts take turns (SEC-05): in one turn of the loop the server serves a slice of requests of a
 * connection and a few slices of a host. Further input stays where it is, for the most part in the
 * kernel, and is served in the next turn after the input of others.
 *
 * The server owns its sockets and connections. Programs and their tables belong to the caller and
 * must outlive the server.
 */
#ifndef HF_RPC_SERVER_H
#define HF_RPC_SERVER_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/addr.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/network.h"
#include "base/socket.h"
#include "rpc/gate.h"
#include "rpc/program.h"

struct hf_rpc_server;

enum { HF_RPC_NETWORKS_MAX = 32 };

/* The access rules: which callers are served. Callers on the loopback interface always are
 * (SEC-06). */
struct hf_rpc_access {
    struct hf_network allow[HF_RPC_NETWORKS_MAX];
    unsigned n_allow; /* 0: all networks */
    bool no_udp;
    bool reserved_ports; /* serve only callers that use a port below 1024 */
};

struct hf_rpc_server_config {
    uv_loop_t *loop;
    const struct hf_alloc *alloc;
    struct hf_hash_key hash_key;
    unsigned max_connections;
    /* How many connections one account may have; exempt accounts may have three quarters of all; 0:
     * no limit. */
    unsigned max_connections_per_host;
    /* How many requests one account may have in progress; exempt accounts may have half of all; 0:
     * no limit. */
    unsigned max_calls_per_host;
    /* How many bytes of answers may be unread by all peers together; 0: the default. */
    size_t max_unread;
    struct hf_rpc_access access;
    /* Returns how much work the programs have done so far, as the number of visited nodes of their
     * tables; NULL: work is not counted. A slice ends early when its requests were expensive. */
    uint64_t (*work)(void *ctx);
    void *work_ctx;
    /* True for an address that a client may use together with others (TRK-02), so that a request
     * may be repeated from another one of them; NULL: none is. */
    bool (*roams)(void *ctx, const struct hf_addr *addr);
    void *roams_ctx;
    uint64_t idle_ms; /* an idle connection is closed after this time */
    /* A connection in the middle of a record, or with unread answers, is closed after this time. */
    uint64_t stall_ms;
    /* How long the server polls for input before it sleeps (busy_poll.h); 0: not at all. */
    uint64_t busy_poll_ns;
    bool timed; /* record when each call arrives, for the metrics */
    /* The gate, which must outlive the server; NULL: the gate is always open. */
    const struct hf_rpc_gate *gate;
    bool held;         /* no input is read before hf_rpc_server_read_on() is called */
    enum hf_bind bind; /* HF_BIND_ABSENT: listen also on addresses that may come and go */
};

enum {
    HF_RPC_CONNECTIONS_DEFAULT = 16384,
    HF_RPC_UNREAD_DEFAULT = 32 * 1024 * 1024,
    /* A Linux client closes its idle connections earlier, after 5 minutes. */
    HF_RPC_IDLE_MS_DEFAULT = 6 * 60 * 1000,
    HF_RPC_STALL_MS_DEFAULT = 30 * 1000,
};

struct hf_rpc_counters {
    uint64_t calls;       /* well-formed calls, whatever their outcome */
    uint64_t refused;     /* calls that the RPC layer answered with an error */
    uint64_t undecodable; /* messages that were dropped because they are not RPC calls */
    /* Repeated calls: answered from the duplicate request cache, or still in progress. */
    uint64_t duplicates;
    uint64_t accepted;  /* TCP connections accepted */
    uint64_t evicted;   /* connections that the server closed to make room for new ones */
    uint64_t timed_out; /* connections that the server closed after a timeout */
    /* Connections that the server closed because of a record that exceeds the limits. */
    uint64_t broken_records;
    uint64_t connections; /* how many connections are open at present */
    uint64_t gave_way;    /* slices that ended although more input was there */
    uint64_t denied;      /* connections and datagrams refused by the access rules */
    /* connections closed, and requests dropped, because of a quota of their host */
    uint64_t over_quota;
    /* datagrams dropped because their host's earlier requests were too expensive */
    uint64_t too_costly;
    uint64_t busy_poll_ns; /* how long the server has polled for input instead of sleeping */
    /* answers by UDP that were not sent because they were too long for their question */
    uint64_t too_long;
};

int hf_rpc_server_new(const struct hf_rpc_server_config *config, struct hf_rpc_server **out);

/*
 * Serves n programs (an array that must outlive the server) at addr, on UDP and TCP. Port 0 means
 * any port that is free on both, which is then written to addr. Returns the errors of
 * hf_socket_bind().
 */
int hf_rpc_server_listen(struct hf_rpc_server *server, struct hf_addr *addr,
                         const struct hf_rpc_program *const *programs, size_t n);

/*
 * Serves programs on a local stream socket that every user of this host may connect to. A caller
 * there counts as one from 127.0.0.1, and root as one from a reserved port; hf_rpc_call.uid tells
 * the user. Returns HF_EBUSY if the path exists.
 */
int hf_rpc_server_listen_local(struct hf_rpc_server *server, const char *path,
                               const struct hf_rpc_program *const *programs, size_t n);

/* Returns the UDP socket that serves this local address, for outgoing calls from the port that we
 * listen on; NULL if there is none. */
struct hf_udp *hf_rpc_server_socket(struct hf_rpc_server *server, const struct hf_addr *local);

/* Sets the receiver of replies to calls that were sent through hf_rpc_server_socket(); NULL:
 * replies are dropped. */
void hf_rpc_server_on_reply(struct hf_rpc_server *server,
                            void (*reply)(void *ctx, const struct hf_addr *peer,
                                          struct hf_bytes datagram),
                            void *ctx);

/* Changes the limits for each host, and the access rules, while the server runs. */
void hf_rpc_server_reconfigure(struct hf_rpc_server *server, unsigned max_connections_per_host,
                               unsigned max_calls_per_host, const struct hf_rpc_access *access);

/*
 * For outgoing calls that a datagram has provoked (credit.h): hf_rpc_server_took_lock() notes that
 * the peer has taken a lock that we granted it by callback; hf_rpc_server_needs_credit() says
 * whether a call to the peer needs credit; the last function returns the credits.
 */
struct hf_credits;
void hf_rpc_server_took_lock(struct hf_rpc_server *server, const struct hf_addr *peer);
bool hf_rpc_server_needs_credit(const struct hf_rpc_server *server, const struct hf_addr *peer);
struct hf_credits *hf_rpc_server_credits(struct hf_rpc_server *server);

/* Ends the holding of a server that was opened with `held`: the input that waits in the kernel is
 * read now. */
void hf_rpc_server_read_on(struct hf_rpc_server *server);

/* Reports that the gate has opened: answers that were kept back leave, and connections are read
 * again. */
void hf_rpc_server_gate_opened(struct hf_rpc_server *server);

const struct hf_rpc_counters *hf_rpc_server_counters(const struct hf_rpc_server *server);

/*
 * Stops accepting connections and requests; no handler may still own a call. Answers that are
 * already written are sent if the peer takes them at once. closed is called when the server has
 * been freed.
 */
void hf_rpc_server_close(struct hf_rpc_server *server, void (*closed)(void *ctx), void *ctx);

#endif
