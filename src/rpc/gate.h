/*
 * The gate keeps a service silent that may have lost its lease (SPEC HA-04). The server and the
 * client ask the gate before anything leaves, be it an answer from the duplicate request cache, a
 * callback or a notice; the gate reads the clock each time. While it is shut, datagrams are dropped
 * unread, connections are neither accepted nor read, and answers are kept.
 *
 * A service without standbys has no gate (NULL) and pays nothing for it.
 */
#ifndef HF_RPC_GATE_H
#define HF_RPC_GATE_H

#include <stdbool.h>

struct hf_rpc_gate {
    bool (*may_send)(void *ctx);
    void *ctx;
};

static inline bool hf_rpc_gate_is_open(const struct hf_rpc_gate *gate)
{
    return !gate || gate->may_send(gate->ctx);
}

#endif
