#include <string.h>

#include "cycles.h"
#include "world.h"

/* The core tries again after a second what the store or the heap refused (core.h). */
enum { REDO_MS = 1500 };

/* ------------------------------------------------------------------ why a lock may be gone */

/* True if a lock of the time before a restart, which was not reclaimed, may go: grace is over, or
 * its client could not be reached (GRC-03, NOT-03). */
static bool time_is_over(const struct sim_world *world, unsigned host)
{
    const struct sim_server *server = &world->server;

    return world->now_ms >= server->grace_until_ms ||
           (server->notices_failed[host] >= world->call_attempts && !world->config.keep_on_failure);
}

/*
 * True if there is a cause for which the server may take a lock from its owner without being asked
 * (SPEC sections 3 and 4). A client that still believes to hold it has not been deceived: it was
 * told, could not be reached, or did not answer.
 */
static bool may_lose(const struct sim_world *world, unsigned owner, unsigned f, unsigned c,
                     unsigned left)
{
    const struct sim_model *model = &world->model;
    unsigned host = owner / SIM_PROCS;
    struct sim_range cell = {(uint8_t)f, (uint8_t)c, (uint8_t)c};

    /* The host restarted or sent FREE_ALL (CRS-01, NLM-05): its locks go at once, or in slices. */
    if ((model->gone_now[host] && model->kept.mode[f][c][owner] == SIM_FREE) ||
        model->seen.releasing.mode[f][c][owner] != SIM_FREE)
        return true;
    /* The client refused the GRANTED callback, or the callback failed three times (section 3, last
     * paragraph): the granted lock goes, and what the owner held before stays. */
    if (model->refused[owner] && sim_range_overlaps(model->refused_range[owner], cell) &&
        left >= model->refused_had[owner][c])
        return true;
    return model->seen.unreclaimed.mode[f][c][owner] != SIM_FREE && time_is_over(world, host);
}

/* ------------------------------------------------------------------ what else has changed */

/* True if the callback began in the event that granted the waiter: then the grant waits for no
 * commit. */
static bool is_called(const struct sim_server *server, const struct sim_waiter *waiter)
{
    for (unsigned i = 0; i < SIM_CALLS_OUT; i++) {
        const struct sim_call_out *out = &server->calls[i];

        if (out->used && out->kind == HF_OUTCALL_GRANTED && out->owner == waiter->owner &&
            sim_range_equal(out->range, waiter->range))
            return true;
    }
    return false;
}

/* A grant reclaims what its owner had not reclaimed yet. */
static void claim_granted(struct sim_world *world, const struct sim_waiter *waiter)
{
    const struct sim_server *server = &world->server;
    uint64_t batch = hf_core_durable(server->core) + 1;

    if (is_called(server, waiter)) /* a grant whose callback is in flight waits for no commit */
        batch = 0;
    else if (server->committing) /* the batch taken in this event has the grant; without one, the
                                    next batch will have it */
        batch = server->committing->seq + (server->committing_since != world->stats.events);
    sim_model_claimed(&world->model, waiter->owner, waiter->range, batch);
}

static void remember_granted(struct sim_world *world, const struct sim_waiter *waiter)
{
    struct sim_model *model = &world->model;
    struct sim_waiter *granted = &model->granted[model->n_granted++ % SIM_WAITERS];

    *granted = *waiter;
    granted->over = is_called(&world->server, waiter);
    granted->batch = world->server.committing ? world->server.committing->seq + 1
                                              : hf_core_durable(world->server.core) + 1;
    sim_cycles_remember(model, waiter);
    claim_granted(world, waiter);
}

/* True if another waiter of the same owner is granted in the same event: what it gives the owner
 * may let this one pass, and the view does not show their order. */
static bool granted_with_another(const struct sim_model *model, unsigned place,
                                 const struct sim_seen *now)
{
    const struct sim_waiter *waiter = &model->waiters[place];

    for (unsigned i = 0; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        if (i != place && w->owner == waiter->owner && w->range.file == waiter->range.file &&
            sim_waiters_find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) < 0)
            return true;
    }
    return false;
}

/* True if the cell waits to be reclaimed when the event ends: it did before, or the owner has it
 * again because a grant was refused (seed 130046778: that let the owner's next waiter pass). */
