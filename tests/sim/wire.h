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
    struct sim_message reply; /* as far as it is known beforehand */
    struct sim_heard expected;
    bool decided;    /* by the core; otherwise it was refused at the door */
    bool waits;      /* its answer waits for a commit */
    bool undecided;  /* or for a notice to be verified, and then for a commit */
    uint8_t news_of; /* a notice: the hosts (bits) of whose restart it told, when it was taken in */
    uint64_t seq;    /* an UNLOCK waits for this commit, */
    uint64_t called; /* and then for the callbacks to its owner in the range, up to this one */
    bool receipt;    /* of a message: the RPC reply, which is not the answer, has been given */
    bool said;       /* heard is the answer */
    bool hushed;     /* the answer is swallowed */
    struct sim_heard heard;
};

struct sim_wire {
    struct hf_nlm nlm;
    struct hf_nsm nsm;
    struct hf_rpc_client client;
    struct hf_service service;
    struct hf_list asked;
    uint32_t serial;

    struct sim_asked *asking; /* being handled now: its answer is taken down, not sent */
    bool failing;             /* a commit has failed, and its answers are being told */
    bool ending;              /* the server dies: no answer leaves any more */

    const struct hf_outcall_attempt *calling; /* being handed to the handlers now */
    bool made;                                /* and in flight: to be ended by one of these */
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

/* A commit has ended, as in src/daemon/commit_pump.c: tells the core, then completes answers. */
void sim_wire_batch_done(struct sim_world *world, uint64_t seq, int error);

/* One attempt of a call; false if it ended before it began, for want of memory. */
bool sim_wire_call(struct sim_world *world, const struct hf_outcall_attempt *call,
                   struct sim_call_out *out);

/* Its end, by an answer (error 0) or without one, and what the core must be told of it. */
void sim_wire_call_done(struct sim_world *world, struct sim_call_out *out, enum hf_stat stat,
                        int error, bool repeated, enum hf_outcall_outcome expected);

#endif
