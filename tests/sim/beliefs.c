#include "beliefs.h"

#include <string.h>

#include "world.h"

static struct sim_belief *belief_of(struct sim_world *world, const struct sim_message *r)
{
    return &world->beliefs.of[sim_owner(r->host, r->proc)][r->range.file];
}

static bool is_about_shares(const struct sim_message *r)
{
    return (r->call == SIM_CALL_SHARE || r->call == SIM_CALL_UNSHARE) && r->named == r->host &&
           r->proc < SIM_PROCS;
}

void sim_beliefs_executed(struct sim_world *world, const struct sim_message *r, bool granted,
                          bool stale)
{
    if (!is_about_shares(r) || !granted)
        return;
    *belief_of(world, r) = (struct sim_belief){
        .given = r->call == SIM_CALL_SHARE && !stale, .mode = r->mode, .access = r->access};
}

void sim_beliefs_asked(struct sim_world *world, const struct sim_message *r)
{
    if (is_about_shares(r))
        belief_of(world, r)->told = false;
    if (r->call == SIM_CALL_FREE_ALL) {
        for (unsigned p = 0; p < SIM_PROCS; p++)
            memset(world->beliefs.of[sim_owner(r->host, p)], 0, sizeof(world->beliefs.of[0]));
    }
}

void sim_beliefs_answered(struct sim_world *world, const struct sim_message *r)
{
    struct sim_belief *belief;

    if (!is_about_shares(r) || r->call != SIM_CALL_SHARE)
        return;
    belief = belief_of(world, r);
    belief->told = belief->given && belief->mode == r->mode && belief->access == r->access;
}

void sim_beliefs_notified(struct sim_world *world, unsigned host)
{
    for (unsigned p = 0; p < SIM_PROCS; p++) {
        for (unsigned f = 0; f < SIM_FILES; f++)
            world->beliefs.of[sim_owner(host, p)][f].old = true;
    }
}

void sim_beliefs_verified(struct sim_world *world, unsigned host, bool believed)
{
    for (unsigned p = 0; p < SIM_PROCS; p++) {
        for (unsigned f = 0; f < SIM_FILES; f++) {
            struct sim_belief *belief = &world->beliefs.of[sim_owner(host, p)][f];

            if (belief->old && believed)
                *belief = (struct sim_belief){0};
            belief->old = false;
        }
    }
}

void sim_beliefs_host_gone(struct sim_world *world, unsigned host)
{
    sim_beliefs_notified(world, host);
    sim_beliefs_verified(world, host, true);
}

void sim_beliefs_file_released(struct sim_world *world, unsigned file)
{
    for (unsigned o = 0; o < SIM_OWNERS; o++)
        world->beliefs.of[o][file] = (struct sim_belief){0};
}

static bool is_held(const struct sim_seen *seen, unsigned owner, unsigned file,
                    const struct sim_belief *belief)
{
    for (unsigned i = 0; i < seen->n_shares; i++) {
        const struct sim_share *s = &seen->shares[i];

        if (s->owner == owner && s->file == file && s->mode == belief->mode &&
            s->access == belief->access)
            return true;
    }
    return false;
}

static void check_file(struct sim_world *world, unsigned owner, unsigned file)
{
    const struct sim_belief *mine = &world->beliefs.of[owner][file];

    world->stats.beliefs++;
    if (world->server.core && !is_held(&world->model.seen, owner, file, mine))
        sim_world_violation(world, "a share that its client believes in is held",
                            "owner %u, file %u", owner, file);
    for (unsigned o = 0; o < owner; o++) {
        const struct sim_belief *other = &world->beliefs.of[o][file];

        if (other->told && ((mine->mode & other->access) || (mine->access & other->mode)))
            sim_world_violation(world, "no two clients believe in shares that conflict",
                                "owners %u and %u, file %u", o, owner, file);
    }
}

void sim_beliefs_check(struct sim_world *world)
{
    if ((world->model.causes.restarted && !world->server.continued) ||
        (world->server.stopping && !world->config.continues))
        memset(&world->beliefs, 0, sizeof(world->beliefs));
    for (unsigned o = 0; o < SIM_OWNERS; o++) {
        for (unsigned f = 0; f < world->config.files; f++) {
            if (world->beliefs.of[o][f].told)
                check_file(world, o, f);
        }
    }
}
