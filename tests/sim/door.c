#include "door.h"

#include "decided.h"
#include "invariants.h"
#include "predict.h"
#include "work.h"
#include "world.h"

enum { REPEAT_ONE_IN = 8 };

/* True if the sender has crashed or sent another request since: then this is an old copy that the
 * duplicate cache did not catch, or that came after a restart had emptied it. NLM cannot tell, so
 * the server executes it; what the client believes about these cells no longer counts as a promise.
 */
static bool is_stale(const struct sim_world *world, const struct sim_message *r)
{
    const struct sim_host *host = &world->hosts[r->host];

    if (!host->up || host->life != r->hidden.life)
        return true;
    if (r->slot < SIM_PROCS)
        return host->procs[r->slot].op != r->hidden.op;
    return !host->slots[r->slot].active || host->slots[r->slot].call.xid != r->xid;
}

/* True if what a reclaim names was granted anew since the restart, in that mode or a stronger one.
 * Such a reclaim changes nothing: the server's lock is newer than what the client remembers. */
static bool is_newer(const struct sim_model *model, const struct sim_message *r)
{
    unsigned owner = sim_owner(r->host, r->proc);
    enum sim_mode mode = r->exclusive ? SIM_EXCLUSIVE : SIM_SHARED;

    for (unsigned c = r->range.first; c <= r->range.last; c++) {
        if (model->seen.unreclaimed.mode[r->range.file][c][owner] != SIM_FREE ||
            model->held.mode[r->range.file][c][owner] < mode)
            return false;
    }
    return true;
}

/* Applies a reclaim to the model. It never weakens a part that was upgraded since the restart;
 * outside grace (seed 500134101: the reclaim in grace was undone with its batch) it changes nothing
 * at all. What the host's newest life took and reclaims stays of that life (CRS-02). */
static void follow_reclaim(struct sim_model *model, const struct sim_message *r, uint64_t seq)
{
    unsigned owner = sim_owner(r->host, r->proc);
    struct sim_oracle before = model->held;
    int32_t life[SIM_CELLS];

    for (unsigned c = 0; c < SIM_CELLS; c++)
        life[c] = model->life[r->range.file][c][owner];
    sim_model_locked(model, owner, r->range, r->exclusive, r->state, seq);
    for (unsigned c = r->range.first; c <= r->range.last; c++) {
        if (life[c] == model->told[r->host])
            model->life[r->range.file][c][owner] = life[c];
    }
    for (unsigned c = r->range.first; c <= r->range.last; c++) {
        uint8_t had = before.mode[r->range.file][c][owner];

        if (had == SIM_EXCLUSIVE &&
            (!model->seen.grace ||
             model->seen.unreclaimed.mode[r->range.file][c][owner] == SIM_FREE))
            model->held.mode[r->range.file][c][owner] = had;
    }
}

static void follow_lock(struct sim_world *world, const struct sim_message *r, enum hf_stat stat,
                        uint64_t seq)
{
    unsigned owner = sim_owner(r->host, r->proc);

    if (r->proc >= SIM_PROCS)
        return;
    if (stat == HF_STAT_GRANTED && (!r->reclaim || world->model.seen.grace))
        sim_model_claimed_by_lock(&world->model, owner, r->range, seq);
    if (stat == HF_STAT_GRANTED && r->reclaim && is_newer(&world->model, r)) {
        world->stats.grants++;
    } else if (stat == HF_STAT_GRANTED && r->reclaim) {
        follow_reclaim(&world->model, r, seq);
        world->stats.grants++;
    } else if (stat == HF_STAT_GRANTED) {
        int place = sim_model_find_waiter(&world->model, owner, r->range, r->exclusive);

        if (r->block)
            sim_model_grants_over(&world->model, owner, r->range);
        if (place >= 0 &&
            r->block) /* the owner waited for this range, and got it by another grant */
            sim_model_remove_waiter(&world->model, (unsigned)place);
        sim_model_locked(&world->model, owner, r->range, r->exclusive, r->state, seq);
        world->stats.grants++;
    } else if (stat == HF_STAT_BLOCKED) {
        sim_model_waits(&world->model, owner, r->range, r->exclusive, r->state, seq);
        world->stats.waits++;
    } else if (stat == HF_STAT_DEADLCK) {
        int place = sim_model_find_repeated(&world->model, owner, r->range, r->exclusive);

        if (place >= 0) /* a cycle that had closed by itself was found now */
            sim_model_remove_waiter(&world->model, (unsigned)place);
        world->stats.deadlocks++;
    }
    if (r->reclaim)
        world->stats.reclaims++;
}

