/*
 * What travels between a simulated client and the server: one request or one answer, in the
 * vocabulary of NLM and NSM. It is encoded and decoded only where it enters or leaves the server
 * (wire.h), so clients and network need not know.
 *
 * The last part of a message is never shown to the server. It has what the simulator knows and a
 * packet does not say: which life of the sender it is from, and whether its sender still
 * waits for it.
 */
#ifndef HF_SIM_MESSAGE_H
#define HF_SIM_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/request.h"
#include "oracle.h"

enum sim_call {
    SIM_CALL_NONE,
    /* client to server */
    SIM_CALL_TEST,
    SIM_CALL_LOCK,
    SIM_CALL_NM_LOCK,
    SIM_CALL_UNLOCK,
    SIM_CALL_CANCEL,
    SIM_CALL_SHARE,
    SIM_CALL_UNSHARE,
    SIM_CALL_FREE_ALL,
    SIM_CALL_SM_NOTIFY,
    SIM_CALL_SM_MON,
    SIM_CALL_SM_UNMON,
    SIM_CALL_SM_UNMON_ALL,
    SIM_CALL_SM_STAT,
    SIM_CALL_SIMU_CRASH,
    /* server to client */
    SIM_CALL_GRANTED,
    SIM_CALL_NOTIFY, /* SM_NOTIFY: the server tells a client that it has restarted */
    SIM_CALL_STATUS, /* the callback that an SM_MON registration asks for */
    /* SM_STAT: asks a host's status monitor whether the host has restarted, as a notice says. */
    SIM_CALL_STAT,
    SIM_CALLS,
};

const char *sim_call_name(enum sim_call call);
const char *sim_stat_name(unsigned stat); /* stat is of enum hf_stat */

/* The name that a host gives in a message; a stranger uses another host's (see client.h). */
enum sim_name { SIM_NAME_LONG, SIM_NAME_SHORT };

struct sim_message {
    uint8_t call;   /* enum sim_call */
    uint8_t host;   /* the client that sends or receives the message */
    uint8_t named;  /* the host whose name the message has: another host in a forged request */
    uint8_t name;   /* enum sim_name */
    bool to_server; /* direction */
    bool answer;    /* the message answers a call */
    uint32_t xid;
    uint8_t slot; /* the slot of the client's call; the server returns it by the xid */

    uint8_t proc; /* svid; oh is derived from it */
    struct sim_range range;
    bool exclusive;
    bool block;
    bool reclaim;
    /* LOCK_MSG: the server tells the grant by GRANTED_MSG, and the client answers by GRANTED_RES.
     */
    bool async;
    uint8_t mode; /* SHARE: deny mode and access */
    uint8_t access;
    int32_t state;      /* NSM state number */
    uint64_t cookie;    /* the attempt of an outgoing call that this message is, or answers */
    uint64_t cookie_id; /* GRANTED: the core's id of the outcall, which the wire carries */

    uint8_t stat; /* answers: enum hf_stat, or 0/1 for SM calls */

    struct {
        /* The life of the client that sent the message, or for which it was meant. */
        uint32_t life;
        uint32_t op;  /* the running number of the process's request */
        bool crossed; /* UNLOCK: another thread wanted some of the range when this was first sent */
        uint64_t epoch;   /* the epoch of the server that sent the message */
        uint64_t sent_ms; /* a callback: when the server sent it */
    } hidden;
};

static inline bool sim_is_lock(const struct sim_message *message)
{
    return message->call == SIM_CALL_LOCK || message->call == SIM_CALL_NM_LOCK;
}

#endif
