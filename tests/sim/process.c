#include "process.h"

#include "work.h"
#include "world.h"

enum {
    POLL_MS = 30000,       /* NLMCLNT_POLL_TIMEOUT */
    GRACE_WAIT_MS = 5000,  /* NLMCLNT_GRACE_WAIT */
    RECLAIM_WAIT_MS = 200, /* a process that finds the kernel reclaiming looks again after this */
};

static unsigned owner_of(const struct sim_world *world, unsigned h, unsigned p)
{
    return sim_owner(h, sim_svid(&world->hosts[h], p));
}

static void set_timer(struct sim_world *world, unsigned h, unsigned p, uint32_t pause_ms)
{
    struct sim_process *process = &world->hosts[h].procs[p];

    sim_queue_push(&world->queue, (struct sim_event){.at_ms = world->now_ms + pause_ms,
                                                     .kind = SIM_EVENT_PROCESS,
                                                     .who = (uint16_t)h,
                                                     .what = p,
                                                     .generation = ++process->timer});
}

static void go_idle(struct sim_world *world, unsigned h, unsigned p)
{
    struct sim_process *process = &world->hosts[h].procs[p];

    process->phase = SIM_IDLE;
    process->listed = false;
    process->granted = false;
    process->want.call = SIM_CALL_NONE;
    set_timer(world, h, p, sim_rng_range(&world->rng, 0, world->config.think_ms));
}

void sim_process_start(struct sim_world *world, unsigned h, unsigned p)
{
    struct sim_process *process = &world->hosts[h].procs[p];

    process->finished = false;
    process->tidied = 0;
    process->op++;
    go_idle(world, h, p);
}

void sim_process_stop(struct sim_process *process)
{
    process->phase = SIM_IDLE;
    process->listed = process->granted = false;
    process->want.call = SIM_CALL_NONE;
    process->timer++;
    process->op++;
    process->again = true;
}

/* Sends what the process wants, for the first time or again. */
static void ask(struct sim_world *world, unsigned h, unsigned p)
{
    struct sim_host *host = &world->hosts[h];
    struct sim_process *process = &host->procs[p];

    process->phase = SIM_CALLING;
    process->released = false;
    process->asked_at_state = host->server_state;
    process->want.state = world->config.stateless && h % 2 == 0 ? 0 : host->state;
    process->timer++;
    sim_client_call(world, h, p, process->want);
}

/* Sends the waiting request again; where LOCK and NM_LOCK are mixed, perhaps as the other one. */
static void poll(struct sim_world *world, unsigned h, unsigned p)
{
    struct sim_message *want = &world->hosts[h].procs[p].want;

    if (!world->hosts[h].unmonitored && sim_rng_chance(&world->rng, world->config.mixed))
        want->call = want->call == SIM_CALL_LOCK ? SIM_CALL_NM_LOCK : SIM_CALL_LOCK;
    ask(world, h, p);
}

/* An owner that asks for a shared lock over its own exclusive one has given up the exclusive one.
 */
static void soften(struct sim_world *world, unsigned owner, struct sim_range range)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        uint8_t *mode = &world->believed.mode[range.file][c][owner];

        if (*mode == SIM_EXCLUSIVE)
            *mode = SIM_SHARED;
    }
}

static void begin(struct sim_world *world, unsigned h, unsigned p, struct sim_message want)
{
    struct sim_process *process = &world->hosts[h].procs[p];

    process->op++;
    want.named = (uint8_t)h;
    want.proc = (uint8_t)sim_svid(&world->hosts[h], p);
    want.hidden.op = process->op;
    want.hidden.crossed = sim_work_is_asked_by_thread(world, h, p, want.range);
    process->want = want;
    process->since_ms = world->now_ms;
    process->granted = false;
    /* The process is on the list before its call is sent, because GRANTED may overtake BLOCKED. */
    process->listed = want.block && sim_is_lock(&want);
    if (sim_is_lock(&want) && !want.exclusive)
        soften(world, owner_of(world, h, p), want.range);
    /* The kernel forgets its lock before it tells the server. */
    if (want.call == SIM_CALL_UNLOCK)
        sim_oracle_set(&world->believed, owner_of(world, h, p), want.range, SIM_FREE);
    if (want.call == SIM_CALL_FREE_ALL)
        sim_oracle_drop_host(&world->believed, h);
    want.host = (uint8_t)h;
    sim_beliefs_asked(world, &want);
    ask(world, h, p);
}

