#include "model.h"

#include <string.h>

#include "predict.h"
#include "world.h"

/* The core tries again after a second what the store or the heap refused (core.h). */
enum { REDO_MS = 1500 };

void sim_model_init(struct sim_model *model)
{
    memset(model, 0, sizeof(*model));
}

static void set_fresh(struct sim_model *model, unsigned owner, struct sim_range range,
                      uint64_t value)
{
    for (unsigned c = range.first; c <= range.last; c++)
        model->fresh[range.file][c][owner] = value;
}

/*
 * Which life of its client a lock belongs to: the one whose state number its LOCK told. Where the
 * owner holds something by a LOCK that told another one, the two may have become one lock, and the
 * rule leaves open to which life that belongs.
 */
static void set_life(struct sim_model *model, unsigned owner, struct sim_range range, int32_t state)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (model->held.mode[range.file][c][owner] != SIM_FREE &&
            model->life[range.file][c][owner] != state)
            state = 0;
    }
    for (unsigned c = range.first; c <= range.last; c++)
        model->life[range.file][c][owner] = state;
}

void sim_model_locked(struct sim_model *model, unsigned owner, struct sim_range range,
                      bool exclusive, int32_t state, uint64_t seq)
{
    set_life(model, owner, range, state);
    sim_oracle_set(&model->held, owner, range, exclusive ? SIM_EXCLUSIVE : SIM_SHARED);
    sim_oracle_set(&model->kept, owner, range, SIM_EXCLUSIVE);
    set_fresh(model, owner, range, seq + 1);
}

void sim_model_promised(struct sim_model *model, unsigned owner, struct sim_range range,
                        uint64_t durable)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (sim_model_is_granted(model, owner, range.file, c, durable))
            model->shaky.mode[range.file][c][owner] = SIM_FREE;
    }
}

void sim_model_unlocked(struct sim_model *model, unsigned owner, struct sim_range range)
{
    sim_oracle_set(&model->held, owner, range, SIM_FREE);
    sim_oracle_set(&model->kept, owner, range, SIM_FREE);
    set_fresh(model, owner, range, 0);
}

static bool same_range(struct sim_range a, struct sim_range b)
{
    return a.file == b.file && a.first == b.first && a.last == b.last;
}

static int find(const struct sim_waiter *waiters, unsigned n, unsigned owner,
                struct sim_range range, bool exclusive)
{
    for (unsigned i = 0; i < n; i++) {
        if (waiters[i].owner == owner && waiters[i].exclusive == exclusive &&
            same_range(waiters[i].range, range))
            return (int)i;
    }
    return -1;
}

int sim_model_find_waiter(const struct sim_model *model, unsigned owner, struct sim_range range,
                          bool exclusive)
{
    return find(model->waiters, model->n_waiters, owner, range, exclusive);
}

bool sim_model_is_granting(const struct sim_model *model, unsigned owner, struct sim_range range)
{
    const struct sim_seen *seen = &model->seen;

    return find(seen->granting, seen->n_granting, owner, range, false) >= 0 ||
           find(seen->granting, seen->n_granting, owner, range, true) >= 0;
}

void sim_model_waits(struct sim_model *model, unsigned owner, struct sim_range range,
                     bool exclusive, int32_t state)
{
    int place = sim_model_find_waiter(model, owner, range, exclusive);

    if (place >= 0 && state != 0)
        model->waiters[place].state = state; /* the latest that asked for it */
    if (place >= 0 || model->n_waiters == SIM_WAITERS)
        return;
    model->waiters[model->n_waiters++] = (struct sim_waiter){
        .owner = (uint8_t)owner, .exclusive = exclusive, .range = range, .state = state};
}

void sim_model_remove_waiter(struct sim_model *model, unsigned place)
{
    model->n_waiters--;
    memmove(&model->waiters[place], &model->waiters[place + 1],
            (model->n_waiters - place) * sizeof(model->waiters[0]));
}

/* All of the range, in whatever mode. */
static bool holds_all(const struct sim_oracle *held, unsigned owner, struct sim_range range)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (held->mode[range.file][c][owner] == SIM_FREE)
            return false;
    }
    return true;
}

static bool waits_for(const struct sim_oracle *held, const struct sim_waiter *waiter,
                      unsigned owner)
{
    for (unsigned c = waiter->range.first; c <= waiter->range.last; c++) {
        uint8_t mode = held->mode[waiter->range.file][c][owner];

        if (mode == SIM_EXCLUSIVE || (mode == SIM_SHARED && waiter->exclusive))
            return true;
    }
    return false;
}

