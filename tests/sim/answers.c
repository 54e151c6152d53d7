#include "answers.h"

#include "invariants.h"
#include "world.h"

/* The entry of the duplicate cache for this request; NULL if the request is new. */
static struct sim_cached *find_cached(struct sim_server *server, const struct sim_message *r)
{
    for (unsigned i = 0; i < SIM_CACHE; i++) {
        struct sim_cached *entry = &server->cache[i];

        if (entry->used && entry->answer.host == r->host && entry->answer.xid == r->xid &&
            entry->answer.call == r->call)
            return entry;
    }
    return NULL;
}

void sim_answers_send(struct sim_world *world, const struct sim_message *answer)
{
    struct sim_cached *entry = find_cached(&world->server, answer);

    if (entry) {
        entry->answered = true;
        entry->answer = *answer;
    }
    sim_check_sent(world, answer);
    sim_net_send(world, answer);
}

void sim_answers_forget(struct sim_world *world, const struct sim_message *answer)
{
    struct sim_cached *entry = find_cached(&world->server, answer);

    if (entry)
        entry->used = false;
}

bool sim_answers_repeat(struct sim_world *world, const struct sim_message *r)
{
    struct sim_server *server = &world->server;
    struct sim_cached *entry = find_cached(server, r);

    if (!world->config.duplicate_cache)
        return false;
    if (entry) {
        if (entry->answered)
            sim_net_send(world, &entry->answer);
        return true;
    }
    server->cache[server->next_cached] = (struct sim_cached){.used = true, .answer = *r};
    server->next_cached = (server->next_cached + 1) % SIM_CACHE;
    return false;
}
