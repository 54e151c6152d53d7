#include "predict.h"

#include "world.h"

enum {
    GRANTED = SIM_STAT_BIT(HF_STAT_GRANTED),
    DENIED = SIM_STAT_BIT(HF_STAT_DENIED),
    NOLOCKS = SIM_STAT_BIT(HF_STAT_DENIED_NOLOCKS),
    BLOCKED = SIM_STAT_BIT(HF_STAT_BLOCKED),
    GRACE = SIM_STAT_BIT(HF_STAT_DENIED_GRACE_PERIOD),
    DEADLCK = SIM_STAT_BIT(HF_STAT_DEADLCK),
    TIGHT = 50, /* a configured limit below this may be hit in a world of this size */
};

/* Limits are the only reason to refuse for want of room, besides an allocation that failed just
 * now (door.c). */
static unsigned no_room(const struct sim_world *world)
{
    const struct sim_config *c = &world->config;
    bool tight = c->max_clients < TIGHT || c->max_locks < TIGHT ||
                 c->max_locks_per_client < TIGHT || c->max_locks_per_file < TIGHT ||
                 c->max_waiters < TIGHT;

    return tight ? NOLOCKS : 0;
}

/* Without recorded locks the server does not know in grace what is held: it may say so. */
static unsigned blind_in_grace(const struct sim_world *world)
{
    return world->model.seen.grace && !world->config.durable ? GRACE : 0;
}

/* Adds to *mask, by owner, everybody in the way of a request that stands behind `ahead` waiters. */
static void blockers(const struct sim_model *model, unsigned owner, struct sim_range range,
                     bool exclusive, unsigned ahead, uint32_t *mask)
{
    for (unsigned other = 0; other < SIM_OWNERS; other++) {
        for (unsigned c = range.first; c <= range.last && other != owner; c++) {
            uint8_t mode = model->held.mode[range.file][c][other];

            if (mode == SIM_EXCLUSIVE || (mode == SIM_SHARED && exclusive))
                *mask |= 1u << other;
        }
    }
    for (unsigned i = 0; i < ahead; i++) {
        if (sim_waiter_goes_first(&model->held, &model->waiters[i], owner, range, exclusive))
            *mask |= 1u << model->waiters[i].owner;
    }
}

/* Follows "waits for" from the given owners until nothing new is found (NLM-06). */
static bool reaches(const struct sim_model *model, uint32_t mask, unsigned target, bool locks_only)
{
    uint32_t before;

    do {
        before = mask;
        for (unsigned i = 0; i < model->n_waiters; i++) {
            const struct sim_waiter *w = &model->waiters[i];

            if (mask & 1u << w->owner)
                blockers(model, w->owner, w->range, w->exclusive, w->passes || locks_only ? 0 : i,
                         &mask);
        }
    } while (mask != before);
    return mask & 1u << target;
}

static bool waits_for_itself(const struct sim_model *model, unsigned place, bool locks_only)
{
    const struct sim_waiter *w = &model->waiters[place];
    uint32_t mask = 0;

    blockers(model, w->owner, w->range, w->exclusive, w->passes || locks_only ? 0 : place, &mask);
    return reaches(model, mask, w->owner, locks_only);
}

bool sim_predict_is_deadlocked(const struct sim_model *model, unsigned place)
{
    return waits_for_itself(model, place, false);
}

/* The owner holds all of the range, in this mode or a stronger one. */
static bool covers(const struct sim_oracle *held, unsigned owner, struct sim_range range,
                   bool exclusive)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (held->mode[range.file][c][owner] < (exclusive ? SIM_EXCLUSIVE : SIM_SHARED))
            return false;
    }
    return true;
}

static unsigned predict_reclaim(const struct sim_world *world, const struct sim_message *r)
{
    const struct sim_model *model = &world->model;
    unsigned owner = sim_owner(r->host, r->proc);

    if (r->proc >= SIM_PROCS) /* the liar of work.c holds nothing */
        return model->seen.grace ? DENIED : GRACE;
    if (!model->seen.grace) /* "GRANTED if that owner still holds exactly it" */
        return sim_oracle_holds(&model->held, owner, r->range,
                                r->exclusive ? SIM_EXCLUSIVE : SIM_SHARED)
                   ? GRANTED
                   : GRACE;
    if (world->config.durable) /* GRC-02 */
        return covers(&model->held, owner, r->range, r->exclusive) ? GRANTED : DENIED;
    /* Checked per client: denied if it conflicts, or if the client was not registered before the
     * restart, which the model does not keep. That a rightful one is granted is checked apart. */
    return sim_oracle_conflict(&model->held, owner, r->range, r->exclusive) < 0 ? GRANTED | DENIED
                                                                                : DENIED;
}