/*
 * Where locks are not recorded, a client can reclaim what it only believes to have: a grant that
 * lapsed. The server cannot tell (SPEC section 4: "reclaims are checked per client"), and it may
 * come before the rightful owner does. Neither of the two can count on these cells any more; other
 * owners, whose locks do not conflict, can.
 */
static void usurp(struct sim_world *world, const struct sim_message *r)
{
    unsigned owner = sim_owner(r->host, r->proc);

    for (uint8_t c = r->range.first; c <= r->range.last; c++) {
        if (world->model.shaky.mode[r->range.file][c][owner] == SIM_FREE)
            continue;
        for (unsigned o = 0; o < SIM_OWNERS; o++) {
            uint8_t believed = world->believed.mode[r->range.file][c][o];

            if (o == owner || believed == SIM_EXCLUSIVE || (believed == SIM_SHARED && r->exclusive))
                sim_model_lapse(&world->model, o, (struct sim_range){r->range.file, c, c},
                                SIM_LAPSE_USURPED);
        }
    }
}

/* True if the server was killed while it verified a notice that may have been forged. It has then
 * recorded that the host may have restarted, and ascribes to the new life what the host has locked
 * since. The host's FREE_ALL names the state that the host has had all along, may therefore count
 * as a delayed one of the former life, and then leaves those locks (CRS-02, seed 13031). */
static bool is_doubtful(struct sim_world *world, unsigned host)
{
    if (world->model.doubtful[host])
        sim_excuse(world, SIM_EXCUSE_FREE_ALL_DOUBTFUL);
    return world->model.doubtful[host];
}

/* Changes the model as the core's answer says that the core has changed. */
static void follow(struct sim_world *world, const struct sim_message *r, enum hf_stat stat,
                   uint64_t seq)
{
    struct sim_model *model = &world->model;
    unsigned owner = sim_owner(r->host, r->proc);
    int place;

    if (r->named != r->host)
        return; /* a request under a false name must change no lock */
    switch (r->call) {
    case SIM_CALL_LOCK:
    case SIM_CALL_NM_LOCK:
        follow_lock(world, r, stat, seq);
        if (r->reclaim && stat == HF_STAT_GRANTED && sim_server_is_blind(world))
            usurp(world, r);
        break;
    case SIM_CALL_UNLOCK:
        if (stat == HF_STAT_GRANTED)
            sim_model_unlocked(model, owner, r->range);
        if (r->hidden.crossed || sim_work_is_asked_by_thread(world, r->host, r->slot, r->range))
            sim_model_lapse(model, owner, r->range, SIM_LAPSE_CROSSED);
        break;
    case SIM_CALL_CANCEL:
        place = sim_model_find_waiter(model, owner, r->range, r->exclusive);
        if (stat == HF_STAT_GRANTED && place >= 0)
            sim_model_remove_waiter(model, (unsigned)place);
        break;
    case SIM_CALL_FREE_ALL:
        if (stat == HF_STAT_GRANTED)
            sim_model_host_gone(model, r->host,
                                sim_decided.answer.ticket.decision == 0 &&
                                    !is_doubtful(world, r->host));
        if (stat == HF_STAT_GRANTED)
            sim_beliefs_host_gone(world, r->host);
        break;
    default:
        break;
    }
    sim_beliefs_executed(world, r, stat == HF_STAT_GRANTED, is_stale(world, r));
    if (stat == HF_STAT_GRANTED && is_stale(world, r) && r->proc < SIM_PROCS) {
        sim_world_fault(world, SIM_FAULT_STALE);
        sim_model_lapse(model, owner, r->range, SIM_LAPSE_STALE);
    }
}

