#include "door.h"

#include <string.h>

#include "answers.h"
#include "invariants.h"
#include "predict.h"
#include "world.h"

enum { REPEAT_ONE_IN = 8 };

static struct hf_peer peer_of(const struct sim_message *r)
{
    return (struct hf_peer){.name = sim_host_name(r->named, SIM_NAME_LONG),
                            .addr = sim_host_addr(r->host),
                            .local = sim_server_addr(),
                            .transport = HF_TRANSPORT_TCP};
}

static struct hf_lock_args args_of(const struct sim_world *world, const struct sim_message *r)
{
    unsigned layout = world->config.layout;
    uint64_t first = sim_first_byte(layout, r->range);
    uint64_t last = sim_last_byte(layout, r->range);

    return (struct hf_lock_args){.fh = sim_file_handle(r->range.file),
                                 .oh = sim_owner_handle(r->named, r->proc),
                                 .svid = r->proc,
                                 .offset = first,
                                 .length = last == UINT64_MAX ? 0 : last - first + 1,
                                 .exclusive = r->exclusive,
                                 .block = r->block,
                                 .reclaim = r->reclaim,
                                 .unmonitored = r->call == SIM_CALL_NM_LOCK,
                                 .state = r->state,
                                 .version = 4,
                                 .msg = r->async};
}

static struct hf_answer ask_core(struct sim_world *world, const struct sim_message *r)
{
    struct hf_core *core = world->server.core;
    struct hf_now now = sim_now(world);
    struct hf_peer peer = peer_of(r);
    struct hf_lock_args args = args_of(world, r);
    struct hf_share_args share = {
        .fh = args.fh, .oh = args.oh, .mode = r->mode, .access = r->access, .reclaim = r->reclaim};

    switch (r->call) {
    case SIM_CALL_TEST:
        return hf_core_test(core, now, &peer, &args);
    case SIM_CALL_UNLOCK:
        return hf_core_unlock(core, now, &peer, &args);
    case SIM_CALL_CANCEL:
        return hf_core_cancel(core, now, &peer, &args);
    case SIM_CALL_SHARE:
        return hf_core_share(core, now, &peer, &share);
    case SIM_CALL_UNSHARE:
        return hf_core_unshare(core, now, &peer, &share);
    case SIM_CALL_FREE_ALL:
        return hf_core_free_all(core, now, &peer);
    default:
        return hf_core_lock(core, now, &peer, &args);
    }
}

/*
 * True if the sender has done something else since, or died: an old copy that slipped past the
 * duplicate cache, or that found it emptied by a restart. NLM cannot tell, so it is executed; what
 * the client believes about these cells is then no longer a promise of ours.
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

/*
 * A reclaim of something that was granted anew since the restart, in that mode or a stronger one,
 * changes nothing: what the server has is newer than what the client remembers.
 */
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

/* Asked again by one that waits for itself: from now on it queues behind nobody. */
static void let_pass(struct sim_model *model, unsigned owner, const struct sim_message *r)
{
    int place = sim_model_find_waiter(model, owner, r->range, r->exclusive);

    if (place >= 0 && sim_predict_is_deadlocked(model, (unsigned)place))
        model->waiters[place].passes = true;
}

static void follow_lock(struct sim_world *world, const struct sim_message *r, enum hf_stat stat,
                        uint64_t seq)
{
    unsigned owner = sim_owner(r->host, r->proc);

    if (r->proc >= SIM_PROCS)
        return;
    if (stat == HF_STAT_GRANTED && r->reclaim && is_newer(&world->model, r)) {
        world->stats.grants++;
    } else if (stat == HF_STAT_GRANTED) {
        sim_model_locked(&world->model, owner, r->range, r->exclusive, seq);
        world->stats.grants++;
    } else if (stat == HF_STAT_BLOCKED) {
        sim_model_waits(&world->model, owner, r->range, r->exclusive);
        let_pass(&world->model, owner, r);
        world->stats.waits++;
    } else if (stat == HF_STAT_DEADLCK) {
        int place = sim_model_find_waiter(&world->model, owner, r->range, r->exclusive);

        if (place >= 0) /* a cycle that closed by itself, and was found now */
            sim_model_remove_waiter(&world->model, (unsigned)place);
        world->stats.deadlocks++;
    }
    if (r->reclaim)
        world->stats.reclaims++;
}

/*
 * Where locks are not recorded, a client can reclaim what it only believes to have: a grant that
 * lapsed. Nobody can tell (SPEC section 4: "reclaims are checked per client"), and it may come
 * before the rightful owner does. Neither can count on these cells any more.
 */
static void usurp(struct sim_world *world, const struct sim_message *r)
{
    unsigned owner = sim_owner(r->host, r->proc);

    for (uint8_t c = r->range.first; c <= r->range.last; c++) {
        if (world->model.shaky.mode[r->range.file][c][owner] == SIM_FREE)
            continue;
        for (unsigned o = 0; o < SIM_OWNERS; o++)
            sim_model_lapse(&world->model, o, (struct sim_range){r->range.file, c, c});
    }
}

