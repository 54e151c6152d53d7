#include "net.h"

#include <stdlib.h>

#include "base/assert.h"
#include "world.h"

void sim_net_init(struct sim_net *net)
{
    *net = (struct sim_net){0};
}

void sim_net_free(struct sim_net *net)
{
    free(net->slots);
    free(net->free);
    *net = (struct sim_net){0};
}

static uint32_t take_slot(struct sim_net *net)
{
    if (net->n_free == 0) {
        uint32_t size = net->size ? net->size * 2 : 64;

        net->slots = realloc(net->slots, size * sizeof(net->slots[0]));
        net->free = realloc(net->free, size * sizeof(net->free[0]));
        HF_ASSERT(net->slots && net->free);
        while (size > net->size)
            net->free[net->n_free++] = net->size++;
    }
    return net->free[--net->n_free];
}

struct sim_message sim_net_take(struct sim_net *net, uint32_t slot)
{
    net->free[net->n_free++] = slot;
    return net->slots[slot];
}

static uint64_t arrival(struct sim_world *world, const struct sim_message *message)
{
    const struct sim_config *config = &world->config;
    uint64_t at_ms = world->now_ms + sim_rng_range(&world->rng, 0, config->delay_ms);
    uint64_t *last = &world->net.last_arrival[message->host][message->to_server];

    if (!world->calm && config->late_ms && sim_rng_one_in(&world->rng, 16)) {
        at_ms += sim_rng_below(&world->rng, config->late_ms);
        sim_world_fault(world, SIM_FAULT_DELAY);
    }
    if (config->ordered && at_ms < *last)
        at_ms = *last;
    else if (at_ms < *last)
        sim_world_fault(world, SIM_FAULT_REORDER);
    if (at_ms > *last)
        *last = at_ms;
    return at_ms;
}

static void deliver_later(struct sim_world *world, const struct sim_message *message)
{
    uint32_t slot = take_slot(&world->net);

    world->net.slots[slot] = *message;
    sim_queue_push(&world->queue, (struct sim_event){.at_ms = arrival(world, message),
                                                     .kind = SIM_EVENT_MESSAGE,
                                                     .who = message->host,
                                                     .what = slot});
}

void sim_net_send(struct sim_world *world, const struct sim_message *message)
{
    if (world->net.cut[message->host][message->to_server]) {
        sim_world_fault(world, SIM_FAULT_CUT);
        return;
    }
    if (!world->calm && sim_rng_chance(&world->rng, world->config.loss)) {
        sim_world_fault(world, SIM_FAULT_LOSS);
        return;
    }
    deliver_later(world, message);
    if (!world->calm && sim_rng_chance(&world->rng, world->config.duplicate)) {
        sim_world_fault(world, SIM_FAULT_DUPLICATE);
        deliver_later(world, message);
    }
}