/* Checks that TEST names an owner that really holds a conflicting lock (NLM-04). */
static void check_holder(struct sim_world *world, const struct sim_message *r,
                         const struct hf_holder *holder)
{
    unsigned layout = world->config.layout;
    uint64_t last = holder->length ? holder->offset + holder->length - 1 : UINT64_MAX;
    struct sim_range range = {.file = r->range.file};
    unsigned me = sim_owner(r->host, r->proc);

    if (!sim_range_of_bytes(layout, holder->offset, last, &range) ||
        !sim_range_overlaps(range, r->range)) {
        sim_world_violation(world, "true holder", "TEST answers a range that is not in the way");
        return;
    }
    for (unsigned h = 0; h < world->config.hosts; h++) {
        for (unsigned p = 0; p < SIM_PROCS; p++) {
            if (sim_owner(h, p) != me && holder->svid == (int32_t)p &&
                hf_bytes_equal(holder->oh, sim_owner_handle(h, p)) &&
                sim_oracle_holds(&world->model.held, sim_owner(h, p), range,
                                 holder->exclusive ? SIM_EXCLUSIVE : SIM_SHARED))
                return;
        }
    }
    sim_world_violation(world, "true holder", "TEST answers an owner that does not hold that");
}

static void check_limit(struct sim_world *world, const char *what, unsigned before, unsigned after,
                        unsigned limit)
{
    if (after > before && after > limit)
        sim_world_violation(world, "a limit is kept", "%u %s, of %u", after, what, limit);
}

static bool any_passed(const struct sim_seen *before, const struct sim_seen *after)
{
    for (unsigned i = 0; i < before->n_waiters; i++) {
        const struct sim_waiter *w = &before->waiters[i];

        if (sim_waiters_find(after->waiters, after->n_waiters, w->owner, w->range, w->exclusive) <
            0)
            return true;
    }
    return false;
}

/*
 * No LOCK or SHARE, granted or waiting, may bring a count above its limit.
 * (What was more already, because an UNLOCK cut a lock in two, may stay; and in grace a part of
 * what was held may be granted as if it were reclaimed.) Not checked when a LOCK also let a waiter
 * pass, whose grant is never refused.
 */
static void check_limits(struct sim_world *world, const struct sim_message *r)
{
    const struct sim_config *c = &world->config;
    const struct sim_seen *before = &world->model.seen;
    struct sim_seen *after = &world->scratch[0];
    struct sim_counts was, is;

    if (!sim_predict_is_tight(c) || before->grace)
        return;
    sim_model_look(world, after);
    if (any_passed(before, after))
        return;
    was = sim_predict_count(before, r->host, r->range.file);
    is = sim_predict_count(after, r->host, r->range.file);
    check_limit(world, "waiters of a file", was.waiting, is.waiting, c->max_waiters);
    if (sim_is_lock(r) && sim_predict_may_be_beyond(world, r))
        return;
    check_limit(world, "locks of a client", was.of_host, is.of_host, c->max_locks_per_client);
    check_limit(world, "locks of a host", was.of_host, is.of_host, c->max_locks_per_host);
    check_limit(world, "locks of a file", was.of_file, is.of_file, c->max_locks_per_file);
    check_limit(world, "locks in all", was.in_all, is.in_all, c->max_locks);
}

/* True if the owner has another request in the queue: an old copy, or what is left of one. A
 * request for the very same range counts, too, because an UNLOCK may free the range for it, and a
 * second UNLOCK then frees that grant again. A LOCK that does not wait can also satisfy the waiting
 * one, whose grant a callback tells. */
static bool waits_for_else(const struct sim_model *model, const struct sim_message *r)
{
    for (unsigned i = 0; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        if (w->owner == sim_owner(r->host, r->proc) &&
            (!r->block || w->range.first != r->range.first || w->range.last != r->range.last ||
             w->exclusive != r->exclusive))
            return true;
    }
    return false;
}

