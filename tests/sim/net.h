/*
 * The simulated network between each client and the server: loss, duplication, delay, reordering,
 * and partitions, for each direction separately. A message is copied into a slot when it is sent,
 * once per copy that will arrive, and an event of the world's queue names the slot.
 *
 * In an ordered network (a TCP connection that survives everything) each direction of each client
 * is first in, first out; copies then arrive right behind each other.
 */
#ifndef HF_SIM_NET_H
#define HF_SIM_NET_H

#include "message.h"

struct sim_world;

struct sim_net {
    struct sim_message *slots;
    uint32_t *free; /* a stack of the free slots */
    uint32_t n_free;
    uint32_t size;
    /* The latest arrival so far; in ordered networks no message arrives before it. */
    uint64_t last_arrival[SIM_HOSTS][2];
    bool cut[SIM_HOSTS][2]; /* [host][to_server] */
};

void sim_net_init(struct sim_net *net);
void sim_net_free(struct sim_net *net);

/* Sends a message by the rules of the world's configuration, or loses it. */
void sim_net_send(struct sim_world *world, const struct sim_message *message);

/* Takes the message of an EV_MESSAGE event out of its slot. */
struct sim_message sim_net_take(struct sim_net *net, uint32_t slot);

#endif
