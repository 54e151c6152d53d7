#include "invariants.h"

#include <string.h>

#include "predict.h"
#include "world.h"

/* ------------------------------------------------------------------ holders and beliefs */

/* Finds a cell of which two owners hold locks, one of them exclusive. *a is -1 if there is none. */
static void find_conflict(const struct sim_oracle *oracle, const struct sim_oracle *except, int *a,
                          int *b)
{
    *a = *b = -1;
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            int shared = -1;
            int exclusive = -1;

            if (sim_cell_is_free(oracle->mode[f][c]))
                continue;
            for (int o = 0; o < SIM_OWNERS; o++) {
                uint8_t mode = oracle->mode[f][c][o];

                if (mode == SIM_FREE || (except && except->mode[f][c][o] != SIM_FREE))
                    continue;
                if (exclusive >= 0 || (mode == SIM_EXCLUSIVE && shared >= 0)) {
                    *a = exclusive >= 0 ? exclusive : shared;
                    *b = o;
                    return;
                }
                if (mode == SIM_EXCLUSIVE)
                    exclusive = o;
                else
                    shared = o;
            }
        }
    }
}

static void check_conflicts(struct sim_world *world)
{
    int a;
    int b;

    if (world->model.causes.server_event) {
        find_conflict(&world->model.held, NULL, &a, &b);
        if (a >= 0)
            sim_world_violation(world, "no two conflicting holders", "owners %d and %d", a, b);
    }
    find_conflict(&world->believed, &world->model.shaky, &a, &b);
    if (a >= 0)
        sim_world_violation(world, "no two conflicting received grants", "owners %d and %d", a, b);
}

/* True if a lock that is not recorded can still be reclaimed: it comes back in no other way. Until
 * grace is over the server need not know of it, as long as no other owner can take the cell. */
static bool waits_for_reclaim(struct sim_world *world, unsigned owner, unsigned f, unsigned c)
{
    struct sim_server *server = &world->server;
    unsigned host = owner / SIM_PROCS;

    bool unreachable =
        server->notices_failed[host] >= world->call_attempts && !world->config.keep_on_failure;

    if (world->config.durable && server->lost.mode[f][c][owner] == SIM_FREE)
        return false;
    if (world->model.seen.grace && !unreachable)
        return true;
    if (world->now_ms < server->grace_until_ms && !unreachable)
        return false; /* there ought to be grace, so nothing may lapse */
    world->model.shaky.mode[f][c][owner] = SIM_LAPSE_UNRECLAIMED;
    sim_world_fault(world, SIM_FAULT_LAPSED);
    return true;
}

static void check_belief(struct sim_world *world, unsigned o, unsigned f, unsigned c)
{
    uint8_t mode = world->believed.mode[f][c][o];
    unsigned host = o / SIM_PROCS;

    if (world->server.core && world->model.held.mode[f][c][o] < mode &&
        !waits_for_reclaim(world, o, f, c)) {
        sim_world_violation(world, "a received grant is kept",
                            "owner %u, file %u, cell %u: client %u, server %u", o, f, c, mode,
                            world->model.held.mode[f][c][o]);
        return;
    }
    if (world->hosts[host].unmonitored || world->unrecorded.mode[f][c][o] != SIM_FREE)
        return;
    if (!world->server.registered[host])
        sim_world_violation(world, "a granted lock's client is durably registered", "host %u",
                            host);
    if (world->server.disk.mode[f][c][o] >= world->server.lost.mode[f][c][o])
        world->server.lost.mode[f][c][o] = SIM_FREE; /* it was reclaimed */
    if (world->config.durable && world->server.lost.mode[f][c][o] == SIM_FREE &&
        world->server.disk.mode[f][c][o] < mode)
        sim_world_violation(world, "nothing is granted before it is durable",
                            "owner %u, file %u, cell %u: client %u, disk %u", o, f, c, mode,
                            world->server.disk.mode[f][c][o]);
}

static void check_beliefs(struct sim_world *world)
{
    for (unsigned f = 0; f < world->config.files; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            if (sim_cell_is_free(world->believed.mode[f][c]))
                continue;
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                if (world->believed.mode[f][c][o] == SIM_FREE)
                    continue;
                world->stats.beliefs++;
                if (world->model.shaky.mode[f][c][o] == SIM_FREE)
                    check_belief(world, o, f, c);
                else
                    world->stats.lapsed[world->model.shaky.mode[f][c][o]]++;
            }
        }
    }
}

/* ------------------------------------------------------------------ waiters */