/* The model does what the answer says was done. */
static void follow(struct sim_world *world, const struct sim_message *r, enum hf_stat stat,
                   uint64_t seq)
{
    struct sim_model *model = &world->model;
    unsigned owner = sim_owner(r->host, r->proc);
    int place;

    if (r->named != r->host)
        return; /* under a false name nothing of anybody's may change */
    switch (r->call) {
    case SIM_CALL_LOCK:
    case SIM_CALL_NM_LOCK:
        follow_lock(world, r, stat, seq);
        if (r->reclaim && stat == HF_STAT_GRANTED && !world->config.durable)
            usurp(world, r);
        break;
    case SIM_CALL_UNLOCK:
        if (stat == HF_STAT_GRANTED)
            sim_model_unlocked(model, owner, r->range);
        break;
    case SIM_CALL_CANCEL:
        place = sim_model_find_waiter(model, owner, r->range, r->exclusive);
        if (stat == HF_STAT_GRANTED && place >= 0)
            sim_model_remove_waiter(model, (unsigned)place);
        break;
    case SIM_CALL_FREE_ALL:
        if (stat == HF_STAT_GRANTED)
            sim_model_host_gone(model, r->host, true);
        break;
    default:
        break;
    }
    if (stat == HF_STAT_GRANTED && is_stale(world, r) && r->proc < SIM_PROCS) {
        sim_world_fault(world, SIM_FAULT_STALE);
        sim_model_lapse(model, owner, r->range);
    }
}

/* TEST names somebody who really is in the way (NLM-04). */
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

/* The owner has another request in the queue: an old copy, or what is left of one. */
static bool waits_for_else(const struct sim_model *model, const struct sim_message *r)
{
    for (unsigned i = 0; i < model->n_waiters; i++) {
        const struct sim_waiter *w = &model->waiters[i];

        if (w->owner == sim_owner(r->host, r->proc) &&
            (w->range.first != r->range.first || w->range.last != r->range.last ||
             w->exclusive != r->exclusive))
            return true;
    }
    return false;
}

/* "A repeated request changes nothing": asked twice in one breath, it gives the same twice. */
static void repeat(struct sim_world *world, const struct sim_message *r, struct hf_answer *answer)
{
    struct sim_seen *before = &world->scratch[0];
    struct sim_seen *after = &world->scratch[1];
    struct hf_answer second;
    int place =
        sim_model_find_waiter(&world->model, sim_owner(r->host, r->proc), r->range, r->exclusive);

    if (place >= 0 && (world->model.waiters[place].passes ||
                       sim_predict_is_deadlocked(&world->model, (unsigned)place)))
        return; /* told BLOCKED, and let pass in the same breath */
    if (waits_for_else(&world->model, r))
        return; /* what this one gets may let the other pass */
    sim_model_look(world, before);
    second = ask_core(world, r);
    if (world->heap.failed)
        return; /* it was the second that memory failed */
    sim_model_look(world, after);
    if (second.stat != answer->stat)
        sim_world_violation(world, "a repeated request changes nothing", "%s: first %s, then %s",
                            sim_call_name((enum sim_call)r->call), sim_stat_name(answer->stat),
                            sim_stat_name(second.stat));
    /* Not the digest: the repeat may find two touching locks of the owner, one of them reclaimed
     * just now, and make one record of the two. */
    if (!sim_seen_equal(before, after))
        sim_world_violation(world, "a repeated request changes nothing",
                            "%s changed the state: waiters %u to %u, granting %u to %u",
                            sim_call_name((enum sim_call)r->call), before->n_waiters,
                            after->n_waiters, before->n_granting, after->n_granting);
    answer->seq = second.seq; /* the one that would leave first, if it left too early */
}

static void execute_nlm(struct sim_world *world, const struct sim_message *r)
{
    unsigned allowed = sim_predict(world, r);
    struct sim_message reply = *r;
    bool waited = sim_model_find_waiter(&world->model, sim_owner(r->host, r->proc), r->range,
                                        r->exclusive) >= 0;
    struct hf_answer answer;

    answer = ask_core(world, r);
    if (r->named == r->host && r->state != 0)
        world->model.told[r->host] = r->state;
    SIM_WORLD_TRACE(world, answer.stat, answer.seq, r->xid,
                    "server: h%u%s/%u %s%s%s file %u cells %u-%u %s -> %s (batch %llu)", r->host,
                    r->named == r->host ? "" : " lying", r->proc,
                    sim_call_name((enum sim_call)r->call), r->block ? " blocking" : "",
                    r->reclaim ? " reclaim" : "", r->range.file, r->range.first, r->range.last,
                    r->exclusive ? "exclusive" : "shared", sim_stat_name(answer.stat),
                    (unsigned long long)answer.seq);
    if (!(allowed & SIM_STAT_BIT(answer.stat)) && !world->heap.failed)
        sim_world_violation(world, "the naive model agrees",
                            "%s of h%u/%u answered %s, the model allows 0x%x",
                            sim_call_name((enum sim_call)r->call), r->host, r->proc,
                            sim_stat_name(answer.stat), allowed);
    if (r->call == SIM_CALL_TEST && answer.stat == HF_STAT_DENIED)
        check_holder(world, r, &answer.holder);
    sim_check_answer(world, r, answer.stat);
    follow(world, r, answer.stat, answer.seq);
    /* Not while the core still has something to try again, which it may do with any request. */
    if (world->now_ms > world->model.redo_until_ms && !world->heap.failed &&
        answer.stat != HF_STAT_DENIED_NOLOCKS && sim_rng_one_in(&world->rng, REPEAT_ONE_IN) &&
        !(waited && answer.stat == HF_STAT_DEADLCK)) /* it left the queue: that is a change */
        repeat(world, r, &answer);
    reply.answer = true;
    reply.to_server = false;
    reply.stat = (uint8_t)answer.stat;
    sim_answers_send(world, &reply, answer.seq);
}

