/*
 * The RPC server, on a libuv loop: UDP and TCP, IPv4 and IPv6, any number of programs on one port
 * (NSM-01, NLM-01). It frames, checks, decodes and dispatches; programs are tables (program.h).
 *
 * Nobody can make it hold more than a bounded amount, or wait longer than a bounded time:
 *  - connections: beyond the limit the one longest silent makes way for the newcomer;
 *  - silence: an idle connection is closed after a while, one in the middle of a record or with
 *    answers it does not read much sooner;
 *  - memory: records are bounded (marking.h); a connection with too many unread answers or too many
 *    requests under way is not read from until they have gone.
 * Requests that come in one read are answered in one write, and those answered later, when their
 * records are durable, in one write per connection and turn of the loop.
 *
 * The server owns its sockets and connections; programs and their tables belong to the caller and
 * outlive it.
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
#include "rpc/program.h"

struct hf_rpc_server;

struct hf_rpc_server_config {
    uv_loop_t *loop;
    const struct hf_alloc *alloc;
    struct hf_hash_key hash_key;
    unsigned max_connections;
    uint64_t idle_ms;  /* a quiet connection lives this long */
    uint64_t stall_ms; /* one that owes us bytes, or leaves our answers unread, this long */
    bool timed;        /* note when each call arrives: for metrics, and only where they are on */
};

enum {
    HF_RPC_CONNECTIONS_DEFAULT = 16384,
    HF_RPC_IDLE_MS_DEFAULT = 6 * 60 * 1000, /* a Linux client closes its side after 5 minutes */
    HF_RPC_STALL_MS_DEFAULT = 30 * 1000,
};

struct hf_rpc_counters {
    uint64_t calls;          /* well-formed calls, of any outcome */
    uint64_t refused;        /* answered with an error of RPC itself */
    uint64_t undecodable;    /* messages that were no RPC call: dropped */
    uint64_t duplicates;     /* answered from the duplicate request cache, or already under way */
    uint64_t accepted;       /* TCP connections taken */
    uint64_t evicted;        /* closed to make room for others */
    uint64_t timed_out;      /* closed for silence */
    uint64_t broken_records; /* closed for a record beyond the limits */
    uint64_t connections;    /* open now */
};

int hf_rpc_server_new(const struct hf_rpc_server_config *config, struct hf_rpc_server **out);

/*
 * Serves programs (an array of n, which outlives the server) at addr, on UDP and TCP. Port 0 takes
 * any that is free on both, and is then written back to addr. Errors as of hf_socket_bind().
 */
int hf_rpc_server_listen(struct hf_rpc_server *server, struct hf_addr *addr,
                         const struct hf_rpc_program *const *programs, size_t n);

/*
 * The same on a stream socket in the file system, open to every user of this host. A caller there
 * counts as one from 127.0.0.1, root as one from a reserved port. HF_EBUSY if the path exists.
 */
int hf_rpc_server_listen_local(struct hf_rpc_server *server, const char *path,
                               const struct hf_rpc_program *const *programs, size_t n);

/* The UDP socket that serves this address, to call out from the port we listen on; or NULL. */
struct hf_udp *hf_rpc_server_socket(struct hf_rpc_server *server, const struct hf_addr *local);

/* Who gets the replies to such calls; NULL: nobody. */
void hf_rpc_server_on_reply(struct hf_rpc_server *server,
                            void (*reply)(void *ctx, const struct hf_addr *peer,
                                          struct hf_bytes datagram),
                            void *ctx);

const struct hf_rpc_counters *hf_rpc_server_counters(const struct hf_rpc_server *server);

/*
 * Stops: no new connection, no new request; no call may be left with a handler. Answers already
 * written are still sent where the peer takes them at once. closed is called when all is done, and
 * the server is gone then.
 */
void hf_rpc_server_close(struct hf_rpc_server *server, void (*closed)(void *ctx), void *ctx);

#endif
