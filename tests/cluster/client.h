/*
 * A host that locks whole files through the service, as one owner: it asks, repeats what is not
 * answered, waits for a GRANTED callback and polls meanwhile, and reclaims what it holds when it is
 * told that the server restarted. `held` is what it believes to hold, and what the checks compare
 * with the database.
 */
#ifndef HF_CLUSTER_CLIENT_H
#define HF_CLUSTER_CLIENT_H

#include "config.h"
#include "packet.h"

struct cl_world;

enum cl_mode { CL_NOT_HELD, CL_SHARED, CL_EXCLUSIVE };

enum cl_doing { CL_THINKS, CL_CALLS, CL_WAITS, CL_PAUSES };

struct cl_client {
    /* The mode (enum cl_mode) in which the client believes to hold each file. */
    uint8_t held[CL_FILES];
    bool reclaim[CL_FILES]; /* the lock on the file is still to be reclaimed */
    int32_t state;          /* the state number in the service's last notice */
    enum cl_doing doing;
    /* The client has a request other than a reclaim to make, again or for the first time. */
    bool has_want;
    struct cl_packet want;
    struct cl_packet call; /* the call in flight: want, or a reclaim */
    int32_t asked_at_state;
    uint32_t xid;
    uint64_t timer;
    /* When the last packet of each node arrives: packets of one node stay in order. */
    uint64_t arrives_ms[CL_NODES];
    bool is_done;
};

void cl_client_start(struct cl_world *world, unsigned client);
/* Resets the client after the database lost commits that it had acknowledged: an operator restarted
 * the host. */
void cl_client_reset(struct cl_world *world, unsigned client);

/* Sends a node's packet to the client. */
void cl_client_send(struct cl_world *world, unsigned client, struct cl_packet packet);
void cl_client_on_packet(struct cl_world *world, unsigned client, const struct cl_packet *packet);
void cl_client_on_timer(struct cl_world *world, unsigned client, uint64_t generation);

#endif
