#include "predict.h"

#include "world.h"

enum {
    GRANTED = SIM_STAT_BIT(HF_STAT_GRANTED),
    DENIED = SIM_STAT_BIT(HF_STAT_DENIED),
    NOLOCKS = SIM_STAT_BIT(HF_STAT_DENIED_NOLOCKS),
    BLOCKED = SIM_STAT_BIT(HF_STAT_BLOCKED),
    GRACE = SIM_STAT_BIT(HF_STAT_DENIED_GRACE_PERIOD),
    DEADLCK = SIM_STAT_BIT(HF_STAT_DEADLCK),
    TIGHT = 50, /* a world of this size may reach a configured limit below this */
};

bool sim_predict_is_tight(const struct sim_config *c)
{
    return c->max_locks < TIGHT || c->max_locks_per_client < TIGHT ||
           c->max_locks_per_file < TIGHT || c->max_locks_per_host < TIGHT || c->max_waiters < TIGHT;
}

struct sim_counts sim_predict_count(const struct sim_seen *seen, unsigned host, unsigned file)
{
    struct sim_counts n = {.in_all = seen->n_waiters + seen->n_shares,
                           .of_host = seen->locks_of_host[host],
                           .of_file = seen->locks_of_file[file]};

    for (unsigned h = 0; h < SIM_HOSTS; h++)
        n.in_all += seen->locks_of_host[h];
    for (unsigned i = 0; i < seen->n_waiters; i++) {
        n.of_host += seen->waiters[i].owner / SIM_PROCS == host;
        n.waiting += seen->waiters[i].range.file == file;
    }
    for (unsigned i = 0; i < seen->n_shares; i++) {
        n.of_host += seen->shares[i].owner / SIM_PROCS == host;
        n.of_file += seen->shares[i].file == file;
    }
    return n;
}

bool sim_predict_is_near_limit(const struct sim_world *world, unsigned host, unsigned file,
                               unsigned growth)
{
    const struct sim_config *c = &world->config;
    struct sim_counts n = sim_predict_count(&world->model.seen, host, file);

    return n.in_all + growth > c->max_locks || n.of_host + growth > c->max_locks_per_client ||
           n.of_host + growth > c->max_locks_per_host ||
           n.of_file + growth > c->max_locks_per_file || n.waiting + 1 > c->max_waiters;
}

bool sim_predict_is_client_refused(const struct sim_world *world, unsigned host)
{
    const struct sim_seen *seen = &world->model.seen;
    bool known = seen->locks_of_host[host] > 0;

    for (unsigned i = 0; i < seen->n_waiters && !known; i++)
        known = seen->waiters[i].owner / SIM_PROCS == host;
    for (unsigned i = 0; i < seen->n_shares && !known; i++)
        known = seen->shares[i].owner / SIM_PROCS == host;
    return !known && seen->n_clients >= world->config.max_clients;
}

/* True if a single lock has exactly this range, so that a LOCK of the range in either mode leaves
 * the number of locks as it is. */
static bool is_one_lock(const struct sim_seen *seen, unsigned owner, struct sim_range range)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        uint8_t begins = seen->edges[range.file][c][owner] & SIM_BEGINS;
        uint8_t ends = seen->edges[range.file][c][owner] & SIM_ENDS;

        if (seen->held.mode[range.file][c][owner] == SIM_FREE ||
            (begins != 0) != (c == range.first) || (ends != 0) != (c == range.last))
            return false;
    }
    return sim_oracle_holds(&seen->releasing, owner, range, SIM_FREE);
}

/* By how many records a LOCK of the range changes one record of the owner. Records of the same mode
 * that the range overlaps or touches may become one with it; different lives can forbid that. */
static int change_of(const struct sim_seen *seen, unsigned owner, struct sim_range record,
                     const struct sim_message *r)
{
    enum sim_mode mode = r->exclusive ? SIM_EXCLUSIVE : SIM_SHARED;
    bool alike = seen->held.mode[record.file][record.first][owner] == mode;

    if (record.first > r->range.last + 1 || record.last + 1 < r->range.first)
        return 0;
    if (alike || seen->releasing.mode[record.file][record.first][owner] != SIM_FREE)
        return -1;
    if (!sim_range_overlaps(record, r->range))
        return 0;
    return (record.first < r->range.first) + (record.last > r->range.last) - 1;
}