static bool is_blocked(const struct sim_seen *seen, unsigned place)
{
    const struct sim_waiter *w = &seen->waiters[place];
    bool blocked = sim_oracle_conflict(&seen->held, w->owner, w->range, w->exclusive) >= 0;

    /* Overlapping grants of one owner are told one after the other. */
    for (unsigned j = 0; j < seen->n_granting && !blocked; j++)
        blocked = seen->granting[j].owner == w->owner &&
                  sim_range_overlaps(seen->granting[j].range, w->range);
    for (unsigned j = 0; j < place && !blocked; j++)
        blocked =
            sim_waiter_goes_first(&seen->held, &seen->waiters[j], w->owner, w->range, w->exclusive);
    return blocked;
}

/* Says why a waiter may sleep on although it could be granted: a limit is near, or the core serves
 * waiters in slices and has asked for a tick at once. The second reason ends with the next slice,
 * so it excuses nothing once time has passed. */
static bool is_sleep_excused(struct sim_world *world, const struct sim_waiter *w)
{
    enum { SLICES_WITHIN_MS = 50 };
    struct sim_model *model = &world->model;

    if (sim_predict_is_near_limit(world, w->owner / SIM_PROCS, w->range.file, SIM_GROWTH)) {
        sim_excuse(world, SIM_EXCUSE_SLEEPS_AT_LIMIT);
        return true;
    }
    if (hf_core_deadline(world->server.core) != 0 ||
        world->now_ms > model->sliced_since_ms + SLICES_WITHIN_MS)
        return false;
    sim_excuse(world, SIM_EXCUSE_SLEEPS_IN_SLICES);
    return true;
}

/* "No waiter sleeps when it could be granted." This is not checked while the store has just failed
 * (the core tries again after a second), nor while grace is strict. */
static void check_sleepers(struct sim_world *world)
{
    const struct sim_seen *seen = &world->model.seen;

    if (hf_core_deadline(world->server.core) != 0)
        world->model.sliced_since_ms = 0;
    else if (world->model.sliced_since_ms == 0)
        world->model.sliced_since_ms = world->now_ms;
    if ((seen->grace && (!world->config.conflict_mode || sim_server_is_blind(world))) ||
        world->now_ms <= world->model.redo_until_ms)
        return;
    for (unsigned i = 0; i < seen->n_waiters; i++) {
        const struct sim_waiter *w = &seen->waiters[i];

        world->stats.waiters_seen++;
        if (!is_blocked(seen, i) && !is_sleep_excused(world, w))
            sim_world_violation(world, "no waiter sleeps when it could be granted",
                                "owner %u, file %u, cells %u-%u", w->owner, w->range.file,
                                w->range.first, w->range.last);
    }
}

/* The other checks ask the core's view whether there is grace, so this one checks the view: grace
 * ends when its time is over, and does not begin again in the same run and epoch. */
static void check_grace(struct sim_world *world)
{
    enum { LATE_MS = 2000 };
    struct sim_server *server = &world->server;

    if (!world->model.seen.grace) {
        server->grace_ended_epoch = server->epoch;
        server->grace_ended_run = server->run;
        return;
    }
    if (server->grace_ended_epoch == server->epoch && server->grace_ended_run == server->run)
        sim_world_violation(world, "grace does not begin again", "epoch %llu",
                            (unsigned long long)server->epoch);
    if (world->now_ms > server->grace_until_ms + LATE_MS)
        sim_world_violation(world, "grace ends in time", "%llu ms late",
                            (unsigned long long)(world->now_ms - server->grace_until_ms));
}

/* Checks that what a crash of the host took from the disk was reclaimed, if perhaps not durably
 * yet, or has lapsed. */
static void grace_is_over(struct sim_world *world)
{
    struct sim_oracle *lost = &world->server.lost;

    world->server.tail_lost = false;
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = 0; o < SIM_OWNERS; o++) {
                if (world->model.held.mode[f][c][o] < lost->mode[f][c][o])
                    lost->mode[f][c][o] = SIM_FREE;
            }
        }
    }
}

static bool same_waiters(const struct sim_waiter *a, unsigned n_a, const struct sim_waiter *b,
                         unsigned n_b)
{
    bool same = n_a == n_b;

    for (unsigned i = 0; same && i < n_a; i++)
        same = a[i].id == b[i].id && a[i].owner == b[i].owner && a[i].exclusive == b[i].exclusive &&
               a[i].passes == b[i].passes && sim_range_equal(a[i].range, b[i].range);
    return same;
}

