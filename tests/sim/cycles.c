#include "cycles.h"

#include "predict.h"
#include "world.h"

/* Removes from `held` what owners lost in this event, say by a crash of their host. Another check
 * (reconcile.c) judges whether they may lose it. */
static void drop_lost(struct sim_oracle *held, const struct sim_oracle *now)
{
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                if (now->mode[f][c][o] < held->mode[f][c][o])
                    held->mode[f][c][o] = now->mode[f][c][o];
            }
        }
    }
}

bool sim_cycles_since(const struct sim_model *model, unsigned place, const struct sim_seen *now)
{
    static struct sim_model then;
    unsigned mine = 0;

    then = *model;
    drop_lost(&then.held, &now->held);
    then.n_waiters = 0;
    for (unsigned i = 0; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        if (i == place)
            mine = then.n_waiters;
        else if (sim_waiters_find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) <
                 0) {
            sim_oracle_add(&then.held, w->owner, w->range,
                           w->exclusive ? SIM_EXCLUSIVE : SIM_SHARED);
            continue;
        }
        then.waiters[then.n_waiters++] = *w;
    }
    return sim_predict_is_in_cycle(&then, mine, false);
}

void sim_cycles_note(struct sim_model *model)
{
    for (unsigned i = 1; i < model->n_waiters; i++) {
        if (!model->waiters[i].may_pass)
            model->waiters[i].may_pass = sim_predict_is_in_cycle(model, i, false);
    }
}

bool sim_cycles_had(const struct sim_model *model, uint64_t id)
{
    for (unsigned i = 0; i < SIM_PASSING && id != 0; i++) {
        if (model->passing[i] == id)
            return true;
    }
    return false;
}

void sim_cycles_remember(struct sim_model *model, const struct sim_waiter *waiter)
{
    if (waiter->may_pass && waiter->id != 0 && !sim_cycles_had(model, waiter->id))
        model->passing[model->n_passing++ % SIM_PASSING] = waiter->id;
}

/* True if no held lock conflicts with the waiter, and no waiter ahead holds it up (or it may pass
 * them). */
static bool can_be_granted(const struct sim_model *model, unsigned place, bool passes)
{
    const struct sim_waiter *w = &model->waiters[place];

    if (sim_oracle_conflict(&model->held, w->owner, w->range, w->exclusive) >= 0)
        return false;
    for (unsigned i = 0; i < place && !passes; i++) {
        if (sim_waiter_goes_first(&model->held, &model->waiters[i], w->owner, w->range,
                                  w->exclusive))
            return false;
    }
    return true;
}

/* Finds which of the waiters that the core granted in this event came next; -1 if no granted waiter
 * is left that can be granted. Waiters that passed before the event come before those that may pass
 * only since. */
static int next_granted(const struct sim_model *model, const struct sim_seen *now)
{
    int next = -1;

    for (unsigned i = 0; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        if (sim_waiters_find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) >= 0 ||
            !sim_seen_has_lock(now, w))
            continue; /* it still waits, or left the queue because its host is silent or gone */
        if (can_be_granted(model, i, w->passes))
            return (int)i;
        if (next < 0 && w->may_pass && can_be_granted(model, i, true))
            next = (int)i;
    }
    return next;
}

void sim_cycles_note_between(struct sim_model *model, const struct sim_seen *now)
{
    static struct sim_model then;
    int next;

    then = *model;
    /* An owner that lost a lock may have to queue behind others now. */
    drop_lost(&then.held, &now->held);
    sim_cycles_note(&then);
    while ((next = next_granted(&then, now)) >= 0) {
        struct sim_waiter w = then.waiters[next];

        sim_oracle_add(&then.held, w.owner, w.range, w.exclusive ? SIM_EXCLUSIVE : SIM_SHARED);
        sim_model_remove_waiter(&then, (unsigned)next);
        sim_cycles_note(&then);
    }
    for (unsigned i = 0; i < model->n_waiters; i++) {
        struct sim_waiter *w = &model->waiters[i];
        int place = sim_model_find_waiter(&then, w->owner, w->range, w->exclusive);

        if (place >= 0 &&
            sim_waiters_find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) >= 0)
            w->may_pass = then.waiters[place].may_pass;
    }
}

void sim_cycles_check(struct sim_world *world)
{
    const struct sim_model *model = &world->model;
    bool unfinished = hf_core_deadline(world->server.core) == 0;

    /* The first waiter has no other ahead of it. */
    for (unsigned i = 1; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        if (!unfinished && sim_predict_is_in_cycle(model, i, true))
            sim_world_violation(world, "a place in a queue closes no cycle",
                                "owner %u waits for itself, and only for its turn", w->owner);
        if (w->passes && !w->may_pass)
            sim_world_violation(world, "first in, first out", "owner %u passes without a reason",
                                w->owner);
    }
}