/*
 * A CANCEL may remove a waiter whose range its owner holds by another grant (an old copy of a
 * request). Nothing is pending then: the repeat is DENIED, and the owner learns that it holds the
 * lock (SPEC section 4).
 */
static bool cancelled_what_it_holds(const struct sim_seen *between, const struct sim_message *r,
                                    enum hf_stat first, enum hf_stat second)
{
    return r->call == SIM_CALL_CANCEL && first == HF_STAT_GRANTED && second == HF_STAT_DENIED &&
           sim_predict_covers(&between->held, sim_owner(r->host, r->proc), r->range, r->exclusive);
}

/* "A repeated request changes nothing": asks twice without a pause, and expects the same answer
 * twice. */
static void repeat(struct sim_world *world, const struct sim_message *r, enum hf_stat stat,
                   struct sim_asked **asked)
{
    struct sim_seen *before = &world->scratch[0];
    struct sim_seen *after = &world->scratch[1];
    struct sim_asked *again;
    enum hf_stat second;

    if (sim_decided.answer.ticket.decision != 0)
        return; /* releases are made in slices, and the repeat would make the next one */
    if (waits_for_else(&world->model, r))
        return; /* what this request gets may let the waiting one pass */
    sim_model_look(world, before);
    if (before->n_waiters != world->model.n_waiters)
        return; /* the request let a waiter pass, and may have got what that waiter gave up */
    again = sim_wire_ask(world, r);
    second = sim_decided.answer.stat;
    if (world->heap.failed) {
        sim_wire_hush(again);
        return; /* an allocation failed in the second call only */
    }
    sim_model_look(world, after);
    if (second != stat && !cancelled_what_it_holds(before, r, stat, second))
        sim_world_violation(world, "a repeated request changes nothing", "%s: first %s, then %s",
                            sim_call_name((enum sim_call)r->call), sim_stat_name(stat),
                            sim_stat_name(second));
    /* The digests are not compared: the repeat may find two touching locks of the owner, one of
     * them reclaimed just now, and merge their records. */
    if (!sim_seen_equal(before, after))
        sim_world_violation(world, "a repeated request changes nothing",
                            "%s changed the state: waiters %u to %u, granting %u to %u",
                            sim_call_name((enum sim_call)r->call), before->n_waiters,
                            after->n_waiters, before->n_granting, after->n_granting);
    sim_wire_hush(*asked); /* the repeat's answer is kept to see whether the repeat waited */
    *asked = again;
}

/* A LOCK that tells a new state number marks the beginning of a life, until the notice itself
 * comes. */
static void note_told(struct sim_world *world, const struct sim_message *r, enum hf_stat stat)
{
    bool locks = sim_is_lock(r);

    if (!locks || r->named != r->host || r->state == 0)
        return;
    if (stat == HF_STAT_DENIED_GRACE_PERIOD && !r->reclaim && world->model.seen.grace &&
        (!world->config.conflict_mode || sim_server_is_blind(world)))
        return; /* strict grace refuses the request before its state number is looked at */
    if (r->state != world->model.told[r->host] && r->state != sim_recorded_state(world, r->host))
        world->model.told[r->host] = r->state;
    if (r->state == world->model.told[r->host])
        world->model.told_unsure[r->host] = false;
}

/* Counts the answers that the model could not judge, because it allowed more than one. */
static void count_excuses(struct sim_world *world, const struct sim_message *r, unsigned allowed,
                          enum hf_stat stat)
{
    enum { GRANTED = SIM_STAT_BIT(HF_STAT_GRANTED) };
    bool locks = sim_is_lock(r);
    bool denied = allowed & GRANTED && allowed & SIM_STAT_BIT(HF_STAT_DENIED);