bool sim_waiter_goes_first(const struct sim_oracle *held, const struct sim_waiter *waiter,
                           unsigned owner, struct sim_range range, bool exclusive)
{
    return waiter->owner != owner && (exclusive || waiter->exclusive) &&
           sim_range_overlaps(waiter->range, range) && !waits_for(held, waiter, owner) &&
           !holds_all(held, owner, range);
}

void sim_model_lapse(struct sim_model *model, unsigned owner, struct sim_range range)
{
    sim_oracle_set(&model->shaky, owner, range, SIM_EXCLUSIVE);
    set_fresh(model, owner, range, 0);
}

static void lapse_host(struct sim_model *model, unsigned host)
{
    for (unsigned p = 0; p < SIM_PROCS; p++) {
        for (uint8_t f = 0; f < SIM_FILES; f++)
            sim_model_lapse(model, sim_owner(host, p), (struct sim_range){f, 0, SIM_CELLS - 1});
    }
}

void sim_model_host_gone(struct sim_model *model, unsigned host, bool at_once)
{
    model->gone[host] = true;
    model->gone_now[host] = true;
    model->releasing[host] = 0;
    sim_oracle_drop_host(&model->kept, host);
    lapse_host(model, host);
    if (!at_once)
        return;
    sim_oracle_drop_host(&model->held, host);
    for (unsigned i = 0; i < model->n_waiters;) {
        if (model->waiters[i].owner / SIM_PROCS == host)
            sim_model_remove_waiter(model, i);
        else
            i++;
    }
}

void sim_model_life_gone(struct sim_model *model, unsigned host, int32_t state)
{
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = sim_owner(host, 0); o < sim_owner(host + 1, 0); o++) {
                if (model->life[f][c][o] == state)
                    model->held.mode[f][c][o] = SIM_FREE;
            }
        }
    }
    for (unsigned i = 0; i < model->n_waiters;) {
        if (model->waiters[i].owner / SIM_PROCS == host && model->waiters[i].state == state)
            sim_model_remove_waiter(model, i);
        else
            i++;
    }
}

/* The newest grant of just this, in either mode; NULL: none that is remembered. */
static const struct sim_waiter *granted_last(const struct sim_model *model, unsigned owner,
                                             struct sim_range range)
{
    for (unsigned n = model->n_granted; n > 0 && n + SIM_WAITERS > model->n_granted; n--) {
        const struct sim_waiter *w = &model->granted[(n - 1) % SIM_WAITERS];

        if (w->owner == owner && same_range(w->range, range))
            return w;
    }
    return NULL;
}

void sim_model_refused(struct sim_model *model, unsigned owner, struct sim_range range)
{
    const struct sim_waiter *granted = granted_last(model, owner, range);

    model->refused[owner] = true;
    model->refused_range[owner] = range;
    model->refused_had[owner] = granted && granted->had;
}

/* ------------------------------------------------------------------ why a lock may be gone */

/*
 * The causes by which the server may take a lock from its owner without being asked (SPEC sections
 * 3 and 4). Whoever still believes to hold it is not lied to by us: it was told, could not be told,
 * or did not answer.
 */
static bool may_lose(const struct sim_world *world, unsigned owner, unsigned f, unsigned c,
                     uint8_t left)
{
    const struct sim_model *model = &world->model;
    const struct sim_server *server = &world->server;
    unsigned host = owner / SIM_PROCS;
    struct sim_range cell = {(uint8_t)f, (uint8_t)c, (uint8_t)c};

    /* The host restarted, or freed all (CRS-01, NLM-05): at once, or in slices. */
    if (model->gone_now[host] || model->seen.doomed.mode[f][c][owner] != SIM_FREE)
        return true;
    /* The GRANTED callback was refused, or failed three times (section 3, last paragraph): what it
     * gave goes; of what the owner held before, no more than an upgrade. */
    if (model->refused[owner] && sim_range_overlaps(model->refused_range[owner], cell) &&
        (!model->refused_had[owner] || left == SIM_SHARED))
        return true;
    if (model->seen.unreclaimed.mode[f][c][owner] == SIM_FREE)
        return false;
    /* Held from before a restart and not reclaimed: until grace is over, or its client was not to
     * be reached (GRC-03, NOT-03). */
    return world->now_ms >= server->grace_until_ms ||
           (server->notices_failed[host] >= world->call_attempts && !world->config.keep_on_failure);
}

/* ------------------------------------------------------------------ what else has changed */

static void remember_granted(struct sim_model *model, const struct sim_waiter *waiter)
{
    model->granted[model->n_granted++ % SIM_WAITERS] = *waiter;
}

