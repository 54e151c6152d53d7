/* What is sent: requests and answers, calls of the service, and answers of the database. */
#ifndef HF_CLUSTER_PACKET_H
#define HF_CLUSTER_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/lease/row.h"

enum cl_call {
    CL_LOCK,
    CL_UNLOCK,
    CL_TEST,
    CL_GRANTED, /* the service's callback */
    CL_NOTIFY,
};

struct cl_packet {
    bool used;
    uint8_t call; /* enum cl_call */
    bool answer;
    uint8_t client;
    uint8_t node; /* the node that sent the packet, or to which the answer to its call goes */
    uint8_t file;
    bool exclusive, block, reclaim;
    uint8_t stat;
    uint32_t xid;
    int32_t state;    /* NOTIFY */
    uint32_t outcall; /* GRANTED, NOTIFY: the index and number of the call at the node */
    uint64_t number;
    /* The epoch of the lease under which a node sent the packet; clients do not look at it. */
    uint64_t epoch;
    uint64_t passed_ms; /* when the packet passed the gate */
    bool was_deceived;  /* the node's clock had stood still by then, and the node did not know */
    /* The answer had to wait for a commit, now or when it was first given. */
    bool waited;

    /* An answer of the database: how operation `number` of the node ended. */
    enum hf_lease_result result;
    struct hf_lease_row row;
};

enum { CL_PACKETS = 4096 };

struct cl_packets {
    struct cl_packet at[CL_PACKETS];
    unsigned cursor;
};

struct cl_world;

unsigned cl_packet_new(struct cl_world *world, struct cl_packet packet);
struct cl_packet cl_packet_take(struct cl_world *world, unsigned index);

#endif
