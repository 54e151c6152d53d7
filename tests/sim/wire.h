/*
 * The handlers and codecs of src/nlm and src/nsm, between the simulated messages and the core. This
 * stands where src/rpc stands in the daemon: it supplies what the handlers call of it, and the
 * resolver, so that both rooms are linked as they are.
 *
 *   - A request is encoded by hand (speak.h) in the version its host speaks, decoded by rpcgen's
 *     codec, and handled. What the handler answers, now or when its batch is durable, is encoded
 *     by rpcgen's codec and read by hand.
 *   - A call that the core wants made goes through hf_nlm_call_granted() and its like, and is read
 *     by hand; its answer is encoded by hand and goes in through the handler.
 *
 * What is said in the end, perhaps much later, is compared with what the core decided (decided.h).
 */
#ifndef HF_SIM_WIRE_H
#define HF_SIM_WIRE_H

#include "nlm/nlm.h"
#include "nsm/nsm.h"
#include "speak.h"

struct sim_world;
struct sim_call_out;

/* As nsm_private.h has it. */
typedef void (*sim_resolved)(void *ctx, int error, const struct hf_addr *addrs, unsigned n);

struct hf_rpc_client {
    struct sim_world *world;
};

/* A request that the handlers have, until it is answered. */
struct sim_asked {
    struct hf_rpc_call call;
    struct sim_world *world;
    struct hf_list link; /* in wire->asked */
    struct sim_spoken spoken;
    struct sim_message reply; /* what is known of the reply beforehand */
    struct sim_heard expected;
    bool decided;    /* the core decided; otherwise the handler refused the request */
    bool waits;      /* the answer waits for a commit */
    bool undecided;  /* the answer waits for a notice to be verified, and then for a commit */
    uint8_t news_of; /* notice: the hosts (bits) of whose restart the server learned by it */
    uint64_t seq;    /* UNLOCK: the answer waits for this commit, */
    /* UNLOCK: then it waits for the callbacks to its owner in the range, up to this one. */
    uint64_t called;
    bool receipt; /* message: its RPC reply, which is not the answer, was sent */
    bool said;    /* `heard` has the answer */
    bool hushed;  /* the answer is not sent */
    struct sim_heard heard;
};

struct sim_wire {
    struct hf_nlm nlm;
    struct hf_nsm nsm;
    struct hf_rpc_client client;
    struct hf_service service;
    struct hf_list asked;
    uint32_t serial;

    /* The request that a handler has now: its answer is noted, not sent. */
    struct sim_asked *asking;
    bool failing; /* a commit has failed, and requests are answered accordingly */
    bool ending;  /* the server dies, and sends no more answers */

    const struct hf_outcall_attempt *calling; /* the call that the handlers are making now */
    bool made; /* the call is in flight, and one of these functions ends it */
    hf_rpc_done done;
    sim_resolved resolved;
    void *done_ctx;
};

void sim_wire_start(struct sim_world *world);
void sim_wire_stop(struct sim_world *world);

/*
 * Puts a request through the handlers; what the core decided is in sim_decided. The answer goes out
 * only after sim_wire_leave(), which ends the asker's hold on it; or never, after sim_wire_hush().
 */
struct sim_asked *sim_wire_ask(struct sim_world *world, const struct sim_message *request);
void sim_wire_leave(struct sim_asked *asked);
void sim_wire_hush(struct sim_asked *asked);

/* Answers whose notice has been verified go on, as at the end of a turn in src/daemon/engine.c. */
void sim_wire_settle(struct sim_world *world);

/* A commit has ended, as in src/daemon/commit_pump.c: tells the core, then sends the answers. */
void sim_wire_batch_done(struct sim_world *world, uint64_t seq, int error);

/* Makes one attempt of a call; false if it ended before it began, for want of memory. */
bool sim_wire_call(struct sim_world *world, const struct hf_outcall_attempt *call,
                   struct sim_call_out *out);

/* Ends a call, by an answer (error 0) or without one. *told: the outcome that the core must hear.
 */
void sim_wire_call_done(struct sim_world *world, struct sim_call_out *out, enum hf_stat stat,
                        int error, bool repeated, enum hf_outcall_outcome expected);

#endif