static void unlock(struct sim_world *world, unsigned h, unsigned p, struct sim_range range)
{
    begin(world, h, p, (struct sim_message){.call = SIM_CALL_UNLOCK, .range = range});
}

/* ------------------------------------------------------------------ how a lock call ends */

/* True if an earlier server made the grant and may not have recorded it. */
static bool is_unrecorded_of_before(const struct sim_world *world, uint64_t epoch)
{
    return (!world->config.durable || world->config.process || world->config.reconfigures) &&
           world->server.core && epoch != world->server.epoch;
}

/* True if an earlier server made the grant, did not record it, and told it so late that it could
 * not be reclaimed in time. (A recorded lock lapses when the new server releases it.) */
static bool is_late(const struct sim_world *world, unsigned owner, struct sim_range range,
                    uint64_t epoch)
{
    return is_unrecorded_of_before(world, epoch) && !world->model.seen.grace &&
           sim_oracle_holds(&world->model.held, owner, range, SIM_FREE);
}

/* True if another client has reclaimed a part of the range since: it only believed to hold that
 * part, which the operator had released (seed 110003393; usurp() in door.c). */
static bool is_usurped(const struct sim_world *world, unsigned owner, struct sim_range range,
                       bool exclusive, uint64_t epoch)
{
    const struct sim_model *model = &world->model;

    for (unsigned c = range.first; c <= range.last && is_unrecorded_of_before(world, epoch); c++) {
        for (unsigned o = 0; o < SIM_OWNERS; o++) {
            uint8_t held = model->held.mode[range.file][c][o];

            if (o != owner && (held == SIM_EXCLUSIVE || (held == SIM_SHARED && exclusive)) &&
                model->shaky.mode[range.file][c][o] != SIM_FREE)
                return true;
        }
    }
    return false;
}

/* Notes locks that a restart of the server ends: those got by NM_LOCK, unless the process had
 * locked the range by LOCK before; and those granted by a callback to an NM_LOCK whose repeat, a
 * LOCK, had not arrived by then. */
static void note_unrecorded(struct sim_world *world, unsigned h, unsigned p, uint64_t epoch,
                            bool by_answer)
{
    const struct sim_process *process = &world->hosts[h].procs[p];
    unsigned owner = owner_of(world, h, p);
    struct sim_range range = process->want.range;
    bool recorded = process->want.call == SIM_CALL_LOCK &&
                    (by_answer || (process->granted_recorded && !process->released));

    for (unsigned c = range.first; c <= range.last; c++) {
        if (recorded)
            world->unrecorded.mode[range.file][c][owner] = SIM_FREE;
        else if (world->believed.mode[range.file][c][owner] == SIM_FREE)
            world->unrecorded.mode[range.file][c][owner] = SIM_EXCLUSIVE;
        if (world->unrecorded.mode[range.file][c][owner] != SIM_FREE &&
            (!world->server.core || epoch != world->server.epoch))
            sim_model_lapse(&world->model, owner, (struct sim_range){range.file, c, c},
                            SIM_LAPSE_OTHER_EPOCH);
    }
}