bool sim_model_is_wanted(const struct sim_world *world, unsigned owner, struct sim_range range,
                         bool exclusive)
{
    const struct sim_host *host = &world->hosts[owner / SIM_PROCS];
    const struct sim_process *process = &host->procs[owner % SIM_PROCS];

    return host->up && process->listed && process->want.exclusive == exclusive &&
           same_range(process->want.range, range);
}

/* Another waiter of the same owner is granted in the same event, and what it gives the owner may
 * let this one pass; in which order does not show. */
static bool granted_with_another(const struct sim_model *model, unsigned place,
                                 const struct sim_seen *now)
{
    const struct sim_waiter *waiter = &model->waiters[place];

    for (unsigned i = 0; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        if (i != place && w->owner == waiter->owner && w->range.file == waiter->range.file &&
            find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) < 0)
            return true;
    }
    return false;
}

/*
 * What others were granted in the same event has made its place in the queue part of a circle.
 * Looks at the model as if they all had their locks and it alone still waited.
 */
static bool is_in_circle_since(const struct sim_model *model, unsigned place,
                               const struct sim_seen *now)
{
    static struct sim_model then;
    unsigned mine = 0;

    then = *model;
    then.n_waiters = 0;
    for (unsigned i = 0; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        if (i == place)
            mine = then.n_waiters;
        else if (find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) < 0) {
            sim_oracle_set(&then.held, w->owner, w->range,
                           w->exclusive ? SIM_EXCLUSIVE : SIM_SHARED);
            continue;
        }
        then.waiters[then.n_waiters++] = *w;
    }
    return sim_predict_is_in_circle(&then, mine, false);
}

/* Its owner holds something of the range already, and did not lose it in this very event, which is
 * what may have made room. */
static bool held_before(const struct sim_world *world, const struct sim_waiter *waiter)
{
    struct sim_range range = waiter->range;

    for (unsigned c = range.first; c <= range.last; c++) {
        if (world->model.held.mode[range.file][c][waiter->owner] != SIM_FREE &&
            !may_lose(world, waiter->owner, range.file, c, SIM_FREE))
            return true;
    }
    return false;
}

/* A waiter of the model that the core does not list any more has its lock now, and nobody who
 * stands in front of it was overtaken. */
static void grant_waiter(struct sim_world *world, unsigned place, const struct sim_seen *now)
{
    struct sim_model *model = &world->model;
    struct sim_waiter waiter = model->waiters[place];
    bool one_of_several = granted_with_another(model, place, now);

    if (model->silent[waiter.owner / SIM_PROCS] &&
        !sim_oracle_holds(&now->held, waiter.owner, waiter.range,
                          waiter.exclusive ? SIM_EXCLUSIVE : SIM_SHARED))
        return; /* its host does not answer: it waits no longer */
    if (!sim_oracle_holds(&now->held, waiter.owner, waiter.range,
                          waiter.exclusive ? SIM_EXCLUSIVE : SIM_SHARED)) {
        if (model->gone[waiter.owner / SIM_PROCS])
            return;
        sim_world_violation(world, "no waiter is lost",
                            "owner %u was told BLOCKED and is forgotten", waiter.owner);
        return;
    }
    for (unsigned i = 0; i < place && !waiter.may_pass; i++) {
        if (sim_waiter_goes_first(&model->held, &model->waiters[i], waiter.owner, waiter.range,
                                  waiter.exclusive) &&
            find(now->waiters, now->n_waiters, model->waiters[i].owner, model->waiters[i].range,
                 model->waiters[i].exclusive) >= 0) {
            /* Noted for grants of several waiters, too: when their commit fails, this waiter passes
             * again, and the next time perhaps without the others (seed 70100938). */
            waiter.may_pass = is_in_circle_since(model, place, now);
            if (waiter.may_pass || one_of_several)
                break;
            sim_world_violation(world, "first in, first out", "owner %u overtook owner %u",
                                waiter.owner, model->waiters[i].owner);
        }
    }
    waiter.had = held_before(world, &waiter);
    sim_model_locked(model, waiter.owner, waiter.range, waiter.exclusive, waiter.state, 0);
    /* Not wanted: what is left of an old copy of a request. Its grant will be refused, and until
     * then stands where the owner's real locks may be. */
    if (!sim_model_is_wanted(world, waiter.owner, waiter.range, waiter.exclusive))
        sim_model_lapse(model, waiter.owner, waiter.range);
    remember_granted(model, &waiter);
}