/* By how many records the owner's locks grow with a LOCK, at least. */
static int growth_of(const struct sim_seen *seen, const struct sim_message *r)
{
    unsigned owner = sim_owner(r->host, r->proc);
    struct sim_range record = {.file = r->range.file};
    int growth = 1;

    for (uint8_t c = 0; c < SIM_CELLS; c++) {
        uint8_t edges = seen->edges[record.file][c][owner];

        if (edges & SIM_BEGINS)
            record.first = c;
        record.last = c;
        if (edges & SIM_ENDS)
            growth += change_of(seen, owner, record, r);
    }
    return growth;
}

/* SPEC section 4: no limit on locks refuses an upgrade, even one that has to wait, as long as its
 * owner has fewer waiters than locks; the limits on waiters hold for every request. lenient:
 * waiters that are being told of their grant do not count, which the rule leaves open. */
static bool may_wait_beyond(const struct sim_world *world, const struct sim_message *r,
                            bool lenient)
{
    const struct sim_seen *seen = &world->model.seen;
    unsigned owner = sim_owner(r->host, r->proc);
    unsigned of_owner = 0;
    unsigned of_file = 0;

    for (unsigned i = 0; i < seen->n_granting && !lenient; i++)
        of_owner += seen->granting[i].owner == owner;
    for (unsigned i = 0; i < seen->n_waiters; i++) {
        of_owner += seen->waiters[i].owner == owner;
        of_file += seen->waiters[i].range.file == r->range.file;
    }
    return of_owner < seen->locks_of_owner[owner] && of_file < world->config.max_waiters;
}

static bool is_upgrade(const struct sim_world *world, const struct sim_message *r)
{
    return r->proc < SIM_PROCS && r->named == r->host &&
           is_one_lock(&world->model.seen, sim_owner(r->host, r->proc), r->range) &&
           may_wait_beyond(world, r, false);
}

bool sim_predict_may_be_beyond(const struct sim_world *world, const struct sim_message *r)
{
    return r->proc < SIM_PROCS && r->named == r->host && growth_of(&world->model.seen, r) <= 0 &&
           may_wait_beyond(world, r, true);
}

/* Limits are the only reason to refuse for want of room, besides an allocation that failed just
 * now (door.c). A TEST, an UNLOCK and a reclaim need no room. */
static unsigned no_room(const struct sim_world *world, const struct sim_message *r)
{
    bool locks = r->call == SIM_CALL_LOCK || r->call == SIM_CALL_NM_LOCK;

    if (!locks && r->call != SIM_CALL_SHARE)
        return 0;
    if (sim_predict_is_client_refused(world, r->host))
        return NOLOCKS;
    return !(locks && (r->reclaim || is_upgrade(world, r))) &&
                   sim_predict_is_near_limit(world, r->host, r->range.file, SIM_GROWTH)
               ? NOLOCKS
               : 0;
}

/* Predicts the answer to a TEST. In grace, a server that records no locks does not know what is
 * held (SPEC section 5), and one that lost some knows only the conflicting locks that it still has
 * (DUR-02). */
static unsigned predict_test(const struct sim_world *world, const struct sim_message *r)
{
    if (world->model.seen.grace && !world->config.durable)
        return GRACE;
    if (sim_oracle_conflict(&world->model.held, sim_owner(r->host, r->proc), r->range,
                            r->exclusive) >= 0)
        return DENIED;
    return world->model.seen.grace && sim_server_is_blind(world) ? GRACE : GRANTED;
}

/* The owners (as bits) whose held locks conflict with a request. */
static uint32_t holders(const struct sim_model *model, unsigned owner, struct sim_range range,
                        bool exclusive)
{
    uint32_t mask = 0;

    for (unsigned other = 0; other < SIM_OWNERS; other++) {
        for (unsigned c = range.first; c <= range.last && other != owner; c++) {
            uint8_t mode = model->held.mode[range.file][c][other];

            if (mode == SIM_EXCLUSIVE || (mode == SIM_SHARED && exclusive))
                mask |= 1u << other;
        }
    }
    return mask;
}