/* Waiting, or not: and in conflict mode what is unreclaimed is refused for the time of grace. */
static unsigned predict_blocked(const struct sim_world *world, const struct sim_message *r,
                                uint32_t in_the_way)
{
    const struct sim_model *model = &world->model;
    unsigned owner = sim_owner(r->host, r->proc);

    if (r->block)
        return reaches(model, in_the_way, owner, false) ? DEADLCK : BLOCKED;
    if (sim_oracle_conflict(&model->seen.unreclaimed, owner, r->range, r->exclusive) < 0)
        return DENIED;
    return GRACE | DENIED; /* a reclaimed lock may be in the way as well: either is true */
}

static unsigned predict_lock(const struct sim_world *world, const struct sim_message *r)
{
    const struct sim_model *model = &world->model;
    unsigned owner = sim_owner(r->host, r->proc);
    int place = sim_model_find_waiter(model, owner, r->range, r->exclusive);
    unsigned ahead = place >= 0 ? (unsigned)place : model->n_waiters;
    uint32_t in_the_way = 0;

    if (sim_oracle_holds(&model->held, owner, r->range, r->exclusive ? SIM_EXCLUSIVE : SIM_SHARED))
        return GRANTED | (model->seen.grace ? GRACE : 0); /* in grace: old or new, both true */
    if (model->seen.grace && !world->config.conflict_mode)
        return GRACE;
    if (place >= 0 && r->block)
        /* Asked before: it keeps its place, unless a cycle of locks has closed by itself since. */
        return waits_for_itself(model, (unsigned)place, true) ? DEADLCK : BLOCKED;
    blockers(model, owner, r->range, r->exclusive, ahead, &in_the_way);
    if (in_the_way == 0)
        return GRANTED;
    return predict_blocked(world, r, in_the_way);
}

static unsigned predict_cancel(const struct sim_world *world, const struct sim_message *r)
{
    const struct sim_model *model = &world->model;
    unsigned owner = sim_owner(r->host, r->proc);

    if (sim_model_find_waiter(model, owner, r->range, r->exclusive) >= 0)
        return GRANTED;
    if (sim_oracle_holds(&model->held, owner, r->range, r->exclusive ? SIM_EXCLUSIVE : SIM_SHARED))
        return DENIED;
    if (sim_oracle_holds(&model->held, owner, r->range, SIM_FREE))
        return GRANTED;
    return GRANTED | DENIED; /* holds a part, or in another mode: is that "it"? Both can be meant */
}

/* SHARE: what I want against what others deny, and the other way round (X/Open XNFS, 10.3). */
static unsigned predict_share(const struct sim_world *world, const struct sim_message *r)
{
    const struct sim_seen *seen = &world->model.seen;
    unsigned owner = sim_owner(r->host, r->proc);

    if (seen->grace)
        return GRACE | DENIED | GRANTED; /* shares are not durable: SPEC says nothing of them */
    for (unsigned i = 0; i < seen->n_shares; i++) {
        const struct sim_share *s = &seen->shares[i];

        if (s->file == r->range.file && s->owner != owner &&
            ((s->mode & r->access) || (s->access & r->mode)))
            return DENIED;
    }
    return GRANTED;
}

unsigned sim_predict(const struct sim_world *world, const struct sim_message *r)
{
    unsigned open = no_room(world);
    bool false_name = r->named != r->host;

    switch (r->call) {
    case SIM_CALL_TEST:
        return open | blind_in_grace(world) |
               (sim_oracle_conflict(&world->model.held, sim_owner(r->host, r->proc), r->range,
                                    r->exclusive) >= 0
                    ? DENIED
                    : GRANTED);
    case SIM_CALL_LOCK:
    case SIM_CALL_NM_LOCK:
        return open | (r->reclaim ? predict_reclaim(world, r) : predict_lock(world, r));
    case SIM_CALL_CANCEL:
        return open | blind_in_grace(world) | (false_name ? GRANTED : predict_cancel(world, r));
    case SIM_CALL_SHARE:
        return open | predict_share(world, r);
    case SIM_CALL_UNSHARE:
        return GRANTED | open | (world->model.seen.grace ? GRACE : 0);
    default:
        return GRANTED | open | blind_in_grace(world);
    }
}