/* Takes the core's list, with what only the model knows. */
static void take_waiters(struct sim_model *model, const struct sim_seen *now)
{
    struct sim_waiter waiters[SIM_WAITERS];

    memcpy(waiters, now->waiters, sizeof(waiters));
    for (unsigned i = 0; i < now->n_waiters; i++) {
        struct sim_waiter *w = &waiters[i];
        int place = sim_model_find_waiter(model, w->owner, w->range, w->exclusive);
        const struct sim_waiter *before =
            place >= 0 ? &model->waiters[place] : granted_last(model, w->owner, w->range);

        w->may_pass = before && before->may_pass; /* also when it waits again */
        w->state = before ? before->state : 0;
    }
    memcpy(model->waiters, waiters, sizeof(waiters));
    model->n_waiters = now->n_waiters;
}

/* From now on these may pass; which of them does is for the core to choose. */
static void note_circles(struct sim_model *model)
{
    for (unsigned i = 1; i < model->n_waiters; i++) {
        if (!model->waiters[i].may_pass)
            model->waiters[i].may_pass = sim_predict_is_in_circle(model, i, false);
    }
}

/* No held lock conflicts with the waiter, and it queues behind no other or passes them. */
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

/* Of the waiters that the core has granted in this event, the one that was next; -1: none is left
 * that can be granted. Those that passed before the event come before those that may pass since. */
static int next_granted(const struct sim_model *model, const struct sim_seen *now)
{
    int next = -1;

    for (unsigned i = 0; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        if (find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) >= 0 ||
            !sim_oracle_holds(&now->held, w->owner, w->range,
                              w->exclusive ? SIM_EXCLUSIVE : SIM_SHARED))
            continue; /* still waits, or waits no longer because its host is silent or gone */
        if (can_be_granted(model, i, w->passes))
            return (int)i;
        if (next < 0 && w->may_pass && can_be_granted(model, i, true))
            next = (int)i;
    }
    return next;
}

/*
 * A grant can close a circle that the next grant of the same event opens again (seed 80018261).
 * The core lets a waiter pass in between; it may still wait when the event is over. So repeats the
 * event's grants one by one and notes the circles after each.
 */
static void note_circles_between(struct sim_model *model, const struct sim_seen *now)
{
    static struct sim_model then;
    int next;

    then = *model;
    while ((next = next_granted(&then, now)) >= 0) {
        struct sim_waiter w = then.waiters[next];

        sim_oracle_set(&then.held, w.owner, w.range, w.exclusive ? SIM_EXCLUSIVE : SIM_SHARED);
        sim_model_remove_waiter(&then, (unsigned)next);
        note_circles(&then);
    }
    for (unsigned i = 0; i < model->n_waiters; i++) {
        struct sim_waiter *w = &model->waiters[i];
        int place = sim_model_find_waiter(&then, w->owner, w->range, w->exclusive);

        if (place >= 0 && find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) >= 0)
            w->may_pass = then.waiters[place].may_pass;
    }
}

static void compare_waiters(struct sim_world *world, const struct sim_seen *now)
{
    struct sim_model *model = &world->model;
    unsigned kept = 0;

    note_circles(model);
    if (model->n_waiters > now->n_waiters + 1)
        note_circles_between(model, now);
    for (unsigned i = 0; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        if (find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) < 0)
            grant_waiter(world, i, now);
    }
    for (unsigned i = 0; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        kept += find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) >= 0;
    }
    if (kept != now->n_waiters)
        sim_world_violation(world, "one waiter per request", "%u wait, %u ought to", now->n_waiters,
                            kept);
    take_waiters(model, now);
}

static void compare_cells(struct sim_world *world, const struct sim_seen *now)
{
    struct sim_model *model = &world->model;

    if (memcmp(&model->held, &now->held, sizeof(now->held)) == 0)
        return;
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                uint8_t ours = model->held.mode[f][c][o];
                uint8_t theirs = now->held.mode[f][c][o];

                if (theirs == ours)
                    continue;
                if (theirs > ours || !may_lose(world, o, f, c, theirs))
                    sim_world_violation(world, "the naive model agrees",
                                        "owner %u, file %u, cell %u: core %u, model %u", o, f, c,
                                        theirs, ours);
                model->held.mode[f][c][o] = theirs;
                model->shaky.mode[f][c][o] = SIM_EXCLUSIVE;
                model->fresh[f][c][o] = 0;
                sim_world_fault(world, SIM_FAULT_LAPSED);
            }
        }
    }
}

/*
 * After a failed commit whoever waited still waits, and whoever was granted by it may wait again;
 * nobody else.
 */