/* The process got its lock from the server of this epoch: by an answer, or by a callback. */
static void got_lock(struct sim_world *world, unsigned h, unsigned p, uint64_t epoch,
                     bool by_answer)
{
    struct sim_process *process = &world->hosts[h].procs[p];

    /* "Check whether or not the server has rebooted": after a reboot the grant may not count. */
    if (process->asked_at_state != world->hosts[h].server_state) {
        process->granted = false;
        process->phase = SIM_PAUSED; /* the process asks again when the reclaimer has finished */
        set_timer(world, h, p, 0);
        return;
    }
    if (is_late(world, owner_of(world, h, p), process->want.range, epoch)) {
        sim_excuse(world, SIM_EXCUSE_LATE_GRANT);
        sim_model_lapse(&world->model, owner_of(world, h, p), process->want.range,
                        SIM_LAPSE_OTHER_EPOCH);
    }
    if (is_usurped(world, owner_of(world, h, p), process->want.range, process->want.exclusive,
                   epoch))
        sim_model_lapse(&world->model, owner_of(world, h, p), process->want.range,
                        SIM_LAPSE_USURPED);
    note_unrecorded(world, h, p, epoch, by_answer);
    sim_oracle_set(&world->believed, owner_of(world, h, p), process->want.range,
                   process->want.exclusive ? SIM_EXCLUSIVE : SIM_SHARED);
    SIM_WORLD_TRACE(world, owner_of(world, h, p), process->want.range.first,
                    process->want.range.last, "h%u/%u believes to hold file %u cells %u-%u %s", h,
                    p, process->want.range.file, process->want.range.first,
                    process->want.range.last, process->want.exclusive ? "exclusive" : "shared");
    go_idle(world, h, p);
}

static void wait_for_grant(struct sim_world *world, unsigned h, unsigned p)
{
    struct sim_process *process = &world->hosts[h].procs[p];
    uint32_t pause_ms = POLL_MS;

    process->phase = SIM_WAITING;
    process->poll_ms = world->now_ms + POLL_MS;
    if (!world->calm && sim_rng_chance(&world->rng, world->config.signals))
        pause_ms = sim_rng_below(&world->rng, POLL_MS); /* a signal comes before the poll is due */
    set_timer(world, h, p, pause_ms);
}

/* GRANTED came before BLOCKED. Linux keeps the flag that GRANTED set until it looks at it, even
 * when the server restarts in between; then it believes in the grant of one server and is told
 * BLOCKED by the next, which has promised nothing. */
static void granted_before(struct sim_world *world, unsigned h, unsigned p,
                           const struct sim_message *answer)
{
    const struct sim_process *process = &world->hosts[h].procs[p];

    if (process->granted_epoch != answer->hidden.epoch)
        sim_model_lapse(&world->model, owner_of(world, h, p), process->want.range,
                        SIM_LAPSE_OTHER_EPOCH);
    got_lock(world, h, p, process->granted_epoch, false);
}

static void lock_answered(struct sim_world *world, unsigned h, unsigned p,
                          const struct sim_message *answer)
{
    struct sim_process *process = &world->hosts[h].procs[p];

    switch (answer->stat) {
    case HF_STAT_GRANTED:
        got_lock(world, h, p, answer->hidden.epoch, true);
        break;
    case HF_STAT_BLOCKED:
        if (process->granted)
            granted_before(world, h, p, answer);
        else if (!process->want.block)
            unlock(world, h, p, process->want.range);
        else
            wait_for_grant(world, h, p);
        break;
    case HF_STAT_DEADLCK:
        process->shy = true; /* a sane program releases what it has before it tries again */
        go_idle(world, h, p);
        break;
    default:
        go_idle(world, h, p);
        break;
    }
}

void sim_process_answered(struct sim_world *world, unsigned h, unsigned p,
                          const struct sim_message *answer)
{
    struct sim_process *process = &world->hosts[h].procs[p];

    if (answer->stat == HF_STAT_DENIED_GRACE_PERIOD && process->want.call != SIM_CALL_FREE_ALL) {
        process->phase = SIM_PAUSED;
        set_timer(world, h, p, GRACE_WAIT_MS);
        return;
    }
    switch (process->want.call) {
    case SIM_CALL_LOCK:
    case SIM_CALL_NM_LOCK:
        lock_answered(world, h, p, answer);
        break;
    case SIM_CALL_SHARE:
        if (answer->stat == HF_STAT_GRANTED)
            sim_beliefs_answered(world, answer);
        go_idle(world, h, p);
        break;
    case SIM_CALL_CANCEL:
        /* DENIED to the CANCEL means that the process has the lock; it was interrupted, and must
         * not keep it */
        if (answer->stat == HF_STAT_GRANTED)
            go_idle(world, h, p);
        else
            unlock(world, h, p, process->want.range);
        break;
    case SIM_CALL_UNLOCK:
    case SIM_CALL_FREE_ALL:
        if (world->calm && answer->stat != HF_STAT_GRANTED)
            /* The store or the heap failed once more: the process begins again, to leave no lock
             * behind. */
            process->tidied = 0;
        go_idle(world, h, p);
        break;
    default:
        go_idle(world, h, p);
        break;
    }
}