static bool is_unclaimed(const struct sim_model *model, unsigned owner, struct sim_range cell)
{
    struct sim_range range = model->refused_range[owner];
    const struct sim_waiter *refused = model->refused_now[owner] && sim_range_overlaps(range, cell)
                                           ? sim_model_granted_last(model, owner, range)
                                           : NULL;

    return model->seen.unreclaimed.mode[cell.file][cell.first][owner] != SIM_FREE ||
           (refused && refused->unclaimed[cell.first]);
}

/* Notes what the owner already held of the range and did not lose in this event, which is what may
 * have made room. */
static void note_had(const struct sim_world *world, struct sim_waiter *waiter)
{
    struct sim_range range = waiter->range;

    for (unsigned c = range.first; c <= range.last; c++) {
        uint8_t mode = world->model.held.mode[range.file][c][waiter->owner];

        while (mode != SIM_FREE && may_lose(world, waiter->owner, range.file, c, mode - 1u))
            mode--;
        waiter->had[c] = mode;
        waiter->kept[c] = world->model.kept.mode[range.file][c][waiter->owner] != SIM_FREE;
        waiter->unrecorded[c] = world->unrecorded.mode[range.file][c][waiter->owner] != SIM_FREE;
        waiter->unclaimed[c] = is_unclaimed(&world->model, waiter->owner,
                                            (struct sim_range){range.file, (uint8_t)c, (uint8_t)c});
    }
}

/* A grant only adds. What the owner seems to have lost in this event it may have kept. */
static void add_grant(struct sim_model *model, const struct sim_waiter *waiter,
                      const struct sim_seen *now)
{
    struct sim_oracle before = model->held;
    struct sim_oracle kept = model->kept;
    unsigned owner = waiter->owner;
    uint8_t file = waiter->range.file;

    for (uint8_t c = waiter->range.first; c <= waiter->range.last; c++) {
        if (waiter->had[c] <
            before
                .mode[file][c][owner]) /* the owner lost the cell and got it again by this grant */
            sim_model_lapse(model, owner, (struct sim_range){file, c, c}, SIM_LAPSE_REGAINED);
    }
    sim_model_locked(model, owner, waiter->range, waiter->exclusive, waiter->state, 0);
    for (unsigned c = waiter->range.first; c <= waiter->range.last; c++) {
        if (waiter->had[c] == SIM_EXCLUSIVE || (before.mode[file][c][owner] == SIM_EXCLUSIVE &&
                                                now->held.mode[file][c][owner] == SIM_EXCLUSIVE))
            model->held.mode[file][c][owner] = SIM_EXCLUSIVE;
        if (waiter->old) /* the waiter asked before the notice came */
            model->kept.mode[file][c][owner] = kept.mode[file][c][owner];
    }
}

/* Grants a waiter of the model that the core no longer lists: its owner must have the lock now, and
 * no waiter ahead of it may have been overtaken. */
static void grant_waiter(struct sim_world *world, unsigned place, const struct sim_seen *now)
{
    struct sim_model *model = &world->model;
    struct sim_waiter waiter = model->waiters[place];
    bool one_of_several = granted_with_another(model, place, now);

    if (!sim_seen_has_lock(now, &waiter)) {
        unsigned host = waiter.owner / SIM_PROCS;

        if (model->silent[host] || model->gone[host])
            return; /* the host is silent or gone, so its waiter has left the queue */
        if (model->silent_early[host]) {
            sim_excuse(world, SIM_EXCUSE_SILENT_EARLY);
            return;
        }
        sim_world_violation(world, "no waiter is lost",
                            "owner %u was told BLOCKED and is forgotten", waiter.owner);
        return;
    }
    for (unsigned i = 0; i < place && !waiter.may_pass; i++) {
        if (sim_waiter_goes_first(&model->held, &model->waiters[i], waiter.owner, waiter.range,
                                  waiter.exclusive) &&
            sim_waiters_find(now->waiters, now->n_waiters, model->waiters[i].owner,
                             model->waiters[i].range, model->waiters[i].exclusive) >= 0) {
            /* The model notes this for grants of several waiters, too: when their commit fails,
             * this waiter passes again, and the next time perhaps without the others (seed
             * 70100938). */
            waiter.may_pass = sim_cycles_since(model, place, now);
            if (waiter.may_pass || one_of_several)
                break;
            sim_world_violation(world, "first in, first out", "owner %u overtook owner %u",
                                waiter.owner, model->waiters[i].owner);
        }
    }
    note_had(world, &waiter);
    add_grant(model, &waiter, now);
    /* No process wants the lock: this waiter is the rest of an old copy of a request, and its grant
     * will be refused. */
    for (uint8_t c = waiter.range.first; c <= waiter.range.last; c++) {
        if (!sim_model_is_wanted(world, waiter.owner, waiter.range) &&
            waiter.had[c] < (waiter.exclusive ? SIM_EXCLUSIVE : SIM_SHARED))
            sim_model_lapse(model, waiter.owner, (struct sim_range){waiter.range.file, c, c},
                            SIM_LAPSE_UNWANTED);
    }
    remember_granted(world, &waiter);
}