    if (stat == HF_STAT_DENIED_NOLOCKS && sim_predict_is_client_refused(world, r->host))
        sim_excuse(world, SIM_EXCUSE_NO_ROOM_CLIENTS);
    else if (stat == HF_STAT_DENIED_NOLOCKS &&
             !sim_predict_is_near_limit(world, r->host, r->range.file, 1))
        sim_excuse(world, SIM_EXCUSE_NO_ROOM);
    if (locks && allowed & GRANTED && allowed & SIM_STAT_BIT(HF_STAT_DENIED_GRACE_PERIOD))
        sim_excuse(world, SIM_EXCUSE_GRACE_EITHER);
    if (denied && r->call == SIM_CALL_CANCEL)
        sim_excuse(world, SIM_EXCUSE_CANCEL_EITHER);
    if (denied && locks && r->reclaim)
        sim_excuse(world, SIM_EXCUSE_RECLAIM_EITHER);
}

/* Notes that the request waits and counts on a record: the server has seen a LOCK of it, and not
 * only an NM_LOCK. */
static void note_recorded(struct sim_world *world, const struct sim_message *r, enum hf_stat stat,
                          bool waited)
{
    if (r->slot >= SIM_PROCS || r->named != r->host || stat != HF_STAT_BLOCKED)
        return;
    if (r->call == SIM_CALL_LOCK)
        world->model.locked_op[sim_owner(r->host, r->slot)] = r->hidden.op;
    else if (!waited) /* no thread of this process waits any more */
        memset(&world->model.locked_op[sim_owner(r->host, 0)], 0,
               SIM_PROCS * sizeof(world->model.locked_op[0]));
}

/* Checks that a denied LOCK leaves callbacks in flight alone: another thread of its process waits
 * for them. */
static void check_callbacks(struct sim_world *world, unsigned owner)
{
    const struct sim_seen *before = &world->model.seen;
    struct sim_seen *after = &world->scratch[0];

    if (before->n_granting == 0)
        return;
    sim_model_look(world, after);
    for (unsigned i = 0; i < before->n_granting; i++) {
        const struct sim_waiter *w = &before->granting[i];

        if (w->owner == owner &&
            sim_waiters_find(after->granting, after->n_granting, owner, w->range, w->exclusive) < 0)
            sim_world_violation(world, "a denied LOCK calls off no callback", "owner %u", owner);
    }
}

static void execute_nlm(struct sim_world *world, const struct sim_message *r)
{
    unsigned allowed = sim_predict(world, r);
    bool waited = sim_model_find_repeated(&world->model, sim_owner(r->host, r->proc), r->range,
                                          r->exclusive) >= 0;
    struct sim_asked *asked = sim_wire_ask(world, r);
    struct hf_answer answer = sim_decided.answer;

    if (!asked->decided) { /* the store was down, so the request did not reach the core */
        sim_wire_leave(asked);
        return;
    }
    note_told(world, r, answer.stat);
    if (r->slot < SIM_PROCS && r->named == r->host &&
        r->hidden.op > world->model.asked_op[sim_owner(r->host, r->slot)])
        world->model.asked_op[sim_owner(r->host, r->slot)] = r->hidden.op;
    note_recorded(world, r, answer.stat, waited);
    SIM_WORLD_TRACE(world, answer.stat, answer.ticket.seq, r->xid,
                    "server: h%u%s/%u %s%s%s file %u cells %u-%u %s -> %s (batch %llu)", r->host,
                    r->named == r->host ? "" : " lying", r->proc,
                    sim_call_name((enum sim_call)r->call), r->block ? " blocking" : "",
                    r->reclaim ? " reclaim" : "", r->range.file, r->range.first, r->range.last,
                    r->exclusive ? "exclusive" : "shared", sim_stat_name(answer.stat),
                    (unsigned long long)answer.ticket.seq);
    /* At the beginning of an epoch every answer waits for its record, so a SHARE is not granted
     * then. */
    if (r->call == SIM_CALL_SHARE && answer.ticket.seq > hf_core_durable(world->server.core))
        allowed |= SIM_STAT_BIT(HF_STAT_DENIED_GRACE_PERIOD);
    count_excuses(world, r, allowed, answer.stat);
    if (!(allowed & SIM_STAT_BIT(answer.stat)) && !world->heap.failed)
        sim_world_violation(world, "the naive model agrees",
                            "%s of h%u/%u answered %s, the model allows 0x%x",
                            sim_call_name((enum sim_call)r->call), r->host, r->proc,
                            sim_stat_name(answer.stat), allowed);
    if (r->call == SIM_CALL_TEST && answer.stat == HF_STAT_DENIED)
        check_holder(world, r, &answer.holder);
    if ((sim_is_lock(r) || r->call == SIM_CALL_SHARE) && !r->reclaim &&
        (answer.stat == HF_STAT_GRANTED || answer.stat == HF_STAT_BLOCKED))
        check_limits(world, r);
    sim_check_answer(world, r, answer.stat);
    if (answer.stat == HF_STAT_DENIED && sim_is_lock(r))
        check_callbacks(world, sim_owner(r->host, r->proc));
    follow(world, r, answer.stat, answer.ticket.seq);
    /* Repeats are not checked while the core still has something to try again, which it may do
     * during any request. */
    if (world->now_ms > world->model.redo_until_ms && !world->heap.failed &&
        answer.stat != HF_STAT_DENIED_NOLOCKS && sim_rng_one_in(&world->rng, REPEAT_ONE_IN) &&
        !(waited &&
          answer.stat == HF_STAT_DEADLCK)) /* the request left the queue, which is a change */
        repeat(world, r, answer.stat, &asked);
    sim_wire_leave(asked);
}