static bool has_share(const struct sim_recorded *besides, const struct sim_share *share)
{
    for (unsigned i = 0; i < besides->n_shares; i++) {
        if (memcmp(&besides->shares[i], share, sizeof(*share)) == 0)
            return true;
    }
    return false;
}

/* REC-02, REC-03: when nothing is in flight, the disk has the waiters, in their order, and the
 * shares. */
static void check_recorded(struct sim_world *world)
{
    const struct sim_seen *seen = &world->model.seen;
    const struct sim_recorded *besides = &world->server.besides;

    if (!world->config.continues || !world->config.durable || world->server.committing ||
        world->server.outage || world->now_ms <= world->model.redo_until_ms)
        return;
    if (!same_waiters(seen->waiters, seen->n_waiters, besides->waiters, besides->n_waiters) ||
        !same_waiters(seen->granting, seen->n_granting, besides->granting, besides->n_granting))
        sim_world_violation(world, "what waits is recorded",
                            "%u wait and %u are granted, on disk %u and %u", seen->n_waiters,
                            seen->n_granting, besides->n_waiters, besides->n_granting);
    for (unsigned i = 0; i < seen->n_shares; i++) {
        if (!has_share(besides, &seen->shares[i]))
            sim_world_violation(world, "shares are recorded", "one of owner %u is not",
                                seen->shares[i].owner);
    }
    if (seen->n_shares != besides->n_shares)
        sim_world_violation(world, "shares are recorded", "%u, on disk %u", seen->n_shares,
                            besides->n_shares);
}

/* Checks that a start which continues holds what is on the disk, with the waiters in their order
 * (REC-03). */
static void check_continued(struct sim_world *world)
{
    const struct sim_seen *seen = &world->model.seen;
    const struct sim_recorded *besides = &world->server.besides;
    unsigned next = 0;

    for (unsigned i = 0; i < besides->n_waiters; i++) {
        const struct sim_waiter *w = &besides->waiters[i];

        if (next < seen->n_waiters && seen->waiters[next].id == w->id)
            next++;
        else if (!sim_seen_has_lock(seen, w))
            sim_world_violation(world, "no waiter is lost", "owner %u, by a restart", w->owner);
    }
    for (unsigned i = 0; i < besides->n_granting; i++) {
        if (sim_waiters_find(seen->granting, seen->n_granting, besides->granting[i].owner,
                             besides->granting[i].range, besides->granting[i].exclusive) < 0)
            sim_world_violation(world, "a grant in flight is made again", "owner %u is forgotten",
                                besides->granting[i].owner);
    }
}

void sim_check_event(struct sim_world *world)
{
    if (world->model.causes.server_event && world->server.core && !world->server.stopping) {
        sim_model_reconcile(world);
        check_grace(world);
        check_sleepers(world);
        if (world->model.causes.restarted && world->server.continued)
            check_continued(world);
        check_recorded(world);
        if (world->config.check_every && world->stats.events % world->config.check_every == 0)
            hf_core_verify_invariants(world->server.core);
    }
    check_conflicts(world);
    check_beliefs(world);
    sim_beliefs_check(world);
    if (world->server.tail_lost && world->server.core && !world->model.seen.grace)
        grace_is_over(world);
    world->model.causes = (struct sim_causes){0};
    world->heap.failed = false;
}

/* ------------------------------------------------------------------ at the moment itself */

/* "A legitimate reclaim always succeeds", if the client was granted the lock, was told so, and
 * never released it. Outside grace the reclaim must also name exactly what is held (SPEC section
 * 4): a client whose downgrade was refused may think its lock weaker than it is. */
void sim_check_answer(struct sim_world *world, const struct sim_message *r, enum hf_stat stat)
{
    const struct sim_host *host = &world->hosts[r->host];
    unsigned owner = sim_owner(r->host, r->proc);
    enum sim_mode mode = r->exclusive ? SIM_EXCLUSIVE : SIM_SHARED;

    if (!r->reclaim || r->proc >= SIM_PROCS || stat == HF_STAT_GRANTED || world->heap.failed ||
        host->life != r->hidden.life || !host->slots[SIM_SLOT_RECLAIM].active ||
        host->slots[SIM_SLOT_RECLAIM].call.xid != r->xid)
        return;
    for (unsigned c = r->range.first; c <= r->range.last; c++) {
        if (world->model.shaky.mode[r->range.file][c][owner] != SIM_FREE ||
            world->model.seen.releasing.mode[r->range.file][c][owner] != SIM_FREE ||
            world->believed.mode[r->range.file][c][owner] == SIM_FREE)
            return;
    }
    if (!world->model.seen.grace && !sim_oracle_holds(&world->model.held, owner, r->range, mode))
        return;
    sim_world_violation(world, "a legitimate reclaim succeeds",
                        "owner %u, file %u, cells %u-%u: %s", owner, r->range.file, r->range.first,
                        r->range.last, sim_stat_name(stat));
}

