/*
 * A host that locks whole files through the service, as one owner: it asks, repeats what is not
 * answered, waits for a GRANTED callback and polls meanwhile, and reclaims what it holds when it is
 * told that the server restarted. held is what it believes to hold: what the promises are about.
 */
#ifndef HF_CLUSTER_CLIENT_H
#define HF_CLUSTER_CLIENT_H

#include "config.h"
#include "packet.h"

struct cl_world;

enum cl_mode { CL_NOT_HELD, CL_SHARED, CL_EXCLUSIVE };

enum cl_doing { CL_THINKS, CL_CALLS, CL_WAITS, CL_PAUSES };

struct cl_client {
    uint8_t held[CL_FILES]; /* enum cl_mode */
    bool reclaim[CL_FILES]; /* still to be reclaimed */
    int32_t state;          /* of the service, by its last notice */
    enum cl_doing doing;
    bool has_want; /* something other than a reclaim is to be asked, again or for the first time */
    struct cl_packet want;
    struct cl_packet call; /* in flight: want, or a reclaim */
    int32_t asked_at_state;
    uint32_t xid;
    uint64_t timer;
    uint64_t arrives_ms[CL_NODES]; /* packets of a node do not overtake each other */
    bool is_done;
};

void cl_client_start(struct cl_world *world, unsigned client);
/* After the database lost what it had acknowledged: the host was restarted by hand. */
void cl_client_reset(struct cl_world *world, unsigned client);

/* A node's packet is on its way. */
void cl_client_send(struct cl_world *world, unsigned client, struct cl_packet packet);
void cl_client_on_packet(struct cl_world *world, unsigned client, const struct cl_packet *packet);
void cl_client_on_timer(struct cl_world *world, unsigned client, uint64_t generation);

#endif