/* ------------------------------------------------------------------ NSM */

static void execute_sm(struct sim_world *world, const struct sim_message *r)
{
    struct sim_asked *asked = sim_wire_ask(world, r);
    struct hf_sm_answer answer = sim_decided.sm;

    SIM_WORLD_TRACE(world, answer.ok, answer.ticket.seq, answer.state,
                    "server: h%u %s -> %s, state %d", r->host,
                    sim_call_name((enum sim_call)r->call), answer.ok ? "ok" : "fail", answer.state);
    if (!answer.ok && asked->decided && world->config.max_clients > SIM_HOSTS * SIM_HOSTS &&
        !world->heap.failed)
        sim_world_violation(world, "the naive model agrees", "SM_MON failed below its limit");
    sim_wire_leave(asked);
}

/* The server's row for the host's long name; false: it does not know the host. */
static bool find_client(struct sim_world *world, unsigned h, struct hf_view_client *out)
{
    uint64_t cursor = 0;

    while (hf_core_view_clients(world->server.core, &cursor, UINT64_MAX, out, 1) > 0) {
        if (out->record.protocol == HF_PROTOCOL_NLM && sim_host_of_record(&out->record) == (int)h &&
            hf_bytes_equal(out->record.name, sim_host_name(h, SIM_NAME_LONG)))
            return true;
    }
    return false;
}

int32_t sim_recorded_state(struct sim_world *world, unsigned h)
{
    struct hf_view_client client;

    return find_client(world, h, &client) ? client.record.state : -1;
}

static void begin_to_verify(struct sim_world *world, unsigned host, int32_t claimed,
                            int32_t recorded)
{
    struct sim_notice *notice = &world->model.notice[host];

    if (notice->pending)
        return; /* this notice joins the question about the earlier one */
    *notice = (struct sim_notice){.pending = true,
                                  .claimed = claimed,
                                  .recorded = recorded,
                                  .hinted = world->model.told[host] == claimed &&
                                            !world->model.told_unsure[host]};
    sim_beliefs_notified(world, host);
    sim_model_host_notified(&world->model, host, notice->hinted && recorded > 0 ? claimed : -1);
}

/* Another notice of the host was decided since, so all earlier ones are decided, too. The answer to
 * this one may still wait for the batch of its own decision (seed 110017632). */
static void notices_are_overtaken(struct sim_world *world, unsigned host, int32_t claimed)
{
    hf_list_foreach (node, &world->server.wire.asked) {
        struct sim_asked *asked = hf_list_entry(node, struct sim_asked, link);

        if (asked->reply.call == SIM_CALL_SM_NOTIFY && asked->reply.state != claimed)
            asked->news_of &= (uint8_t) ~(1U << host);
    }
}