/* Checks that the epoch of a decision is on the disk before the answer leaves (NSM-06). A decision
 * of the time before an SM_SIMU_CRASH may leave after it. */
static void check_epoch(struct sim_world *world, uint64_t epoch)
{
    if (epoch > world->server.durable_epoch)
        sim_world_violation(world, "the epoch is durable before the first packet",
                            "epoch %llu, on disk %llu", (unsigned long long)epoch,
                            (unsigned long long)world->server.durable_epoch);
}

/* Checks that what is about to be promised is on the disk: the lock, and the registration of its
 * client. */
static void check_promise(struct sim_world *world, unsigned owner, struct sim_range range,
                          bool exclusive, bool recorded)
{
    unsigned host = owner / SIM_PROCS;
    enum sim_mode mode = exclusive ? SIM_EXCLUSIVE : SIM_SHARED;
    uint64_t durable = hf_core_durable(world->server.core);

    for (unsigned c = range.first; c <= range.last; c++) {
        if (!sim_model_is_granted(&world->model, owner, range.file, c, durable))
            continue;
        if (recorded && !world->server.registered[host])
            sim_world_violation(world, "a granted lock's client is durably registered",
                                "host %u is promised a lock", host);
        if (recorded && world->config.durable &&
            world->server.disk.mode[range.file][c][owner] < mode)
            sim_world_violation(world, "nothing is granted before it is durable",
                                "owner %u is promised file %u, cell %u", owner, range.file, c);
        /* what its process had locked by LOCK was taken from it meanwhile, with the record */
        if (!recorded && world->model.shaky.mode[range.file][c][owner] != SIM_FREE)
            world->unrecorded.mode[range.file][c][owner] = SIM_EXCLUSIVE;
    }
    sim_model_promised(&world->model, owner, range, durable);
}

/* True if the client will take this answer for its own: it still waits for it, and has not heard of
 * our restart since it asked. After a restart it asks again whatever we answer (Linux,
 * nlmclnt_lock), and its reclaim of an earlier lock may have weakened the same lock meanwhile. */
static bool is_awaited(const struct sim_world *world, const struct sim_message *answer)
{
    const struct sim_host *host = &world->hosts[answer->host];
    const struct sim_slot *slot = &host->slots[answer->slot];

    return slot->active && slot->call.xid == answer->xid &&
           (answer->slot >= SIM_PROCS ||
            host->procs[answer->slot].asked_at_state == host->server_state);
}

void sim_check_sent(struct sim_world *world, const struct sim_message *answer)
{
    check_epoch(world, answer->hidden.epoch);
    /* The client forgets its lock, wait or share whatever the answer is (SPEC section 5). */
    if (answer->stat == HF_STAT_DENIED_NOLOCKS &&
        (answer->call == SIM_CALL_UNLOCK || answer->call == SIM_CALL_CANCEL ||
         answer->call == SIM_CALL_UNSHARE))
        sim_world_violation(world, "UNLOCK and CANCEL are never refused", "host %u", answer->host);
    if (sim_is_lock(answer) && answer->stat == HF_STAT_GRANTED && answer->proc < SIM_PROCS &&
        is_awaited(world, answer))
        check_promise(world, sim_owner(answer->host, answer->proc), answer->range,
                      answer->exclusive, answer->call == SIM_CALL_LOCK);
}

void sim_check_call(struct sim_world *world, const struct hf_outcall_attempt *call,
                    const struct sim_call_out *out)
{
    struct sim_server *server = &world->server;

    check_epoch(world, server->epoch);
    if (call->kind == HF_OUTCALL_GRANTED) {
        /* A grant whose callback leaves is durable, and can no longer be undone. */
        sim_model_grants_over(&world->model, out->owner, out->range);
        sim_model_claim_told(&world->model, out->owner, out->range);
        if (sim_model_is_wanted(world, out->owner, out->range))
            check_promise(world, out->owner, out->range, call->exclusive,
                          sim_model_is_recorded(world, out->owner, out->range));
        return;
    }
    if (call->kind != HF_OUTCALL_NOTIFY)
        return;
    if (call->state % 2 != 1)
        sim_world_violation(world, "the state number is odd while up", "%d", call->state);
    if (call->state != (int32_t)(2 * server->durable_number - 1))
        sim_world_violation(world, "the state number is that of the durable epoch",
                            "%d, epoch %llu", call->state,
                            (unsigned long long)server->durable_number);
    if (call->state < server->highest_state)
        sim_world_violation(world, "the state number increases", "%d after %d", call->state,
                            server->highest_state);
    if (call->state == server->highest_state && server->highest_run != server->run &&
        !world->config.monitor && !server->continued)
        sim_world_violation(world, "the state number increases", "%d again after a restart",
                            call->state);
    server->highest_state = call->state;
    server->highest_run = server->run;
}

