/*
 * What travels between a simulated client and the server: one request or one answer, in the
 * vocabulary of NLM and NSM. Where a message enters or leaves the server it is encoded and decoded
 * (wire.h), and neither the clients nor the network notice.
 *
 * The last part of a message is never shown to the server. It is what the simulator knows and a
 * packet does not say: which life of the sender it is from, and whether its sender still wants it.
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
    SIM_CALL_NOTIFY, /* SM_NOTIFY: the server has restarted */
    SIM_CALL_STATUS, /* the callback of an SM_MON registration */
    SIM_CALL_STAT,   /* SM_STAT: has this client restarted, as a notice says? */
    SIM_CALLS,
};

const char *sim_call_name(enum sim_call call);
const char *sim_stat_name(unsigned stat); /* stat is of enum hf_stat */

/* Which of its names a host uses; a stranger uses another host's (see client.h). */
enum sim_name { SIM_NAME_LONG, SIM_NAME_SHORT };

struct sim_message {
    uint8_t call;   /* enum sim_call */
    uint8_t host;   /* the client at one end; its address */
    uint8_t named;  /* the host whose name it carries: another in a forged request */
    uint8_t name;   /* enum sim_name */
    bool to_server; /* direction */
    bool answer;    /* the answer to a call, not a call */
    uint32_t xid;
    uint8_t slot; /* which call of the client it is or answers; the server returns it by the xid */

    uint8_t proc; /* svid; oh is derived from it */
    struct sim_range range;
    bool exclusive;
    bool block;
    bool reclaim;
    bool async;   /* LOCK_MSG: the grant is told by GRANTED_MSG, and answered by GRANTED_RES */
    uint8_t mode; /* SHARE: deny mode and access */
    uint8_t access;
    int32_t state;      /* NSM state number */
    uint64_t cookie;    /* which attempt of an outgoing call this is or answers */
    uint64_t cookie_id; /* GRANTED: what the wire carries, the core's id of the outcall */

    uint8_t stat; /* answers: enum hf_stat, or 0/1 for SM calls */

    struct {
        uint32_t life;    /* of the client that sent it or for which it was meant */
        uint32_t op;      /* the running number of the process's request */
        bool crossed;     /* UNLOCK: another thread asked for some of it when it was sent first */
        uint64_t epoch;   /* of the server that sent it */
        uint64_t sent_ms; /* a callback: when the server sent it */
    } hidden;
};

static inline bool sim_is_lock(const struct sim_message *message)
{
    return message->call == SIM_CALL_LOCK || message->call == SIM_CALL_NM_LOCK;
}

#endif