/* From now on the server knows the host by this state. A different state that the host told earlier
 * is no sign of a later life (seed 14696: the notice was forged, and the next one is not). */
static void is_believed(struct sim_world *world, unsigned host, int32_t claimed)
{
    struct sim_model *model = &world->model;

    notices_are_overtaken(world, host, claimed);
    model->doubtful[host] = model->told_unsure[host] = false;
    if (model->told[host] != claimed)
        model->told[host] = 0;
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            for (unsigned o = sim_owner(host, 0); o < sim_owner(host + 1, 0); o++) {
                if (model->life[f][c][o] != claimed)
                    model->life[f][c][o] = 0;
            }
        }
    }
}

/* Applies a notice that counts at once. Locks whose LOCK told the claimed state stay. */
static void host_restarted(struct sim_world *world, unsigned host, int32_t claimed,
                           int32_t recorded, bool at_once)
{
    struct sim_model *model = &world->model;

    if (model->told[host] != claimed || model->told_unsure[host] || recorded == 0) {
        sim_model_host_gone(model, host,
                            at_once && model->told[host] != claimed && !model->told_unsure[host] &&
                                !sim_model_has_life(model, host, claimed));
        is_believed(world, host, claimed);
        return;
    }
    sim_model_host_notified(model, host, claimed);
    sim_model_host_verified(model, host);
    if (at_once)
        sim_model_life_gone(model, host, recorded);
    is_believed(world, host, claimed);
}

/* The core releases what the host held before it reached the claimed state, and does so in slices.
 * A repeat of the notice takes nothing more. */
void sim_door_undecided(struct sim_world *world, unsigned h, int32_t claimed, int32_t recorded)
{
    struct sim_model *model = &world->model;
    struct hf_view_client client;

    if (!find_client(world, h, &client) || client.verifying) {
        begin_to_verify(world, h, claimed, recorded);
        return;
    }
    if (model->releasing[h] != claimed) {
        sim_beliefs_host_gone(world, h);
        host_restarted(world, h, claimed, recorded, false);
    }
    model->releasing[h] = claimed;
}

/* SEC-04: if the monitor confirms the notice or cannot be asked, the locks that it concerns may go.
 * If the monitor contradicts it, none may go, and the model reports any that does. What the host
 * got after the notice came stays. With a small budget the release continues after this event. */
static void decided(struct sim_world *world, unsigned host, bool refuted)
{
    struct sim_notice *notice = &world->model.notice[host];

    notice->pending = false;
    if (refuted) {
        sim_world_fault(world, SIM_FAULT_REFUTED);
        sim_beliefs_verified(world, host, false);
        return;
    }
    sim_beliefs_verified(world, host, true);
    sim_model_host_verified(&world->model, host);
    if (notice->hinted && notice->recorded != 0 && world->config.release_budget > 1000)
        sim_model_life_gone(&world->model, host, notice->recorded);
    is_believed(world, host, notice->claimed);
}

void sim_door_verified(struct sim_world *world, unsigned host, int32_t state)
{
    const struct sim_notice *notice = &world->model.notice[host];

    if (notice->pending)
        decided(world, host,
                state != 0 &&
                    (state != notice->claimed || state == sim_recorded_state(world, host)));
}

void sim_door_twins_verified(struct sim_world *world, unsigned host, int32_t state)
{
    struct hf_view_client client;

    for (unsigned h = 0; h < world->config.hosts && world->config.twins; h++) {
        if (h != host && sim_is_same_address(host, h) && world->model.notice[h].pending &&
            (!find_client(world, h, &client) || !client.verifying))
            decided(world, h, state != 0 && state != world->model.notice[h].claimed);
    }
}

static void follow_notice(struct sim_world *world, const struct sim_message *r, int32_t recorded)
{
    if (sim_decided.sm.ticket.decision != 0) {
        sim_door_undecided(world, r->host, r->state, recorded);
    } else if (sim_decided.sm.ok && r->named == r->host && recorded >= 0 && recorded != r->state) {
        sim_beliefs_host_gone(world, r->host);
        host_restarted(world, r->host, r->state, recorded, !world->heap.failed);
    }
}