/* Takes over the core's list of waiters, and adds what only the model knows. */
static void take_waiters(struct sim_model *model, const struct sim_seen *now)
{
    struct sim_waiter waiters[SIM_WAITERS];

    memcpy(waiters, now->waiters, sizeof(waiters));
    for (unsigned i = 0; i < now->n_waiters; i++) {
        struct sim_waiter *w = &waiters[i];
        int place = sim_model_find_waiter(model, w->owner, w->range, w->exclusive);
        const struct sim_waiter *before =
            place >= 0 ? &model->waiters[place] : sim_model_granted_last(model, w->owner, w->range);

        /* The waiter may also be one that waits again, after a failed commit or a restart (seed
         * 1356). */
        w->may_pass = (before && before->may_pass) || sim_cycles_had(model, w->id);
        w->state = before ? before->state : 0;
        w->old = before && before->old;
        w->seq = place >= 0 ? before->seq : 0; /* a waiter that waits again was told so */
    }
    memcpy(model->waiters, waiters, sizeof(waiters));
    model->n_waiters = now->n_waiters;
}

static void compare_waiters(struct sim_world *world, const struct sim_seen *now)
{
    struct sim_model *model = &world->model;
    unsigned kept = 0;

    sim_cycles_note(model);
    if (model->n_waiters > now->n_waiters)
        sim_cycles_note_between(model, now);
    for (unsigned i = 0; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        if (sim_waiters_find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) < 0)
            grant_waiter(world, i, now);
    }
    for (unsigned i = 0; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        kept +=
            sim_waiters_find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) >= 0;
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
                model->shaky.mode[f][c][o] = SIM_LAPSE_TAKEN;
                model->fresh[f][c][o] = 0;
                sim_world_fault(world, SIM_FAULT_LAPSED);
            }
        }
    }
}

/*
 * After a failed commit, every waiter that was told BLOCKED still waits. One whose BLOCKED had to
 * wait for that commit (at the beginning of an epoch) is refused, and waits no longer.
 */
static void check_told(struct sim_world *world, const struct sim_seen *now)
{
    const struct sim_model *model = &world->model;
    uint64_t durable = hf_core_durable(world->server.core);

    for (unsigned i = 0; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];
        bool waits =
            sim_waiters_find(now->waiters, now->n_waiters, w->owner, w->range, w->exclusive) >= 0;

        if (w->seq > durable && waits)
            sim_world_violation(world, "what is refused leaves nothing behind",
                                "owner %u waits, and is told that it does not", w->owner);
        if (w->seq <= durable && !waits && !sim_oracle_holds_all(&now->held, w->owner, w->range))
            sim_world_violation(world, "no waiter is lost", "owner %u, by a failed commit",
                                w->owner);
    }
}

/* Reports a waiter that was lost: its process was told BLOCKED and waits, and its grant was undone.
 * It must wait again, even if another thread of the process has called the callback off meanwhile.
 */
