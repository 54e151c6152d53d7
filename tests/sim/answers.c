#include "answers.h"

#include "base/check.h"
#include "invariants.h"
#include "world.h"

/* Which entry of the duplicate cache this request has; NULL: it is new. */
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

static void send_answer(struct sim_world *world, const struct sim_message *answer)
{
    struct sim_cached *entry = find_cached(&world->server, answer);

    if (entry) {
        entry->answered = true;
        entry->answer = *answer;
    }
    sim_check_sent(world, answer);
    sim_net_send(world, answer);
}

void sim_answers_send(struct sim_world *world, const struct sim_message *answer, uint64_t seq)
{
    struct sim_server *server = &world->server;
    struct sim_message stamped = *answer;

    stamped.hidden.epoch = server->epoch;
    if (seq <= hf_core_durable(server->core)) {
        send_answer(world, &stamped);
        return;
    }
    HF_ASSERT(server->n_pending < SIM_PENDING);
    server->pending[server->n_pending++] = (struct sim_pending){seq, stamped};
}

/*
 * What an answer becomes when its batch fails (request.h); false: nothing is said at all. Not even
 * a refusal leaves before the epoch is on the disk (NSM-06: "before the first packet leaves").
 */
static bool refuse(const struct sim_world *world, struct sim_message *answer)
{
    if (answer->hidden.epoch > world->server.durable_epoch)
        return false;
    switch (answer->call) {
    case SIM_CALL_SM_NOTIFY:
    case SIM_CALL_FREE_ALL: /* void, too: better repeated than wrongly believed */
        return false;
    case SIM_CALL_SM_MON:
        answer->stat = 1;
        return true;
    case SIM_CALL_SM_UNMON:
    case SIM_CALL_SM_UNMON_ALL:
    case SIM_CALL_SM_STAT:
        return false;
    default:
        answer->stat = HF_STAT_DENIED_NOLOCKS;
        return true;
    }
}

void sim_answers_settle(struct sim_world *world, uint64_t failed_seq)
{
    struct sim_server *server = &world->server;
    unsigned kept = 0;
    unsigned n = server->n_pending;

    for (unsigned i = 0; i < n; i++) {
        struct sim_pending pending = server->pending[i];
        struct sim_cached *entry;

        if (pending.seq <= hf_core_durable(server->core)) {
            send_answer(world, &pending.answer);
        } else if (!failed_seq || pending.seq < failed_seq) {
            server->pending[kept++] = pending;
        } else if (refuse(world, &pending.answer)) {
            send_answer(world, &pending.answer);
        } else if ((entry = find_cached(server, &pending.answer))) {
            entry->used = false;
        }
    }
    server->n_pending = kept;
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
