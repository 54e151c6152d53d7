#include "model.h"

#include <string.h>

#include "predict.h"
#include "world.h"

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

/* Notes which life of its client a lock belongs to: the one whose state number the LOCK told. Where
 * the owner holds something by a LOCK that told another number, both may have become one lock, and
 * the rules leave open to which life that belongs. */
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

/* True if a request is delayed: it told another state than the notice that came before it. */
static bool is_of_an_old_life(const struct sim_model *model, unsigned host, int32_t state)
{
    const struct sim_notice *notice = &model->notice[host];

    return notice->pending && state != 0 && state != notice->claimed;
}

void sim_model_locked(struct sim_model *model, unsigned owner, struct sim_range range,
                      bool exclusive, int32_t state, uint64_t seq)
{
    set_life(model, owner, range, state);
    sim_oracle_set(&model->held, owner, range, exclusive ? SIM_EXCLUSIVE : SIM_SHARED);
    if (!is_of_an_old_life(model, owner / SIM_PROCS, state))
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

void sim_model_claimed(struct sim_model *model, unsigned owner, struct sim_range range,
                       uint64_t seq)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (model->claimed[range.file][c][owner] == 0)
            model->claimed[range.file][c][owner] = seq + 1;
    }
}

void sim_model_claimed_by_lock(struct sim_model *model, unsigned owner, struct sim_range range,
                               uint64_t seq)
{
    sim_model_claimed(model, owner, range, seq);
    for (unsigned i = 0; i < SIM_WAITERS; i++) {
        struct sim_waiter *w = &model->granted[i];

        for (unsigned c = range.first; c <= range.last; c++)
            w->unclaimed[c] &= w->owner != owner || w->range.file != range.file;
    }
}

void sim_model_claim_told(struct sim_model *model, unsigned owner, struct sim_range range)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (model->claimed[range.file][c][owner] != 0)
            model->claimed[range.file][c][owner] = 1;
    }
}

int sim_waiters_find(const struct sim_waiter *waiters, unsigned n, unsigned owner,
                     struct sim_range range, bool exclusive)
{
    for (unsigned i = 0; i < n; i++) {
        if (waiters[i].owner == owner && waiters[i].exclusive == exclusive &&
            sim_range_equal(waiters[i].range, range))
            return (int)i;
    }
    return -1;
}

int sim_model_find_waiter(const struct sim_model *model, unsigned owner, struct sim_range range,
                          bool exclusive)
{
    return sim_waiters_find(model->waiters, model->n_waiters, owner, range, exclusive);
}

bool sim_model_is_granting(const struct sim_model *model, unsigned owner, struct sim_range range)
{
    const struct sim_seen *seen = &model->seen;

    return sim_waiters_find(seen->granting, seen->n_granting, owner, range, false) >= 0 ||
           sim_waiters_find(seen->granting, seen->n_granting, owner, range, true) >= 0;
}

int sim_model_find_repeated(const struct sim_model *model, unsigned owner, struct sim_range range,
                            bool exclusive)
{
    int place = sim_model_find_waiter(model, owner, range, true);

    return place >= 0 || exclusive ? place : sim_model_find_waiter(model, owner, range, false);
}

/* Adds a waiter. An owner has one waiter for each range, in the strongest mode: a request in a
 * stronger mode replaces the weaker one, at the end of the queue. */
void sim_model_waits(struct sim_model *model, unsigned owner, struct sim_range range,
                     bool exclusive, int32_t state, uint64_t seq)
{
    int place = sim_model_find_repeated(model, owner, range, exclusive);
    int weaker = exclusive ? sim_model_find_waiter(model, owner, range, false) : -1;

    if (weaker >= 0) {
        seq = model->waiters[weaker].seq;
        if (state == 0)
            state = model->waiters[weaker].state;
        sim_model_remove_waiter(model, (unsigned)weaker);
    }

    if (place >= 0 && state != 0)
        /* The waiter has the state that its latest request told. */
        model->waiters[place].state = state;
    if (place >= 0 && !is_of_an_old_life(model, owner / SIM_PROCS, state))
        model->waiters[place].old = false;
    if (place >= 0 && seq < model->waiters[place].seq)
        model->waiters[place].seq = seq; /* the batch of the first request that is told BLOCKED */
    if (place >= 0 || model->n_waiters == SIM_WAITERS)
        return;
    model->waiters[model->n_waiters++] = (struct sim_waiter){.owner = (uint8_t)owner,
                                                             .exclusive = exclusive,
                                                             .range = range,
                                                             .state = state,
                                                             .seq = seq};
}

void sim_model_remove_waiter(struct sim_model *model, unsigned place)
{
    model->n_waiters--;
    memmove(&model->waiters[place], &model->waiters[place + 1],
            (model->n_waiters - place) * sizeof(model->waiters[0]));
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
           !sim_oracle_holds_all(held, owner, range);
}

void sim_model_lapse(struct sim_model *model, unsigned owner, struct sim_range range,
                     enum sim_lapse why)
{
    for (unsigned c = range.first; c <= range.last; c++)
        model->shaky.mode[range.file][c][owner] = (uint8_t)why;
    set_fresh(model, owner, range, 0);
}