static void check_undone(struct sim_world *world, const struct sim_seen *now)
{
    struct sim_model *model = &world->model;
    uint64_t durable = hf_core_durable(world->server.core);

    for (unsigned i = 0; i < SIM_WAITERS && i < model->n_granted; i++) {
        struct sim_waiter *w = &model->granted[i];

        if (w->batch > durable && w->seq <= durable && !w->over &&
            !model->gone[w->owner / SIM_PROCS] && !model->silent[w->owner / SIM_PROCS] &&
            !model->silent_early[w->owner / SIM_PROCS] &&
            sim_model_is_told_blocked(world, w->owner, w->range) &&
            !sim_oracle_holds_all(&now->held, w->owner, w->range) &&
            sim_waiters_find(now->waiters, now->n_waiters, w->owner, w->range, true) < 0 &&
            sim_waiters_find(now->waiters, now->n_waiters, w->owner, w->range, false) < 0)
            sim_world_violation(world, "no waiter is lost", "owner %u, whose grant was undone",
                                w->owner);
        w->over = true;
    }
}

/* Remembers the waiters that a start which continues has granted at once: they wait again if the
 * batch of the start fails (seed 130135513). */
static void remember_resumed(struct sim_world *world, const struct sim_seen *now)
{
    const struct sim_recorded *besides = &world->server.besides;

    for (unsigned i = 0; i < besides->n_waiters; i++) {
        struct sim_waiter w = besides->waiters[i];

        if (sim_waiters_find(now->waiters, now->n_waiters, w.owner, w.range, w.exclusive) >= 0 ||
            !sim_seen_has_lock(now, &w))
            continue;
        for (unsigned c = w.range.first; c <= w.range.last; c++)
            w.had[c] = world->server.disk.mode[w.range.file][c][w.owner];
        remember_granted(world, &w);
    }
}

/* After a failed commit, the waiters that it granted may wait again, and no others. */
static void adopt_waiters(struct sim_world *world, const struct sim_seen *now)
{
    struct sim_model *model = &world->model;
    unsigned ring = model->n_granted < SIM_WAITERS ? model->n_granted : SIM_WAITERS;

    if (!model->causes.restarted) {
        check_told(world, now);
        check_undone(world, now);
    } else if (world->server.continued) {
        remember_resumed(world, now);
    }
    for (unsigned i = 0; i < now->n_waiters; i++) {
        const struct sim_waiter *w = &now->waiters[i];

        if (model->causes.restarted &&
            sim_waiters_find(world->server.besides.waiters, world->server.besides.n_waiters,
                             w->owner, w->range, w->exclusive) >= 0)
            continue; /* the CANCEL was not durable, so the waiter is back */
        if (sim_waiters_find(model->waiters, model->n_waiters, w->owner, w->range, w->exclusive) <
                0 &&
            sim_waiters_find(model->granted, ring, w->owner, w->range, w->exclusive) < 0)
            sim_world_violation(world, "one waiter per request",
                                "owner %u waits again and never did before", w->owner);
    }
    take_waiters(model, now);
}

/* "Memory goes back to what is durable" (SPEC section 5), and a start begins from it. Memory and
 * disk are compared only when nothing new is in flight, and not for hosts whose locks are never
 * recorded. */
static void compare_with_disk(struct sim_world *world, const struct sim_seen *now)
{
    if (!world->config.durable || world->server.committing)
        return;
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                uint8_t disk = world->server.disk.mode[f][c][o];
                uint8_t held = now->held.mode[f][c][o];

                if (!world->hosts[o / SIM_PROCS].unmonitored && held != disk &&
                    (held < disk || world->config.mixed == 0 || world->model.causes.restarted))
                    sim_world_violation(world, "after a failure memory is what is durable",
                                        "owner %u, file %u, cell %u: core %u, disk %u", o, f, c,
                                        now->held.mode[f][c][o], disk);
            }
        }
    }
}

/* CRS-02: after a restart, what the newest life of a host took still belongs to it, reclaimed or
 * not, and no notice of this life may take it. Everything else may go. */