/* A notice of a machine concerns all clients that the machine is known as, whichever mount it comes
 * by. The server decides for each client separately, and the answer tells of none. */
static void follow_notice_of_twin(struct sim_world *world, unsigned h, int32_t state,
                                  int32_t recorded)
{
    struct hf_view_client client;
    bool found = find_client(world, h, &client);

    if (found && (client.verifying || client.releasing)) {
        sim_door_undecided(world, h, state, recorded);
    } else if (recorded >= 0 && recorded != state && (!found || client.record.state == state)) {
        sim_beliefs_host_gone(world, h);
        host_restarted(world, h, state, recorded, !world->heap.failed);
    }
}

/* True if the server is still verifying this notice, or has not taken a true one in yet. */
static bool is_undecided(struct sim_world *world, unsigned h, int32_t state)
{
    const struct sim_notice *notice = &world->model.notice[h];
    const struct sim_host *host = &world->hosts[h];
    struct hf_view_client client;

    if (!find_client(world, h, &client) || client.record.state == state)
        return false; /* FREE_ALL may have told the state before */
    if (notice->pending && notice->claimed == state && client.verifying)
        return true;
    return host->up && host->state == state && client.record.state > 0 &&
           client.record.state < state;
}

bool sim_door_is_undecided(struct sim_world *world, const struct sim_message *notice,
                           unsigned hosts)
{
    for (unsigned h = 0; h < world->config.hosts; h++) {
        if (hosts & 1U << h && sim_is_same_address(notice->host, h) &&
            notice->named == notice->host && is_undecided(world, h, notice->state))
            return true;
    }
    return false;
}

/* NSM-05: a repeated notice changes nothing. A notice with a new state, from the host's own
 * address, releases everything that the host had; except what it locked since it came up, if its
 * first LOCK arrived before the notice and told the new state. Requests that told the old state are
 * dropped in any case, even if they came late. (About requests that told no state the model knows
 * nothing.) */
static void execute_notify(struct sim_world *world, const struct sim_message *r)
{
    int32_t recorded[SIM_HOSTS];
    struct sim_asked *asked;
    uint64_t seq;

    for (unsigned h = 0; h < SIM_HOSTS; h++)
        recorded[h] = sim_is_same_address(r->host, h) ? sim_recorded_state(world, h) : -1;
    asked = sim_wire_ask(world, r);
    for (unsigned h = 0; h < SIM_HOSTS; h++)
        asked->news_of |= (uint8_t)((recorded[h] >= 0 && recorded[h] != r->state) << h);
    seq = sim_decided.sm.ticket.seq;

    SIM_WORLD_TRACE(world, r->host, r->state, seq, "server: h%u SM_NOTIFY %s%.*s state %d (was %d)",
                    r->host, r->named == r->host ? "" : "lying ",
                    (int)sim_host_name(r->named, (enum sim_name)r->name).len,
                    (const char *)sim_host_name(r->named, (enum sim_name)r->name).data, r->state,
                    recorded[r->host]);
    for (unsigned h = 0; h < world->config.hosts && asked->decided; h++) {
        if (h == r->host && !world->config.twins)
            follow_notice(world, r, recorded[h]);
        else if (world->config.twins && sim_is_same_address(r->host, h))
            follow_notice_of_twin(world, h, r->state, recorded[h]);
    }
    sim_wire_leave(asked);
}

void sim_door_execute(struct sim_world *world, const struct sim_message *r)
{
    world->stats.requests++;
    if (r->named != r->host && r->call < SIM_CALL_SM_MON)
        sim_world_fault(world, SIM_FAULT_LIE);
    switch (r->call) {
    case SIM_CALL_SM_NOTIFY:
        execute_notify(world, r);
        break;
    case SIM_CALL_SM_MON:
    case SIM_CALL_SM_UNMON:
    case SIM_CALL_SM_UNMON_ALL:
    case SIM_CALL_SM_STAT:
        execute_sm(world, r);
        break;
    default:
        execute_nlm(world, r);
        break;
    }
}