void sim_process_released(struct sim_world *world, unsigned owner, struct sim_range range)
{
    unsigned h = owner / SIM_PROCS;

    for (unsigned p = 0; p < SIM_PROCS; p++) {
        struct sim_process *process = &world->hosts[h].procs[p];

        if (owner_of(world, h, p) == owner && sim_range_overlaps(process->want.range, range))
            process->released = true;
    }
}

static bool take_callback(struct sim_world *world, unsigned p, const struct sim_message *call)
{
    struct sim_host *host = &world->hosts[call->host];
    struct sim_process *process = &host->procs[p];

    /* Linux compares file handle, range and svid; neither the cookie nor the mode of the lock. */
    if (sim_svid(host, p) != call->proc || !process->listed ||
        !sim_range_equal(process->want.range, call->range))
        return false;
    sim_world_callback_taken(world, p, call);
    process->granted_epoch = call->hidden.epoch;
    process->granted_recorded = world->model.locked_op[sim_owner(call->host, p)] == process->op;
    if (process->phase == SIM_WAITING)
        got_lock(world, call->host, p, call->hidden.epoch, false);
    else
        process->granted = true;
    return true;
}

uint8_t sim_process_granted(struct sim_world *world, const struct sim_message *call)
{
    bool taken = false;

    for (unsigned p = 0; p < SIM_PROCS; p++) /* all threads that wait for the range get the grant */
        taken |= take_callback(world, p, call);
    return taken ? HF_STAT_GRANTED : HF_STAT_DENIED;
}

void sim_process_repeat(struct sim_world *world, unsigned h, unsigned p)
{
    if (world->hosts[h].procs[p].phase == SIM_WAITING)
        poll(world, h, p);
}

/* ------------------------------------------------------------------ timers */

static void cancel(struct sim_world *world, unsigned h, unsigned p)
{
    struct sim_message want = world->hosts[h].procs[p].want;

    want.call = SIM_CALL_CANCEL;
    begin(world, h, p, want);
}

static void next_step(struct sim_world *world, unsigned h, unsigned p)
{
    struct sim_message want = sim_work_next(world, h, p);

    if (want.call == SIM_CALL_NONE) {
        if (!world->hosts[h].procs[p].finished)
            set_timer(world, h, p, sim_rng_range(&world->rng, 1, world->config.think_ms));
        return;
    }
    begin(world, h, p, want);
}

void sim_client_on_process(struct sim_world *world, unsigned h, unsigned p, uint32_t generation)
{
    struct sim_host *host = &world->hosts[h];
    struct sim_process *process = &host->procs[p];

    if (!host->up || process->timer != generation)
        return;
    /* The kernel's reclaimer holds back all processes that would change the list it goes through.
     */
    if (host->slots[SIM_SLOT_RECLAIM].active) {
        set_timer(world, h, p, RECLAIM_WAIT_MS);
        return;
    }
    switch (process->phase) {
    case SIM_IDLE:
        next_step(world, h, p);
        break;
    case SIM_WAITING:
        if (world->now_ms < process->poll_ms)
            cancel(world, h, p); /* the signal came before the callback */
        else
            poll(world, h, p);
        break;
    case SIM_PAUSED:
        ask(world, h, p);
        break;
    case SIM_CALLING:
        break;
    }
}