/* ------------------------------------------------------------------ NSM */

static struct hf_mon_args mon_args(const struct sim_world *world, const struct sim_message *r)
{
    struct hf_mon_args args = {
        .my_name = sim_host_name(r->host, SIM_NAME_LONG), .prog = 100021, .vers = 4, .proc = 16};

    args.mon_name =
        r->named < world->config.hosts ? sim_host_name(r->named, SIM_NAME_LONG) : sim_server_name();
    memset(args.priv, r->host, sizeof(args.priv));
    return args;
}

static struct hf_sm_answer ask_monitor(struct sim_world *world, const struct sim_message *r)
{
    struct hf_core *core = world->server.core;
    struct hf_peer peer = {
        .addr = sim_host_addr(r->host), .local = sim_server_addr(), .transport = HF_TRANSPORT_UDP};
    struct hf_mon_args args = mon_args(world, r);

    switch (r->call) {
    case SIM_CALL_SM_MON:
        return hf_core_sm_mon(core, sim_now(world), &peer, &args);
    case SIM_CALL_SM_UNMON:
        return hf_core_sm_unmon(core, sim_now(world), &peer, &args);
    case SIM_CALL_SM_UNMON_ALL:
        return hf_core_sm_unmon_all(core, sim_now(world), &peer, &args);
    default:
        return hf_core_sm_stat(core);
    }
}

static void execute_sm(struct sim_world *world, const struct sim_message *r)
{
    struct sim_message reply = *r;
    struct hf_sm_answer answer = ask_monitor(world, r);

    SIM_WORLD_TRACE(world, answer.ok, answer.seq, answer.state, "server: h%u %s -> %s, state %d",
                    r->host, sim_call_name((enum sim_call)r->call), answer.ok ? "ok" : "fail",
                    answer.state);
    if (!answer.ok && world->config.max_clients > SIM_HOSTS * SIM_HOSTS && !world->heap.failed)
        sim_world_violation(world, "the naive model agrees", "SM_MON failed below its limit");
    reply.answer = true;
    reply.to_server = false;
    reply.stat = !answer.ok;
    reply.state = answer.state;
    sim_answers_send(world, &reply, answer.seq);
}

int32_t sim_recorded_state(struct sim_world *world, unsigned h)
{
    struct hf_view_client rows[16];
    uint64_t cursor = 0;
    size_t n;

    while ((n = hf_core_view_clients(world->server.core, &cursor, rows, 16)) > 0) {
        for (size_t i = 0; i < n; i++) {
            if (rows[i].record.protocol == HF_PROTOCOL_NLM && rows[i].record.n_addrs > 0 &&
                sim_host_of_addr(&rows[i].record.addrs[0]) == (int)h &&
                hf_bytes_equal(rows[i].record.name, sim_host_name(h, SIM_NAME_LONG)))
                return rows[i].record.state;
        }
    }
    return -1;
}

/*
 * NSM-05: the same notice again is a no-op; one with another state, from the host's own address,
 * takes everything the host had; but not what it locked since it came up, if the notice was slower
 * than its first LOCK and that told the new state. (Which is which the model does not keep.)
 */
static void execute_notify(struct sim_world *world, const struct sim_message *r)
{
    struct hf_addr from = sim_host_addr(r->host);
    struct sim_message reply = *r;
    int32_t recorded = sim_recorded_state(world, r->host);
    uint64_t seq = hf_core_sm_notify(world->server.core, sim_now(world), &from,
                                     sim_host_name(r->named, (enum sim_name)r->name), r->state);

    SIM_WORLD_TRACE(world, r->host, r->state, seq, "server: h%u SM_NOTIFY %s%.*s state %d (was %d)",
                    r->host, r->named == r->host ? "" : "lying ",
                    (int)sim_host_name(r->named, (enum sim_name)r->name).len,
                    (const char *)sim_host_name(r->named, (enum sim_name)r->name).data, r->state,
                    recorded);
    if (r->named == r->host && recorded >= 0 && recorded != r->state)
        sim_model_host_gone(&world->model, r->host,
                            !world->heap.failed && world->model.told[r->host] != r->state);
    reply.answer = true;
    reply.to_server = false;
    sim_answers_send(world, &reply, seq);
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
