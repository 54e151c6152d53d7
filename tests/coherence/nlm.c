#include <string.h>

#include "world.h"

static struct hf_peer peer_of(unsigned p)
{
    static const char *const names[] = {"c0", "c1", "c2", "c3"};
    struct hf_peer peer = {.name = hf_bytes_str(names[p]), .transport = HF_TRANSPORT_TCP};

    peer.addr = (struct hf_addr){.family = HF_ADDR_IPV4, .bytes = {10, 0, 0, (uint8_t)(p + 1)}};
    peer.local = (struct hf_addr){.family = HF_ADDR_IPV4, .bytes = {10, 0, 0, 250}};
    return peer;
}

static void believe(struct proc *proc, struct range r, uint8_t mode)
{
    for (unsigned c = r.first; c <= r.last; c++) {
        proc->believes[r.file][c] = mode;
        proc->shaky[r.file][c] = false;
        proc->unreclaimed[r.file][c] = false;
    }
}

/* ---- what a process asks next ---- */

/* Finds the first run of cells that the process has not reclaimed since the restart. */
static bool next_reclaim(const struct proc *proc, struct ask *out)
{
    for (uint8_t f = 0; f < FILES; f++) {
        for (uint8_t c = 0; c < CELLS; c++) {
            uint8_t mode = proc->believes[f][c];
            struct range r = {f, c, c};

            if (!proc->unreclaimed[f][c] || mode == HF_CLAIM_NONE)
                continue;
            while (r.last + 1 < CELLS && proc->unreclaimed[f][r.last + 1] &&
                   proc->believes[f][r.last + 1] == mode)
                r.last++;
            *out = (struct ask){LOCK, r, mode == HF_CLAIM_EXCLUSIVE, false, true};
            return true;
        }
    }
    return false;
}

bool nlm_is_reclaiming(const struct world *w)
{
    struct ask ask;

    for (unsigned p = 0; p < PROCS; p++) {
        if (next_reclaim(&w->procs[p], &ask))
            return true;
    }
    return false;
}

static bool next_unlock(const struct proc *proc, struct ask *out)
{
    for (uint8_t f = 0; f < FILES; f++) {
        for (uint8_t c = 0; c < CELLS; c++) {
            if (proc->believes[f][c] == HF_CLAIM_NONE)
                continue;
            *out = (struct ask){UNLOCK, {f, 0, CELLS - 1}, false, false, false};
            return true;
        }
    }
    return false;
}

/* A process stops using what it is about to unlock or to downgrade. */
static void give_up(struct proc *proc)
{
    for (unsigned c = proc->ask.range.first; c <= proc->ask.range.last; c++) {
        uint8_t *mode = &proc->believes[proc->ask.range.file][c];
        if (proc->ask.what == UNLOCK)
            *mode = HF_CLAIM_NONE;
        else if (proc->ask.what == LOCK && !proc->ask.exclusive && *mode == HF_CLAIM_EXCLUSIVE)
            *mode = HF_CLAIM_SHARED;
    }
}

static void draw(struct world *w, struct proc *proc)
{
    struct ask ask = {.range = any_range(w), .exclusive = !sim_rng_one_in(&w->rng, 3)};

    if (next_reclaim(proc, &proc->ask))
        return;
    if (proc->again.what != NOTHING) {
        proc->ask = proc->again;
        proc->again.what = NOTHING;
    } else if (w->calm) {
        proc->ask = (struct ask){NOTHING};
        (void)next_unlock(proc, &proc->ask);
    } else {
        unsigned n = sim_rng_below(&w->rng, 10);
        ask.what = n < 5 ? LOCK : n < 9 ? UNLOCK : TEST;
        ask.block = ask.what == LOCK && !sim_rng_one_in(&w->rng, 3);
        proc->ask = ask;
    }
    give_up(proc);
}

/* ---- asking ---- */

static struct hf_lock_args args_of(const struct proc *proc, const struct ask *ask, unsigned p)
{
    uint64_t last = last_byte(ask->range);