static void lapse_host(struct sim_model *model, unsigned host)
{
    for (unsigned p = 0; p < SIM_PROCS; p++) {
        for (uint8_t f = 0; f < SIM_FILES; f++)
            sim_model_lapse(model, sim_owner(host, p), (struct sim_range){f, 0, SIM_CELLS - 1},
                            SIM_LAPSE_HOST_GONE);
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

void sim_model_host_notified(struct sim_model *model, unsigned host, int32_t claimed)
{
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = sim_owner(host, 0); o < sim_owner(host + 1, 0); o++) {
                if (model->life[f][c][o] != claimed)
                    model->kept.mode[f][c][o] = SIM_FREE;
            }
        }
    }
    /* A request that told the claimed state is one of the new life (seed 130016830). */
    for (unsigned i = 0; i < model->n_waiters; i++)
        model->waiters[i].old |=
            model->waiters[i].owner / SIM_PROCS == host && model->waiters[i].state != claimed;
}

void sim_model_host_verified(struct sim_model *model, unsigned host)
{
    model->gone[host] = model->gone_now[host] = true;
    model->releasing[host] = 0;
    for (uint8_t f = 0; f < SIM_FILES; f++) {
        for (uint8_t c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = sim_owner(host, 0); o < sim_owner(host + 1, 0); o++) {
                if (model->kept.mode[f][c][o] == SIM_FREE)
                    sim_model_lapse(model, o, (struct sim_range){f, c, c}, SIM_LAPSE_VERIFIED);
            }
        }
    }
}

bool sim_model_has_life(const struct sim_model *model, unsigned host, int32_t state)
{
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = sim_owner(host, 0); o < sim_owner(host + 1, 0); o++) {
                if (model->held.mode[f][c][o] != SIM_FREE && model->life[f][c][o] == state)
                    return true;
            }
        }
    }
    return false;
}

void sim_model_life_gone(struct sim_model *model, unsigned host, int32_t state)
{
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = sim_owner(host, 0); o < sim_owner(host + 1, 0); o++) {
                /* After our restart a part that was split off counts for a later life, and goes
                 * with grace if it is not reclaimed (core/clients/clients.h; seed 92022162). */
                if (model->life[f][c][o] == state &&
                    model->seen.unreclaimed.mode[f][c][o] == SIM_FREE)
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

bool sim_seen_has_lock(const struct sim_seen *now, const struct sim_waiter *waiter)
{
    return sim_predict_covers(&now->held, waiter->owner, waiter->range, waiter->exclusive) &&
           sim_oracle_holds(&now->releasing, waiter->owner, waiter->range, SIM_FREE);
}

const struct sim_waiter *sim_model_granted_last(const struct sim_model *model, unsigned owner,
                                                struct sim_range range)
{
    for (unsigned n = model->n_granted; n > 0 && n + SIM_WAITERS > model->n_granted; n--) {
        const struct sim_waiter *w = &model->granted[(n - 1) % SIM_WAITERS];

        if (w->owner == owner && sim_range_equal(w->range, range))
            return w;
    }
    return NULL;
}

void sim_model_grants_over(struct sim_model *model, unsigned owner, struct sim_range range)
{
    for (unsigned i = 0; i < SIM_WAITERS; i++) {
        struct sim_waiter *w = &model->granted[i];

        w->over |= w->owner == owner && sim_range_overlaps(w->range, range);
    }
}

void sim_model_refused(struct sim_world *world, unsigned owner, struct sim_range range)
{
    struct sim_model *model = &world->model;
    const struct sim_waiter *granted = sim_model_granted_last(model, owner, range);

    model->refused[owner] = model->refused_now[owner] = true;
    model->refused_range[owner] = range;
    memset(model->refused_had[owner], 0, sizeof(model->refused_had[owner]));
    for (unsigned c = 0; granted && c < SIM_CELLS; c++) {
        if (model->seen.grace || !granted->unclaimed[c])
            model->refused_had[owner][c] = granted->had[c];
        if (granted->had[c] != SIM_FREE && granted->unrecorded[c])
            world->unrecorded.mode[range.file][c][owner] = SIM_EXCLUSIVE;
    }
}

/* Finds a process or thread of the owner that waits for this range; NULL if there is none. */
static const struct sim_process *find_waiting(const struct sim_world *world, unsigned owner,
                                              struct sim_range range, unsigned *place)
{
    const struct sim_host *host = &world->hosts[owner / SIM_PROCS];

    for (unsigned p = 0; p < SIM_PROCS && host->up; p++) {
        const struct sim_process *process = &host->procs[p];

        *place = sim_owner(owner / SIM_PROCS, p);
        if (sim_svid(host, p) == owner % SIM_PROCS && process->listed &&
            sim_range_equal(process->want.range, range))
            return process;
    }
    return NULL;
}

bool sim_model_is_wanted(const struct sim_world *world, unsigned owner, struct sim_range range)
{
    unsigned place;

    return find_waiting(world, owner, range, &place) != NULL;
}

bool sim_model_is_told_blocked(const struct sim_world *world, unsigned owner,
                               struct sim_range range)
{
    unsigned place;
    const struct sim_process *process = find_waiting(world, owner, range, &place);

    return process && process->phase == SIM_WAITING;
}

bool sim_model_is_recorded(const struct sim_world *world, unsigned owner, struct sim_range range)
{
    unsigned place;
    const struct sim_process *process = find_waiting(world, owner, range, &place);

    return process && process->want.call == SIM_CALL_LOCK &&
           world->model.locked_op[place] == process->op;
}