/* The owners (as bits) of those of the first `ahead` waiters behind which a request queues. */
static uint32_t queued(const struct sim_model *model, unsigned owner, struct sim_range range,
                       bool exclusive, unsigned ahead)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < ahead; i++) {
        if (sim_waiter_goes_first(&model->held, &model->waiters[i], owner, range, exclusive))
            mask |= 1u << model->waiters[i].owner;
    }
    return mask;
}

enum edges { LOCKS, LOCKS_AND_PLACES, LOCKS_AND_ALL_PLACES };

/* True if the place of waiter i counts as an edge: either all places do, or only those of waiters
 * that may not pass. */
static uint32_t places(const struct sim_model *model, unsigned i, enum edges edges)
{
    const struct sim_waiter *w = &model->waiters[i];

    if (edges == LOCKS || (edges == LOCKS_AND_PLACES && w->passes))
        return 0;
    return queued(model, w->owner, w->range, w->exclusive, i);
}

/* Follows "waits for" from the given owners until nothing new is found (NLM-06). */
static bool reaches(const struct sim_model *model, uint32_t mask, unsigned target, enum edges edges)
{
    uint32_t before;

    do {
        before = mask;
        for (unsigned i = 0; i < model->n_waiters; i++) {
            const struct sim_waiter *w = &model->waiters[i];

            if (mask & 1u << w->owner)
                mask |= holders(model, w->owner, w->range, w->exclusive) | places(model, i, edges);
        }
    } while (mask != before);
    return mask & 1u << target;
}

bool sim_predict_is_in_cycle(const struct sim_model *model, unsigned place, bool as_it_is)
{
    enum edges edges = as_it_is ? LOCKS_AND_PLACES : LOCKS_AND_ALL_PLACES;
    uint32_t mask = places(model, place, edges);

    return mask != 0 && reaches(model, mask, model->waiters[place].owner, edges);
}

bool sim_predict_covers(const struct sim_oracle *held, unsigned owner, struct sim_range range,
                        bool exclusive)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (held->mode[range.file][c][owner] < (exclusive ? SIM_EXCLUSIVE : SIM_SHARED))
            return false;
    }
    return true;
}

/* True if something in the range is being released: it is in the way of other owners, but not of
 * its own. */
static bool is_releasing(const struct sim_model *model, unsigned owner, struct sim_range range)
{
    return !sim_oracle_holds(&model->seen.releasing, owner, range, SIM_FREE);
}

static unsigned predict_reclaim(const struct sim_world *world, const struct sim_message *r)
{
    const struct sim_model *model = &world->model;
    unsigned owner = sim_owner(r->host, r->proc);

    if (r->proc >= SIM_PROCS) /* the liar of work.c holds nothing */
        return model->seen.grace ? DENIED : GRACE;
    if (is_releasing(model, owner, r->range))
        return !model->seen.grace ? GRACE : sim_server_is_blind(world) ? DENIED | GRANTED : DENIED;
    if (!model->seen.grace) /* "GRANTED if that owner still holds it" (outside grace) */
        return sim_predict_covers(&model->held, owner, r->range, r->exclusive) ? GRANTED : GRACE;
    if (world->config.durable && sim_predict_covers(&model->held, owner, r->range, r->exclusive))
        return GRANTED; /* GRC-02 */
    if (!sim_server_is_blind(world))
        return DENIED;
    /* Reclaims are checked per client: denied if they conflict, or if the client was not registered
     * before the restart, which the model does not track. Another check looks whether a rightful
     * one is granted. */
    return sim_oracle_conflict(&model->held, owner, r->range, r->exclusive) < 0 ? GRANTED | DENIED
                                                                                : DENIED;
}

/* Predicts a denial. In conflict mode an unreclaimed lock makes it DENIED_GRACE_PERIOD during
 * grace. */