    return (struct hf_lock_args){
        .fh = handle_of(ask->range.file),
        .oh = hf_bytes_str("oh"),
        .svid = (int32_t)p,
        .offset = first_byte(ask->range),
        .length = last == UINT64_MAX ? 0 : last - first_byte(ask->range) + 1,
        .exclusive = ask->exclusive,
        .block = ask->block,
        .reclaim = ask->reclaim,
        .state = proc->life,
        .version = 4,
        .asked = proc->came,
    };
}

static void told(struct world *w, unsigned p);

static void ask_core(struct world *w, unsigned p)
{
    struct proc *proc = &w->procs[p];
    struct hf_lock_args args = args_of(proc, &proc->ask, p);
    struct hf_peer peer = peer_of(p);
    struct hf_answer a = {HF_STAT_DENIED_GRACE_PERIOD};
    uint64_t now = hf_core_asked(w->core);

    proc->asked = true;
    switch (proc->ask.what) {
    case LOCK:
        a = hf_core_lock(w->core, w->now, &peer, &args);
        break;
    case UNLOCK:
        a = hf_core_unlock(w->core, w->now, &peer, &args);
        break;
    case CANCEL:
        a = hf_core_cancel(w->core, w->now, &peer, &args);
        break;
    case TEST:
        a = hf_core_test(w->core, w->now, &peer, &args);
        break;
    case NOTHING:
        return;
    }
    TRACE(w, "c%u %s%s%s file %u cells %u-%u %s -> %d, batch %llu, claim %llx", p,
          proc->ask.what == LOCK     ? "LOCK"
          : proc->ask.what == UNLOCK ? "UNLOCK"
          : proc->ask.what == TEST   ? "TEST"
                                     : "CANCEL",
          proc->ask.block ? " blocking" : "", proc->ask.reclaim ? " reclaim" : "",
          proc->ask.range.file, proc->ask.range.first, proc->ask.range.last,
          proc->ask.exclusive ? "exclusive" : "shared", (int)a.stat,
          (unsigned long long)a.ticket.seq, (unsigned long long)a.claim);
    proc->claim = a.claim;
    if (a.claim != 0) {
        proc->parked_at = ++w->parked;
        if (proc->came == 0)
            proc->came = now;
        return;
    }
    proc->came = 0;
    if (a.silent) { /* without an answer the client repeats the request */
        proc->asked = false;
        return;
    }
    proc->answer = a;
    proc->answered = true;
    told(w, p);
}

/* ---- answers ---- */

static void check_test(struct world *w, const struct proc *proc)
{
    for (unsigned o = 0; o < OUTSIDE; o++) {
        for (unsigned c = proc->ask.range.first; c <= proc->ask.range.last; c++) {
            uint8_t held = w->kernel[proc->ask.range.file][c][o + 1];
            if (held != HF_CLAIM_NONE && (held == HF_CLAIM_EXCLUSIVE || proc->ask.exclusive) &&
                w->outsiders[o].since[proc->ask.range.file][c] < proc->since &&
                proc->answer.stat == HF_STAT_GRANTED && !w->grant_unmirrored)
                violate(w, "TEST sees holders outside", "outsider %u, cell %u", o, c);
        }
    }
}

static void granted(struct world *w, struct proc *proc, const struct ask *ask)
{
    uint8_t mode = ask->exclusive ? HF_CLAIM_EXCLUSIVE : HF_CLAIM_SHARED;

    if (w->synced && !kernel_covers(w, ask->range, mode))
        violate(w, "nothing is granted that was not claimed", "file %u cells %u-%u",
                ask->range.file, ask->range.first, ask->range.last);
    believe(proc, ask->range, mode);
    for (unsigned c = ask->range.first; c <= ask->range.last; c++)
        proc->shaky[ask->range.file][c] = !w->synced; /* the keeper died while it was granted */
    w->grants++;
}