static void keep_newest_lives(struct sim_model *model, const struct sim_seen *now)
{
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                int32_t told = model->told[o / SIM_PROCS];

                if (told == 0 || model->life[f][c][o] != told ||
                    now->held.mode[f][c][o] == SIM_FREE)
                    model->kept.mode[f][c][o] = SIM_FREE;
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

    if (model->causes.restarted)
        keep_newest_lives(model, now);
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                bool goes = now->releasing.mode[f][c][o] != SIM_FREE;

                releasing[o / SIM_PROCS] |= goes;
                if (model->causes.rolled_back && model->notice[o / SIM_PROCS].pending)
                    /* The host holds again what it held before the release. */
                    model->kept.mode[f][c][o] = SIM_FREE;
                if (model->causes.rolled_back && now->unreclaimed.mode[f][c][o] != SIM_FREE)
                    model->kept.mode[f][c][o] = SIM_FREE; /* the host's reclaim was undone */
                if (!goes || model->kept.mode[f][c][o] == SIM_FREE)
                    continue;
                if (!model->causes.rolled_back && !(now->unreclaimed.mode[f][c][o] != SIM_FREE &&
                                                    time_is_over(world, o / SIM_PROCS)))
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

/* The client refused a grant, and has again what it had before. In the granted range nothing else
 * of its owner is in flight. */
static bool is_taken_back(const struct sim_seen *now, const struct sim_waiter *granted)
{
    struct sim_range range = granted->range;
    bool less = false;

    for (unsigned c = range.first; c <= range.last; c++) {
        if (now->held.mode[range.file][c][granted->owner] != granted->had[c])
            return false;
        less |= granted->had[c] < (granted->exclusive ? SIM_EXCLUSIVE : SIM_SHARED);
    }
    for (unsigned i = 0; i < now->n_granting; i++) {
        if (now->granting[i].owner == granted->owner &&
            sim_range_overlaps(now->granting[i].range, range))
            return false;
    }
    return less;
}

/* GRC-03: an owner that refuses a grant has not reclaimed what it had not reclaimed before the
 * grant. */
static void check_refused(struct sim_world *world, const struct sim_seen *now)
{
    struct sim_model *model = &world->model;

    for (unsigned o = 0; o < SIM_OWNERS; o++) {
        struct sim_range range = model->refused_range[o];
        const struct sim_waiter *granted =
            model->refused_now[o] ? sim_model_granted_last(model, o, range) : NULL;

        model->refused_now[o] = false;
        if (!granted || !is_taken_back(now, granted))
            continue;
        for (unsigned c = range.first; c <= range.last; c++) {
            if (!granted->kept[c]) /* what is left was granted before the notice came */
                model->kept.mode[range.file][c][o] = SIM_FREE;
            if (granted->unclaimed[c] && model->claimed[range.file][c][o] != 0) {
                model->reclaimed_by[range.file][c][o] = model->claimed[range.file][c][o];
                model->claimed[range.file][c][o] = 0;
            }
            if (now->grace && model->seen.grace && granted->unclaimed[c] &&
                now->unreclaimed.mode[range.file][c][o] == SIM_FREE)
                sim_world_violation(world, "a refused grant is no reclaim",
                                    "owner %u, file %u, cell %u", o, range.file, c);
        }
    }
}

/* After a start that continues, held locks need no batch of their own. */
static void count_anew(struct sim_model *model)
{
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++)
                model->fresh[f][c][o] = model->held.mode[f][c][o] != SIM_FREE;
        }
    }
    for (unsigned i = 0; i < model->n_waiters; i++)
        model->waiters[i].seq = 0;
}

/* The commit that the answer to a reclaim waited for has failed, so the reclaim is taken back. The
 * one exception is the last reclaim: it needs no record itself, ends grace, and waits for the
 * record of that. */
static uint64_t still_claimed(struct sim_world *world, const struct sim_seen *now, unsigned f,
                              unsigned c, unsigned o)
{
    if (now->grace || now->unreclaimed.mode[f][c][o] != SIM_FREE ||
        now->held.mode[f][c][o] == SIM_FREE || world->model.loaded.mode[f][c][o] == SIM_FREE)
        return 0;
    sim_excuse(world, SIM_EXCUSE_LAST_RECLAIM);
    return 1;
}

/* A start and SM_SIMU_CRASH begin with what is recorded; a failed commit undoes the reclaims that
 * it was to record. */