static unsigned predict_denied(const struct sim_world *world, const struct sim_message *r)
{
    const struct sim_model *model = &world->model;

    if (sim_oracle_conflict(&model->seen.unreclaimed, sim_owner(r->host, r->proc), r->range,
                            r->exclusive) < 0)
        return DENIED;
    return GRACE | DENIED; /* an unreclaimed lock may conflict as well, so both answers are true */
}

/* NLM-03 and NLM-06: only held locks deny a request, and only a cycle of held locks is a deadlock.
 * A waiting request keeps its turn, unless that would close a cycle. */
static unsigned predict_new_lock(const struct sim_world *world, const struct sim_message *r)
{
    const struct sim_model *model = &world->model;
    unsigned owner = sim_owner(r->host, r->proc);
    uint32_t in_the_way = holders(model, owner, r->range, r->exclusive);
    uint32_t ahead = queued(model, owner, r->range, r->exclusive, model->n_waiters);

    if (!r->block)
        return in_the_way ? predict_denied(world, r) : GRANTED;
    if (in_the_way)
        return reaches(model, in_the_way, owner, LOCKS) ? DEADLCK : BLOCKED;
    return ahead && !reaches(model, ahead, owner, LOCKS_AND_PLACES) ? BLOCKED : GRANTED;
}

static unsigned predict_lock(const struct sim_world *world, const struct sim_message *r)
{
    const struct sim_model *model = &world->model;
    unsigned owner = sim_owner(r->host, r->proc);

    if (!is_releasing(model, owner, r->range) &&
        sim_oracle_holds(&model->held, owner, r->range, r->exclusive ? SIM_EXCLUSIVE : SIM_SHARED))
        return GRANTED |
               (model->seen.grace ? GRACE : 0); /* in grace the server may know the old or the new
                                                   lock, and both answers are true */
    if (model->seen.grace && (!world->config.conflict_mode || sim_server_is_blind(world)))
        return GRACE;
    if (r->block && sim_model_find_waiter(model, owner, r->range, r->exclusive) >= 0)
        /* The owner has asked before: the request keeps its place, unless a cycle of held locks has
         * closed since. */
        return reaches(model, holders(model, owner, r->range, r->exclusive), owner, LOCKS)
                   ? DEADLCK
                   : BLOCKED;
    return predict_new_lock(world, r);
}

static unsigned predict_cancel(const struct sim_world *world, const struct sim_message *r)
{
    const struct sim_model *model = &world->model;
    unsigned owner = sim_owner(r->host, r->proc);

    if (sim_model_find_waiter(model, owner, r->range, r->exclusive) >= 0 ||
        is_releasing(model, owner, r->range))
        return GRANTED;
    if (sim_oracle_holds(&model->held, owner, r->range, r->exclusive ? SIM_EXCLUSIVE : SIM_SHARED))
        return DENIED;
    if (sim_oracle_holds(&model->held, owner, r->range, SIM_FREE))
        return GRANTED;
    return GRANTED |
           DENIED; /* the owner holds a part, or the other mode: the rule's "it" can mean both */
}

/* SHARE: compares what one owner wants with what others deny, and the reverse (X/Open XNFS, 10.3).
 * In grace only reclaims are granted, and they are checked against the shares reclaimed before. */
static unsigned predict_share(const struct sim_world *world, const struct sim_message *r)
{
    const struct sim_seen *seen = &world->model.seen;
    unsigned owner = sim_owner(r->host, r->proc);

    if (seen->grace && !r->reclaim)
        return GRACE;
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
    unsigned open = no_room(world, r);
    bool false_name = r->named != r->host;

    switch (r->call) {
    case SIM_CALL_TEST:
        return open | predict_test(world, r);
    case SIM_CALL_LOCK:
    case SIM_CALL_NM_LOCK:
        return open | (r->reclaim ? predict_reclaim(world, r) : predict_lock(world, r));
    case SIM_CALL_CANCEL:
        return open | (false_name ? GRANTED : predict_cancel(world, r));
    case SIM_CALL_SHARE:
        return open | predict_share(world, r);
    case SIM_CALL_UNSHARE:
        return GRANTED | open;
    default:
        return GRANTED | open;
    }
}