/* ------------------------------------------------------------------ end and beginning */

void sim_check_crashed(struct sim_world *world)
{
    for (unsigned o = 0; o < SIM_OWNERS; o++) {
        for (uint8_t f = 0; f < SIM_FILES; f++) {
            for (uint8_t c = 0; c < SIM_CELLS; c++) {
                if (world->hosts[o / SIM_PROCS].unmonitored ||
                    world->unrecorded.mode[f][c][o] != SIM_FREE)
                    sim_model_lapse(&world->model, o, (struct sim_range){f, c, c},
                                    SIM_LAPSE_UNRECORDED);
            }
        }
    }
}

static bool anything_on_disk(const struct sim_server *server)
{
    static const struct sim_oracle nothing;

    return memcmp(&server->disk, &nothing, sizeof(nothing)) != 0;
}

static bool anybody_registered(const struct sim_server *server)
{
    for (unsigned h = 0; h < SIM_HOSTS; h++) {
        if (server->registered[h])
            return true;
    }
    return false;
}

void sim_check_started(struct sim_world *world)
{
    struct sim_server *server = &world->server;
    struct hf_view_status status;

    if (server->idle_at_crash && server->run > 1 && server->loaded_digest != server->idle_digest)
        sim_world_violation(world, "after a crash the state is what was acknowledged",
                            "the digest differs though nothing was in flight");
    hf_core_view_status(server->core, sim_now(world), &status);
    server->epoch = server->start_epoch = status.epoch;
    server->start_number = server->number_epoch;
    /* A status monitor that is started again in the same boot tells no client, because its kernel
     * has lost no lock; only a boot makes a new state number (section 14). */
    if (status.state % 2 != 1 || status.state != (int32_t)(2 * server->number_epoch - 1))
        sim_world_violation(world, "the state number tells of what ended", "%d, not of epoch %llu",
                            status.state, (unsigned long long)server->number_epoch);
    if ((hf_core_recovers(server->core) == HF_RECOVERS_NOT) != server->continued)
        sim_world_violation(world, "it continues if and only if nothing was lost", "%s",
                            hf_recovers_text(hf_core_recovers(server->core)));
    if (status.state <= server->highest_state && !world->config.monitor && !server->continued)
        sim_world_violation(world, "the state number increases", "%d after %d", status.state,
                            server->highest_state);
    if (world->config.durable && !server->tail_lost &&
        status.grace_active != (anything_on_disk(server) && !server->continued))
        sim_world_violation(world, "grace if and only if there was something to lose",
                            "grace is %d", status.grace_active);
    if (server->tail_lost && !status.grace_active && anybody_registered(server))
        sim_world_violation(world, "grace if and only if there was something to lose",
                            "the host crashed, and there is no grace");
}

void sim_check_calm(struct sim_world *world)
{
    struct hf_view_status status;

    if (!world->server.core) {
        sim_world_violation(world, "everything heals", "the server is down");
        return;
    }
    hf_core_view_status(world->server.core, sim_now(world), &status);
    if (status.grace_active)
        sim_world_violation(world, "grace ends", "%llu left to reclaim",
                            (unsigned long long)status.unreclaimed);
    if (status.waiters || world->model.seen.n_waiters)
        sim_world_violation(world, "every waiter is served", "%u still wait",
                            world->model.seen.n_waiters);
    if (status.notices[HF_NOTICE_PENDING] || status.notices[HF_NOTICE_FAILING])
        sim_world_violation(world, "notices are delivered or given up", "%llu are not",
                            (unsigned long long)(status.notices[HF_NOTICE_PENDING] +
                                                 status.notices[HF_NOTICE_FAILING]));
    for (unsigned h = 0; h < world->config.hosts; h++) {
        if (!sim_client_is_done(world, h))
            sim_world_violation(world, "every waiter is served", "host %u is not done", h);
    }
    if (status.locks || status.nlm_clients)
        sim_world_violation(world, "nothing is left behind", "%llu locks, %llu clients",
                            (unsigned long long)status.locks,
                            (unsigned long long)status.nlm_clients);
}