/* What was released must be free in the kernel, unless another NLM client has it or asks for it. */
static void check_released(struct world *w, const struct proc *proc)
{
    struct hf_view_status status;
    uint8_t sum[FILES][CELLS];
    struct range r = proc->ask.range;

    hf_core_view_status(w->core, w->now, &status);
    if (!w->connected || !hf_core_claims_ready(w->core) || (status.grace_active && !w->durable) ||
        proc->answer.ticket.seq == 0 || w->n_results > 0 || w->n_ops > 0 ||
        w->step < w->unsettled + 300 || is_coarse(w))
        return; /* the request released no lock, or another client's release goes on */
    for (unsigned p = 0; p < PROCS; p++) {
        if (&w->procs[p] != proc && (w->procs[p].ask.what != NOTHING || w->procs[p].blocked))
            return;
    }
    sum_of_locks(w, sum);
    for (unsigned c = r.first; c <= r.last; c++) {
        if (w->kernel[r.file][c][0] > sum[r.file][c])
            violate(w, "the kernel lets go before the answer", "file %u cell %u", r.file, c);
    }
}

/* True if the kernel refused a part of the range when it was granted. A holder outside may have
 * that part; after a restart of the daemon the lock is then lost as a whole (seed 839). */
static bool has_refused(const struct world *w, struct range range)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (w->refused[range.file][c])
            return true;
    }
    return false;
}

static void on_answer(struct world *w, struct proc *proc)
{
    struct ask ask = proc->ask;
    enum hf_stat stat = proc->answer.stat;

    TRACE(w, "c%u is told %d", (unsigned)(proc - w->procs), (int)stat);
    if (ask.what == TEST)
        check_test(w, proc);
    if (ask.what == UNLOCK && stat == HF_STAT_GRANTED)
        check_released(w, proc);
    proc->asked = proc->answered = false;
    if ((ask.what == UNLOCK || ask.what == CANCEL) && stat == HF_STAT_DENIED_NOLOCKS)
        return; /* an unanswered request is repeated */
    if (ask.reclaim && stat == HF_STAT_DENIED_NOLOCKS)
        return;
    proc->ask.what = NOTHING;
    if (ask.what == LOCK && stat == HF_STAT_GRANTED) {
        proc->blocked = false;
        granted(w, proc, &ask);
    } else if (ask.what == LOCK && stat == HF_STAT_BLOCKED) {
        proc->blocked = true;
        proc->ask = ask;
        proc->asked = true;
    } else if (ask.what == LOCK && proc->blocked) {
        proc->blocked = false;
    } else if (ask.reclaim) {
        for (unsigned c = ask.range.first; c <= ask.range.last; c++) {
            if (!proc->shaky[ask.range.file][c] && !has_refused(w, ask.range))
                violate(w, "a received grant is kept", "file %u cell %u", ask.range.file, c);
        }
        believe(proc, ask.range, HF_CLAIM_NONE);
    } else if (ask.what == CANCEL) {
        proc->blocked = false;
        w->unsettled = w->step;
        if (stat == HF_STAT_DENIED) { /* the process has the lock already, and does not want it */
            proc->ask = (struct ask){UNLOCK, ask.range, false, false, false};
            give_up(proc);
        }
    }
}

/* Sends an answer whose batch is durable and whose claim the kernel has released. */
static void told(struct world *w, unsigned p)
{
    struct proc *proc = &w->procs[p];

    if (proc->answered && proc->answer.ticket.seq <= hf_core_released(w->core))
        on_answer(w, proc);
}

/* Executes the parked request of a former life when its turn comes; no client hears the answer. */
static bool ask_ghosts(struct world *w, uint64_t decision, uint64_t before)
{
    for (unsigned g = 0; g < GHOSTS; g++) {
        struct ghost *ghost = &w->ghosts[g];
        struct proc former = {.life = ghost->life, .came = ghost->came};
        struct hf_peer peer = peer_of(ghost->proc);
        struct hf_lock_args args = args_of(&former, &ghost->ask, ghost->proc);
        struct hf_answer a = {0};

        if (ghost->claim != decision || ghost->parked_at > before)
            continue;
        if (ghost->ask.what == LOCK)
            a = hf_core_lock(w->core, w->now, &peer, &args);
        else if (ghost->ask.what == UNLOCK)
            a = hf_core_unlock(w->core, w->now, &peer, &args);
        TRACE(w, "a former life of c%u: %d, claim %llx", ghost->proc, (int)a.stat,
              (unsigned long long)a.claim);
        ghost->claim = a.claim;
        ghost->parked_at = ++w->parked;
        return true;
    }
    return false;
}