static void follow_claims(struct sim_world *world, const struct sim_seen *now)
{
    struct sim_model *model = &world->model;
    uint64_t durable = hf_core_durable(world->server.core);

    if (model->causes.restarted) {
        memset(model->claimed, 0, sizeof(model->claimed));
        memset(model->reclaimed_by, 0, sizeof(model->reclaimed_by));
        memset(&model->loaded, 0, sizeof(model->loaded));
        if (now->grace)
            model->loaded = now->held;
    }
    if (!model->causes.rolled_back)
        return;
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                if (model->claimed[f][c][o] > durable + 1)
                    model->claimed[f][c][o] = still_claimed(world, now, f, c, o);
                if (model->claimed[f][c][o] == 0 && now->unreclaimed.mode[f][c][o] == SIM_FREE &&
                    model->reclaimed_by[f][c][o] <= durable + 1)
                    model->claimed[f][c][o] = model->reclaimed_by[f][c][o];
                /* The lock went before SM_SIMU_CRASH. A unit test checks that it has to be
                 * reclaimed: here a lock that was granted in this epoch may come back as well. */
                if (now->grace && model->claimed[f][c][o] == 0 &&
                    now->unreclaimed.mode[f][c][o] != SIM_FREE &&
                    world->server.disk.mode[f][c][o] != SIM_FREE)
                    model->loaded.mode[f][c][o] = now->held.mode[f][c][o];
            }
        }
    }
}

/* The other checks ask the core's view which locks wait to be reclaimed, so this one checks the
 * view: it follows from what was recorded at the start, and what was granted since. */
static void check_unreclaimed(struct sim_world *world, const struct sim_seen *now)
{
    const struct sim_model *model = &world->model;

    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                bool ours = model->loaded.mode[f][c][o] != SIM_FREE && model->claimed[f][c][o] == 0;
                bool theirs = now->unreclaimed.mode[f][c][o] != SIM_FREE;

                if (now->held.mode[f][c][o] != SIM_FREE && ours != theirs)
                    sim_world_violation(world, "what was reclaimed is known",
                                        "owner %u, file %u, cell %u: core %d, model %d", o, f, c,
                                        theirs, ours);
            }
        }
    }
}

/* Checks that each release has a cause and is carried to its end. */
static void check_releasing(struct sim_world *world, const struct sim_seen *now)
{
    const struct sim_model *model = &world->model;

    if (model->causes.restarted || model->causes.rolled_back)
        return;
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                bool before = model->seen.releasing.mode[f][c][o] != SIM_FREE;
                bool goes = now->releasing.mode[f][c][o] != SIM_FREE;
                unsigned h = o / SIM_PROCS;

                if (goes && !before && !model->gone[h] &&
                    !(now->unreclaimed.mode[f][c][o] != SIM_FREE && time_is_over(world, h)))
                    sim_world_violation(world, "nothing is released without a cause",
                                        "owner %u, file %u, cell %u", o, f, c);
                if (before && !goes && now->held.mode[f][c][o] != SIM_FREE &&
                    model->kept.mode[f][c][o] == SIM_FREE)
                    sim_world_violation(world, "a release is finished",
                                        "owner %u, file %u, cell %u stays", o, f, c);
            }
        }
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
        if (model->causes.restarted && world->server.continued)
            count_anew(model);
    } else {
        compare_waiters(world, now);
        compare_cells(world, now);
    }
    follow_claims(world, now);
    check_kept(world, now);
    check_refused(world, now);
    check_unreclaimed(world, now);
    check_releasing(world, now);
    sim_cycles_note(model);
    for (unsigned i = 0; i < model->n_waiters; i++)
        sim_cycles_remember(model, &model->waiters[i]);
    if (!model->causes.rolled_back && world->now_ms > model->redo_until_ms)
        sim_cycles_check(world);
    if (model->causes.rolled_back || world->heap.failed)
        model->redo_until_ms = world->now_ms + REDO_MS;
    if (!world->server.committing && world->now_ms > model->redo_until_ms) {
        memset(model->gone, 0, sizeof(model->gone));
        memset(model->refused, 0, sizeof(model->refused));
    }
    memset(model->gone_now, 0, sizeof(model->gone_now));
    memset(model->silent, 0, sizeof(model->silent));
    memset(model->silent_early, 0, sizeof(model->silent_early));
    model->seen = *now;
}