static void adopt_waiters(struct sim_world *world, const struct sim_seen *now)
{
    struct sim_model *model = &world->model;
    unsigned ring = model->n_granted < SIM_WAITERS ? model->n_granted : SIM_WAITERS;

    for (unsigned i = 0; i < model->n_waiters && !world->model.causes.restarted; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        if (find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) < 0 &&
            !holds_all(&now->held, w->owner, w->range))
            sim_world_violation(world, "no waiter is lost", "owner %u, by a failed commit",
                                w->owner);
    }
    for (unsigned i = 0; i < now->n_waiters; i++) {
        const struct sim_waiter *w = &now->waiters[i];

        if (find(model->waiters, model->n_waiters, w->owner, w->range, w->exclusive) < 0 &&
            find(model->granted, ring, w->owner, w->range, w->exclusive) < 0)
            sim_world_violation(world, "one waiter per request",
                                "owner %u waits again and never did before", w->owner);
    }
    take_waiters(model, now);
}

/*
 * "Memory goes back to what is durable" (SPEC section 5), and a start begins from it. Compared only
 * when nothing new is under way already, and not for hosts whose locks are never recorded.
 */
static void compare_with_disk(struct sim_world *world, const struct sim_seen *now)
{
    if (!world->config.durable || world->server.committing)
        return;
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                uint8_t disk = world->server.disk.mode[f][c][o];

                if (!world->hosts[o / SIM_PROCS].unmonitored && now->held.mode[f][c][o] != disk)
                    sim_world_violation(world, "after a failure memory is what is durable",
                                        "owner %u, file %u, cell %u: core %u, disk %u", o, f, c,
                                        now->held.mode[f][c][o], disk);
            }
        }
    }
}

/* CRS-01: what a client is granted while it is being released stays, so it must never become part
 * of what goes. A commit that fails may bring a lock back that was to go. */
static void check_kept(struct sim_world *world, const struct sim_seen *now)
{
    struct sim_model *model = &world->model;
    bool releasing[SIM_HOSTS] = {false};

    if (model->causes.restarted) /* what is not reclaimed may go */
        memset(&model->kept, 0, sizeof(model->kept));
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                bool doomed = now->doomed.mode[f][c][o] != SIM_FREE;

                releasing[o / SIM_PROCS] |= doomed;
                if (model->causes.rolled_back && now->unreclaimed.mode[f][c][o] != SIM_FREE)
                    model->kept.mode[f][c][o] = SIM_FREE; /* its reclaim was undone */
                if (!doomed || model->kept.mode[f][c][o] == SIM_FREE)
                    continue;
                if (!model->causes.rolled_back)
                    sim_world_violation(world, "what is granted during a release stays",
                                        "owner %u, file %u, cell %u", o, f, c);
                model->kept.mode[f][c][o] = SIM_FREE;
            }
        }
    }
    for (unsigned h = 0; h < SIM_HOSTS; h++) {
        if (!releasing[h])
            model->releasing[h] = 0;
    }
}

/* NLM-03: a place in a queue is never part of a circle that lasts, and no other one is given up.
 * Circles are looked for in slices; deadline 0 means that the next slice is due. */
static void check_circles(struct sim_world *world)
{
    const struct sim_model *model = &world->model;
    bool unfinished = hf_core_deadline(world->server.core) == 0;

    for (unsigned i = 1; i < model->n_waiters; i++) { /* the first is behind no other */
        const struct sim_waiter *w = &model->waiters[i];

        if (!unfinished && sim_predict_is_in_circle(model, i, true))
            sim_world_violation(world, "a place in a queue closes no circle",
                                "owner %u waits for itself, and only for its turn", w->owner);
        if (w->passes && !w->may_pass)
            sim_world_violation(world, "first in, first out", "owner %u passes without a reason",
                                w->owner);
    }
}

void sim_model_reconcile(struct sim_world *world)
{
    struct sim_model *model = &world->model;
    struct sim_seen *now = &world->scratch[0];

    sim_model_look(world, now);
    if (model->causes.restarted || model->causes.rolled_back) {
        compare_with_disk(world, now);
        adopt_waiters(world, now);
        model->held = now->held;
    } else {
        compare_waiters(world, now);
        compare_cells(world, now);
    }
    check_kept(world, now);
    note_circles(model);
    if (!model->causes.rolled_back && world->now_ms > model->redo_until_ms)
        check_circles(world);
    if (model->causes.rolled_back || world->heap.failed)
        model->redo_until_ms = world->now_ms + REDO_MS;
    if (!world->server.committing && world->now_ms > model->redo_until_ms) {
        memset(model->gone, 0, sizeof(model->gone));
        memset(model->refused, 0, sizeof(model->refused));
    }
    memset(model->gone_now, 0, sizeof(model->gone_now));
    memset(model->silent, 0, sizeof(model->silent));
    model->seen = *now;
}