static int next_parked(const struct world *w, uint64_t decision)
{
    int found = -1;

    for (int p = 0; p < PROCS; p++) {
        if (w->procs[p].claim == decision &&
            (found < 0 || w->procs[p].parked_at < w->procs[found].parked_at))
            found = p;
    }
    return found;
}

void nlm_settle(struct world *w)
{
    struct hf_decision decision;
    int p;

    while (hf_core_next_decision(w->core, &decision)) {
        while ((p = next_parked(w, decision.id)) >= 0) {
            while (ask_ghosts(w, decision.id, w->procs[p].parked_at))
                ;
            w->procs[p].claim = 0;
            w->procs[p].asked = false;
            ask_core(w, (unsigned)p);
        }
        while (ask_ghosts(w, decision.id, UINT64_MAX))
            ;
    }
    for (p = 0; p < PROCS; p++)
        told(w, (unsigned)p);
}

/* ---- events ---- */

/* True if all other processes have what they asked for: then what the kernel holds in excess
 * belongs to this one. */
static bool others_are_idle(const struct world *w, const struct proc *proc)
{
    for (unsigned p = 0; p < PROCS; p++) {
        if (&w->procs[p] != proc && (w->procs[p].ask.what != NOTHING || w->procs[p].blocked))
            return false;
    }
    return w->step >= w->unsettled + 300;
}

/* Repeats an UNLOCK whose answer has not come: the kernel must have released the range all the
 * same. */
static void repeat_unlock(struct world *w, unsigned p)
{
    const struct proc *proc = &w->procs[p];
    struct hf_lock_args args = args_of(proc, &proc->ask, p);
    struct hf_peer peer = peer_of(p);
    struct hf_view_status status;
    uint8_t sum[FILES][CELLS];
    struct range r = proc->ask.range;
    struct hf_answer a;

    if (proc->answer.stat != HF_STAT_GRANTED ||
        proc->answer.ticket.seq > hf_core_durable(w->core) || !w->connected ||
        !hf_core_claims_ready(w->core) || is_coarse(w) || !others_are_idle(w, proc))
        return;
    a = hf_core_unlock(w->core, w->now, &peer, &args);
    hf_core_view_status(w->core, w->now, &status);
    if (a.stat != HF_STAT_GRANTED || a.claim != 0 || a.ticket.seq > hf_core_released(w->core) ||
        (status.grace_active && !w->durable))
        return;
    w->repeats++;
    sum_of_locks(w, sum);
    for (unsigned c = r.first; c <= r.last; c++) {
        if (w->kernel[r.file][c][0] > sum[r.file][c])
            violate(w, "a repeat waits for the kernel, too", "c%u, file %u cell %u", p, r.file, c);
    }
}

void nlm_step(struct world *w)
{
    unsigned p = sim_rng_below(&w->rng, PROCS);
    struct proc *proc = &w->procs[p];

    if (w->core && proc->answered && proc->ask.what == UNLOCK)
        repeat_unlock(w, p);
    if (!w->core || !w->started || proc->claim != 0 || proc->answered)
        return;
    if (proc->blocked && proc->asked) {
        if (!w->calm && !sim_rng_one_in(&w->rng, 10))
            return;
        if (w->calm) { /* a cancelled waiter learns of a grant by polling */
            if (sim_rng_one_in(&w->rng, 200))
                ask_core(w, p);
            return;
        }
        proc->ask.what = CANCEL;
        proc->asked = false;
    }
    if (proc->asked)
        return;
    if (proc->ask.what == NOTHING) {
        draw(w, proc);
        proc->since = w->step;
    }
    if (proc->ask.what != NOTHING)
        ask_core(w, p);
}

void nlm_daemon_gone(struct world *w)
{
    memset(w->ghosts, 0, sizeof(w->ghosts));
    for (unsigned p = 0; p < PROCS; p++) {
        struct proc *proc = &w->procs[p];

        proc->asked = proc->answered = proc->blocked = false;
        proc->claim = proc->came = 0;
        if (!proc->ask.reclaim && (proc->ask.what == LOCK || proc->ask.what == UNLOCK))
            proc->again = proc->ask;
        else if (proc->ask.what == CANCEL) /* CANCEL: the process may have got the lock by now, and
                                              does not want it */
            proc->again = (struct ask){UNLOCK, proc->ask.range, false, false, false};
        proc->ask = (struct ask){NOTHING};
        memset(proc->unreclaimed, 1, sizeof(proc->unreclaimed));
    }
}

bool nlm_granted(struct world *w, const struct hf_outcall_attempt *call)
{
    struct proc *proc = &w->procs[call->svid];
    struct ask ask = proc->ask;
    int file = file_of(call->fh);

    if (!proc->blocked || proc->answered || proc->claim != 0 || ask.what != LOCK ||
        file != ask.range.file || call->offset != first_byte(ask.range) ||
        range_of((unsigned)file, call->offset,
                 call->length ? call->offset + call->length - 1 : UINT64_MAX)
                .last != ask.range.last)
        return false;
    TRACE(w, "c%u is called back", (unsigned)call->svid);
    proc->ask.what = NOTHING;
    proc->asked = proc->blocked = false;
    granted(w, proc, &ask);
    return true;
}

/* Doubts the runs of one mode in which the kernel refused a cell. */
static void doubt_refused(const struct world *w, struct proc *proc)
{
    for (uint8_t f = 0; f < FILES; f++) {
        struct range run = {.file = f};

        for (; run.first < CELLS; run.first = run.last + 1) {
            uint8_t mode = proc->believes[f][run.first];

            run.last = run.first;
            while (run.last + 1 < CELLS && proc->believes[f][run.last + 1] == mode)
                run.last++;
            for (unsigned c = run.first; c <= run.last && has_refused(w, run); c++)
                proc->shaky[f][c] = true;
        }
    }
}

/* The daemon reported a loss: the operator tells the process what it no longer holds. A record can
 * cover ranges that were granted one after the other; if the kernel refused a part of it, a restart
 * loses all of it (seed 4995). */
void nlm_lost(struct world *w, struct hf_bytes name)
{
    w->losses++;
    for (unsigned p = 0; p < PROCS; p++) {
        if (hf_bytes_equal(name, peer_of(p).name))
            doubt_refused(w, &w->procs[p]);
    }
}

/* Keeps the request of a client that boots, because the daemon still has it. False: there is no
 * room. */
static bool leave_ghost(struct world *w, unsigned p)
{
    const struct proc *proc = &w->procs[p];

    for (unsigned g = 0; g < GHOSTS; g++) {
        if (w->ghosts[g].claim != 0)
            continue;
        w->ghosts[g] =
            (struct ghost){p, proc->ask, proc->life, proc->came, proc->claim, proc->parked_at};
        w->ghosts_made++;
        return true;
    }
    return false;
}

/* The daemon behaves as if it had restarted: clients reclaim, and wait anew. */
void nlm_simulate_crash(struct world *w)
{
    for (unsigned p = 0; p < PROCS; p++) {
        if (w->procs[p].claim != 0 || w->procs[p].answered)
            return; /* a crash with requests in flight is left to the simulator in tests/sim */
    }
    TRACE(w, "SM_SIMU_CRASH");
    w->simulated_made++;
    nlm_daemon_gone(w);
    (void)hf_core_simu_crash(w->core, w->now);
}

void nlm_reboot(struct world *w, unsigned p)
{
    struct proc *proc = &w->procs[p];
    struct hf_peer peer = peer_of(p);

    if (proc->claim != 0 && !leave_ghost(w, p))
        return;
    TRACE(w, "c%u boots", p);
    w->unsettled = w->step;
    *proc = (struct proc){.life = proc->life + 2};
    (void)hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, proc->life, true);
}

bool nlm_is_idle(const struct world *w)
{
    struct ask ask;

    for (unsigned p = 0; p < PROCS; p++) {
        const struct proc *proc = &w->procs[p];
        if (proc->ask.what != NOTHING || proc->again.what != NOTHING || proc->claim != 0 ||
            proc->blocked || next_unlock(proc, &ask))
            return false;
    }
    return true;
}
